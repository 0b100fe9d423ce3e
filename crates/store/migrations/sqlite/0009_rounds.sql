-- What a person has sent again leaves under an id of its own, which is linked to the one before.
ALTER TABLE parts ADD COLUMN round INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN round INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN message_id TEXT;

-- Whether somebody vouches for who said STOP. Of those from before that is not known: they count as proven.
ALTER TABLE consents ADD COLUMN proven INTEGER NOT NULL DEFAULT 1;

-- Parts whose channel is not configured.
CREATE INDEX parts_stranded ON parts (channel, send) WHERE state = 9;

-- Who has had a floor.
CREATE INDEX topics_had ON topics (floor, opened_ms) WHERE opened_ms IS NOT NULL;

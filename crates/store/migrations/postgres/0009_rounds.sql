ALTER TABLE parts ADD COLUMN round BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN round BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN message_id TEXT COLLATE "C";
ALTER TABLE consents ADD COLUMN proven BIGINT NOT NULL DEFAULT 1;
CREATE INDEX parts_stranded ON parts (channel, send) WHERE state = 9;
CREATE INDEX topics_had ON topics (floor, opened_ms) WHERE opened_ms IS NOT NULL;

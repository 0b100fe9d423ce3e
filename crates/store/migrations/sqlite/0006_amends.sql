-- Messages that are to show how what they asked has ended: the last part of each send on a channel that can change what it sent.
CREATE TABLE amends (
    send    INTEGER PRIMARY KEY,
    part    INTEGER NOT NULL,
    channel TEXT    NOT NULL,
    fails   INTEGER NOT NULL,
    next_ms INTEGER            -- when it is to be shown, or tried again; NULL: it has not ended
) STRICT;
CREATE INDEX amends_due ON amends (channel, next_ms) WHERE next_ms IS NOT NULL;

-- A STOP counts for every address of the person.
CREATE INDEX consents_person ON consents (person) WHERE person IS NOT NULL;

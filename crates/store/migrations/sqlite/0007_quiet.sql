-- Quiet hours of people, by the clock on their wall.
CREATE TABLE quiet_hours (
    person     INTEGER PRIMARY KEY,
    zone       TEXT    NOT NULL,   -- IANA
    from_time  TEXT    NOT NULL,   -- HH:MM
    until_time TEXT    NOT NULL,
    by_whom    TEXT    NOT NULL,
    at_ms      INTEGER NOT NULL
) STRICT;

-- What they hold back.
CREATE TABLE quieted (
    send     INTEGER PRIMARY KEY,
    until_ms INTEGER NOT NULL,
    digest   INTEGER             -- the send that brings it together with others
) STRICT;
CREATE INDEX quieted_until ON quieted (until_ms) WHERE digest IS NULL;
CREATE INDEX quieted_digest ON quieted (digest) WHERE digest IS NOT NULL;

ALTER TABLE sends ADD COLUMN urgent INTEGER NOT NULL DEFAULT 0;

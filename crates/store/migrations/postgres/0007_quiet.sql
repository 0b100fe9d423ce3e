-- Quiet hours; meanings stand in migrations/sqlite.
CREATE TABLE quiet_hours (
    person BIGINT PRIMARY KEY,
    zone TEXT COLLATE "C" NOT NULL,
    from_time TEXT COLLATE "C" NOT NULL,
    until_time TEXT COLLATE "C" NOT NULL,
    by_whom TEXT COLLATE "C" NOT NULL,
    at_ms BIGINT NOT NULL
);

CREATE TABLE quieted (
    send BIGINT PRIMARY KEY,
    until_ms BIGINT NOT NULL,
    digest BIGINT
);
CREATE INDEX quieted_until ON quieted (until_ms) WHERE digest IS NULL;
CREATE INDEX quieted_digest ON quieted (digest) WHERE digest IS NOT NULL;

ALTER TABLE sends ADD COLUMN urgent BIGINT NOT NULL DEFAULT 0;

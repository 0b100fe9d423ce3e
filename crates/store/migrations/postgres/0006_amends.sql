-- How what was asked has ended; meanings stand in migrations/sqlite.
CREATE TABLE amends (
    send BIGINT PRIMARY KEY,
    part BIGINT NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    fails BIGINT NOT NULL,
    next_ms BIGINT
);
CREATE INDEX amends_due ON amends (channel, next_ms) WHERE next_ms IS NOT NULL;
CREATE INDEX consents_person ON consents (person) WHERE person IS NOT NULL;

-- Whom a question goes to when nobody answers it; meanings stand in migrations/sqlite.
ALTER TABLE topics ADD COLUMN escalated_by TEXT COLLATE "C";
ALTER TABLE topics ADD COLUMN silence BIGINT;
ALTER TABLE sends ADD COLUMN asks TEXT COLLATE "C";
CREATE INDEX sends_asks ON sends (asks) WHERE asks IS NOT NULL;
CREATE TABLE rungs (
    topic_id TEXT COLLATE "C" NOT NULL,
    rung BIGINT NOT NULL,
    after_ms BIGINT NOT NULL,
    state BIGINT NOT NULL,
    reason TEXT COLLATE "C",
    next_ms BIGINT,
    send_id TEXT COLLATE "C",
    code TEXT COLLATE "C" UNIQUE,
    channel TEXT COLLATE "C",
    to_kind BIGINT,
    handle TEXT COLLATE "C",
    to_text TEXT COLLATE "C",
    consent BIGINT,
    amends BIGINT,
    params TEXT COLLATE "C",
    parts TEXT COLLATE "C",
    PRIMARY KEY (topic_id, rung)
);
CREATE INDEX rungs_due ON rungs (next_ms) WHERE next_ms IS NOT NULL;

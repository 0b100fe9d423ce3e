-- Whom a question goes to when nobody answers it: its whole chain, from the moment it is accepted.
ALTER TABLE topics ADD COLUMN escalated_by TEXT;    -- the rule
ALTER TABLE topics ADD COLUMN silence INTEGER;      -- what it means that nobody answers: 1 deny, 2 proceed, 3 halt
ALTER TABLE sends ADD COLUMN asks TEXT;             -- the topic that this one asks once more
CREATE INDEX sends_asks ON sends (asks) WHERE asks IS NOT NULL;

CREATE TABLE rungs (
    topic_id TEXT    NOT NULL,
    rung     INTEGER NOT NULL,   -- from 1, in the order of their times
    after_ms INTEGER NOT NULL,   -- from when the question has got the floor
    state    INTEGER NOT NULL,   -- 1 waiting, 2 asked, 3 skipped, 4 proposed
    reason   TEXT,
    next_ms  INTEGER,            -- when it is due; NULL: the question has not got the floor, or needs it no more
    send_id  TEXT,               -- NULL, and all behind it: a task is proposed
    code     TEXT UNIQUE,        -- until it is the send's
    channel  TEXT,
    to_kind  INTEGER,
    handle   TEXT,
    to_text  TEXT,
    consent  INTEGER,            -- how it is found: 1 listed, 2 a person, 3 open
    amends   INTEGER,
    params   TEXT,
    parts    TEXT,               -- JSON
    PRIMARY KEY (topic_id, rung)
) STRICT, WITHOUT ROWID;
CREATE INDEX rungs_due ON rungs (next_ms) WHERE next_ms IS NOT NULL;

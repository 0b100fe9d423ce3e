-- Reaching people. Numbers of states stand in `switchboard_core::outbound::send`.

-- Sends, in the order in which they were accepted.
CREATE TABLE sends (
    no          INTEGER PRIMARY KEY,
    send_id     TEXT    NOT NULL UNIQUE,
    at_ms       INTEGER NOT NULL,
    instance    INTEGER NOT NULL,
    agent       TEXT    NOT NULL,
    key         TEXT,              -- NULL: none, or given free again because nothing was sent
    old_key     TEXT,              -- the key that was given free again
    digest      BLOB    NOT NULL,  -- of what was asked, 32 bytes
    channel     TEXT    NOT NULL,
    to_kind     INTEGER NOT NULL,  -- 1 person, 2 shared channel
    handle      TEXT    NOT NULL,  -- normalised
    to_text     TEXT    NOT NULL,  -- as it was written
    kind        INTEGER NOT NULL,  -- 1 question, 2 notice, 3 approval
    body        TEXT    NOT NULL,
    deadline_ms INTEGER,
    topic_id    TEXT,
    code        TEXT    NOT NULL UNIQUE,
    state       INTEGER NOT NULL,
    reason      TEXT,
    policy      TEXT    NOT NULL,
    rule        TEXT,
    params      TEXT    NOT NULL,
    about       INTEGER,           -- the send that an approval is asked for
    updated_ms  INTEGER NOT NULL
) STRICT;
-- SQLite takes a partial index only where the statement says its condition word for word.
CREATE UNIQUE INDEX sends_key ON sends (instance, agent, key) WHERE key IS NOT NULL;
CREATE INDEX sends_live ON sends (state, channel, handle) WHERE state < 5;
CREATE INDEX sends_deadline ON sends (deadline_ms) WHERE state < 5 AND deadline_ms IS NOT NULL;
CREATE INDEX sends_ended ON sends (state, no) WHERE state > 5;
CREATE INDEX sends_over ON sends (updated_ms) WHERE state > 4 AND body <> '';
CREATE INDEX sends_about ON sends (about) WHERE about IS NOT NULL;

-- Parts, one row each. A lane is what goes to one target: its first part that is not over is due, the others wait.
CREATE TABLE parts (
    send       INTEGER NOT NULL,
    part       INTEGER NOT NULL,
    channel    TEXT    NOT NULL,
    lane       TEXT    NOT NULL,
    state      INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    fails      INTEGER NOT NULL,
    next_ms    INTEGER NOT NULL,
    node       INTEGER,            -- who attempts it
    began_ms   INTEGER,
    until_ms   INTEGER,            -- later the attempt is taken for lost
    content    TEXT    NOT NULL,   -- JSON
    message_id TEXT,
    PRIMARY KEY (send, part)
) STRICT, WITHOUT ROWID;
CREATE INDEX parts_due ON parts (channel, next_ms) WHERE state = 2;
CREATE INDEX parts_attempting ON parts (channel, until_ms) WHERE state = 3;
CREATE INDEX parts_lane ON parts (lane) WHERE state > 1 AND state < 4;
CREATE INDEX parts_waiting ON parts (lane, send, part) WHERE state = 1;

-- Lanes whose next message is to wait although nothing stands in them: the service wants a pause between two.
CREATE TABLE lanes (
    lane    TEXT    NOT NULL PRIMARY KEY,
    next_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Attempts that have ended.
CREATE TABLE attempts (
    send     INTEGER NOT NULL,
    part     INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    outcome  TEXT    NOT NULL,
    reason   TEXT,
    PRIMARY KEY (send, part, attempt)
) STRICT, WITHOUT ROWID;

-- Ids that services gave to our messages: how an answer finds its question.
CREATE TABLE wire_ids (
    channel    TEXT    NOT NULL,
    message_id TEXT    NOT NULL,
    send       INTEGER NOT NULL,
    PRIMARY KEY (channel, message_id)
) STRICT, WITHOUT ROWID;

-- Questions to people.
CREATE TABLE topics (
    topic_id    TEXT    NOT NULL PRIMARY KEY,
    send        INTEGER NOT NULL,
    floor       TEXT    NOT NULL,
    state       INTEGER NOT NULL,
    deadline_ms INTEGER,
    opened_ms   INTEGER,
    answer      TEXT,
    answer_by   TEXT,
    answer_via  TEXT,
    answered_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX topics_floor ON topics (floor, state) WHERE state < 3;

-- Calls that wait for a person's yes.
CREATE TABLE approvals (
    approval_id TEXT    NOT NULL PRIMARY KEY,
    send        INTEGER NOT NULL UNIQUE,
    rule        TEXT    NOT NULL,
    state       INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,
    decided_by  TEXT,
    via         TEXT,
    decided_ms  INTEGER,
    signature   BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_open ON approvals (expires_ms) WHERE state = 1;

-- Who may be written to.
CREATE TABLE consents (
    channel TEXT    NOT NULL,
    to_kind INTEGER NOT NULL,
    handle  TEXT    NOT NULL,
    state   INTEGER NOT NULL,
    was     INTEGER,               -- before the person said STOP
    person  INTEGER,
    by_whom TEXT    NOT NULL,
    at_ms   INTEGER NOT NULL,
    reason  TEXT,
    PRIMARY KEY (channel, to_kind, handle)
) STRICT, WITHOUT ROWID;

-- Pairing codes that have not been used.
CREATE TABLE pairings (
    code_hash  BLOB    NOT NULL PRIMARY KEY,
    channel    TEXT    NOT NULL,
    handle     TEXT,
    person     INTEGER,
    expires_ms INTEGER NOT NULL,
    by_whom    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Events of services that were taken: each counts once.
CREATE TABLE heard (
    channel  TEXT    NOT NULL,
    event_id TEXT    NOT NULL,
    at_ms    INTEGER NOT NULL,
    PRIMARY KEY (channel, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX heard_at ON heard (at_ms);

-- Rate limits.
CREATE TABLE limits (
    key     TEXT    NOT NULL PRIMARY KEY,
    taken   BLOB    NOT NULL,
    over_ms INTEGER NOT NULL       -- nothing of it counts any more
) STRICT, WITHOUT ROWID;

-- How many sends are in which state (0: accepted at all); outlives the sends.
CREATE TABLE send_counts (
    state INTEGER NOT NULL PRIMARY KEY,
    n     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Reaching people; meanings stand in migrations/sqlite.
CREATE TABLE sends (
    no BIGINT PRIMARY KEY,
    send_id TEXT COLLATE "C" NOT NULL UNIQUE,
    at_ms BIGINT NOT NULL,
    instance BIGINT NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C",
    old_key TEXT COLLATE "C",
    digest BYTEA NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    to_kind BIGINT NOT NULL,
    handle TEXT COLLATE "C" NOT NULL,
    to_text TEXT COLLATE "C" NOT NULL,
    kind BIGINT NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    deadline_ms BIGINT,
    topic_id TEXT COLLATE "C",
    code TEXT COLLATE "C" NOT NULL UNIQUE,
    state BIGINT NOT NULL,
    reason TEXT COLLATE "C",
    policy TEXT COLLATE "C" NOT NULL,
    rule TEXT COLLATE "C",
    params TEXT COLLATE "C" NOT NULL,
    about BIGINT,
    updated_ms BIGINT NOT NULL
);
CREATE UNIQUE INDEX sends_key ON sends (instance, agent, key) WHERE key IS NOT NULL;
CREATE INDEX sends_live ON sends (state, channel, handle) WHERE state < 5;
CREATE INDEX sends_deadline ON sends (deadline_ms) WHERE state < 5 AND deadline_ms IS NOT NULL;
CREATE INDEX sends_ended ON sends (state, no) WHERE state > 5;
CREATE INDEX sends_over ON sends (updated_ms) WHERE state > 4 AND body <> '';
CREATE INDEX sends_about ON sends (about) WHERE about IS NOT NULL;

CREATE TABLE parts (
    send BIGINT NOT NULL,
    part BIGINT NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    state BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    fails BIGINT NOT NULL,
    next_ms BIGINT NOT NULL,
    node BIGINT,
    began_ms BIGINT,
    until_ms BIGINT,
    content TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C",
    PRIMARY KEY (send, part)
);
CREATE INDEX parts_due ON parts (channel, next_ms) WHERE state = 2;
CREATE INDEX parts_attempting ON parts (channel, until_ms) WHERE state = 3;
CREATE INDEX parts_lane ON parts (lane) WHERE state > 1 AND state < 4;
CREATE INDEX parts_waiting ON parts (lane, send, part) WHERE state = 1;

CREATE TABLE lanes (
    lane TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    next_ms BIGINT NOT NULL
);

CREATE TABLE attempts (
    send BIGINT NOT NULL,
    part BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    began_ms BIGINT NOT NULL,
    ended_ms BIGINT NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C",
    PRIMARY KEY (send, part, attempt)
);

CREATE TABLE wire_ids (
    channel TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    send BIGINT NOT NULL,
    PRIMARY KEY (channel, message_id)
);

CREATE TABLE topics (
    topic_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    send BIGINT NOT NULL,
    floor TEXT COLLATE "C" NOT NULL,
    state BIGINT NOT NULL,
    deadline_ms BIGINT,
    opened_ms BIGINT,
    answer TEXT COLLATE "C",
    answer_by TEXT COLLATE "C",
    answer_via TEXT COLLATE "C",
    answered_ms BIGINT
);
CREATE INDEX topics_floor ON topics (floor, state) WHERE state < 3;

CREATE TABLE approvals (
    approval_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    send BIGINT NOT NULL UNIQUE,
    rule TEXT COLLATE "C" NOT NULL,
    state BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    decided_by TEXT COLLATE "C",
    via TEXT COLLATE "C",
    decided_ms BIGINT,
    signature BYTEA
);
CREATE INDEX approvals_open ON approvals (expires_ms) WHERE state = 1;

CREATE TABLE consents (
    channel TEXT COLLATE "C" NOT NULL,
    to_kind BIGINT NOT NULL,
    handle TEXT COLLATE "C" NOT NULL,
    state BIGINT NOT NULL,
    was BIGINT,
    person BIGINT,
    by_whom TEXT COLLATE "C" NOT NULL,
    at_ms BIGINT NOT NULL,
    reason TEXT COLLATE "C",
    PRIMARY KEY (channel, to_kind, handle)
);

CREATE TABLE pairings (
    code_hash BYTEA NOT NULL PRIMARY KEY,
    channel TEXT COLLATE "C" NOT NULL,
    handle TEXT COLLATE "C",
    person BIGINT,
    expires_ms BIGINT NOT NULL,
    by_whom TEXT COLLATE "C" NOT NULL
);

CREATE TABLE heard (
    channel TEXT COLLATE "C" NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (channel, event_id)
);
CREATE INDEX heard_at ON heard (at_ms);

CREATE TABLE limits (
    key TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    taken BYTEA NOT NULL,
    over_ms BIGINT NOT NULL
);

CREATE TABLE send_counts (
    state BIGINT NOT NULL PRIMARY KEY,
    n BIGINT NOT NULL
);

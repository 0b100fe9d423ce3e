-- The first schema on PostgreSQL. Tables and columns are those of migrations/sqlite/0001_initial.sql, under the same number,
-- so that one set of rules works on both and a store can be copied from one to the other; meanings stand there. Shipped
-- migrations are never edited: their checksums are compared on every start.
--
-- Numbers are BIGINT (what SQLite's INTEGER holds) and blobs BYTEA. Text is compared by its bytes; since PostgreSQL's text holds
-- no zero character, the program writes that one in another way. Only here: `head`, the row by which commits of several nodes
-- are ordered; `log.command`, by which a commit whose answer was lost is found again; and `search`.

CREATE TABLE installation (
    id            BIGINT PRIMARY KEY CHECK (id = 1),
    org_id        TEXT   NOT NULL,
    org_name      TEXT   NOT NULL,
    owner         BIGINT NOT NULL,
    hub_instance  BIGINT NOT NULL,
    epoch         TEXT   NOT NULL,
    keys          BYTEA  NOT NULL,
    created_ms    BIGINT NOT NULL
);

-- Streams only: a = last assigned sequence, b = first sequence retention has left. Locked in the order of their numbers,
-- before any other row but the directory's.
CREATE TABLE counters (
    id   BIGINT PRIMARY KEY,
    a    BIGINT NOT NULL,
    b    BIGINT NOT NULL,
    more BYTEA
) WITH (fillfactor = 50);

-- One row, locked last by every commit: what all commits share. `directory` counts changes of what nodes keep in memory.
CREATE TABLE head (
    id        BIGINT PRIMARY KEY CHECK (id = 1),
    commit_no BIGINT NOT NULL,
    digest    BYTEA  NOT NULL,
    version   BIGINT NOT NULL, -- last version of the agent directory
    notice    BIGINT NOT NULL, -- last notice number
    directory BIGINT NOT NULL,
    ledger    BYTEA  NOT NULL,
    probe_ms  BIGINT NOT NULL
) WITH (fillfactor = 10);
INSERT INTO head VALUES (1, 0, decode(repeat('00', 32), 'hex'), 0, 0, 0, decode(repeat('00', 64), 'hex'), 0);

-- One row, locked first by every commit that changes more than streams: vaults, swarms, people, instances, agents, tasks.
CREATE TABLE directory (id BIGINT PRIMARY KEY CHECK (id = 1));
INSERT INTO directory VALUES (1);

CREATE TABLE streams (
    id    BIGINT PRIMARY KEY,
    vault BYTEA,
    name  TEXT COLLATE "C",
    swarm TEXT COLLATE "C",
    CHECK ((vault IS NULL) = (name IS NULL) AND (vault IS NULL) <> (swarm IS NULL))
);
CREATE UNIQUE INDEX streams_channel ON streams (vault, name) WHERE vault IS NOT NULL;
CREATE UNIQUE INDEX streams_swarm ON streams (swarm) WHERE swarm IS NOT NULL;

CREATE TABLE events (
    id             BIGINT PRIMARY KEY,
    kind           BIGINT NOT NULL,
    at_ms          BIGINT NOT NULL,
    expires_at_ms  BIGINT NOT NULL,
    thread         BIGINT,
    reply_to       BIGINT,
    from_instance  BIGINT NOT NULL,
    from_agent     TEXT   NOT NULL COLLATE "C",
    to_instance    BIGINT,
    to_agent       TEXT   COLLATE "C",
    client_id      TEXT   COLLATE "C",
    content_digest BYTEA,
    data           BYTEA  NOT NULL
);
-- Bodies are small and are read whole: compressing them costs more than it saves.
ALTER TABLE events ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE dedup (
    instance       BIGINT NOT NULL,
    client_id      TEXT   NOT NULL COLLATE "C",
    content_digest BYTEA  NOT NULL,
    event          BIGINT NOT NULL,
    thread         BIGINT NOT NULL,
    at_ms          BIGINT NOT NULL,
    expires_at_ms  BIGINT NOT NULL,
    PRIMARY KEY (instance, client_id)
);

CREATE TABLE replies (
    thread BIGINT NOT NULL,
    event  BIGINT NOT NULL,
    PRIMARY KEY (thread, event)
);

CREATE TABLE questions (
    event       BIGINT PRIMARY KEY,
    deadline_ms BIGINT NOT NULL,
    state       BIGINT NOT NULL
);
CREATE INDEX questions_open ON questions (deadline_ms) WHERE state = 1;

CREATE TABLE receipts (
    event    BIGINT NOT NULL,
    instance BIGINT NOT NULL,
    agent    TEXT   NOT NULL COLLATE "C",
    state    BIGINT NOT NULL,
    at_ms    BIGINT NOT NULL,
    PRIMARY KEY (event, instance, agent)
);
CREATE INDEX receipts_unread ON receipts (instance, agent, at_ms, event) WHERE state = 1;

CREATE TABLE inboxes (
    instance BIGINT NOT NULL,
    agent    TEXT   NOT NULL COLLATE "C",
    stream   BIGINT NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (instance, agent, stream)
);

CREATE TABLE agents (
    vault    BYTEA  NOT NULL,
    agent    TEXT   NOT NULL COLLATE "C",
    instance BIGINT NOT NULL,
    role     TEXT   NOT NULL COLLATE "C",
    profile  TEXT   COLLATE "C",
    state    BIGINT NOT NULL,
    seen_ms  BIGINT NOT NULL,
    version  BIGINT NOT NULL,
    node     BIGINT NOT NULL,
    PRIMARY KEY (vault, agent, instance)
);
CREATE INDEX agents_version ON agents (vault, version);
CREATE INDEX agents_instance ON agents (instance);

CREATE TABLE notices (
    id            BIGINT PRIMARY KEY,
    instance      BIGINT NOT NULL,
    agent         TEXT   NOT NULL COLLATE "C",
    event         BIGINT,
    client_id     TEXT   COLLATE "C",
    by_instance   BIGINT,
    by_agent      TEXT   COLLATE "C",
    state         BIGINT,
    frame         TEXT   COLLATE "C",
    once          BIGINT NOT NULL,
    at_ms         BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL
);
CREATE INDEX notices_instance ON notices (instance, id);
CREATE UNIQUE INDEX notices_receipt ON notices (event, by_instance, by_agent) WHERE event IS NOT NULL;
CREATE INDEX notices_expiry ON notices (expires_at_ms);

CREATE TABLE handoffs (
    from_instance BIGINT NOT NULL,
    handoff_id    TEXT   NOT NULL COLLATE "C",
    from_agent    TEXT   NOT NULL COLLATE "C",
    to_instance   BIGINT NOT NULL,
    to_agent      TEXT   NOT NULL COLLATE "C",
    digest        BYTEA  NOT NULL,
    deadline_ms   BIGINT NOT NULL,
    state         BIGINT NOT NULL,
    notice        BIGINT NOT NULL,
    PRIMARY KEY (from_instance, handoff_id)
);
CREATE INDEX handoffs_receiver ON handoffs (to_instance, handoff_id);
CREATE INDEX handoffs_deadline ON handoffs (deadline_ms);

CREATE TABLE persons (
    id         BIGINT PRIMARY KEY,
    name       TEXT   NOT NULL COLLATE "C" UNIQUE,
    role       TEXT   NOT NULL CHECK (role IN ('owner', 'member')),
    created_ms BIGINT NOT NULL
);

CREATE TABLE instances (
    id             BIGINT PRIMARY KEY,
    instance_id    TEXT   NOT NULL COLLATE "C" UNIQUE,
    kind           BIGINT NOT NULL,
    label          TEXT   NOT NULL COLLATE "C",
    owner          BIGINT NOT NULL,
    rights         TEXT   NOT NULL,
    public_key     BYTEA,
    kx_key         BYTEA,
    created_ms     BIGINT NOT NULL,
    revoked_ms     BIGINT,
    grace_until_ms BIGINT
);

CREATE TABLE tokens (
    hash          BYTEA  NOT NULL PRIMARY KEY,
    instance      BIGINT NOT NULL,
    expires_at_ms BIGINT
);
CREATE INDEX tokens_expiry ON tokens (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

CREATE TABLE nonces (
    instance      BIGINT NOT NULL,
    nonce         TEXT   NOT NULL COLLATE "C",
    expires_at_ms BIGINT NOT NULL,
    PRIMARY KEY (instance, nonce)
);
CREATE INDEX nonces_expiry ON nonces (expires_at_ms);

CREATE TABLE devices (
    device_hash   BYTEA  NOT NULL PRIMARY KEY,
    user_code     TEXT   NOT NULL COLLATE "C" UNIQUE,
    label         TEXT   COLLATE "C",
    state         BIGINT NOT NULL,
    person        BIGINT,
    expires_at_ms BIGINT NOT NULL
);
CREATE INDEX devices_expiry ON devices (expires_at_ms);

CREATE TABLE vaults (
    id         BYTEA  NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL COLLATE "C" UNIQUE,
    sealed     BIGINT NOT NULL,
    label      TEXT   COLLATE "C",
    tasks      BIGINT NOT NULL,
    created_ms BIGINT NOT NULL
);
CREATE TABLE vault_bindings (
    identity   TEXT   NOT NULL COLLATE "C" PRIMARY KEY,
    vault      BYTEA  NOT NULL,
    created_ms BIGINT NOT NULL
);

CREATE TABLE tasks (
    vault      BYTEA  NOT NULL,
    number     BIGINT NOT NULL,
    state      TEXT   NOT NULL,
    title      TEXT   NOT NULL COLLATE "C",
    question   BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (vault, number)
);

CREATE TABLE swarms (
    id            BIGINT PRIMARY KEY,
    swarm         TEXT   NOT NULL COLLATE "C" UNIQUE,
    title         TEXT   NOT NULL COLLATE "C",
    stream        BIGINT NOT NULL UNIQUE,
    created_ms    BIGINT NOT NULL,
    expires_at_ms BIGINT
);
CREATE TABLE handles (
    handle   TEXT   NOT NULL COLLATE "C" PRIMARY KEY,
    person   BIGINT NOT NULL,
    since_ms BIGINT NOT NULL
);
CREATE TABLE memberships (
    swarm    TEXT   NOT NULL COLLATE "C",
    person   BIGINT NOT NULL,
    handle   TEXT   NOT NULL COLLATE "C",
    PRIMARY KEY (swarm, person)
);
CREATE INDEX memberships_person ON memberships (person);

CREATE TABLE swarm_sends (
    handle TEXT   NOT NULL COLLATE "C",
    at_ms  BIGINT NOT NULL,
    event  BIGINT NOT NULL,
    PRIMARY KEY (handle, at_ms, event)
);

CREATE TABLE idempotency (
    scope  TEXT   NOT NULL COLLATE "C",
    key    TEXT   NOT NULL COLLATE "C",
    digest BYTEA  NOT NULL,
    body   BYTEA  NOT NULL,
    at_ms  BIGINT NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_age ON idempotency (at_ms);

CREATE TABLE log (
    commit_no BIGINT PRIMARY KEY,
    at_ms     BIGINT NOT NULL,
    entries   BYTEA  NOT NULL,
    digest    BYTEA  NOT NULL,
    command   BYTEA  -- random, of the transaction that wrote it
);
CREATE TABLE checkpoints (
    commit_no BIGINT PRIMARY KEY,
    digest    BYTEA  NOT NULL,
    signature BYTEA  NOT NULL
);

-- The full-text index: derived from the log, fed behind it, made again when it is emptied.
CREATE TABLE search (
    event BIGINT PRIMARY KEY,
    words TSVECTOR NOT NULL
);
CREATE INDEX search_words ON search USING gin (words);
CREATE TABLE search_progress (
    id        BIGINT PRIMARY KEY CHECK (id = 1),
    commit_no BIGINT NOT NULL,
    events    BIGINT NOT NULL
);
INSERT INTO search_progress VALUES (1, 0, 0);

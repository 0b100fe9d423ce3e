-- The first schema. Shipped migrations are never edited: their checksums are compared on every start.
--
-- Conventions: times are milliseconds since 1970 (`…_ms`); `event` and `thread` are row keys of `events`
-- (stream << 40 | sequence); `instance` and `person` are row numbers; digests and ids of fixed size are blobs.
-- Bounds and meaning of each field stand at `switchboard_core::write`.

-- What the store is of; one row, written on first start.
CREATE TABLE installation (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    org_id        TEXT    NOT NULL,
    org_name      TEXT    NOT NULL,
    owner         INTEGER NOT NULL,
    hub_instance  INTEGER NOT NULL,
    epoch         TEXT    NOT NULL,
    keys          BLOB    NOT NULL, -- HubKeys::to_bytes; the file's mode is 0600 for its sake
    created_ms    INTEGER NOT NULL
) STRICT;

-- Numbers that must outlive the rows they count. They share one page on purpose: each commit changes several of them,
-- and every changed page costs 4 KiB of write-ahead log.
--   id > 0: stream `id`:        a = last assigned sequence, b = first sequence retention has left
--   id = 0: the store:          a = last commit,            b = last version of the agent directory, more = ledger
--   id < 0: see `Counter` in the code (notices, probe, deduplication)
CREATE TABLE counters (
    id   INTEGER PRIMARY KEY,
    a    INTEGER NOT NULL,
    b    INTEGER NOT NULL,
    more BLOB
) STRICT;

-- Streams: a vault's channel (vault, name) or a swarm's.
CREATE TABLE streams (
    id    INTEGER PRIMARY KEY, -- fits 23 bits
    vault BLOB,
    name  TEXT,
    swarm TEXT,
    CHECK ((vault IS NULL) = (name IS NULL) AND (vault IS NULL) <> (swarm IS NULL))
) STRICT;
CREATE UNIQUE INDEX streams_channel ON streams (vault, name) WHERE vault IS NOT NULL;
CREATE UNIQUE INDEX streams_swarm ON streams (swarm) WHERE swarm IS NOT NULL;

-- Events. The key alone orders and finds them; a second index would double the cost of a commit.
CREATE TABLE events (
    id             INTEGER PRIMARY KEY, -- stream << 40 | sequence
    kind           INTEGER NOT NULL,
    at_ms          INTEGER NOT NULL,
    expires_at_ms  INTEGER NOT NULL,
    thread         INTEGER,             -- NULL: begins its own thread
    reply_to       INTEGER,
    from_instance  INTEGER NOT NULL,
    from_agent     TEXT    NOT NULL,
    to_instance    INTEGER,             -- NULL: for everybody on the stream
    to_agent       TEXT,
    client_id      TEXT,                -- the sender's id, for receipts and for what deduplicates
    content_digest BLOB,                -- digest the sender's content had, 16 bytes
    data           BLOB    NOT NULL
) STRICT;

-- Deduplication: outlives the message (at least 30 days, whatever its retention). Ids are random to an index, so it is not
-- one: sorted runs, written behind the log and merged into larger ones (see `dedup` in the code). An entry is 64 bytes:
-- key (a hash of instance and client id), content digest, event, thread, at_ms, expires_at_ms.
CREATE TABLE dedup_runs (
    run           INTEGER PRIMARY KEY,
    level         INTEGER NOT NULL, -- 0: written out of memory; n + 1: merged of several of level n
    parts         INTEGER NOT NULL, -- its rows in dedup_parts
    entries       INTEGER NOT NULL,
    keep_until_ms INTEGER NOT NULL, -- nothing in it is of use from then on
    filter        BLOB    NOT NULL  -- Bloom filter over its keys
) STRICT;
CREATE TABLE dedup_parts (
    id   INTEGER PRIMARY KEY, -- run << 32 | part
    data BLOB    NOT NULL     -- up to 63 entries in the order of their keys: one page
) STRICT;

-- Threads: only replies are listed, the first message is the thread's own key.
CREATE TABLE replies (
    thread INTEGER NOT NULL,
    event  INTEGER NOT NULL,
    PRIMARY KEY (thread, event)
) STRICT, WITHOUT ROWID;

-- Questions with a deadline. state: 1 open, 2 answered, 3 expired.
CREATE TABLE questions (
    event       INTEGER PRIMARY KEY,
    deadline_ms INTEGER NOT NULL,
    state       INTEGER NOT NULL
) STRICT;
CREATE INDEX questions_open ON questions (deadline_ms) WHERE state = 1;

-- Receipts. state: 1 delivered, 2 read; never moves back.
CREATE TABLE receipts (
    event    INTEGER NOT NULL,
    instance INTEGER NOT NULL,
    agent    TEXT    NOT NULL,
    state    INTEGER NOT NULL,
    at_ms    INTEGER NOT NULL,
    PRIMARY KEY (event, instance, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX receipts_unread ON receipts (instance, agent, at_ms, event) WHERE state = 1;

-- How far an agent's inbox was handed out.
CREATE TABLE inboxes (
    instance INTEGER NOT NULL,
    agent    TEXT    NOT NULL,
    stream   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (instance, agent, stream)
) STRICT, WITHOUT ROWID;

-- Agents as announced. state: 1 active, 2 idle, 3 closed.
CREATE TABLE agents (
    vault    BLOB    NOT NULL,
    agent    TEXT    NOT NULL,
    instance INTEGER NOT NULL,
    role     TEXT    NOT NULL,
    profile  TEXT,
    state    INTEGER NOT NULL,
    seen_ms  INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    node     INTEGER NOT NULL, -- the hub process that holds its socket, as a signed number
    PRIMARY KEY (vault, agent, instance)
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_version ON agents (vault, version);
CREATE INDEX agents_instance ON agents (instance);

-- What waits for an instance outside any stream: receipts of what it sent, frames.
CREATE TABLE notices (
    id            INTEGER PRIMARY KEY, -- from a counter: never reused
    instance      INTEGER NOT NULL,
    agent         TEXT    NOT NULL,
    event         INTEGER, -- a receipt: of this message
    client_id     TEXT,    -- … by the sender's id
    by_instance   INTEGER, -- … by this receiver
    by_agent      TEXT,
    state         INTEGER,
    frame         TEXT,    -- a frame to send as it is
    once          INTEGER NOT NULL, -- 1: goes once it was sent
    at_ms         INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX notices_instance ON notices (instance, id);
CREATE UNIQUE INDEX notices_receipt ON notices (event, by_instance, by_agent) WHERE event IS NOT NULL;
CREATE INDEX notices_expiry ON notices (expires_at_ms);

-- Handoff offers. state: 1 open, 2 taken, 3 turned down.
CREATE TABLE handoffs (
    from_instance INTEGER NOT NULL,
    handoff_id    TEXT    NOT NULL,
    from_agent    TEXT    NOT NULL,
    to_instance   INTEGER NOT NULL,
    to_agent      TEXT    NOT NULL,
    digest        BLOB    NOT NULL, -- of everything the offer says
    deadline_ms   INTEGER NOT NULL,
    state         INTEGER NOT NULL,
    notice        INTEGER NOT NULL, -- its row in notices while it is open
    PRIMARY KEY (from_instance, handoff_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX handoffs_receiver ON handoffs (to_instance, handoff_id);
CREATE INDEX handoffs_deadline ON handoffs (deadline_ms);

-- People of the organization; display names are theirs alone within it.
CREATE TABLE persons (
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    role       TEXT    NOT NULL CHECK (role IN ('owner', 'member')),
    created_ms INTEGER NOT NULL
) STRICT;

-- Instances. kind: 1 engine, 2 token, 3 person. Never deleted: events name them.
CREATE TABLE instances (
    id             INTEGER PRIMARY KEY,
    instance_id    TEXT    NOT NULL UNIQUE,
    kind           INTEGER NOT NULL,
    label          TEXT    NOT NULL,
    owner          INTEGER NOT NULL,
    rights         TEXT    NOT NULL,
    public_key     BLOB,
    kx_key         BLOB,
    created_ms     INTEGER NOT NULL,
    revoked_ms     INTEGER,
    grace_until_ms INTEGER
) STRICT;

-- Bearers, hashed. Kept after their instance was revoked so that the refusal can say why.
CREATE TABLE tokens (
    hash          BLOB    NOT NULL PRIMARY KEY,
    instance      INTEGER NOT NULL,
    expires_at_ms INTEGER -- NULL: until revoked
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_expiry ON tokens (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- Nonces of signed assertions: each works once.
CREATE TABLE nonces (
    instance      INTEGER NOT NULL,
    nonce         TEXT    NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (instance, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX nonces_expiry ON nonces (expires_at_ms);

-- Devices that wait for a person. state: 1 waiting, 2 approved, 3 denied.
CREATE TABLE devices (
    device_hash   BLOB    NOT NULL PRIMARY KEY,
    user_code     TEXT    NOT NULL UNIQUE,
    label         TEXT,
    state         INTEGER NOT NULL,
    person        INTEGER, -- who approved, and for whom it then acts
    expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX devices_expiry ON devices (expires_at_ms);

-- Vaults and the repositories bound to them.
CREATE TABLE vaults (
    id         BLOB    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    sealed     INTEGER NOT NULL,
    label      TEXT,
    tasks      INTEGER NOT NULL, -- last task number given
    created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE vault_bindings (
    identity   TEXT    NOT NULL PRIMARY KEY,
    vault      BLOB    NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Tasks made of unanswered questions. state: 'proposed', 'open', 'rejected'.
CREATE TABLE tasks (
    vault      BLOB    NOT NULL,
    number     INTEGER NOT NULL,
    state      TEXT    NOT NULL,
    title      TEXT    NOT NULL,
    question   INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (vault, number)
) STRICT, WITHOUT ROWID;

-- Swarms, handles (for ever their person's) and who is where under which handle.
CREATE TABLE swarms (
    id            INTEGER PRIMARY KEY, -- order of making
    swarm         TEXT    NOT NULL UNIQUE,
    title         TEXT    NOT NULL,
    stream        INTEGER NOT NULL UNIQUE,
    created_ms    INTEGER NOT NULL,
    expires_at_ms INTEGER -- NULL: open; else closed, and when its messages go
) STRICT;
CREATE TABLE handles (
    handle   TEXT    NOT NULL PRIMARY KEY,
    person   INTEGER NOT NULL,
    since_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE memberships (
    swarm    TEXT    NOT NULL,
    person   INTEGER NOT NULL,
    handle   TEXT    NOT NULL,
    PRIMARY KEY (swarm, person)
) STRICT, WITHOUT ROWID;
CREATE INDEX memberships_person ON memberships (person);

-- What each handle sent within the last hour: the limit is an exact sliding window.
CREATE TABLE swarm_sends (
    handle TEXT    NOT NULL,
    at_ms  INTEGER NOT NULL,
    event  INTEGER NOT NULL,
    PRIMARY KEY (handle, at_ms, event)
) STRICT, WITHOUT ROWID;

-- Answers to requests that came with an idempotency key.
CREATE TABLE idempotency (
    scope  TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    digest BLOB    NOT NULL,
    body   BLOB    NOT NULL,
    at_ms  INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (at_ms);

-- The chained log: one record a commit (ADR 0006), and signed checkpoints of it.
CREATE TABLE log (
    commit_no INTEGER PRIMARY KEY,
    at_ms     INTEGER NOT NULL,
    entries   BLOB    NOT NULL,
    digest    BLOB    NOT NULL
) STRICT;
CREATE TABLE checkpoints (
    commit_no INTEGER PRIMARY KEY,
    digest    BLOB    NOT NULL,
    signature BLOB    NOT NULL
) STRICT;

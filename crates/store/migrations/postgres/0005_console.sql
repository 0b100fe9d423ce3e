-- How people enter the console; meanings stand in migrations/sqlite.
CREATE TABLE console_links (
    hash          BYTEA  NOT NULL PRIMARY KEY,
    person        BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL
);
CREATE INDEX console_links_expiry ON console_links (expires_at_ms);

CREATE TABLE console_passwords (
    person     BIGINT PRIMARY KEY,
    verifier   TEXT   NOT NULL COLLATE "C",
    changed_ms BIGINT NOT NULL
);

CREATE TABLE console_sessions (
    hash       BYTEA  NOT NULL PRIMARY KEY,
    session_id TEXT   NOT NULL COLLATE "C" UNIQUE,
    person     BIGINT NOT NULL,
    browser    TEXT   NOT NULL COLLATE "C",
    created_ms BIGINT NOT NULL,
    seen_ms    BIGINT NOT NULL,
    ends_ms    BIGINT NOT NULL
);
CREATE INDEX console_sessions_expiry ON console_sessions (ends_ms);
CREATE INDEX console_sessions_person ON console_sessions (person, seen_ms);

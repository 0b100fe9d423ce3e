-- How people enter the console. Of every secret only a hash is kept.
CREATE TABLE console_links (
    hash          BLOB    NOT NULL PRIMARY KEY,
    person        INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX console_links_expiry ON console_links (expires_at_ms);

CREATE TABLE console_passwords (
    person     INTEGER PRIMARY KEY,
    verifier   TEXT    NOT NULL, -- a PHC string
    changed_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE console_sessions (
    hash       BLOB    NOT NULL PRIMARY KEY,
    session_id TEXT    NOT NULL UNIQUE,
    person     INTEGER NOT NULL,
    browser    TEXT    NOT NULL,
    created_ms INTEGER NOT NULL,
    seen_ms    INTEGER NOT NULL,
    ends_ms    INTEGER NOT NULL -- the earlier of unused for too long and too old
) STRICT, WITHOUT ROWID;
CREATE INDEX console_sessions_expiry ON console_sessions (ends_ms);
CREATE INDEX console_sessions_person ON console_sessions (person, seen_ms);

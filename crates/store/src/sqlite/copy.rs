//! A database of this backend made of the rows of another one.

use super::backup::io_error;
use super::connect;
use super::dedup::{Dedup, Entry, Key};
use super::failure::{Failure, read_error};
use super::migrate::{self, MIGRATIONS};
use super::state::Counter;
use crate::rules::value::Value;
use rusqlite::{Connection, params, params_from_iter};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use switchboard_core::port::store::StoreError;

/// Remembered ids that are written together.
const IDS_PER_RUN: usize = 256 * 1024;

/// A table with its columns.
#[derive(Debug)]
pub(crate) struct Table {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its columns, in one order for both sides.
    pub(crate) columns: &'static str,
}

/// Every table that both backends have, under the same names. The full-text index is derived and not among them.
pub(crate) const TABLES: &[Table] = &[
    Table { name: "installation", columns: "id, org_id, org_name, owner, hub_instance, epoch, keys, created_ms" },
    Table { name: "counters", columns: "id, a, b, more" },
    Table { name: "streams", columns: "id, vault, name, swarm" },
    Table {
        name: "events",
        columns: "id, kind, at_ms, expires_at_ms, thread, reply_to, from_instance, from_agent, to_instance, to_agent,
                  client_id, content_digest, data",
    },
    Table { name: "replies", columns: "thread, event" },
    Table { name: "questions", columns: "event, deadline_ms, state" },
    Table { name: "receipts", columns: "event, instance, agent, state, at_ms" },
    Table { name: "inboxes", columns: "instance, agent, stream, position" },
    Table {
        name: "agents",
        columns: "vault, agent, instance, role, profile, state, seen_ms, version, node",
    },
    Table {
        name: "notices",
        columns: "id, instance, agent, event, client_id, by_instance, by_agent, state, frame, once, at_ms, expires_at_ms",
    },
    Table {
        name: "handoffs",
        columns: "from_instance, handoff_id, from_agent, to_instance, to_agent, digest, deadline_ms, state, notice",
    },
    Table { name: "persons", columns: "id, name, role, created_ms" },
    Table {
        name: "instances",
        columns: "id, instance_id, kind, label, owner, rights, public_key, kx_key, created_ms, revoked_ms, grace_until_ms",
    },
    Table { name: "tokens", columns: "hash, instance, expires_at_ms" },
    Table { name: "nonces", columns: "instance, nonce, expires_at_ms" },
    Table { name: "devices", columns: "device_hash, user_code, label, state, person, expires_at_ms" },
    Table { name: "vaults", columns: "id, name, sealed, label, tasks, created_ms" },
    Table { name: "vault_bindings", columns: "identity, vault, created_ms" },
    Table { name: "tasks", columns: "vault, number, state, title, question, created_ms" },
    Table { name: "swarms", columns: "id, swarm, title, stream, created_ms, expires_at_ms" },
    Table { name: "handles", columns: "handle, person, since_ms" },
    Table { name: "memberships", columns: "swarm, person, handle" },
    Table { name: "swarm_sends", columns: "handle, at_ms, event" },
    Table { name: "idempotency", columns: "scope, key, digest, body, at_ms" },
    Table { name: "log", columns: "commit_no, at_ms, entries, digest" },
    Table { name: "checkpoints", columns: "commit_no, digest, signature" },
    Table {
        name: "sends",
        columns: "no, send_id, at_ms, instance, agent, key, old_key, digest, channel, to_kind, handle, to_text, kind, body, deadline_ms,
                  topic_id, code, state, reason, policy, rule, params, about, updated_ms, urgent, asks",
    },
    Table {
        name: "parts",
        columns: "send, part, channel, lane, state, attempt, fails, next_ms, node, began_ms, until_ms, content, message_id,
                  round",
    },
    Table { name: "lanes", columns: "lane, next_ms" },
    Table {
        name: "attempts",
        columns: "send, part, attempt, began_ms, ended_ms, outcome, reason, round, message_id",
    },
    Table { name: "wire_ids", columns: "channel, message_id, send" },
    Table {
        name: "topics",
        columns: "topic_id, send, floor, state, deadline_ms, opened_ms, answer, answer_by, answer_via, answered_ms,
                  escalated_by, silence",
    },
    Table {
        name: "approvals",
        columns: "approval_id, send, rule, state, expires_ms, decided_by, via, decided_ms, signature",
    },
    Table { name: "amends", columns: "send, part, channel, fails, next_ms" },
    Table { name: "quiet_hours", columns: "person, zone, from_time, until_time, by_whom, at_ms" },
    Table { name: "quieted", columns: "send, until_ms, digest" },
    Table {
        name: "rungs",
        columns: "topic_id, rung, after_ms, state, reason, next_ms, send_id, code, channel, to_kind, handle, to_text, consent, amends,
                  params, parts",
    },
    Table {
        name: "consents",
        columns: "channel, to_kind, handle, state, was, person, by_whom, at_ms, reason, proven",
    },
    Table { name: "pairings", columns: "code_hash, channel, handle, person, expires_ms, by_whom" },
    Table { name: "heard", columns: "channel, event_id, at_ms" },
    Table { name: "limits", columns: "key, taken, over_ms" },
    Table { name: "send_counts", columns: "state, n" },
    Table { name: "console_links", columns: "hash, person, expires_at_ms" },
    Table { name: "console_passwords", columns: "person, verifier, changed_ms" },
    Table {
        name: "console_sessions",
        columns: "hash, session_id, person, browser, created_ms, seen_ms, ends_ms",
    },
    // So that fences go on growing.
    Table { name: "leases", columns: "name, holder, fence, until_ms" },
];

impl Table {
    /// Reads all of it. Of the counters, only those of streams mean the same everywhere; the timeline is a server's own.
    pub(crate) fn select(&self) -> String {
        let only = match self.name {
            "counters" => " WHERE id > 0",
            "leases" => " WHERE name NOT LIKE 'timeline%'",
            _ => "",
        };
        format!("SELECT {} FROM {}{only}", self.columns, self.name)
    }

    fn insert(&self) -> String {
        let places = vec!["?"; self.columns.split(',').count()].join(", ");
        format!("INSERT INTO {} ({}) VALUES ({places})", self.name, self.columns)
    }
}

/// A copy that is being made; removed unless it is finished.
pub(crate) struct Copy {
    conn: Connection,
    ids: Dedup,
    waiting_ids: usize,
    target: PathBuf,
    finished: bool,
}

impl Copy {
    /// A new file, for its owner alone, with the schema in it.
    pub(crate) fn begin(target: &Path) -> Result<Self, StoreError> {
        drop(connect::create_private(target).map_err(|error| io_error(target, &error))?);
        let begun = || -> Result<(Connection, Dedup), Failure> {
            let conn = Connection::open(target)?;
            conn.execute_batch(
                "PRAGMA page_size = 4096; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;",
            )?;
            migrate::run(&conn, MIGRATIONS).map_err(|error| Failure::Inconsistent(error.to_string()))?;
            conn.execute_batch("BEGIN")?;
            let ids = Dedup::load(&conn)?;
            Ok((conn, ids))
        };
        match begun() {
            Ok((conn, ids)) => {
                Ok(Self { conn, ids, waiting_ids: 0, target: target.to_owned(), finished: false })
            }
            Err(failure) => {
                let _ = fs::remove_file(target);
                Err(failure.answer())
            }
        }
    }

    /// One row of a table.
    pub(crate) fn insert(&mut self, table: &Table, values: &[Value<'_>]) -> Result<(), StoreError> {
        let statement = self.conn.prepare_cached(&table.insert());
        let inserted = statement.and_then(|mut statement| statement.execute(params_from_iter(values)));
        inserted.map(drop).map_err(|error| read_error(&error))
    }

    /// What an instance's id was used for. `commit` is the last one the copy will hold.
    pub(crate) fn id(&mut self, key: Key, entry: Entry, commit: u64) -> Result<(), Failure> {
        self.ids.insert(key, entry);
        self.waiting_ids += 1;
        if self.waiting_ids >= IDS_PER_RUN { self.flush_ids(commit) } else { Ok(()) }
    }

    /// Writes what is left of the ids.
    pub(crate) fn flush_ids(&mut self, commit: u64) -> Result<(), Failure> {
        if std::mem::take(&mut self.waiting_ids) == 0 {
            return Ok(());
        }
        // As if retention ran behind the last commit, at a time at which nothing is over yet.
        self.ids.flush_all(&self.conn, commit + 1, 0)?;
        self.ids.committed();
        Ok(())
    }

    /// A counter that is no stream's.
    pub(crate) fn counter(
        &mut self,
        id: Counter,
        a: i64,
        b: i64,
        more: Option<&[u8]>,
    ) -> Result<(), Failure> {
        let sql = "INSERT INTO counters (id, a, b, more) VALUES (?, ?, ?, ?)";
        Ok(self.conn.execute(sql, params![id as i64, a, b, more]).map(drop)?)
    }

    /// Everything is in it: checks it and brings it to disk.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        let checked = || -> rusqlite::Result<String> {
            self.conn.execute_batch("COMMIT; PRAGMA journal_mode = DELETE;")?;
            self.conn.query_row("PRAGMA quick_check", [], |row| row.get(0))
        };
        let check = checked().map_err(|error| read_error(&error))?;
        if check != "ok" {
            return Err(StoreError::Inconsistent(check.into()));
        }
        let sync = || {
            File::open(&self.target)?.sync_all()?;
            let dir = self.target.parent().filter(|dir| !dir.as_os_str().is_empty());
            connect::sync_dir(dir.unwrap_or(Path::new(".")))
        };
        sync().map_err(|error| io_error(&self.target, &error))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.target);
        }
    }
}

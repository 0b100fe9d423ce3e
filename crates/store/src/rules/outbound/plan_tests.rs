//! Hot statements find their rows by an index: SQLite's plans say so. A partial index that a statement does not name word for word
//! is passed over in silence, and then every attempt would look through everything that was ever sent.

use super::{amend, attempt, escalate, expire, hear, lane, quiet, reads, state, strand, submit, sweep};
use crate::sqlite::copy::TABLES;
use crate::sqlite::migrate::{MIGRATIONS, run};
use rusqlite::Connection;
use std::collections::BTreeSet;
use switchboard_core::outbound::send::{SendFilter, SendState};

fn schema() -> Connection {
    let conn = Connection::open_in_memory().expect("memory");
    run(&conn, MIGRATIONS).expect("migrated");
    conn
}

fn texts(conn: &Connection, sql: &str, column: usize) -> Vec<String> {
    let mut statement = conn.prepare(sql).expect("it is valid");
    let rows = statement.raw_query().mapped(|row| row.get(column)).collect::<Result<_, _>>();
    rows.expect("readable")
}

#[test]
fn no_hot_statement_looks_through_a_table() {
    // Live questions and approvals only, which are as many as people are asked at a time.
    const LIVE: [&str; 3] =
        ["USING INDEX topics_floor", "USING COVERING INDEX topics_floor", "USING INDEX approvals_open"];
    let conn = schema();
    let listing = |states: &[SendState]| {
        let filter = SendFilter { states: states.to_vec(), limit: 10, ..SendFilter::default() };
        reads::listing(&filter).sql.into_owned()
    };
    let statements = [
        submit::AROUND,
        amend::DUE,
        attempt::DUE,
        attempt::AT,
        attempt::LOST,
        attempt::LOST_BY_OTHERS,
        attempt::LOST_BY_DEAD,
        lane::WAITING,
        lane::BUSY,
        state::NEXT,
        state::NEXT_OF_OTHERS,
        state::HAD,
        state::TAKEN,
        strand::STRANDED,
        strand::DUE,
        expire::OVER,
        expire::UNKNOWN_OVER,
        hear::LIVE_TO,
        hear::ASKED,
        hear::OPEN,
        reads::NEXT_END,
        reads::NEXT_DUE,
        reads::NEXT_AMEND,
        reads::NEXT_QUIET,
        reads::QUIET_OVER,
        quiet::HOURS_OF,
        quiet::MEMBERS,
        reads::TO_RELEASE,
        reads::NEXT_RUNG,
        reads::DUE_RUNGS,
        escalate::ASKED,
        escalate::OF_TOPIC,
        reads::OPEN_TOPICS,
        reads::PENDING_APPROVALS,
        sweep::ENDED,
        sweep::HEARD_OVER,
    ];
    let listings = [
        listing(&[]),
        listing(&[SendState::Sending, SendState::Open]),
        listing(&[SendState::Dead]),
        listing(&[SendState::Dead, SendState::Unknown]),
    ];
    for sql in statements.into_iter().chain(listings.iter().map(String::as_str)) {
        for step in texts(&conn, &format!("EXPLAIN QUERY PLAN {sql}"), 3) {
            let scans = step.starts_with("SCAN")
                && !step.contains("CONSTANT ROW")
                && !step.starts_with("SCAN ends")
                && !LIVE.iter().any(|index| step.contains(index));
            assert!(!scans, "{step}\n{sql}");
        }
    }
}

#[test]
fn no_table_and_no_column_is_left_behind_when_a_store_moves() {
    // The memory of ids is carried over in its own form; the others are each backend's own.
    const OWN: [&str; 5] = ["dedup_runs", "dedup_parts", "migrations", "nodes", "moving"];
    let conn = schema();
    for table in texts(&conn, "SELECT name FROM sqlite_schema WHERE type = 'table'", 0) {
        let Some(copied) = TABLES.iter().find(|copied| copied.name == table) else {
            assert!(OWN.contains(&table.as_str()) || table.starts_with("sqlite_"), "{table} is left behind");
            continue;
        };
        let columns: BTreeSet<_> = copied.columns.split(',').map(str::trim).map(str::to_owned).collect();
        let there: BTreeSet<_> =
            texts(&conn, &format!("PRAGMA table_info({table})"), 1).into_iter().collect();
        assert_eq!(columns, there, "{table}");
    }
}

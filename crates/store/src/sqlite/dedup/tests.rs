//! The index against a plain map: same answers after every step, through flushes, merges, rollbacks and reopening.

use super::*;
use switchboard_core::event::{EventKind, StoredEvent};
use switchboard_core::ids::{EventId, StreamId};
use switchboard_core::log::event_digest;

const DAY: i64 = 86_400_000;
/// Entries at which these tests write memory out: few, so that they see many runs.
const FLUSH: usize = 640;

struct Rig {
    conn: Connection,
    ids: Dedup,
    commit: u64,
    seq: u64,
    model: HashMap<Key, Entry>,
}

impl Rig {
    fn new() -> Self {
        let conn = Connection::open_in_memory().unwrap();
        super::super::migrate::run(&conn, super::super::migrate::MIGRATIONS).unwrap();
        let ids = Dedup::load_with(&conn, FLUSH).unwrap();
        Self { conn, ids, commit: 0, seq: 0, model: HashMap::new() }
    }

    /// One commit with an event for each id, in the way the writer makes one.
    fn commit(&mut self, client_ids: &[String], at_ms: i64, keep: bool) {
        self.conn.execute_batch("BEGIN").unwrap();
        let (seq, mut entries) = (self.seq, Vec::new());
        let mut added = Vec::new();
        for client_id in client_ids {
            self.seq += 1;
            let id = EventId { stream: StreamId(1), seq: self.seq };
            let entry = Entry {
                digest: [u8::try_from(self.seq % 251).unwrap(); 16],
                event: id.row(),
                thread: id.row(),
                at_ms,
                expires_at_ms: at_ms + DAY,
            };
            self.conn
                .execute(
                    "INSERT INTO events (id, kind, at_ms, expires_at_ms, from_instance, from_agent, client_id,
                                         content_digest, data) VALUES (?, 16, ?, ?, 1, 'a', ?, ?, x'')",
                    params![id.row(), at_ms, at_ms + DAY, client_id, entry.digest],
                )
                .unwrap();
            log_entry(id, at_ms).encode(&mut entries);
            let key = key(InstanceNo(1), client_id);
            self.ids.insert(key, entry);
            added.push((key, entry));
        }
        let log = "INSERT INTO log (commit_no, at_ms, entries, digest) VALUES (?, ?, ?, x'00')";
        self.conn.execute(log, params![self.commit.cast_signed() + 1, at_ms, entries]).unwrap();
        self.ids.keep_up(&self.conn, self.commit + 1, at_ms).unwrap();
        if keep {
            self.conn.execute_batch("COMMIT").unwrap();
            self.ids.committed();
            self.commit += 1;
            self.model.extend(added);
        } else {
            self.conn.execute_batch("ROLLBACK").unwrap();
            self.seq = seq;
            if !self.ids.rolled_back() {
                self.reopen();
            }
        }
    }

    fn reopen(&mut self) {
        self.ids = Dedup::load_with(&self.conn, FLUSH).unwrap();
    }

    fn check(&self, now_ms: i64) {
        for (key, entry) in &self.model {
            let expected = Some(*entry).filter(|entry| entry.keep_until_ms() > now_ms);
            assert_eq!(self.ids.find(&self.conn, key, now_ms).unwrap(), expected);
        }
        for absent in 0..200 {
            let key = key(InstanceNo(2), &absent.to_string());
            assert_eq!(self.ids.find(&self.conn, &key, now_ms).unwrap(), None);
        }
    }
}

fn log_entry(id: EventId, at_ms: i64) -> LogEntry {
    let event = StoredEvent {
        id,
        kind: EventKind::Publish,
        at_ms,
        expires_at_ms: at_ms,
        thread: id,
        reply_to: None,
        from_instance: InstanceNo(1),
        from_agent: "a".into(),
        to: None,
        data: bytes::Bytes::new(),
    };
    LogEntry::Event { id, kind: event.kind, by: None, digest: event_digest(&event) }
}

fn ids(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|at| format!("id-{at}")).collect()
}

#[test]
fn answers_like_a_map_through_flushes_merges_and_reopening() {
    let mut rig = Rig::new();
    let mut next = 0;
    for round in 0..900 {
        let count = if round % 7 == 0 { 1 } else { 20 };
        rig.commit(&ids(next, count), 1000, true);
        next += count;
        if round % 300 == 299 {
            rig.commit(&ids(next, 30), 1000, false);
            rig.reopen();
        }
        if round % 100 == 99 {
            rig.check(2000);
        }
    }
    rig.check(2000);
    assert!(rig.ids.runs.iter().any(|run| run.level > 0), "something was merged: {:?}", rig.ids.runs.len());
    assert!(rig.ids.runs.len() < 2 * MERGE_RUNS);
    rig.reopen();
    rig.check(2000);
    assert!(rig.ids.active.len() < 3 * FLUSH);
    assert!(rig.ids.dead.len() < 3, "dead runs are removed: {:?}", rig.ids.dead);
}

#[test]
fn what_was_rolled_back_was_never_there() {
    let mut rig = Rig::new();
    rig.commit(&ids(0, 10), 1000, true);
    // An id again, with other content, and rolled back: the first entry stands.
    rig.commit(&ids(5, 10), 2000, false);
    rig.check(2000);
    let gone = key(InstanceNo(1), "id-12");
    assert_eq!(rig.ids.find(&rig.conn, &gone, 2000).unwrap(), None);
    // Rolled back in the middle of upkeep.
    for round in 0..40 {
        rig.commit(&ids(100 + round * 20, 20), 1000, true);
    }
    for _ in 0..3 {
        rig.commit(&ids(900_000, 50), 1000, false);
    }
    rig.check(2000);
    for round in 0..40 {
        rig.commit(&ids(500_000 + round * 20, 20), 1000, true);
    }
    rig.check(2000);
}

#[test]
fn a_later_entry_hides_an_earlier_one_that_is_over() {
    let mut rig = Rig::new();
    for round in 0..40 {
        rig.commit(&ids(round * 20, 20), 0, true);
    }
    let later = 40 * DAY;
    rig.check(later);
    for round in 0..40 {
        rig.commit(&ids(round * 20, 20), later, true);
    }
    rig.check(later + 1);
    rig.reopen();
    rig.check(later + 1);
}

#[test]
fn runs_that_are_over_are_forgotten_with_their_rows() {
    let mut rig = Rig::new();
    for round in 0..80 {
        rig.commit(&ids(round * 20, 20), 0, true);
    }
    assert!(!rig.ids.runs.is_empty());
    assert!(!rig.ids.sweep(&rig.conn, 29 * DAY, 500).unwrap());
    assert!(rig.ids.sweep(&rig.conn, 30 * DAY, 500).unwrap());
    while rig.ids.sweep(&rig.conn, 30 * DAY, 500).unwrap() {}
    assert!(rig.ids.runs.is_empty());
    let building = rig.ids.flush.is_some();
    let left: i64 = rig.conn.query_row("SELECT count(*) FROM dedup_parts", [], |row| row.get(0)).unwrap();
    assert_eq!(left > 0, building, "only a run that is being written has rows");
}

#[test]
fn memory_is_written_before_its_events_go() {
    let mut rig = Rig::new();
    rig.commit(&ids(0, 500), 1000, true);
    let recent = key(InstanceNo(1), "id-7");
    assert!(rig.ids.is_recent(&recent));
    rig.ids.flush_all(&rig.conn, rig.commit + 1, 1000).unwrap();
    rig.ids.committed();
    rig.conn.execute("DELETE FROM events", []).unwrap();
    assert!(!rig.ids.is_recent(&recent));
    rig.check(2000);
    rig.reopen();
    rig.check(2000);
}

//! The embedded store keeps the port's promises.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use switchboard_core::port::store::Store;
use switchboard_store::conformance::Backend;
use switchboard_store::sqlite::{Options, SqliteStore};

/// A directory in memory if there is one with room: thousands of commits are made here, and surviving a power cut is not
/// what they are about.
fn scratch() -> tempfile::TempDir {
    const ROOM_BYTES: u64 = 1 << 30;
    let memory = std::path::Path::new("/dev/shm");
    #[cfg(unix)]
    if rustix::fs::statvfs(memory).is_ok_and(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) > ROOM_BYTES)
        && let Ok(dir) = tempfile::tempdir_in(memory)
    {
        return dir;
    }
    tempfile::tempdir().expect("a directory")
}

struct SqliteFile {
    dir: tempfile::TempDir,
}

impl SqliteFile {
    fn new() -> Self {
        Self { dir: scratch() }
    }

    fn open(&self) -> Arc<dyn Store> {
        let options = Options { wal_bytes: 1 << 20, readers: 2, ..Options::default() };
        Arc::new(SqliteStore::open_dir(self.dir.path(), options).expect("the store opens"))
    }
}

impl Backend for SqliteFile {
    fn fresh(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        async { self.open() }.boxed()
    }

    fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
        async {
            drop(store);
            self.open()
        }
        .boxed()
    }

    fn second(&self) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        async { None }.boxed()
    }
}

switchboard_store::store_conformance!(crate::SqliteFile::new());

/// Which tables have changed, of all there are; the log and its counters change with every commit.
fn tables(dir: &std::path::Path) -> std::collections::BTreeMap<String, Vec<String>> {
    let conn = rusqlite::Connection::open(dir.join("switchboard.db")).expect("it opens");
    let read = |sql: &str| {
        let mut statement = conn.prepare(sql).expect("it is valid");
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let values = (0..columns).map(|at| row.get::<_, rusqlite::types::Value>(at));
            Ok(values.map(|value| format!("{:?}", value.expect("readable"))).collect::<Vec<_>>().join("|"))
        });
        rows.expect("readable").collect::<Result<Vec<_>, _>>().expect("readable")
    };
    let names = read("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
    let names =
        names.into_iter().map(|name| name.trim_start_matches("Text(\"").trim_end_matches("\")").to_owned());
    let names = names.filter(|name| !matches!(name.as_str(), "log" | "counters"));
    names.map(|name| (name.clone(), read(&format!("SELECT * FROM {name}")))).collect()
}

/// The port does not show all that is stored: whole tables are compared. Whatever a person writes changes the tables of its word,
/// and of all others only that the event was taken (contract, section 5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_changes_a_table_that_is_not_its_own() {
    use switchboard_core::outbound::reply::{PAIR_LEN, code, show_pairing};
    use switchboard_core::outbound::write::{NewSend, OutboundWrite};
    use switchboard_store::conformance::outbound::plane::{CHAT, Plane, hold};
    let backend = SqliteFile::new();
    let mut plane = Plane::new(switchboard_store::conformance::Bench::new(&backend, false).await).await;
    let pairing = code(&[4; PAIR_LEN], PAIR_LEN);
    let start = OutboundWrite::PairStart {
        code_hash: switchboard_core::digest::sha256(pairing.as_bytes()),
        channel: CHAT.into(),
        to: None,
        person: None,
        expires_ms: plane.bench.now + 3_600_000,
        by: "op".into(),
    };
    plane.one(start).await;
    let held = NewSend { hold: hold("apr_1", plane.bench.now), ..plane.notice("bob") };
    plane.submit(&held).await;
    let ask = plane.ask("ada", &held.send_id);
    plane.submit(&ask).await;
    let (question, next) = (plane.question("ada"), plane.question("ada"));
    plane.submit(&question).await;
    plane.submit(&next).await;
    plane.deliver().await;
    let wrong = show_pairing(&code(&[5; PAIR_LEN], PAIR_LEN));
    let (right, sb) = (show_pairing(&pairing), format!("SB-{}", question.code));
    let answered: &[&str] = &["heard", "parts", "send_counts", "sends", "topics"];
    let said: [(&str, String, &[&str]); 22] = [
        ("eve", "hello".into(), &["heard"]),
        ("eve", "approve".into(), &["heard"]),
        ("eve", format!("approve {}", ask.code), &["heard"]),
        ("eve", format!("{sb} yes"), &["heard"]),
        ("eve", "start".into(), &["heard"]),
        ("eve", wrong.clone(), &["heard", "limits"]),
        ("ada", wrong, &["heard", "limits"]),
        ("ada", " \u{200b}".into(), &["heard"]),
        ("ada", "yes".into(), &["heard"]),
        ("ada", "approve".into(), &["heard"]),
        ("ada", "approve SB-ZZZZZZ".into(), &["heard"]),
        ("bob", format!("deny {}", ask.code), &["heard"]),
        ("bob", "allow eve; set policy off".into(), &["heard"]),
        ("ada", format!("approve {}", ask.code), &["approvals", "heard"]),
        ("ada", format!("deny {}", ask.code), &["heard"]),
        ("ada", format!("{sb} yes"), answered),
        ("ada", format!("{sb} no"), &["heard"]),
        ("eve", right.clone(), &["consents", "heard", "pairings"]),
        ("bob", right, &["heard", "limits"]),
        ("eve", "stop".into(), &["consents", "heard"]),
        ("eve", "start".into(), &["consents", "heard"]),
        ("ada", "stop".into(), &["consents", "heard", "parts", "send_counts", "sends", "topics"]),
    ];
    for (from, text, expected) in said {
        let before = tables(backend.dir.path());
        plane.hear(from, &text).await;
        let after = tables(backend.dir.path());
        let changed: Vec<_> =
            after.iter().filter(|(name, rows)| before[*name] != **rows).map(|it| it.0).collect();
        assert_eq!(changed, expected, "{from}: {text}");
    }
}

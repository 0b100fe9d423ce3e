//! `switchboard store`: moving house. A copy keeps ids, sequences, remembered ids, the log and the epoch, so that every client goes on
//! from its cursor; the store that was left is marked so that no hub starts on it.

use crate::args::{Global, Store as Command};
use crate::building::{Building, DATABASE, check_empty};
use crate::config::{self, Config};
use crate::embedded::{self, store_failure};
use crate::failure::{Exit, Failure};
use crate::place;
use crate::terminal::{Output, note};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use switchboard_core::port::store::{Installation, Store};
use switchboard_core::random::{SystemEntropy, public_id};
use switchboard_core::time::{Clock as _, SystemClock, WallMs};
use switchboard_core::write::{Batch, Write};
use switchboard_engine::audit;
use switchboard_store::moving::{Mark, MoveError, Tally, compare};
use switchboard_store::postgres::{Address, Closed};
use switchboard_store::sqlite;

/// Where a store is.
enum Place {
    Directory(PathBuf),
    Database(Box<Address>),
}

impl Place {
    fn parse(url: &str) -> Result<Self, Failure> {
        match url.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Self::directory(Path::new(path)),
            Some(("postgres" | "postgresql", _)) => {
                address(url).map(|address| Self::Database(Box::new(address)))
            }
            // What it holds may be a password.
            _ => Err(Failure::usage("A store is `sqlite:DIR` or `postgres://USER:PASSWORD@HOST/DATABASE`.")),
        }
    }

    // The database in it may be named as well.
    fn directory(path: &Path) -> Result<Self, Failure> {
        let path = std::path::absolute(path).map_err(|error| Failure::file(path, &error))?;
        let dir = match (path.file_name(), path.parent()) {
            (Some(name), Some(dir)) if name == DATABASE => dir.to_owned(),
            _ => path,
        };
        Ok(Self::Directory(dir))
    }

    fn name(&self) -> String {
        match self {
            Self::Directory(dir) => dir.display().to_string(),
            Self::Database(address) => address.to_string(),
        }
    }
}

fn address(url: &str) -> Result<Address, Failure> {
    Address::parse(url).map_err(|error| Failure::usage(format!("{error}.")))
}

/// What a copy was.
#[derive(Debug, Serialize)]
pub struct Copied {
    ok: bool,
    from: String,
    to: String,
    org_id: String,
    epoch: String,
    /// Rows of each table, read again at the new place and found to be the same.
    tables: BTreeMap<&'static str, u64>,
    rows: u64,
    /// Entries of the log that hold there.
    pub entries: u64,
    checkpoints: u64,
}

/// A place that holds everything, and is closed yet.
struct Filled {
    tallies: Vec<Tally>,
    checked: Checked,
    installation: Installation,
    /// The last commit of what is in it.
    commit: u64,
}

/// The log of a copy that holds.
struct Checked {
    entries: u64,
    checkpoints: u64,
}

/// Copies a store, or lets a hub start on one again.
pub async fn run(global: &Global, output: Output, command: Command) -> Result<(), Failure> {
    let config = config::load(global)?;
    let dir = place::data_dir(global.data_dir.as_deref(), config.server.data_dir.as_deref().map(Path::new))?;
    let here = |url: Option<String>| url.map_or_else(|| Place::directory(&dir), |url| Place::parse(&url));
    match command {
        Command::Copy { from, to } => {
            let to = match to {
                Some(to) => Place::parse(&to)?,
                None if config.store.url == "sqlite" => {
                    return Err(
                        Failure::usage("Where to?").next("--to URL, or `url` in the configuration's [store]")
                    );
                }
                None => Place::parse(&config.store.url)?,
            };
            let copied = copy(here(from)?, to, &config).await?;
            output.show(&copied, text);
            Ok(())
        }
        Command::Reopen { store } => {
            let configured = || Some(config.store.url.clone()).filter(|url| url != "sqlite");
            reopen(here(store.or_else(configured))?, &config, output).await
        }
    }
}

fn text(copied: &Copied) -> String {
    format!(
        "Copied {} to {}: {} rows are there as they were, {} log entries hold.\n\
         No hub starts on {} any more. Start it on the new place: clients go on from their cursors.\n",
        copied.from, copied.to, copied.rows, copied.entries, copied.from
    )
}

async fn copy(from: Place, to: Place, config: &Config) -> Result<Copied, Failure> {
    let now_ms = SystemClock::default().wall_ms();
    let (here, there) = (from.name(), to.name());
    match (from, to) {
        (Place::Directory(_), Place::Directory(_)) => {
            let message = "Both places are directories: nothing has to be copied row by row.";
            Err(Failure::usage(message).next("stop the hub and move the directory"))
        }
        (Place::Directory(dir), Place::Database(to)) => {
            let to = Closed::open(&to).await.map_err(|error| failure(&error))?;
            let from = sqlite::Closed::open(&dir).map_err(|error| failure(&error))?;
            may_leave(from.mark(), &here, &there)?;
            let work = async || fill(&from, &to, now_ms).await;
            arrive(&to, &here, now_ms, work, async |_| from.leave(&there, now_ms)).await
        }
        (Place::Database(from), to) => {
            if here == there {
                return Err(failure(&MoveError::Busy(here)));
            }
            let from = Closed::open(&from).await.map_err(|error| failure(&error))?;
            may_leave(from.mark().await, &here, &there)?;
            let installation = from.installation().await.map_err(|error| failure(&error))?;
            let wait = || note("Waiting until the nodes that ran lately count as gone…");
            from.wait_for_nodes(wait).await.map_err(|error| failure(&error))?;
            match to {
                Place::Database(to) => {
                    let to = Closed::open(&to).await.map_err(|error| failure(&error))?;
                    between_databases(&from, &to, now_ms).await
                }
                Place::Directory(dir) => into_directory(&from, &dir, installation, now_ms, config).await,
            }
        }
    }
}

async fn between_databases(from: &Closed, to: &Closed, now_ms: WallMs) -> Result<Copied, Failure> {
    let between = tempfile::tempdir().map_err(|error| Failure::file(&std::env::temp_dir(), &error))?;
    let work = async || {
        from.backup(&between.path().join(DATABASE)).await.map_err(|error| failure(&error))?;
        let copy = sqlite::Closed::open(between.path()).map_err(|error| failure(&error))?;
        same(&from.tallies(now_ms).await, &copy.tallies(now_ms))?;
        fill(&copy, to, now_ms).await
    };
    let leave = async |commit| from.leave(&to.name(), commit, now_ms).await;
    arrive(to, &from.name(), now_ms, work, leave).await
}

async fn into_directory(
    from: &Closed,
    dir: &Path,
    installation: Installation,
    now_ms: WallMs,
    config: &Config,
) -> Result<Copied, Failure> {
    check_empty(dir, "SB0211")?;
    let building = Building::beside(dir, "copying")?;
    note("Copying…");
    from.backup(&building.path.join(DATABASE)).await.map_err(|error| failure(&error))?;
    let copy = sqlite::Closed::open(&building.path).map_err(|error| failure(&error))?;
    let tallies = same(&from.tallies(now_ms).await, &copy.tallies(now_ms))?;
    let commit = copy.commit();
    drop(copy);
    let store = embedded::open_store(&building.path, config)?;
    let checked = check_log(&store, &installation).await;
    store.close().await.map_err(|error| store_failure(&error))?;
    let filled = Filled { tallies, checked: checked?, installation, commit };
    let (here, there) = (from.name(), dir.display().to_string());
    let marked = sqlite::Closed::open(&building.path).and_then(|copy| copy.arrive(&here, now_ms));
    marked.map_err(|error| failure(&error))?;
    building.rename(dir)?;
    let again = || format!("remove {there}, then copy again");
    from.leave(&there, filled.commit, now_ms)
        .await
        .map_err(|error| not_left(&here, &there, &error, again()))?;
    let opened = sqlite::Closed::open(dir).and_then(|copy| copy.unmark());
    opened.map_err(|error| not_opened(&there, &error, again()))?;
    Ok(copied(here, there, filled))
}

/// Makes room at `to`, lets `work` fill it, closes the first store by `leave`, which is told the last commit that was copied, and opens
/// `to` to hubs. Empties it again when `work` fails; afterwards no longer, since the first store may be closed.
async fn arrive(
    to: &Closed,
    from: &str,
    now_ms: WallMs,
    work: impl AsyncFnOnce() -> Result<Filled, Failure>,
    leave: impl AsyncFnOnce(u64) -> Result<(), MoveError>,
) -> Result<Copied, Failure> {
    to.prepare(from, now_ms).await.map_err(|error| failure(&error))?;
    let filled = match work().await {
        Ok(filled) => filled,
        Err(refused) => {
            if let Err(error) = to.abandon().await {
                note(&format!("{} could not be emptied again: {error}. The next copy does it.", to.name()));
            }
            return Err(refused);
        }
    };
    let again = || "do it again: what is there is replaced".to_owned();
    leave(filled.commit).await.map_err(|error| not_left(from, &to.name(), &error, again()))?;
    to.unmark().await.map_err(|error| not_opened(&to.name(), &error, again()))?;
    Ok(copied(from.to_owned(), to.name(), filled))
}

// Whether it is closed is not known when the answer was lost: the copy may be all that can be gone on with.
fn not_left(from: &str, to: &str, error: &MoveError, again: String) -> Failure {
    let message = format!("Everything is at {to}, which stays closed because {from} could not be: {error}.");
    let next = match error {
        MoveError::Changed(_) => format!("stop every node; {again}"),
        _ => again,
    };
    Failure::new(Exit::Refused, "SB0211", message).next(next)
}

fn not_opened(to: &str, error: &MoveError, again: String) -> Failure {
    let message = format!("Everything is at {to}, which could not be opened: {error}.");
    Failure::new(Exit::Refused, "SB0211", message).next(again)
}

/// Brings the backup in `building` into the database at `url`; `verify` checks it and begins a new epoch first.
pub async fn restore_into(
    url: &str,
    building: &Path,
    verify: impl AsyncFnOnce() -> Result<(), Failure>,
) -> Result<Copied, Failure> {
    let address = address(url)?;
    let now_ms = SystemClock::default().wall_ms();
    let to = Closed::open(&address).await.map_err(|error| failure(&error))?;
    let work = async || {
        verify().await?;
        let from = sqlite::Closed::open(building).map_err(|error| failure(&error))?;
        fill(&from, &to, now_ms).await
    };
    arrive(&to, "a backup", now_ms, work, async |_| Ok(())).await
}

async fn fill(from: &sqlite::Closed, to: &Closed, now_ms: WallMs) -> Result<Filled, Failure> {
    note("Copying…");
    let mut said = |table: &str, rows: u64| note(&format!("  {table}: {rows} rows"));
    to.fill(from, now_ms, &mut said).await.map_err(|error| failure(&error))?;
    note("Reading everything again…");
    let tallies = same(&from.tallies(now_ms), &to.tallies(now_ms).await)?;
    let store = to.store().await.map_err(|error| failure(&error))?;
    let installation = to.installation().await.map_err(|error| failure(&error))?;
    let checked = check_log(&store, &installation).await;
    store.close().await.map_err(|error| store_failure(&error))?;
    Ok(Filled { tallies, checked: checked?, installation, commit: from.commit() })
}

fn same(
    from: &Result<Vec<Tally>, MoveError>,
    to: &Result<Vec<Tally>, MoveError>,
) -> Result<Vec<Tally>, Failure> {
    let (from, to) = (from.as_ref().map_err(failure)?, to.as_ref().map_err(failure)?);
    compare(from, to).map_err(|error| failure(&error))?;
    Ok(to.clone())
}

async fn check_log(store: &dyn Store, installation: &Installation) -> Result<Checked, Failure> {
    note("Verifying the log…");
    let name = |id: switchboard_core::ids::EventId| format!("{} of stream {}", id.seq, id.stream.0);
    let report = audit::verify_store(store, &installation.keys.signer_public(), name, |_| ()).await;
    let report = report.map_err(|error| store_failure(&error))?;
    match report.first_broken {
        None => Ok(Checked { entries: report.entries, checkpoints: report.checkpoints }),
        Some(broken) => {
            let message =
                format!("The log does not hold. Record {}: {}. Nothing was moved.", broken.seq, broken.why);
            Err(Failure::new(Exit::Refused, "SB0211", message)
                .next("`switchboard log verify` on the running hub"))
        }
    }
}

fn copied(from: String, to: String, filled: Filled) -> Copied {
    let Filled { tallies, checked, installation, .. } = filled;
    Copied {
        ok: true,
        from,
        to,
        org_id: installation.org_id,
        epoch: installation.epoch,
        tables: tallies.iter().map(|tally| (tally.table, tally.rows)).collect(),
        rows: tallies.iter().map(|tally| tally.rows).sum(),
        entries: checked.entries,
        checkpoints: checked.checkpoints,
    }
}

/// A store that was left for somewhere else is no source any more; one that was left for `to` may be copied there once more.
fn may_leave(mark: Result<Option<Mark>, MoveError>, from: &str, to: &str) -> Result<(), Failure> {
    match mark.map_err(|error| failure(&error))? {
        Some(mark) if !mark.left || mark.other != to => {
            Err(failure(&MoveError::Marked(from.to_owned(), mark)))
        }
        _ => Ok(()),
    }
}

async fn reopen(place: Place, config: &Config, output: Output) -> Result<(), Failure> {
    let name = place.name();
    let epoch = match place {
        Place::Directory(dir) => {
            let mark = sqlite::Closed::open(&dir).and_then(|closed| closed.mark());
            expect_left(mark, &name)?;
            let store = embedded::open_moving(&dir, config)?;
            let epoch = new_epoch(&store).await?;
            let closed = sqlite::Closed::open(&dir).map_err(|error| failure(&error))?;
            closed.unmark().map_err(|error| failure(&error))?;
            epoch
        }
        Place::Database(address) => {
            let closed = Closed::open(&address).await.map_err(|error| failure(&error))?;
            expect_left(closed.mark().await, &name)?;
            let store = closed.store().await.map_err(|error| failure(&error))?;
            let epoch = new_epoch(&store).await?;
            closed.unmark().await.map_err(|error| failure(&error))?;
            epoch
        }
    };
    let reopened = serde_json::json!({ "ok": true, "store": name, "epoch": epoch });
    output.show(&reopened, |_| format!("A hub may start on {name} again. Its clients will start over.\n"));
    Ok(())
}

fn expect_left(mark: Result<Option<Mark>, MoveError>, name: &str) -> Result<(), Failure> {
    match mark.map_err(|error| failure(&error))? {
        Some(mark) if mark.left => Ok(()),
        Some(mark) => Err(failure(&MoveError::Marked(name.to_owned(), mark))),
        None => {
            Err(Failure::new(Exit::Refused, "SB0211", format!("{name} was not copied away: it is open."))
                .next("`switchboard serve`"))
        }
    }
}

// Whatever the other place did since: no position of there is taken for one of here.
async fn new_epoch(store: &dyn Store) -> Result<String, Failure> {
    let at_ms = SystemClock::default().wall_ms();
    let epoch = public_id("ep", &SystemEntropy, at_ms);
    let begun = store.commit(Batch { at_ms, writes: vec![Write::NewEpoch { epoch: epoch.clone() }] }).await;
    store.close().await.map_err(|error| store_failure(&error))?;
    begun.map_err(|error| store_failure(&error))?;
    Ok(epoch)
}

fn failure(error: &MoveError) -> Failure {
    let next = match error {
        MoveError::Sqlite { dir, error } => return embedded::open_failure(dir, error),
        MoveError::Postgres(error) => return embedded::database_failure(error),
        MoveError::Store(error) => return store_failure(error),
        MoveError::NoHub(_) => "name the store of the hub with --from",
        MoveError::Occupied(_) => "name a new schema with ?schema=NAME in the URL, or another database",
        MoveError::Marked(_, mark) if mark.left => "`switchboard store reopen` if the hub is to go on there",
        MoveError::Marked(..) => "copy the hub into it again",
        MoveError::Running(_) | MoveError::Changed(_) => "stop every node, then copy again",
        MoveError::Busy(_) => "wait for the other copy to end, or name another place with --to",
        MoveError::Differs(_) => "copy again; keep the first store as it is meanwhile",
    };
    Failure::new(Exit::Refused, "SB0211", format!("Nothing was moved: {error}.")).next(next)
}

//! `switchboard restore`: a data directory or a database of a backup. What was stored after the copy is gone, so the epoch changes and
//! every client starts over instead of taking new positions for old ones.

use crate::args::{Global, Restore};
use crate::building::{Building, DATABASE, check_empty};
use crate::commands::store;
use crate::config::{self, Config};
use crate::embedded;
use crate::failure::{Exit, Failure};
use crate::place;
use crate::terminal::Output;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use switchboard_core::random::{SystemEntropy, public_id};
use switchboard_core::time::{Clock, SystemClock};
use switchboard_core::write::Write;
use switchboard_engine::{Founding, Hub, Ports, Settings, audit};
use switchboard_store::doorbell::LocalDoorbell;

/// How every SQLite database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Makes the data directory, or fills the database.
pub async fn run(global: &Global, output: Output, restore: &Restore) -> Result<(), Failure> {
    let config = config::load(global)?;
    let dir = place::data_dir(global.data_dir.as_deref(), config.server.data_dir.as_deref().map(Path::new))?;
    let to = restore.to.as_deref().unwrap_or(&config.store.url);
    check_file(&restore.file)?;
    if to.starts_with("postgres") {
        return into_database(&dir, to, &config, output, &restore.file).await;
    }
    let dir = match to.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => {
            std::path::absolute(path).map_err(|error| Failure::file(Path::new(path), &error))?
        }
        None if to == "sqlite" => dir,
        _ => return Err(Failure::usage("--to is `sqlite:DIR` or `postgres://USER:PASSWORD@HOST/DATABASE`.")),
    };
    check_empty(&dir, "SB0208")?;
    let building = copied(&dir, &restore.file)?;
    let restored = verified(&building.path, &config, &restore.file).await?;
    building.rename(&dir)?;
    output.show(&restored, |_| {
        format!(
            "Restored to {}: {} log entries hold. Clients will start over from the restored history.\n\
             Start it: switchboard serve --data-dir {}\n",
            dir.display(),
            restored["entries"],
            dir.display()
        )
    });
    Ok(())
}

/// The backup's database, in a directory beside `dir`.
fn copied(dir: &Path, file: &Path) -> Result<Building, Failure> {
    let building = Building::beside(dir, "restoring")?;
    fs::copy(file, building.path.join(DATABASE)).map_err(|error| Failure::file(file, &error))?;
    Ok(building)
}

/// What goes into a database is made as a data directory first: there it is brought up to date, checked, and given its epoch.
async fn into_database(
    dir: &Path,
    url: &str,
    config: &Config,
    output: Output,
    file: &Path,
) -> Result<(), Failure> {
    let building = copied(dir, file)?;
    let mut restored = serde_json::Value::Null;
    let filled = store::restore_into(url, &building.path, async || {
        restored = verified(&building.path, config, file).await?;
        Ok(())
    });
    let copied = filled.await.map_err(|refused| match refused.sb.as_deref() {
        Some("SB0211") => Failure { sb: Some("SB0208".into()), ..refused },
        _ => refused,
    })?;
    output.show(&restored, |_| {
        format!(
            "Restored into the database: {} log entries hold. Clients will start over from the restored history.\n\
             Start it: switchboard serve\n",
            copied.entries
        )
    });
    Ok(())
}

fn not_a_backup(file: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Refused, "SB0208", format!("{} cannot be restored: {why}.", file.display()))
        .next("name a file that `switchboard backup` wrote")
}

fn check_file(file: &Path) -> Result<(), Failure> {
    let mut start = [0; 16];
    let read = fs::File::open(file).and_then(|mut file| file.read_exact(&mut start));
    match read {
        Ok(()) if start == *MAGIC => Ok(()),
        Ok(()) => Err(not_a_backup(file, &"it is no copy of a hub's store")),
        Err(error) => Err(not_a_backup(file, &error)),
    }
}

/// Checks the copy's log from end to end and begins a new epoch.
async fn verified(dir: &Path, config: &Config, file: &Path) -> Result<serde_json::Value, Failure> {
    let store = embedded::open_store(dir, config).map_err(|failure| match failure.sb.as_deref() {
        Some("SB0205") => not_a_backup(file, &failure.message),
        _ => failure,
    })?;
    let clock = Arc::new(SystemClock::default());
    let ports = Ports {
        store: Arc::new(store),
        doorbell: Arc::new(LocalDoorbell::new()),
        clock: clock.clone(),
        entropy: Arc::new(SystemEntropy),
    };
    // An empty store would be founded: its organization would then bear this name.
    let nobody = public_id("nobody", &SystemEntropy, clock.wall_ms());
    let founding = Founding { org_name: nobody.clone(), ..Founding::default() };
    let hub =
        Hub::start(ports, Settings::default(), founding).await.map_err(|error| not_a_backup(file, &error))?;
    let checked = if hub.installation.org_name == nobody {
        Err(not_a_backup(file, &"it holds no hub"))
    } else {
        check(&hub, file, &*clock).await
    };
    let stopped = hub.stop().await.map_err(|error| not_a_backup(file, &error));
    checked.and_then(|checked| stopped.map(|()| checked))
}

async fn check(hub: &Hub, file: &Path, clock: &dyn Clock) -> Result<serde_json::Value, Failure> {
    let failed = |error: switchboard_core::port::store::StoreError| not_a_backup(file, &error);
    let report = audit::verify_log(hub, |_| ()).await.map_err(failed)?;
    if let Some(broken) = report.first_broken {
        return Err(not_a_backup(
            file,
            &format!("its log does not hold: record {}: {}", broken.seq, broken.why),
        ));
    }
    let epoch = public_id("ep", &SystemEntropy, clock.wall_ms());
    hub.commit(vec![Write::NewEpoch { epoch: epoch.clone() }]).await.map_err(failed)?;
    Ok(serde_json::json!({
        "ok": true,
        "org_id": hub.installation.org_id,
        "entries": report.entries,
        "checkpoints": report.checkpoints,
        "epoch": epoch,
    }))
}

//! `switchboard restore`: a data directory of a backup. What was stored after the copy is gone, so the epoch changes and
//! every client starts over instead of taking new positions for old ones.

use crate::args::{Global, Restore};
use crate::config;
use crate::embedded;
use crate::failure::{Exit, Failure};
use crate::place;
use crate::terminal::Output;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use switchboard_core::random::{SystemEntropy, public_id};
use switchboard_core::time::{Clock, SystemClock};
use switchboard_core::write::Write;
use switchboard_engine::{Founding, Hub, Ports, Settings, audit};
use switchboard_store::doorbell::LocalDoorbell;

/// How every SQLite database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The database in a data directory.
const DATABASE: &str = "switchboard.db";

/// Makes the data directory.
pub async fn run(global: &Global, output: Output, restore: &Restore) -> Result<(), Failure> {
    let config = config::load(global)?;
    let dir = place::data_dir(global.data_dir.as_deref(), config.server.data_dir.as_deref().map(Path::new))?;
    check_file(&restore.file)?;
    check_empty(&dir)?;
    let building = Building::beside(&dir)?;
    fs::copy(&restore.file, building.path.join(DATABASE))
        .map_err(|error| Failure::file(&restore.file, &error))?;
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

fn check_empty(dir: &Path) -> Result<(), Failure> {
    let mut entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| Failure::file(dir, &error))?,
    };
    if entries.next().is_none() {
        Ok(())
    } else {
        let message = format!("{} is not empty. Nothing was changed.", dir.display());
        let next = "restore into a new directory: --data-dir NEW";
        Err(Failure::new(Exit::Refused, "SB0208", message).next(next))
    }
}

/// The directory while it is made; gone again unless everything held.
struct Building {
    path: PathBuf,
    done: bool,
}

impl Building {
    fn beside(dir: &Path) -> Result<Self, Failure> {
        let mut name = dir.file_name().unwrap_or_default().to_owned();
        name.push(".restoring");
        let path = dir.with_file_name(name);
        let parents = dir.parent().map_or(Ok(()), fs::create_dir_all);
        parents.and_then(|()| private_dir().create(&path)).map_err(|error| {
            Failure::file(&path, &error).next("remove it if an earlier restore was interrupted")
        })?;
        Ok(Self { path, done: false })
    }

    fn rename(mut self, dir: &Path) -> Result<(), Failure> {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::file(dir, &error));
            }
            _ => {}
        }
        fs::rename(&self.path, dir).map_err(|error| Failure::file(dir, &error))?;
        self.done = true;
        Ok(())
    }
}

/// Makes directories for their owner alone, as the hub does.
fn private_dir() -> fs::DirBuilder {
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700);
        builder
    }
    #[cfg(not(unix))]
    fs::DirBuilder::new()
}

impl Drop for Building {
    fn drop(&mut self) {
        if !self.done {
            // What stays behind is named when the next restore meets it.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Checks the copy's log from end to end and begins a new epoch.
async fn verified(dir: &Path, config: &config::Config, file: &Path) -> Result<serde_json::Value, Failure> {
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

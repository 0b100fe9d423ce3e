//! Channels that `switchboard channel add` has saved: a file for each in `channels` of the data directory, its secrets beside it, each
//! in a file that nobody else may read. A hub that runs looks at them once a second, and takes and leaves channels as they come and go.

use super::{Entry, add};
use crate::config::{self, Config};
use crate::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use switchboard_core::time::Clock;
use switchboard_engine::Hub;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where they are.
pub fn dir(data_dir: &Path) -> PathBuf {
    data_dir.join("channels")
}

/// The file of a channel.
pub fn file(data_dir: &Path, name: &str) -> PathBuf {
    dir(data_dir).join(format!("{name}.toml"))
}

/// The saved channels, by name.
pub fn read(data_dir: &Path) -> Result<Vec<Entry>, Failure> {
    files(data_dir).keys().map(|path| one(path)).collect()
}

/// Adds the saved channels to those of the configuration.
pub fn extend(config: &mut Config, data_dir: &Path) -> Result<(), Failure> {
    config.channel.extend(read(data_dir)?);
    Ok(())
}

fn one(path: &Path) -> Result<Entry, Failure> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| config::wrong(format!("Cannot read {shown}: {error}.")))?;
    let mut parsed = config::parse(&shown, &text, std::iter::empty())?;
    let named = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    match parsed.channel.len() {
        1 if parsed.channel[0].name == named => Ok(parsed.channel.remove(0)),
        _ => Err(config::wrong(format!("{shown} must hold one [[channel]], with the name {named:?}."))),
    }
}

// Each file and what tells that it has changed.
fn files(data_dir: &Path) -> BTreeMap<PathBuf, Option<SystemTime>> {
    let entries = std::fs::read_dir(dir(data_dir)).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths
        .map(|path| {
            let changed = std::fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
            (path, changed)
        })
        .collect()
}

/// Takes and leaves channels as their files come, change and go, until the hub stops.
pub async fn follow(hub: Arc<Hub>, data_dir: PathBuf, clock: Arc<dyn Clock>) {
    let mut known = files(&data_dir);
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = hub.stopping().cancelled() => return,
        }
        let now = files(&data_dir);
        if now == known {
            continue;
        }
        let all: BTreeSet<&PathBuf> = known.keys().chain(now.keys()).collect();
        for path in all.into_iter().filter(|path| known.get(*path) != now.get(*path)) {
            let (was_there, is_there) = (known.contains_key(path), now.contains_key(path));
            change(&hub, path, (was_there, is_there), &clock);
        }
        known = now;
    }
}

fn change(hub: &Arc<Hub>, path: &Path, (was_there, is_there): (bool, bool), clock: &Arc<dyn Clock>) {
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if !is_there {
        if hub.remove_channel(name) {
            tracing::info!(channel = name, "the channel was removed");
        }
        return;
    }
    // Before the one that works goes, the new one is looked at.
    let entry = one(path).map_err(|failure| failure.to_string());
    match entry.and_then(|entry| super::one(&entry, clock).map(|_| entry)) {
        Ok(entry) => {
            if was_there {
                hub.remove_channel(name);
            }
            match add(hub, &entry, clock) {
                Ok(()) => tracing::info!(channel = name, kind = entry.kind, "the channel was taken up"),
                Err(why) => tracing::error!(channel = name, why, "the channel could not be taken up"),
            }
        }
        Err(why) => tracing::error!(channel = name, why, "the channel stays as it was"),
    }
}

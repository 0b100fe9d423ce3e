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

/// What is known of the saved channels: their files, and which of them a hub has taken up.
#[derive(Debug, Default)]
pub struct Known {
    files: BTreeMap<PathBuf, Option<SystemTime>>,
    taken: BTreeSet<String>,
}

/// Adds the saved channels to those of the configuration, and says what is wrong with the others: one that is broken, or has a name that
/// the configuration has as well, is left out and keeps no hub from starting.
pub fn extend(config: &mut Config, data_dir: &Path, clock: &Arc<dyn Clock>) -> (Known, Vec<Failure>) {
    let mut known = Known { files: files(data_dir), taken: BTreeSet::new() };
    let mut wrong = Vec::new();
    for path in known.files.keys() {
        match one(path) {
            Ok(entry) if config.channel.iter().any(|channel| channel.name == entry.name) => {
                let shown = path.display();
                wrong.push(config::wrong(format!(
                    "{shown}: the configuration has a channel of this name as well."
                )));
            }
            Ok(entry) => match super::one(&entry, clock) {
                Ok(_) => {
                    known.taken.insert(entry.name.clone());
                    config.channel.push(entry);
                }
                Err(why) => {
                    let failure = config::wrong(format!("The saved channel {:?}: {why}.", entry.name));
                    let next = "`switchboard channel remove` and `channel add` set it up anew";
                    wrong.push(failure.next(next));
                }
            },
            Err(failure) => wrong.push(failure),
        }
    }
    (known, wrong)
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

/// Takes and leaves channels as their files come, change and go, until the hub stops. `known`: what was read when it started.
pub async fn follow(hub: Arc<Hub>, data_dir: PathBuf, mut known: Known, clock: Arc<dyn Clock>) {
    loop {
        let now = files(&data_dir);
        let all: BTreeSet<PathBuf> = known.files.keys().chain(now.keys()).cloned().collect();
        for path in all.into_iter().filter(|path| known.files.get(path) != now.get(path)) {
            change(&hub, &path, now.contains_key(&path), &mut known.taken, &clock);
        }
        known.files = now;
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = hub.stopping().cancelled() => return,
        }
    }
}

// Only what came from here goes from here: a channel of the configuration is none of its.
fn change(hub: &Arc<Hub>, path: &Path, is_there: bool, taken: &mut BTreeSet<String>, clock: &Arc<dyn Clock>) {
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if !is_there {
        if taken.remove(name) && hub.remove_channel(name) {
            tracing::info!(channel = name, "the channel was removed");
        }
        return;
    }
    // Before the one that works goes, the new one is looked at.
    let entry = one(path).map_err(|failure| failure.to_string());
    match entry.and_then(|entry| super::one(&entry, clock).map(|_| entry)) {
        Ok(entry) => {
            if taken.remove(name) {
                hub.remove_channel(name);
            }
            match add(hub, &entry, clock) {
                Ok(()) => {
                    taken.insert(name.to_owned());
                    tracing::info!(channel = name, kind = entry.kind, "the channel was taken up");
                }
                Err(why) => tracing::error!(channel = name, why, "the channel could not be taken up"),
            }
        }
        Err(why) => tracing::error!(channel = name, why, "the channel stays as it was"),
    }
}

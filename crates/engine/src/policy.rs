//! The rules in force: read from a directory, looked at about once a second, replaced as a whole. Rules that cannot be read change
//! nothing: the old ones stay, and the hub says why.

use crate::hub::Hub;
use parking_lot::{Mutex, RwLock};
use std::fs::Metadata;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use switchboard_core::log::Entry;
use switchboard_core::policy::{FILE_BYTES_MAX, FILES_MAX, Fault, Policy, cases};
use switchboard_core::port::store::StoreError;
use switchboard_core::time::{SECOND_MS, WallMs};

/// End of the names of files with rules.
const SUFFIX: &str = ".toml";
/// A file touched so shortly before it was looked at may change again without showing it.
const FRESH_MS: WallMs = 2 * SECOND_MS;
/// Faults that a status tells.
const FAULTS_TOLD_MAX: usize = 20;
/// Log entries kept while the store does not take them.
const UNLOGGED_MAX: usize = 100;

/// The texts of a directory of rules, each with its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// Rules.
    pub rules: Vec<(String, String)>,
    /// Cases beside them (`*.test.toml`).
    pub cases: Vec<(String, String)>,
}

/// How the rules are doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Digest of the files in force.
    pub version: String,
    /// How many rules.
    pub rules: usize,
    /// Since when they are in force.
    pub loaded_at_ms: WallMs,
    /// Why the files that are there now are not in force, if they are not.
    pub fault: Option<String>,
}

/// What a look at the directory brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Other rules are in force.
    Loaded(Arc<str>),
    /// What is there cannot be loaded; the old rules stay.
    Refused(Vec<Fault>),
}

/// Whether to read files that look untouched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Read them only if name, size or time of a file differ.
    IfTouched,
    /// Read them.
    Anyway,
}

/// Name, size and time of each file.
type Print = Vec<(String, u64, Option<SystemTime>)>;

#[derive(Debug)]
struct State {
    loaded_at_ms: WallMs,
    fault: Option<String>,
}

/// The rules in force and where they come from.
#[derive(Debug)]
pub struct PolicyBook {
    dir: Option<PathBuf>,
    current: RwLock<Arc<Policy>>,
    state: RwLock<State>,
    /// Held while somebody looks.
    seen: Mutex<Option<Print>>,
    unlogged: Mutex<Vec<Entry>>,
}

impl PolicyBook {
    /// Reads the rules in `dir`; without one, and where none is there, there are none. Blocks on the disk.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn open(dir: Option<PathBuf>, now_ms: WallMs) -> Result<Self, Vec<Fault>> {
        let (mut policy, mut print) = (Policy::default(), None);
        if let Some(dir) = &dir {
            print = Some(fingerprint(dir));
            policy = load(dir)?;
        }
        Ok(Self {
            dir,
            current: RwLock::new(Arc::new(policy)),
            state: RwLock::new(State { loaded_at_ms: now_ms, fault: None }),
            seen: Mutex::new(print),
            unlogged: Mutex::default(),
        })
    }

    /// The rules in force. Costs a counter.
    #[must_use]
    pub fn current(&self) -> Arc<Policy> {
        self.current.read().clone()
    }

    /// Where they come from.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// How they are doing.
    #[must_use]
    pub fn status(&self) -> Status {
        let (policy, state) = (self.current(), self.state.read());
        Status {
            version: policy.version().to_owned(),
            rules: policy.rules().len(),
            loaded_at_ms: state.loaded_at_ms,
            fault: state.fault.clone(),
        }
    }

    /// Looks whether the files have changed, and puts them in force if they can be. Blocks on the disk. Says what is new, once.
    pub fn look(&self, now_ms: WallMs, how: Look) -> Option<Change> {
        let dir = self.dir.as_deref()?;
        let mut seen = self.seen.lock();
        let print = fingerprint(dir);
        let is_known = seen.as_ref() == Some(&print) && !is_fresh(&print, now_ms);
        if how == Look::IfTouched && is_known {
            return None;
        }
        *seen = Some(print);
        self.take(self.reload(dir), now_ms)
    }

    /// A directory that has gone takes no rule with it: that would allow everything.
    fn reload(&self, dir: &Path) -> Result<Policy, Vec<Fault>> {
        if !dir.exists() && !self.current().rules().is_empty() {
            let message = "The directory is gone; make it again, without files if there are to be no rules.";
            return Err(vec![Fault::of_file(dir.display().to_string(), message)]);
        }
        load(dir)
    }

    fn take(&self, loaded: Result<Policy, Vec<Fault>>, now_ms: WallMs) -> Option<Change> {
        let mut state = self.state.write();
        match loaded {
            Ok(policy) if policy.version() == self.current().version() => {
                state.fault = None;
                None
            }
            Ok(policy) => {
                let version = policy.version().into();
                *self.current.write() = Arc::new(policy);
                *state = State { loaded_at_ms: now_ms, fault: None };
                Some(Change::Loaded(version))
            }
            Err(faults) => {
                let told = told(&faults);
                (state.fault.replace(told.clone()) != Some(told)).then_some(Change::Refused(faults))
            }
        }
    }

    fn note(&self, entry: Entry) {
        let mut unlogged = self.unlogged.lock();
        if unlogged.len() < UNLOGGED_MAX {
            unlogged.push(entry);
        }
    }
}

impl Hub {
    /// Looks at the rules' files once and notes in the event log what came of it.
    ///
    /// # Errors
    /// The store did not take the note; the next look tries again.
    pub async fn look_at_policy(&self, how: Look) -> Result<(), StoreError> {
        let (book, now_ms) = (self.policy.clone(), self.clock().wall_ms());
        let looked = tokio::task::spawn_blocking(move || book.look(now_ms, how)).await;
        if let Ok(Some(change)) = looked {
            self.note_policy(&change);
        }
        let entries = std::mem::take(&mut *self.policy.unlogged.lock());
        if entries.is_empty() {
            return Ok(());
        }
        let written = self.commit(vec![switchboard_core::write::Write::Log(entries.clone())]).await;
        if written.is_err() {
            entries.into_iter().for_each(|entry| self.policy.note(entry));
        }
        written.map(drop)
    }

    /// Notes that the rules it starts with are in force.
    pub(crate) fn note_first_policy(&self) {
        let version = self.policy.current().version().to_owned();
        if version != Policy::default().version() {
            self.note_policy(&Change::Loaded(version.into()));
        }
    }

    fn note_policy(&self, change: &Change) {
        let actor = self.installation.hub_instance_id.as_str();
        match change {
            Change::Loaded(version) => {
                tracing::info!(
                    version = &**version,
                    rules = self.policy.status().rules,
                    "rules are in force"
                );
                self.policy.note(Entry::admitted("policy.load", actor, &**version));
            }
            // The log says where, not what: a file may hold anything.
            Change::Refused(faults) => {
                tracing::error!(faults = told(faults), "rules were refused; the old ones stay in force");
                let first = faults.first().map(Fault::place).unwrap_or_default();
                let version = self.policy.current().version().to_owned();
                let subject = format!("{} faults, first in {first}; {version} stays", faults.len());
                self.policy.note(Entry::admitted("policy.refused", actor, subject));
            }
        }
    }
}

fn told(faults: &[Fault]) -> String {
    let mut text = switchboard_core::policy::listed(&faults[..faults.len().min(FAULTS_TOLD_MAX)]);
    if let Some(more @ 1..) = faults.len().checked_sub(FAULTS_TOLD_MAX) {
        text = format!("{text}\nand {more} more");
    }
    text
}

fn load(dir: &Path) -> Result<Policy, Vec<Fault>> {
    Policy::load(&read(dir)?.rules)
}

/// Reads the files of a directory; a missing one has none.
///
/// # Errors
/// Every file that cannot be read.
pub fn read(dir: &Path) -> Result<Texts, Vec<Fault>> {
    let (mut texts, mut faults) = (Texts::default(), Vec::new());
    for path in
        paths(dir).map_err(|error| vec![Fault::of_file(dir.display().to_string(), unreadable(&error))])?
    {
        let name = name(&path);
        match text(&path) {
            Ok(text) if name.ends_with(cases::SUFFIX) => texts.cases.push((name, text)),
            Ok(text) => texts.rules.push((name, text)),
            Err(message) => faults.push(Fault::of_file(name, message)),
        }
    }
    if faults.is_empty() { Ok(texts) } else { Err(faults) }
}

fn unreadable(error: &std::io::Error) -> String {
    format!("It cannot be read ({error}); let the hub read it, or remove it.")
}

/// The files that count, by name. What editors leave begins with a dot or has another end.
fn paths(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = name(&path);
        if name.ends_with(SUFFIX) && !name.starts_with('.') {
            paths.push(path);
        }
        if paths.len() > 2 * FILES_MAX {
            return Err(std::io::Error::other(format!("more than {FILES_MAX} files")));
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    // One byte more than allowed, so that whoever loads it notices.
    let most = FILE_BYTES_MAX as u64 + 1;
    let read = std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(&error))?;
    let is_cut = bytes.len() > FILE_BYTES_MAX;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) if is_cut => Err(format!("The file is larger than {FILE_BYTES_MAX} bytes; split it.")),
        Err(_) => Err("It is no UTF-8 text; save it as UTF-8.".into()),
    }
}

fn fingerprint(dir: &Path) -> Print {
    let paths = paths(dir).unwrap_or_default();
    let of = |path: PathBuf| {
        let metadata = std::fs::metadata(&path).ok();
        let len = metadata.as_ref().map_or(0, Metadata::len);
        (name(&path), len, metadata.and_then(|metadata| metadata.modified().ok()))
    };
    paths.into_iter().filter(|path| !name(path).ends_with(cases::SUFFIX)).map(of).collect()
}

/// Whether a file was touched a moment before, so that another change may bear the same time.
fn is_fresh(print: &Print, now_ms: WallMs) -> bool {
    print.iter().any(|(_, _, modified)| {
        let age = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let touched_ms = age.and_then(|age| WallMs::try_from(age.as_millis()).ok());
        touched_ms.is_none_or(|touched_ms| touched_ms > now_ms - FRESH_MS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "deny_keyword = [\"secret\"]\n";

    fn book(dir: &Path) -> PolicyBook {
        PolicyBook::open(Some(dir.to_owned()), 1).unwrap()
    }

    #[test]
    fn a_missing_directory_is_no_rule_until_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("policies");
        let book = book(&at);
        assert_eq!(book.status().rules, 0);
        assert_eq!(book.look(2, Look::IfTouched), None);
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join("a.toml"), RULE).unwrap();
        assert!(matches!(book.look(3, Look::IfTouched), Some(Change::Loaded(_))));
        assert_eq!((book.status().rules, book.status().loaded_at_ms), (1, 3));
        assert_eq!(book.look(4, Look::Anyway), None, "the same files");
        std::fs::remove_dir_all(&at).unwrap();
        assert!(matches!(book.look(5, Look::IfTouched), Some(Change::Refused(_))));
        assert_eq!(book.status().rules, 1, "a directory that is gone allows nothing");
        std::fs::create_dir(&at).unwrap();
        assert!(matches!(book.look(6, Look::Anyway), Some(Change::Loaded(_))));
        assert_eq!(book.status().rules, 0);
    }

    #[test]
    fn a_faulty_file_keeps_the_old_rules_says_why_once_and_is_forgiven() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        std::fs::write(&file, RULE).unwrap();
        let book = book(dir.path());
        let before = book.status();
        std::fs::write(&file, "deny_keywort = [\"x\"]\n").unwrap();
        let Some(Change::Refused(faults)) = book.look(2, Look::IfTouched) else { panic!("refused") };
        assert_eq!(faults[0].line, Some(1));
        let status = book.status();
        assert_eq!((&status.version, status.rules), (&before.version, 1));
        assert!(status.fault.unwrap().contains("a.toml, line 1, deny_keywort: "));
        assert_eq!(book.look(3, Look::Anyway), None, "said once");
        std::fs::write(&file, RULE).unwrap();
        assert_eq!(book.look(4, Look::Anyway), None);
        assert_eq!(book.status().fault, None);
        std::fs::write(&file, "").unwrap();
        std::fs::write(dir.path().join("b.toml"), [0xff, 0xfe]).unwrap();
        let Some(Change::Refused(faults)) = book.look(5, Look::IfTouched) else { panic!("refused") };
        assert!(faults[0].message.contains("UTF-8"), "{faults:?}");
    }

    #[test]
    fn a_change_of_the_same_size_within_the_same_moment_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        std::fs::write(&file, "deny_keyword = [\"one\"]").unwrap();
        let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
        let now_ms = WallMs::try_from(modified.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
        let book = book(dir.path());
        std::fs::write(&file, "deny_keyword = [\"two\"]").unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        assert!(matches!(book.look(now_ms, Look::IfTouched), Some(Change::Loaded(_))));
        std::fs::write(&file, "deny_keyword = [\"six\"]").unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        assert_eq!(book.look(now_ms + 3 * FRESH_MS, Look::IfTouched), None, "an old time is believed");
        assert!(matches!(book.look(now_ms, Look::Anyway), Some(Change::Loaded(_))), "on request all is read");
    }

    #[test]
    fn a_faulty_directory_does_not_open_and_names_all_that_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.toml"), "x = 1\n").unwrap();
        std::fs::write(dir.path().join("b.toml"), "\ny = 1\n").unwrap();
        std::fs::write(dir.path().join(".b.toml.swp"), "no").unwrap();
        std::fs::write(dir.path().join("notes.txt"), "no").unwrap();
        std::fs::write(dir.path().join("a.test.toml"), "no rule").unwrap();
        let faults = PolicyBook::open(Some(dir.path().to_owned()), 1).unwrap_err();
        let places: Vec<_> = faults.iter().map(Fault::place).collect();
        assert_eq!(places, ["a.toml, line 1", "b.toml, line 2"]);
        let file = dir.path().join("a.toml");
        assert!(PolicyBook::open(Some(file), 1).is_err(), "a file is no directory");
        std::fs::create_dir(dir.path().join("c.toml")).unwrap();
        assert!(
            PolicyBook::open(Some(dir.path().to_owned()), 1).unwrap_err()[0]
                .message
                .contains("cannot be read")
        );
    }
}

//! Where a hub lives: its data directory, and the `admin.json` through which commands find the running one.

use crate::failure::{Exit, Failure};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use switchboard_client::Secret;

/// The file in the data directory.
const FILE: &str = "admin.json";
/// Longest `admin.json` that is read.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Where data goes when nobody says: `$XDG_DATA_HOME/switchboard`, else `%LOCALAPPDATA%\switchboard` on Windows, else
/// `~/.local/share/switchboard`.
pub fn default_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let dir = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = dir("XDG_DATA_HOME")
        .or_else(|| if cfg!(windows) { dir("LOCALAPPDATA") } else { None })
        .or_else(|| dir("HOME").or_else(|| dir("USERPROFILE")).map(|home| home.join(".local/share")))?;
    Some(base.join("switchboard"))
}

/// The data directory: as asked for, as configured, or the default one.
pub fn data_dir(asked: Option<&Path>, configured: Option<&Path>) -> Result<PathBuf, Failure> {
    let chosen = asked.or(configured).filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned);
    let chosen = chosen.or_else(|| default_dir(|name| std::env::var_os(name)));
    let chosen = chosen.ok_or_else(|| {
        Failure::usage("There is no home directory to keep data in.").next("name one with --data-dir DIR")
    })?;
    std::path::absolute(&chosen).map_err(|error| Failure::file(&chosen, &error))
}

/// Makes the data directory, for its owner alone, where no store does.
#[cfg(feature = "postgres")]
pub fn make(dir: &Path) -> Result<(), Failure> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|error| Failure::file(dir, &error))
}

/// How the owner reaches the running hub.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Its address.
    pub url: String,
    /// The owner's bearer, of this run alone.
    pub token: Secret,
    /// The hub's process.
    pub pid: u32,
}

/// Makes a directory that nobody else may look into, if it is not there.
pub fn make_private(dir: &Path) -> Result<(), Failure> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|error| Failure::file(dir, &error))
}

/// Writes a file that nobody else may read, in one step: whoever reads it reads all of it.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let write = || {
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(dir)?; // mode 0600
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    write().map_err(|error| Failure::file(path, &error))
}

impl Admin {
    /// Writes `admin.json`, readable for its owner alone, in one step: whoever reads it reads all of it.
    pub fn write(&self, dir: &Path) -> Result<(), Failure> {
        let path = dir.join(FILE);
        let text = serde_json::json!({ "url": self.url, "token": self.token.expose(), "pid": self.pid });
        write_private(&path, format!("{text}\n").as_bytes())
    }

    /// Reads it; `None` when no hub has written one.
    pub fn read(dir: &Path) -> Result<Option<Self>, Failure> {
        let path = dir.join(FILE);
        let broken = |error: &dyn std::fmt::Display| {
            Failure::file(&path, error).next("stop the hub, remove the file, start the hub again")
        };
        let text = match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(broken(&error)),
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => return Err(broken(&"it is too large")),
            Ok(_) => std::fs::read_to_string(&path).map_err(|error| broken(&error))?,
        };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| broken(&error))?;
        let field = |name: &str| value[name].as_str().map(str::to_owned);
        let pid = value["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        match (field("url"), field("token"), pid) {
            (Some(url), Some(token), Some(pid)) => Ok(Some(Self { url, token: Secret::new(token), pid })),
            _ => Err(broken(&"it lacks url, token or pid")),
        }
    }

    /// Removes it, if it is still the one of this run.
    pub fn remove(&self, dir: &Path) {
        if matches!(Self::read(dir), Ok(Some(admin)) if admin.pid == self.pid) {
            // A file that stays behind is harmless: its token died with the process.
            let _ = std::fs::remove_file(dir.join(FILE));
        }
    }
}

/// No hub has written an `admin.json` in `dir`.
pub fn not_running(dir: &Path) -> Failure {
    let message = format!("No hub is running on {}.", dir.display());
    Failure::new(Exit::Unreachable, "SB0202", message)
        .next("`switchboard serve`, or --data-dir DIR or --url URL --token TOKEN of one that runs elsewhere")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_follows_the_platform() {
        let with = |pairs: &'static [(&str, &str)]| {
            default_dir(move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert_eq!(with(&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")]), Some("/x/switchboard".into()));
        assert_eq!(
            with(&[("XDG_DATA_HOME", "relative"), ("HOME", "/h")]),
            Some("/h/.local/share/switchboard".into())
        );
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn what_is_written_is_read_and_private() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Admin::read(dir.path()).unwrap().is_none());
        let admin = Admin { url: "http://127.0.0.1:1".into(), token: Secret::new("t"), pid: 7 };
        admin.write(dir.path()).unwrap();
        let read = Admin::read(dir.path()).unwrap().unwrap();
        assert_eq!((read.url.as_str(), read.token.expose(), read.pid), ("http://127.0.0.1:1", "t", 7));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        Admin { pid: 8, ..admin.clone() }.remove(dir.path());
        assert!(Admin::read(dir.path()).unwrap().is_some(), "another run's file stays");
        admin.remove(dir.path());
        assert!(Admin::read(dir.path()).unwrap().is_none());
    }

    #[test]
    fn a_damaged_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), r#"{"url":"x"}"#).unwrap();
        let failure = Admin::read(dir.path()).unwrap_err();
        assert_eq!((failure.exit, failure.sb.as_deref()), (Exit::Refused, Some("SB0205")));
        assert!(failure.message.contains("admin.json"), "{failure}");
    }
}

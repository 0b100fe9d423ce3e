//! Data directories that are made beside their place and moved there once everything in them holds.

use crate::failure::{Exit, Failure};
use std::fs;
use std::path::{Path, PathBuf};

/// The database in a data directory.
pub const DATABASE: &str = "switchboard.db";

/// Nothing may be in `dir`. `sb` is the code of what is refused otherwise.
pub fn check_empty(dir: &Path, sb: &str) -> Result<(), Failure> {
    let mut entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| Failure::file(dir, &error))?,
    };
    if entries.next().is_none() {
        Ok(())
    } else {
        let message = format!("{} is not empty. Nothing was changed.", dir.display());
        let next = "name a directory that is not there yet";
        Err(Failure::new(Exit::Refused, sb, message).next(next))
    }
}

/// The directory while it is made; gone again unless everything held.
pub struct Building {
    /// Where it stands meanwhile.
    pub path: PathBuf,
    done: bool,
}

impl Building {
    /// An empty one beside `dir`, under its name with a dot and `suffix` behind it.
    pub fn beside(dir: &Path, suffix: &str) -> Result<Self, Failure> {
        let mut name = dir.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{suffix}"));
        let path = dir.with_file_name(name);
        let parents = dir.parent().map_or(Ok(()), fs::create_dir_all);
        parents.and_then(|()| private_dir().create(&path)).map_err(|error| {
            Failure::file(&path, &error).next("remove it if an earlier one was interrupted")
        })?;
        Ok(Self { path, done: false })
    }

    /// Puts it in the place of `dir`, which holds nothing.
    pub fn rename(mut self, dir: &Path) -> Result<(), Failure> {
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
            // What stays behind is named when the next one meets it.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

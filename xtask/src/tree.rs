//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders that hold nothing written by hand.
const SKIPPED_FOLDERS: [&str; 5] = ["target", "node_modules", "__pycache__", "corpus", "artifacts"];

/// The root folder of the repository and the means to read what lies in it. All paths are relative to the root and
/// written with `/`.
#[derive(Debug, Clone)]
pub struct Repository {
    root: PathBuf,
}

impl Repository {
    /// The repository this crate was compiled in.
    pub fn open() -> Result<Self> {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the repository's root")?;
        Ok(Self { root: root.to_path_buf() })
    }

    /// A repository at any folder; for tests.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The text of one file.
    pub fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.root.join(path)).with_context(|| format!("reading {path}"))
    }

    /// Writes one file.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        fs::write(self.root.join(path), text).with_context(|| format!("writing {path}"))
    }

    /// Whether a file or folder is there.
    pub fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// All files whose name ends in `.extension`, sorted. Hidden folders and build output are passed over.
    pub fn files(&self, extension: &str) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.extend(walked(path));
                } else if path.extension().is_some_and(|own| own == extension) {
                    found.push(self.relative(&path)?);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn relative(&self, path: &Path) -> Result<String> {
        let path = path.strip_prefix(&self.root)?;
        Ok(path.to_str().context("a file name that is not UTF-8")?.replace('\\', "/"))
    }
}

fn walked(folder: PathBuf) -> Option<PathBuf> {
    let name = folder.file_name()?.to_str()?;
    let skipped = name.starts_with('.') || SKIPPED_FOLDERS.contains(&name) || folder.is_symlink();
    (!skipped).then_some(folder)
}

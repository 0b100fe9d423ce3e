//! The golden fixtures of the published crate, found through `cargo metadata`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The package whose fixtures are read.
const PACKAGE: &str = "lean-ctx-protocol";
/// Where they lie inside of it: protocol major 1.
const FOLDER: &str = "tests/fixtures/hive";

/// All fixtures by name (`bus.hello`, `enrollment.response`, …), as text exactly as published.
pub fn all() -> Result<BTreeMap<String, String>> {
    let folder = package_folder()?.join(FOLDER);
    let mut fixtures = BTreeMap::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        let name =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".json"));
        if let Some(name) = name {
            fixtures.insert(name.to_owned(), fs::read_to_string(&path)?);
        }
    }
    Ok(fixtures)
}

fn package_folder() -> Result<PathBuf> {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("running cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let package = packages.iter().find(|package| package["name"] == PACKAGE);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let folder = manifest.map(PathBuf::from).and_then(|manifest| Some(manifest.parent()?.to_path_buf()));
    folder.with_context(|| format!("{PACKAGE} is not among the dependencies"))
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn the_fixtures_are_found() {
        let fixtures = all().expect("fixtures");
        assert!(fixtures.contains_key("bus.hello") && fixtures.contains_key("vectors"));
        assert!(fixtures.len() > 150, "{}", fixtures.len());
    }
}

//! Packages that the product holds in more than one version, each with its reason.
//!
//! The list (`xtask/duplicates.txt`) is strict both ways: a duplicate that is not listed fails, and so does a line that
//! no longer matches, so that a version which went away is noticed and stays away.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use crate::Problems;
use crate::metadata::Graph;

type Versions = BTreeMap<String, BTreeSet<String>>;

/// Compares the graph with the list. A line of the list reads `name 0.9 1: reason`, naming versions as far as they
/// decide compatibility; `#` starts a comment line.
pub fn check(graph: &Graph, list: &str) -> Result<Problems> {
    let found = duplicates(graph);
    let listed = parse(list)?;
    let mut problems = Problems::new();
    for (name, versions) in &found {
        if listed.get(name) != Some(versions) {
            let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
            problems.push(format!(
                "{name} is there as {}: get rid of one, or list it with a reason in xtask/duplicates.txt",
                versions.join(" and ")
            ));
        }
    }
    for name in listed.keys().filter(|name| !found.contains_key(*name)) {
        problems.push(format!("{name} is no longer there twice: remove it from xtask/duplicates.txt"));
    }
    Ok(problems)
}

fn duplicates(graph: &Graph) -> Versions {
    let mut versions = Versions::new();
    for package in graph.shipped() {
        versions.entry(package.name.clone()).or_default().insert(compatible(&package.version));
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

/// The part of a version that decides compatibility: `1` of `1.2.3`, `0.9` of `0.9.5`, `0.0.7` of `0.0.7`.
fn compatible(version: &str) -> String {
    let bare = version.split(['-', '+']).next().unwrap_or(version);
    let parts: Vec<&str> = bare.split('.').collect();
    let decisive = parts.iter().position(|part| *part != "0").map_or(parts.len(), |first| first + 1);
    parts[..decisive].join(".")
}

fn parse(list: &str) -> Result<Versions> {
    let mut versions = Versions::new();
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (entry, reason) =
            line.split_once(':').with_context(|| format!("{line:?}: a reason after ':' is missing"))?;
        let mut words = entry.split_whitespace();
        let name = words.next().filter(|_| !reason.trim().is_empty());
        let name = name.with_context(|| format!("{line:?}: `name version version: reason` was expected"))?;
        versions.insert(name.to_owned(), words.map(str::to_owned).collect());
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{check, compatible};
    use crate::metadata::Graph;

    fn twice() -> Graph {
        let edges = [("ours", "rand@0.9.5", Value::Null), ("ours", "rand@0.10.4", Value::Null)];
        crate::metadata::tests::graph(&["ours"], &edges)
    }

    #[test]
    fn a_listed_duplicate_passes() {
        assert_eq!(
            check(&twice(), "# why\n\nrand 0.9 0.10: tungstenite\n").expect("a list"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_unlisted_one_a_changed_one_and_a_stale_one_fail() {
        assert_eq!(check(&twice(), "").expect("a list").len(), 1);
        assert_eq!(check(&twice(), "rand 0.8 0.10: old").expect("a list").len(), 1);
        assert_eq!(check(&twice(), "rand 0.9 0.10: x\nsyn 2 3: y").expect("a list").len(), 1);
    }

    #[test]
    fn a_line_without_reason_is_refused() {
        for line in ["rand 0.9 0.10", "rand 0.9 0.10:", ": reason"] {
            assert!(check(&twice(), line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn compatibility_is_decided_by_the_first_number_that_is_not_zero() {
        for (full, short) in [
            ("1.2.3", "1"),
            ("0.9.5", "0.9"),
            ("0.0.7", "0.0.7"),
            ("0.2.17+wasi", "0.2"),
            ("2.0.0-rc.1", "2"),
        ] {
            assert_eq!(compatible(full), short);
        }
    }
}

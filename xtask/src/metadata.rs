//! The dependency graph, as `cargo metadata` tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tree::Repository;

/// The platform the graph is resolved for. One fixed platform keeps the duplicates list the same for everybody, and
/// asks for nothing that building on it has not downloaded already.
pub const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Why one package needs another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Linked into the product.
    Normal,
    /// Runs while building it.
    Build,
    /// Used by tests only.
    Dev,
}

impl Kind {
    fn parse(value: &Value) -> Result<Self> {
        match value.as_str() {
            None | Some("normal") => Ok(Self::Normal),
            Some("build") => Ok(Self::Build),
            Some("dev") => Ok(Self::Dev),
            Some(other) => bail!("unknown dependency kind {other}"),
        }
    }
}

/// One package of the graph.
#[derive(Debug, Clone)]
pub struct Package {
    /// Name as in its manifest.
    pub name: String,
    /// Full version.
    pub version: String,
    /// SPDX expression, when the manifest has one.
    pub licence: Option<String>,
    /// What the manifest asks for, whether or not this platform and these features use it.
    pub declared: Vec<(String, Kind)>,
    /// Ids of the packages it resolved to.
    resolved: Vec<(String, Kind)>,
}

/// All packages of the workspace and below it.
#[derive(Debug, Clone)]
pub struct Graph {
    packages: BTreeMap<String, Package>,
    members: BTreeSet<String>,
}

impl Graph {
    /// Asks `cargo metadata` in the repository's root.
    pub fn load(repository: &Repository) -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--filter-platform", PLATFORM])
            .current_dir(repository.root())
            .output()
            .context("running cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        Self::parse(&serde_json::from_slice(&output.stdout)?)
    }

    /// Reads the document that `cargo metadata --format-version 1` prints.
    pub fn parse(document: &Value) -> Result<Self> {
        let mut edges = BTreeMap::new();
        for node in list(&document["resolve"]["nodes"])? {
            edges.insert(text(&node["id"])?, resolved_edges(node)?);
        }
        let mut packages = BTreeMap::new();
        for package in list(&document["packages"])? {
            let id = text(&package["id"])?;
            let resolved = edges.remove(&id).unwrap_or_default();
            packages.insert(id, parse_package(package, resolved)?);
        }
        let members = list(&document["workspace_members"])?.iter().map(text).collect::<Result<_>>()?;
        Ok(Self { packages, members })
    }

    /// The workspace's own packages.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.members.iter().filter_map(|id| self.packages.get(id))
    }

    /// Everything linked into or run for building the workspace's packages, they included; tests' needs left out.
    pub fn shipped(&self) -> Vec<&Package> {
        self.reach(self.members.iter(), &[Kind::Normal, Kind::Build])
    }

    /// Everything linked into the package of the workspace with this name, itself included.
    pub fn linked_into(&self, member: &str) -> Vec<&Package> {
        let start = self.members.iter().filter(|id| self.packages.get(*id).is_some_and(|p| p.name == member));
        self.reach(start, &[Kind::Normal])
    }

    fn reach<'a>(&'a self, start: impl Iterator<Item = &'a String>, kinds: &[Kind]) -> Vec<&'a Package> {
        let mut seen = BTreeSet::new();
        let mut waiting: Vec<&String> = start.collect();
        while let Some(id) = waiting.pop() {
            let Some(package) = self.packages.get(id) else { continue };
            if seen.insert(id) {
                waiting.extend(
                    package.resolved.iter().filter(|(_, kind)| kinds.contains(kind)).map(|(to, _)| to),
                );
            }
        }
        seen.into_iter().filter_map(|id| self.packages.get(id)).collect()
    }
}

fn parse_package(package: &Value, resolved: Vec<(String, Kind)>) -> Result<Package> {
    let mut declared = Vec::new();
    for dependency in list(&package["dependencies"])? {
        declared.push((text(&dependency["name"])?, Kind::parse(&dependency["kind"])?));
    }
    Ok(Package {
        name: text(&package["name"])?,
        version: text(&package["version"])?,
        licence: package["license"].as_str().map(str::to_owned),
        declared,
        resolved,
    })
}

fn resolved_edges(node: &Value) -> Result<Vec<(String, Kind)>> {
    let mut edges = Vec::new();
    for dependency in list(&node["deps"])? {
        for kind in list(&dependency["dep_kinds"])? {
            edges.push((text(&dependency["pkg"])?, Kind::parse(&kind["kind"])?));
        }
    }
    Ok(edges)
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().context("cargo metadata: a list was expected")
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().context("cargo metadata: a text was expected")?.to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Graph, Kind};
    use serde_json::{Value, json};

    /// A graph in which every dependency is declared and resolved alike. `kind` is `null`, `"build"` or `"dev"`.
    pub(crate) fn graph(members: &[&str], edges: &[(&str, &str, Value)]) -> Graph {
        let mut names: Vec<&str> = members.to_vec();
        for (from, to, _) in edges {
            names.extend([from, to]);
        }
        names.sort_unstable();
        names.dedup();
        let of = |name: &str| edges.iter().filter(move |(from, _, _)| *from == name).collect::<Vec<_>>();
        let packages: Vec<Value> = names
            .iter()
            .map(|name| {
                let (bare, version) = name.split_once('@').unwrap_or((name, "1.0.0"));
                let wanted: Vec<Value> =
                    of(name).iter().map(|(_, to, kind)| json!({"name": to, "kind": kind})).collect();
                json!({"id": name, "name": bare, "version": version, "license": "MIT", "dependencies": wanted})
            })
            .collect();
        let nodes: Vec<Value> = names
            .iter()
            .map(|name| {
                let found: Vec<Value> = of(name)
                    .iter()
                    .map(|(_, to, kind)| json!({"pkg": to, "dep_kinds": [{"kind": kind, "target": null}]}))
                    .collect();
                json!({"id": name, "deps": found})
            })
            .collect();
        let document =
            json!({"packages": packages, "workspace_members": members, "resolve": {"nodes": nodes}});
        Graph::parse(&document).expect("a well-formed document")
    }

    #[test]
    fn the_shipped_graph_leaves_out_what_only_tests_need() {
        let graph = graph(
            &["ours"],
            &[
                ("ours", "linked", Value::Null),
                ("ours", "built", json!("build")),
                ("ours", "tested", json!("dev")),
            ],
        );
        let names: Vec<&str> = graph.shipped().iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["built", "linked", "ours"]);
    }

    #[test]
    fn what_is_linked_is_followed_through_others() {
        let graph = graph(
            &["ours"],
            &[("ours", "a", Value::Null), ("a", "b", Value::Null), ("a", "c", json!("build"))],
        );
        let names: Vec<&str> =
            graph.linked_into("ours").iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "ours"]);
    }

    #[test]
    fn a_document_of_another_shape_is_refused() {
        assert!(Graph::parse(&json!({"packages": 1})).is_err());
        assert!(Kind::parse(&json!("odd")).is_err());
    }
}

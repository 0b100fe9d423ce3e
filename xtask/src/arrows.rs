//! Which crate may know which.
//!
//! The arrows are the architecture: `core` and `protocol` know nobody, `engine` knows ports but no driver, only the
//! binary wires a store to an engine. A heavy library belongs to one crate, so that replacing it touches one folder.

use crate::Problems;
use crate::metadata::{Graph, Kind, Package};

/// For each crate of the workspace, the workspace crates it may link.
const ARROWS: [(&str, &[&str]); 12] = [
    ("switchboard-protocol", &[]),
    ("switchboard-core", &[]),
    ("switchboard-store", &["switchboard-core"]),
    ("switchboard-channels", &["switchboard-core"]),
    ("switchboard-engine", &["switchboard-core", "switchboard-protocol"]),
    ("switchboard-console", &[]),
    (
        "switchboard-server",
        &["switchboard-core", "switchboard-protocol", "switchboard-engine", "switchboard-console"],
    ),
    ("switchboard-client", &["switchboard-protocol"]),
    ("switchboard", &EVERYTHING),
    (TESTKIT, &EVERYTHING),
    (STANDIN, &["switchboard-core", "switchboard-channels"]),
    ("xtask", &[]),
];

const EVERYTHING: [&str; 8] = [
    "switchboard-protocol",
    "switchboard-core",
    "switchboard-store",
    "switchboard-channels",
    "switchboard-console",
    "switchboard-engine",
    "switchboard-server",
    "switchboard-client",
];

/// Holds what tests share; nothing may link it outside of tests.
const TESTKIT: &str = "switchboard-testkit";
/// Stands in for services; nothing may link it outside of tests.
const STANDIN: &str = "switchboard-standin";

/// Heavy libraries and the crates that may name them. Tests and the testkit may use any.
const CONFINED: [(&str, &[&str]); 29] = [
    ("rusqlite", &["switchboard-store"]),
    ("libsqlite3-sys", &["switchboard-store"]),
    ("tokio-postgres", &["switchboard-store"]),
    ("tokio-postgres-rustls", &["switchboard-store"]),
    ("deadpool-postgres", &["switchboard-store"]),
    ("axum", &["switchboard-server"]),
    ("hyper", &["switchboard-server"]),
    ("hyper-util", &["switchboard-server"]),
    ("tower", &["switchboard-server"]),
    ("tower-http", &["switchboard-server"]),
    ("rmcp", &["switchboard-server"]),
    ("utoipa", &["switchboard-server"]),
    ("utoipa-axum", &["switchboard-server"]),
    ("prometheus-client", &["switchboard-server"]),
    ("reqwest", &["switchboard-client", "switchboard-channels"]),
    ("lettre", &["switchboard-channels"]),
    ("async-imap", &["switchboard-channels"]),
    ("mail-parser", &["switchboard-channels"]),
    ("pulldown-cmark", &["switchboard-channels"]),
    ("tokio-tungstenite", &["switchboard-client", "switchboard-channels"]),
    ("askama", &["switchboard-console"]),
    ("argon2", &["switchboard-engine"]),
    ("clap", &["switchboard"]),
    ("toml", &["switchboard-core", "switchboard"]),
    ("tracing-subscriber", &["switchboard"]),
    ("tracing-opentelemetry", &["switchboard"]),
    ("opentelemetry", &["switchboard"]),
    ("opentelemetry-otlp", &["switchboard"]),
    ("opentelemetry_sdk", &["switchboard"]),
];

/// Crates that must stay free of whole families of libraries, also through others.
const CLEAN: [(&str, &[&str]); 3] = [
    (
        "switchboard-protocol",
        &["tokio", "rusqlite", "axum", "hyper", "reqwest", "rustls", "ed25519-dalek", "tracing"],
    ),
    ("switchboard-core", &["tokio", "rusqlite", "axum", "hyper", "reqwest", "rustls"]),
    ("switchboard-engine", &["rusqlite", "axum", "hyper", "reqwest", "rustls"]),
];

/// Checks the arrows between our crates and the confinement of heavy libraries.
pub fn check(graph: &Graph) -> Problems {
    let mut problems = Problems::new();
    for member in graph.members() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == member.name) else {
            problems.push(format!("{}: a new crate needs its row in xtask/src/arrows.rs", member.name));
            continue;
        };
        problems.extend(arrows_of(member, allowed));
        problems.extend(confinement_of(member));
    }
    for (member, unwanted) in CLEAN {
        problems.extend(cleanliness_of(graph, member, unwanted));
    }
    problems
}

fn arrows_of(member: &Package, allowed: &[&str]) -> Problems {
    let ours = |name: &str| ARROWS.iter().any(|(own, _)| *own == name);
    let mut problems = Problems::new();
    for (to, kind) in member.declared.iter().filter(|(to, _)| ours(to)) {
        let for_tests = *kind == Kind::Dev && (to == TESTKIT || to == STANDIN || to == &member.name);
        if !for_tests && !allowed.contains(&to.as_str()) {
            problems.push(format!("{} must not depend on {to} ({kind:?})", member.name));
        }
    }
    problems
}

fn confinement_of(member: &Package) -> Problems {
    if member.name == TESTKIT || member.name == STANDIN {
        return Problems::new();
    }
    let mut problems = Problems::new();
    for (to, _) in member.declared.iter().filter(|(_, kind)| *kind != Kind::Dev) {
        let Some((_, owners)) = CONFINED.iter().find(|(library, _)| library == to) else { continue };
        if !owners.contains(&member.name.as_str()) {
            problems.push(format!("{} must not use {to}: it belongs to {}", member.name, owners.join(", ")));
        }
    }
    problems
}

fn cleanliness_of(graph: &Graph, member: &str, unwanted: &[&str]) -> Problems {
    let linked = graph.linked_into(member);
    let found = linked.iter().filter(|package| unwanted.contains(&package.name.as_str()));
    found.map(|package| format!("{member} must not link {}, not even through others", package.name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::check;
    use crate::metadata::tests::graph;

    fn problems(from: &str, to: &str, kind: Value) -> Vec<String> {
        check(&graph(&[from], &[(from, to, kind)]))
    }

    #[test]
    fn allowed_arrows_pass() {
        for (from, to) in [
            ("switchboard-store", "switchboard-core"),
            ("switchboard-engine", "switchboard-protocol"),
            ("switchboard", "switchboard-store"),
            ("switchboard-testkit", "switchboard-store"),
            ("switchboard-store", "rusqlite"),
        ] {
            assert_eq!(problems(from, to, Value::Null), Vec::<String>::new(), "{from} -> {to}");
        }
    }

    #[test]
    fn forbidden_arrows_are_named() {
        for (from, to) in [
            ("switchboard-core", "switchboard-protocol"),
            ("switchboard-protocol", "switchboard-core"),
            ("switchboard-engine", "switchboard-store"),
            ("switchboard-server", "switchboard-store"),
            ("switchboard-client", "switchboard-core"),
            ("switchboard-engine", "switchboard-testkit"),
            ("switchboard-engine", "rusqlite"),
            ("switchboard-core", "tokio"),
            ("switchboard-server", "reqwest"),
            ("xtask", "switchboard-core"),
        ] {
            let found = problems(from, to, Value::Null);
            assert!(found.iter().any(|problem| problem.contains(from) && problem.contains(to)), "{found:?}");
        }
    }

    #[test]
    fn tests_may_use_the_testkit_but_not_turn_an_arrow() {
        assert_eq!(problems("switchboard-engine", "switchboard-testkit", json!("dev")), Vec::<String>::new());
        assert_eq!(problems("switchboard-server", "reqwest", json!("dev")), Vec::<String>::new());
        assert_eq!(problems("switchboard-engine", "switchboard-store", json!("dev")).len(), 1);
    }

    #[test]
    fn a_library_that_slips_in_through_another_is_found() {
        let graph = graph(
            &["switchboard-engine"],
            &[("switchboard-engine", "innocent", Value::Null), ("innocent", "rusqlite", Value::Null)],
        );
        assert_eq!(check(&graph), ["switchboard-engine must not link rusqlite, not even through others"]);
    }

    #[test]
    fn an_unknown_crate_must_be_placed_first() {
        assert!(check(&graph(&["switchboard-extra"], &[]))[0].contains("switchboard-extra"));
    }
}

//! The bench on several nodes.

use super::CLUSTER;
use crate::cli::{program, run, temp};

#[test]
fn two_nodes_lose_nothing_between_them_and_leave_nothing_behind() {
    let (dir, store) = (temp(), CLUSTER.fresh_url());
    let mut bench = program(&["bench", "bus", "--nodes", "2", "--store", &store, "--json"]);
    bench.args(["--senders", "2", "--in-flight", "8", "--receivers", "2", "--seconds", "0.5"]);
    let report = run(bench.env("TMPDIR", dir.path())).json();
    assert_eq!(report["nodes"], 2);
    assert!(report["delivered_per_s"].as_f64().unwrap() > 0.0, "{report}");
    for name in ["lost", "duplicated", "misordered"] {
        assert_eq!(report[name], 0, "{report}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn nodes_need_a_store_to_share() {
    let ended = run(&mut program(&["bench", "bus", "--nodes", "2"]));
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("--store"), "{}", ended.stderr);
}

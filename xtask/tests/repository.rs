//! The checks of `cargo xtask`, on this repository, so that an ordinary test run includes them.

use xtask::metadata::Graph;
use xtask::ratchet::Mode;
use xtask::tree::Repository;
use xtask::{Problems, arrows, docs, duplicates, licences, sizes};

fn repository() -> Repository {
    Repository::open().expect("the repository")
}

fn graph() -> Graph {
    Graph::load(&repository()).expect("cargo metadata")
}

#[track_caller]
fn assert_none(problems: &Problems) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn crates_know_only_whom_they_may() {
    assert_none(&arrows::check(&graph()));
}

#[test]
fn licences_are_allowed() {
    assert_none(&licences::check(&graph()));
}

#[test]
fn duplicate_versions_are_listed() {
    let list = repository().read("xtask/duplicates.txt").expect("the list");
    assert_none(&duplicates::check(&graph(), &list).expect("a well-formed list"));
}

#[test]
fn sizes_and_ratchets_hold() {
    assert_none(&sizes::check(&repository(), Mode::Compare).expect("readable sources"));
}

#[test]
fn documents_match_the_code() {
    assert_none(&docs::check(&repository()).expect("readable documents"));
}

//! Repository chores that a compiler does not do: which crate may know which, under which licences others' code comes
//! in, how long files and functions may grow, and whether the documents still describe what is there.
//!
//! Each check is a function from the repository to a list of [`Problems`]; an empty list is a pass. The same functions
//! run as `cargo xtask <check>` and as ordinary tests (`tests/repository.rs`), so `cargo test` cannot pass them by.
//!
//! To add a check: a module here, one arm in `main.rs`, one test in `tests/repository.rs`.

pub mod arrows;
pub mod attributes;
pub mod docs;
pub mod duplicates;
pub mod licences;
pub mod metadata;
pub mod ratchet;
pub mod rust_text;
pub mod sizes;
pub mod spdx;
pub mod tree;

/// What a check found wrong: one sentence each, naming the place and the remedy. Empty means the check passed.
pub type Problems = Vec<String>;

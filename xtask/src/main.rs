//! Repository chores that are checked in CI.
fn main() {}

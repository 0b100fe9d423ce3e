//! One binary: our types against the published fixtures, the published types against ours, and a running hub against both.

mod differential;
mod fixtures;
mod live;
mod ours;
mod produced;
mod variants;

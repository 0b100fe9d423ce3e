//! Faults: what is acknowledged survives them, and nothing happens twice.

mod disk;
mod kill;
mod network;
mod proxy;
#[cfg(target_os = "linux")]
mod slow_loris;

//! Faults: what is acknowledged survives them, and nothing happens twice.

mod disk;
mod kill;

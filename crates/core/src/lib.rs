//! Switchboard: core.

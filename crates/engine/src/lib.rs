//! Switchboard: engine.

//! Switchboard: store.

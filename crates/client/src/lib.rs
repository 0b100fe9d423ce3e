//! Switchboard: client.

//! Switchboard: server.

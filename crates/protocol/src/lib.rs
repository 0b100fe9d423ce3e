//! Switchboard: protocol.

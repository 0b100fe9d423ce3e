//! Switchboard: testkit.

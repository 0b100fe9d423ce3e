//! End-to-end tests: a real hub, its real doors, clients on the bare wire.

mod bus;
mod cli;
mod faults;
mod mcp;
mod openapi;

//! The MCP door, as its clients see it.

mod gate;
mod lifecycle;
mod sessions;
mod swarm;
mod tools;
mod waiting;

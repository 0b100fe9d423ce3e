//! The doors: decode, authenticate, limit, and hand on. What a request means is decided in the engine; a door only turns
//! bytes into its commands and its answers into bytes.

pub mod mcp;

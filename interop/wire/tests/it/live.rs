//! A running hub against the published types: a whole story between two enrolled instances, in which every frame and every
//! body that the hub sends passes the referee ([`wire`] and [`socket`] see to that), and every signature verifies.
//!
//! Needs the program: the environment variable `SWITCHBOARD_BIN` names it.

mod engine;
mod http;
mod hub;
mod socket;
mod story;

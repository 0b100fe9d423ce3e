//! The client against scripted servers on loopback.

mod http;
mod hub;
mod reconnect;
mod slow;
mod socket;

//! The engine: the one flow from a command to what is delivered. It knows ports, not drivers, and doors do not reach
//! around it.
//!
//! A message's way: a door reads a frame and hands it to a [`session`]; [`submit`] decides and builds a write; the store
//! commits it with whatever else waits; [`stream`] is told and rings the followers; each [`follow`]s by its own cursor and
//! writes what [`viewer`] lets it see. To add a verb: a file in [`submit`], an arm in the session (or a door's route), and
//! its write in the store.

pub mod audit;
pub mod console;
pub mod credentials;
pub mod enroll;
#[cfg(feature = "fault-points")]
pub mod fault;
#[cfg(not(feature = "fault-points"))]
mod fault;
pub mod follow;
pub mod frame;
pub mod govern;
pub mod hub;
pub mod inbox;
pub mod manage;
mod nodes;
pub mod once;
pub mod outbound;
pub mod policy;
pub mod presence;
pub mod read;
pub mod refusal;
pub mod refusals;
pub mod session;
pub mod settings;
pub mod stream;
pub mod submit;
mod timers;
pub mod viewer;

pub use hub::{Founding, Hub, Ports, StartError};
pub use settings::Settings;

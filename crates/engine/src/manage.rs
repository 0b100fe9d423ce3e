//! Managing the hub: what its owner does from a terminal or the console. Every function needs the `admin` right, checked
//! at the door through [`crate::submit::permit`].

pub mod devices;
pub mod policy;
pub mod status;
pub mod swarms;
pub mod tasks;
pub mod tokens;
pub mod vaults;

//! What is true without I/O: identifiers, time, rights, keys, the event log's chain, and the ports through which the
//! engine reaches the world. Nothing here opens a file or a socket; a backend or a door implements what [`port`] promises.
//!
//! Where to look: ids and their encodings in [`ids`], message ids in [`gid`], who may do what in [`rights`] and
//! [`principal`], what a store must promise in [`port::store`], every bound in [`limits`].

pub mod console;
pub mod digest;
pub mod event;
pub mod gid;
pub mod ids;
pub mod keys;
pub mod ledger;
pub mod limits;
pub mod log;
pub mod outbound;
pub mod policy;
pub mod port;
pub mod principal;
pub mod random;
pub mod rights;
pub mod time;
pub mod write;

pub use secrecy::{ExposeSecret, SecretString};

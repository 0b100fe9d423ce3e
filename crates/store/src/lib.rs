//! Who remembers and who wakes: backends of [`switchboard_core::port::store::Store`] and
//! [`switchboard_core::port::doorbell::Doorbell`].
//!
//! Where to look: what a store promises stands at the port; the embedded backend in [`sqlite`]; the one for
//! several nodes in `postgres` (feature `postgres`); what each write does on either in `rules`; the suite that proves the
//! promises for every backend in `conformance` (feature `conformance`). To add a backend: implement the port and run
//! every function of the suite against it.

mod rules;

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod doorbell;
pub mod moving;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod sqlite;

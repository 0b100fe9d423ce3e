//! This backend's own ways of doing what is done for every message; all else is in [`crate::rules`].

mod append;
mod rows;
mod sweep;

pub(crate) use crate::rules::apply;

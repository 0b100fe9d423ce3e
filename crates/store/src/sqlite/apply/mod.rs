//! The rules of [`crate::rules`] on SQLite.

mod rows;

pub(crate) use crate::rules::apply;

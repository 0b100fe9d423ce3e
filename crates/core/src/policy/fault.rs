//! What is wrong in a directory of rules, said so that it can be corrected.

use std::fmt;

/// One thing that keeps rules from being loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file's name.
    pub file: String,
    /// Line, from 1; absent when the file as a whole is meant.
    pub line: Option<usize>,
    /// `table.field`, as written in the file; empty when there is none.
    pub field: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Fault {
    /// A fault of a whole file.
    pub fn of_file(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, field: String::new(), message: message.into() }
    }

    /// Where it is, without anything that stands in the file: for logs.
    #[must_use]
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}, line {line}", self.file),
            None => self.file.clone(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => write!(out, "{}: {}", self.place(), self.message),
            field => write!(out, "{}, {field}: {}", self.place(), self.message),
        }
    }
}

impl std::error::Error for Fault {}

/// Several faults, one a line.
#[must_use]
pub fn listed(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}

//! How a command ends when it does not succeed: a sentence, a code with a page, what to do next, and an exit code
//! (DESIGN section 4).

use std::fmt;
use std::process::ExitCode;
use switchboard_client::Error;
use switchboard_protocol::Detail;

/// Exit codes that scripts may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The answer is "no": a broken log, a check that failed, nobody answered.
    No = 1,
    /// The command was used wrongly.
    Usage = 2,
    /// The hub refused, or refused to start.
    Refused = 3,
    /// The hub is not reachable.
    Unreachable = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// Code of the page in `docs/errors`; absent when the output itself already says everything.
    pub sb: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do next: one sentence or command.
    pub next: Option<String>,
}

impl Failure {
    /// A failure with its page.
    pub fn new(exit: Exit, sb: &str, message: impl Into<String>) -> Self {
        Self { exit, sb: Some(sb.to_owned()), message: message.into(), next: None }
    }

    /// The answer is no, and it was printed already.
    pub fn no(message: impl Into<String>) -> Self {
        Self { exit: Exit::No, sb: None, message: message.into(), next: None }
    }

    /// The command was used wrongly.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "SB0201", message)
    }

    /// A file or directory cannot be used.
    pub fn file(path: &std::path::Path, error: &dyn fmt::Display) -> Self {
        Self::new(Exit::Refused, "SB0205", format!("Cannot use {}: {error}.", path.display()))
    }

    /// Adds what to do next.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sb {
            Some(sb) => write!(out, "error {sb}: {}", self.message)?,
            None => out.write_str(&self.message)?,
        }
        if let Some(next) = &self.next {
            write!(out, "\n  next: {next}")?;
        }
        if let Some(sb) = &self.sb {
            write!(out, "\n  more: switchboard explain {sb}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// What the hub refused.
impl From<&Detail> for Failure {
    fn from(detail: &Detail) -> Self {
        let mut message = detail.message.clone();
        if let Some(field) = detail.field.as_deref().filter(|field| !message.contains(*field)) {
            message = format!("{field}: {message}");
        }
        // The hub speaks of its routes; who sits at a terminal has commands.
        let next = match detail.sb.as_deref() {
            Some("SB0106") => Some("`switchboard agents` shows who can be written to"),
            Some("SB0107") => Some("`switchboard token list` shows the instances"),
            _ => None,
        };
        Self { exit: Exit::Refused, sb: detail.sb.clone(), message, next: next.map(str::to_owned) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Refused(detail) | Error::Unauthorized(detail) => Self::from(detail),
            Error::Invalid(invalid) => Self::new(Exit::Usage, "SB0101", invalid.message.clone()),
            Error::Option(_) => Self::usage(error.to_string()),
            Error::Unreachable(_) | Error::Closed => {
                Self::new(Exit::Unreachable, "SB0202", format!("The hub is not reachable: {error}."))
            }
            Error::Timeout => Self::new(Exit::Unreachable, "SB0202", "The hub did not answer in time."),
            Error::Protocol(_) => Self::new(Exit::Unreachable, "SB0202", error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_protocol::Code;

    #[test]
    fn a_refusal_keeps_its_code_and_names_its_field() {
        let detail = Detail::new(Code::NotFound, "No such vault.").field("channel").sb("SB0115");
        let failure = Failure::from(Error::Refused(detail));
        assert_eq!(failure.exit, Exit::Refused);
        let text = failure.next("switchboard vault list").to_string();
        assert_eq!(
            text,
            "error SB0115: channel: No such vault.\n  next: switchboard vault list\n  more: switchboard explain SB0115"
        );
    }
}

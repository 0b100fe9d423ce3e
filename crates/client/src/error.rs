//! What can go wrong, by what a caller can do about it.

use switchboard_protocol::{Code, Detail, Invalid};

/// Why a call did not succeed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The server refused this request. Correct it; the connection is fine.
    #[error("the server refused: {0}")]
    Refused(Detail),
    /// The bearer is not accepted (any more). Get another one; this client is closed for good.
    #[error("the server does not accept this token: {0}")]
    Unauthorized(Detail),
    /// The request breaks a rule of the wire and was not sent.
    #[error("not sent: {0}")]
    Invalid(Invalid),
    /// No answer in time. Whether the server acted is unknown: repeat under the same id to find out.
    #[error("no answer in time; whether it was stored is unknown, repeat it under the same id")]
    Timeout,
    /// The server cannot be reached.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The server speaks something this client does not understand.
    #[error("unexpected answer of the server: {0}")]
    Protocol(String),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
    /// An option cannot be used.
    #[error("option {0}")]
    Option(String),
}

impl Error {
    /// The error of a refusal: a refused bearer is its own kind, because no request will succeed with it.
    pub(crate) fn refused(detail: Detail) -> Self {
        match detail.code {
            Code::Unauthorized | Code::InstanceRevoked | Code::LeaseExpired => Self::Unauthorized(detail),
            _ => Self::Refused(detail),
        }
    }

    /// Whether dialing again cannot help. What a proxy says while the server restarts, such as "not found", does not count.
    pub(crate) fn ends_dialing(&self) -> bool {
        match self {
            Self::Unauthorized(_) | Self::Option(_) | Self::Invalid(_) | Self::Closed => true,
            Self::Refused(detail) => matches!(detail.code, Code::ForbiddenRight | Code::UpgradeRequired),
            Self::Timeout | Self::Unreachable(_) | Self::Protocol(_) => false,
        }
    }

    /// Whether announcing the same agents again cannot help.
    pub(crate) fn ends_greeting(&self) -> bool {
        match self {
            Self::Refused(detail) => detail.code != Code::RateLimited && detail.code.http_status() < 500,
            other => other.ends_dialing(),
        }
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

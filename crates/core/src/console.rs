//! How a person gets into the console from a browser: one-time links, passwords, sessions. They live in the store, so that any
//! node serves any browser; what the store keeps of a secret is its hash.

use crate::digest::Digest;
use crate::ids::PersonNo;
use crate::time::{DAY_MS, MINUTE_MS, WallMs};

/// Life of a one-time link.
pub const LINK_MS: WallMs = 15 * MINUTE_MS;
/// Links of one person that may wait at a time.
pub const LINKS_MAX: u32 = 16;
/// A session that was not used for so long is over.
pub const SESSION_IDLE_MS: WallMs = 3 * DAY_MS;
/// A session is over after so long, however much it is used.
pub const SESSION_MS: WallMs = 30 * DAY_MS;
/// How often the use of a session is written down.
pub const SESSION_TOUCH_MS: WallMs = 5 * MINUTE_MS;
/// Sessions of one person; beyond that, the one that was not used for longest ends.
pub const SESSIONS_MAX: usize = 32;
/// Longest description of a browser that is kept, in characters.
pub const BROWSER_CHARS_MAX: usize = 120;

/// A session about to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Hash of the secret in the cookie.
    pub hash: Digest,
    /// Public id, `cs_…`: how it is named in lists and in the log.
    pub session_id: String,
    /// What the browser calls itself, at most [`BROWSER_CHARS_MAX`].
    pub browser: String,
}

/// A change of who may enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsoleWrite {
    /// A link that lets its holder in once, for [`LINK_MS`]. → [`crate::write::Outcome::Done`] or
    /// [`crate::write::Refusal::Full`].
    MintLink {
        /// As whom.
        person: PersonNo,
        /// Hash of its secret.
        hash: Digest,
    },
    /// A link is used up and a session begins. → [`crate::write::Outcome::Entered`], or [`crate::write::Refusal::NotFound`]
    /// for one that is unknown, over or used.
    Enter {
        /// Hash of the link's secret.
        link: Digest,
        /// The session.
        session: NewSession,
    },
    /// A password was verified and a session begins. → [`crate::write::Outcome::Entered`], or
    /// [`crate::write::Refusal::NotFound`] when the password was changed since.
    SignIn {
        /// Who.
        person: PersonNo,
        /// What the password was verified against.
        verifier: String,
        /// The session.
        session: NewSession,
    },
    /// A session is in use. → [`crate::write::Outcome::Done`] or [`crate::write::Refusal::NotFound`]. Not in the log.
    Touch {
        /// Hash of its secret.
        session: Digest,
    },
    /// A session ends. → [`crate::write::Outcome::Done`] or [`crate::write::Refusal::NotFound`].
    End {
        /// Whose.
        person: PersonNo,
        /// Its public id.
        session_id: String,
    },
    /// All sessions of a person but one end. → [`crate::write::Outcome::Done`].
    EndOthers {
        /// Whose.
        person: PersonNo,
        /// Public id of the one that stays.
        keep: String,
    },
    /// A person has a password from now on, or another one; all their sessions but one end. → [`crate::write::Outcome::Done`]
    /// or [`crate::write::Refusal::NotFound`] when `keep` is no session of theirs.
    SetPassword {
        /// Who.
        person: PersonNo,
        /// What it is verified against: a PHC string.
        verifier: String,
        /// Public id of the session that asks, and stays.
        keep: String,
    },
}

impl ConsoleWrite {
    /// The verb as the log names it.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::MintLink { .. } => "console.link",
            Self::Enter { .. } => "console.enter",
            Self::SignIn { .. } => "console.sign_in",
            Self::Touch { .. } => "console.touch",
            Self::End { .. } | Self::EndOthers { .. } => "console.sign_out",
            Self::SetPassword { .. } => "console.password",
        }
    }
}

/// A session that is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Public id.
    pub session_id: String,
    /// Whose.
    pub person: PersonNo,
    /// Their display name.
    pub person_name: String,
    /// What the browser calls itself.
    pub browser: String,
    /// When it began.
    pub created_ms: WallMs,
    /// When it was last used, to within [`SESSION_TOUCH_MS`].
    pub seen_ms: WallMs,
    /// When it is over unless it is used before.
    pub ends_ms: WallMs,
}

/// What a sign-in by password is checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginRow {
    /// Who.
    pub person: PersonNo,
    /// What their password is verified against: a PHC string.
    pub verifier: String,
}

//! Everything that crosses a socket: frames, HTTP bodies, errors, limits, and the parsers that refuse what does not belong.
//!
//! This crate knows the wire and nothing else: no I/O, no clock, no randomness, no storage. Names, fields and limits follow
//! the published contract (protocol major 1, minor 9); extensions of our own are marked as such at the field.
//!
//! The way of a frame: [`json::scan`] checks the whole text once (size, depth, grammar, duplicate keys) and finds its tag,
//! [`frame::client::parse`] then reads exactly one typed shape, borrowing from the text. A refusal is always an
//! [`error::Detail`] that names the field and the remedy.
//!
//! To add a frame: a struct beside its kin with `deny_unknown_fields` and a `validate`, a variant in the enum of its
//! direction, one arm in that enum's `parse`, and a fixture under `fixtures/`.

pub mod admin;
pub mod body;
pub mod bus;
pub mod canonical;
pub mod enroll;
pub mod error;
pub mod fence;
pub mod frame;
pub mod json;
pub mod lease;
pub mod limits;
pub mod message;
pub mod messaging;
pub mod outbound;
pub mod profile;
pub mod text;
pub mod time;
pub mod vault;

mod de;

pub use error::{Code, Detail};
pub use text::Invalid;
pub use time::UtcTime;

/// Major protocol version; a peer of another major is refused with [`Code::UpgradeRequired`].
pub const PROTOCOL_MAJOR: u16 = 1;
/// Minor protocol version; minors only add optional response fields or routes.
pub const PROTOCOL_MINOR: u16 = 9;
/// Value of the [`HEADER_PROTOCOL`] header on every response.
pub const PROTOCOL_VERSION: &str = "1.9";
/// Header with `major.minor` of the sender.
pub const HEADER_PROTOCOL: &str = "Hive-Protocol";
/// Header with the instance id on authenticated requests.
pub const HEADER_INSTANCE: &str = "Hive-Instance";
/// Header with the client-chosen key of a POST; a replay gets the first response byte for byte.
pub const HEADER_IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// Header by which a peer asks for the vault names; [`NAMES_VAULT`] is its value. Every answer here uses them anyway.
pub const HEADER_NAMES: &str = "Hive-Names";
/// The only value of [`HEADER_NAMES`] in use.
pub const NAMES_VAULT: &str = "vault";

/// Whether a `Hive-Protocol` header value is of our major. Malformed values are not.
pub fn protocol_compatible(value: &str) -> bool {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse::<u16>().ok()).flatten()
    };
    value
        .trim()
        .split_once('.')
        .is_some_and(|(major, minor)| number(major) == Some(PROTOCOL_MAJOR) && number(minor).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_major_is_compatible() {
        assert!(protocol_compatible("1.0") && protocol_compatible(" 1.9 "));
        for other in ["2.0", "1", "1.", ".9", "1.x", "01x.0", "-1.0", "1.99999999"] {
            assert!(!protocol_compatible(other), "{other}");
        }
        assert_eq!(PROTOCOL_VERSION, format!("{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}"));
    }
}

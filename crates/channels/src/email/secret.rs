//! The secret reply address: proof that who answers a mail had it.
//!
//! Each mail is sent with a `Reply-To` of its own, `answers+<delivery>.<proof>@example.org`. The proof is an HMAC over the delivery's id and
//! the recipient's address, so that nobody can make one up, and one that leaks is good for nothing but an answer that claims to be
//! from the same person to the same mail.

use super::address;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::fmt;
use switchboard_core::ids::base32;

/// Bytes of the HMAC that stand in the address.
const PROOF_BYTES: usize = 10;
/// Longest local part (RFC 5321, 4.5.3.1.1).
const LOCAL_BYTES_MAX: usize = 64;
const PLACEHOLDER: &str = "{token}";
const CONTEXT: &[u8] = b"switchboard reply address v1";

/// The key under which reply addresses are made. It cannot be printed.
#[derive(Clone)]
pub struct ReplyKey([u8; 32]);

impl ReplyKey {
    /// 32 random bytes that stay the same over restarts and on all nodes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for ReplyKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ReplyKey(..)")
    }
}

/// Makes and recognises reply addresses.
#[derive(Debug, Clone)]
pub(super) struct ReplyAddress {
    before: String,
    after: String,
    key: ReplyKey,
}

/// What a reply address says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// The delivery that it was made for, in lower case.
    pub delivery: String,
    proof: String,
}

impl ReplyAddress {
    /// `template` is an address with `{token}` once before its `@`.
    pub fn new(template: &str, key: ReplyKey) -> Result<Self, String> {
        let refused = |why: String| format!("reply_to: {why}; it looks like 'answers+{{token}}@example.org'");
        let (before, after) =
            template.split_once(PLACEHOLDER).ok_or_else(|| refused("it has no '{token}'".to_owned()))?;
        if !after.contains('@') {
            return Err(refused("'{token}' must stand before the '@'".to_owned()));
        }
        let whole = address::normalise(&format!("{before}0.0{after}")).map_err(refused)?;
        let (before, after) = whole.split_once("0.0").unwrap_or_default();
        Ok(Self { before: before.to_owned(), after: after.to_owned(), key })
    }

    /// The address to which `to` answers `delivery`; `None` when it would be longer than an address can be.
    pub fn make(&self, delivery: &str, to: &str) -> Option<String> {
        let delivery = delivery.to_lowercase();
        let proof = self.proof(&delivery, to);
        let address = format!("{}{delivery}.{proof}{}", self.before, self.after);
        (address.find('@')? <= LOCAL_BYTES_MAX).then_some(address)
    }

    /// What `address`, normalised, says if it is one of these.
    pub fn read(&self, address: &str) -> Option<Token> {
        let token = address.strip_prefix(&self.before)?.strip_suffix(&self.after)?;
        let (delivery, proof) = token.rsplit_once('.')?;
        let shaped =
            !delivery.is_empty() && delivery.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        shaped.then(|| Token { delivery: delivery.to_owned(), proof: proof.to_owned() })
    }

    /// Whether the token was made for a mail to `from`.
    pub fn proves(&self, token: &Token, from: &str) -> bool {
        let expected = self.proof(&token.delivery, from);
        // The time must not say how much of a guess was right.
        let differ = expected.bytes().zip(token.proof.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
        differ == 0 && expected.len() == token.proof.len()
    }

    fn proof(&self, delivery: &str, to: &str) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key.0) else { return String::new() };
        for part in [CONTEXT, delivery.as_bytes(), to.as_bytes()] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        base32(&mac.finalize().into_bytes()[..PROOF_BYTES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELIVERY: &str = "dlv_01kb9r7c8gz2v5t0x3m4n6p7qs";

    fn made(key: u8) -> ReplyAddress {
        ReplyAddress::new("Answers+{token}@Example.org", ReplyKey::new([key; 32])).unwrap()
    }

    #[test]
    fn an_address_proves_its_delivery_and_its_person_and_nothing_else() {
        let ours = made(1);
        let address = ours.make(DELIVERY, "ada@example.net").unwrap();
        assert!(address.starts_with("answers+dlv_01kb") && address.ends_with("@example.org"), "{address}");
        assert_eq!(address::normalise(&address.to_uppercase()).as_deref(), Ok(address.as_str()));
        let token = ours.read(&address).unwrap();
        assert_eq!(token.delivery, DELIVERY);
        assert!(ours.proves(&token, "ada@example.net"));
        assert!(!ours.proves(&token, "eve@example.net"), "somebody else's answer");
        assert!(!made(2).proves(&token, "ada@example.net"), "another key");
        let other = ours.read(&address.replace("7qs.", "7qt.")).unwrap();
        assert!(!ours.proves(&other, "ada@example.net"), "another delivery");
        for cut in [
            Token { proof: String::new(), ..token.clone() },
            Token { proof: token.proof[..8].into(), ..token },
        ] {
            assert!(!ours.proves(&cut, "ada@example.net"));
        }
    }

    #[test]
    fn what_is_not_one_is_not_read_and_what_cannot_be_one_is_not_made() {
        let ours = made(1);
        for other in [
            "answers@example.org",
            "answers+x@example.org",
            "answers+a b.c@example.org",
            "answers+x.y@evil.test",
        ] {
            assert_eq!(ours.read(other), None, "{other}");
        }
        assert_eq!(ours.make(&"d".repeat(64), "ada@example.net"), None);
        for wrong in ["answers@example.org", "a@{token}.org", "a b{token}@example.org", "{token}"] {
            let refused = ReplyAddress::new(wrong, ReplyKey::new([0; 32])).unwrap_err();
            assert!(refused.starts_with("reply_to: "), "{refused}");
        }
        assert_eq!(format!("{:?}", ReplyKey::new([7; 32])), "ReplyKey(..)");
    }
}

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

/// Bytes of the HMAC that stand in the address: 80 bits, the least that is safe against guessing.
const PROOF_BYTES: usize = 10;
/// A token of the length that the hub's have: the id of a mail's only part, and a proof.
const TOKEN_SAMPLE: &str = "snd_00000000000000000000000000-1.0000000000000000";
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
    /// `template` is an address with `{token}` once before its `@`, and with room for it there.
    pub fn new(template: &str, key: ReplyKey) -> Result<Self, String> {
        let refused = |why: String| format!("reply_to: {why}; it looks like 'answers+{{token}}@example.org'");
        let (before, after) =
            template.split_once(PLACEHOLDER).ok_or_else(|| refused("it has no '{token}'".to_owned()))?;
        let Some((behind, _)) = after.split_once('@') else {
            return Err(refused("'{token}' must stand before the '@'".to_owned()));
        };
        let beside = before.trim_start().to_lowercase().len() + behind.to_lowercase().len();
        let room = LOCAL_BYTES_MAX - TOKEN_SAMPLE.len();
        if beside > room {
            return Err(refused(format!(
                "{room} bytes may stand beside '{{token}}' before the '@', and there are {beside}"
            )));
        }
        let whole = address::normalise(&format!("{before}{TOKEN_SAMPLE}{after}")).map_err(refused)?;
        let (before, after) = whole.split_once(TOKEN_SAMPLE).unwrap_or_default();
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
    use switchboard_core::outbound::send::delivery_id;
    use switchboard_core::random::{self, SystemEntropy};

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
    fn a_template_that_is_accepted_has_room_for_what_the_hub_sends() {
        let send = random::public_id("snd", &SystemEntropy, 1_800_000_000_000);
        let delivery = delivery_id(&send, 1, 0);
        let token = format!("{delivery}.{}", made(1).proof(&delivery, "ada@example.net"));
        assert_eq!(token.len(), TOKEN_SAMPLE.len());
        for fits in ["a-name-of-fift+{token}@example.org", "sw+{token}.twelve.more@example.org"] {
            let ours = ReplyAddress::new(fits, ReplyKey::new([1; 32])).unwrap();
            let address = ours.make(&delivery, "ada@example.net").unwrap();
            assert_eq!(address::normalise(&address).as_deref(), Ok(address.as_str()));
            assert!(ours.proves(&ours.read(&address).unwrap(), "ada@example.net"));
        }
        for long in ["a-name-of-sixtee+{token}@example.org", "sw+{token}.thirteen.more@example.org"] {
            let refused = ReplyAddress::new(long, ReplyKey::new([1; 32])).unwrap_err();
            assert!(refused.starts_with("reply_to: 15 bytes may stand beside '{token}'"), "{refused}");
        }
        let zeros = ReplyAddress::new("0.0+{token}@example.org", ReplyKey::new([1; 32])).unwrap();
        assert!(zeros.make(&delivery, "ada@example.net").unwrap().starts_with("0.0+snd_"));
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

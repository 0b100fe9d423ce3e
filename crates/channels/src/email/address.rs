//! Mail addresses in the one form in which they are compared.
//!
//! The domain is lower case and in its ASCII form (IDNA). The local part is lower case as well: RFC 5321 lets a server tell `Ada@` from
//! `ada@`, none that people use does, and a person who is paired under one of them must not be a stranger under the other.

/// Longest address, in bytes (RFC 5321, 4.5.3.1.3, without its brackets).
pub const ADDRESS_BYTES_MAX: usize = 254;
const LOCAL_BYTES_MAX: usize = 64;
const SHAPE: &str =
    "a mail address looks like 'ada@example.org': one address, without a name, quotes or brackets";

/// The normalised form of one bare address, or a sentence that says what one looks like.
pub fn normalise(address: &str) -> Result<String, String> {
    let address = address.trim();
    let refused = |why: &str| format!("{why}; {SHAPE}");
    let (local, domain) = address.rsplit_once('@').ok_or_else(|| refused("there is no '@'"))?;
    if local.is_empty() || local.len() > LOCAL_BYTES_MAX {
        return Err(refused("what stands before the '@' must have 1 to 64 bytes"));
    }
    if !local.split('.').all(is_atom) {
        return Err(refused("what stands before the '@' has a character that is not allowed there"));
    }
    let domain =
        domain_of(domain).ok_or_else(|| refused("what stands behind the '@' is not a domain name"))?;
    let normalised = format!("{}@{domain}", local.to_lowercase());
    if normalised.len() > ADDRESS_BYTES_MAX {
        return Err(refused("it is longer than 254 bytes"));
    }
    Ok(normalised)
}

/// A dot-atom's part (RFC 5322, 3.2.3, with the letters of RFC 6531).
fn is_atom(part: &str) -> bool {
    let allowed = |c: char| {
        c.is_ascii_alphanumeric()
            || "!#$%&'*+-/=?^_`{|}~".contains(c)
            || (!c.is_ascii() && c.is_alphanumeric())
    };
    !part.is_empty() && part.chars().all(allowed)
}

fn domain_of(domain: &str) -> Option<String> {
    let ascii = idna::domain_to_ascii_strict(domain).ok()?;
    let labels = ascii.split('.').count() > 1 && ascii.split('.').all(|label| !label.is_empty());
    let named = ascii.rsplit('.').next().is_some_and(|last| !last.bytes().all(|byte| byte.is_ascii_digit()));
    (labels && named).then_some(ascii)
}

/// Domain of a normalised address.
pub(super) fn domain(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_person_has_one_address() {
        for (written, compared) in [
            (" Ada@Example.ORG ", "ada@example.org"),
            ("ada+tag@example.org", "ada+tag@example.org"),
            ("JÜRGEN@BÜCHER.example", "jürgen@xn--bcher-kva.example"),
            ("o'neil@mail.example.org", "o'neil@mail.example.org"),
        ] {
            assert_eq!(normalise(written).as_deref(), Ok(compared));
            assert_eq!(normalise(compared).as_deref(), Ok(compared));
        }
    }

    #[test]
    fn whatever_is_more_than_one_bare_address_is_refused() {
        let long = format!("{}@example.org", "a".repeat(65));
        let longer = format!("ada@{}org", "abcdefgh.".repeat(30));
        for wrong in [
            "",
            "ada",
            "@example.org",
            "ada@",
            "ada@localhost",
            "ada@10.0.0.1",
            "ada@[10.0.0.1]",
            "Ada <ada@example.org>",
            "ada@example.org, bob@example.org",
            "ada@example.org\r\nBcc: eve@example.org",
            "\"a b\"@example.org",
            "a b@example.org",
            ".ada@example.org",
            "a..b@example.org",
            "ada@exa mple.org",
            "ada@example..org",
            "a@b@example.org",
            "ada\u{202E}@example.org",
            "ada@example.org.",
            &long,
            &longer,
        ] {
            assert!(normalise(wrong).is_err(), "{wrong:?}");
        }
    }
}

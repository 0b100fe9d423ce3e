//! The identifiers of Matrix (specification, appendix "Identifier Grammar").

use crate::handle;
use std::net::Ipv6Addr;
use switchboard_core::port::channel::AddressKind;

/// Longest identifier, in bytes, its sigil included.
pub const ID_BYTES_MAX: usize = 255;

const USER: &str = "must be a Matrix user id like @ada:example.org";
const ROOM: &str = "must be a Matrix room id like !opaque:example.org or an alias like #team:example.org";

/// The one form of an address: a user id for a person, a room id or alias for a shared channel; the server's name in small letters.
pub fn normalise(kind: AddressKind, to: &str) -> Result<String, String> {
    let to = to.trim();
    let found = match kind {
        AddressKind::Direct => to.strip_prefix('@').and_then(|rest| full('@', rest, is_localpart)),
        AddressKind::Channel => room(to),
    };
    let wanted = if kind == AddressKind::Direct { USER } else { ROOM };
    found.filter(|id| id.len() <= ID_BYTES_MAX).ok_or_else(|| wanted.to_owned())
}

fn room(to: &str) -> Option<String> {
    match to.chars().next()? {
        '#' => full('#', &to[1..], is_opaque),
        // Since room version 12 an id names no server.
        '!' if is_room(to) && !to.contains(':') => Some(to.to_owned()),
        '!' => full('!', &to[1..], is_opaque),
        _ => None,
    }
}

fn full(sigil: char, rest: &str, is_local: fn(&str) -> bool) -> Option<String> {
    let (local, server) = rest.split_once(':')?;
    let server = server.to_ascii_lowercase();
    (is_local(local) && is_server(&server)).then(|| format!("{sigil}{local}:{server}"))
}

/// Characters of a user's name, those of old accounts included.
fn is_localpart(local: &str) -> bool {
    !local.is_empty() && local.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_opaque(local: &str) -> bool {
    !local.is_empty() && !local.chars().any(|c| c.is_whitespace() || handle::is_hidden(c))
}

/// Whether `name` is a server's: a host name or an address, perhaps with a port; in small letters.
pub fn is_server(name: &str) -> bool {
    let (host, port) = match name.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) if host.parse::<Ipv6Addr>().is_ok() => {
            ("", Some(rest).filter(|rest| !rest.is_empty()))
        }
        Some(_) => return false,
        None => match name.find(':') {
            Some(at) => (&name[..at], Some(&name[at..])),
            None => (name, None),
        },
    };
    let is_host = name.starts_with('[')
        || (!host.is_empty()
            && host
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.')));
    let is_port = |port: &str| {
        port.strip_prefix(':').is_some_and(|digits| {
            matches!(digits.len(), 1..=5) && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    is_host && port.is_none_or(is_port)
}

/// The server of a user id, alias or old room id.
pub(super) fn server_of(id: &str) -> &str {
    id.split_once(':').map_or("", |(_, server)| server)
}

/// Whether `id` can be a room's.
pub(super) fn is_room(id: &str) -> bool {
    has_form(id, '!')
}

/// Whether `id` can be an event's.
pub(super) fn is_event(id: &str) -> bool {
    has_form(id, '$')
}

fn has_form(id: &str, sigil: char) -> bool {
    id.len() <= ID_BYTES_MAX && id.strip_prefix(sigil).is_some_and(is_opaque)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_form() {
        for (kind, to, form) in [
            (AddressKind::Direct, " @ada:Example.org\n", "@ada:example.org"),
            (AddressKind::Direct, "@Old.Name:example.org:8448", "@Old.Name:example.org:8448"),
            (AddressKind::Direct, "@a=b/c+d:[::1]:80", "@a=b/c+d:[::1]:80"),
            (AddressKind::Channel, "#équipe:example.org", "#équipe:example.org"),
            (AddressKind::Channel, "!abCD:example.org", "!abCD:example.org"),
            (
                AddressKind::Channel,
                "!31hneApxJ_1o-63DmFrpeqnkFfWppnzWso1JvH3ogLM",
                "!31hneApxJ_1o-63DmFrpeqnkFfWppnzWso1JvH3ogLM",
            ),
        ] {
            assert_eq!(normalise(kind, to).as_deref(), Ok(form), "{to}");
            assert_eq!(normalise(kind, form).as_deref(), Ok(form), "{to}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let long = format!("@{}:example.org", "a".repeat(ID_BYTES_MAX));
        for junk in [
            "@ada",
            "ada:example.org",
            "@:example.org",
            "@ada:",
            "@ada:exa mple",
            "@a da:x.test",
            "@é:x.test",
            "@ada:x.test:port",
            "@ada:x.test:123456",
            "@ada:[::1",
            "@ada:[zz]",
            "!room:x.test",
            "#room:x.test",
            "https://matrix.to/#/@ada:x.test",
            &long,
        ] {
            assert!(normalise(AddressKind::Direct, junk).is_err(), "{junk}");
        }
        for junk in ["@ada:x.test", "#room", "#:x.test", "!", "! a", "$event:x.test", "#ro\u{200b}om:x.test"]
        {
            assert!(normalise(AddressKind::Channel, junk).is_err(), "{junk}");
        }
    }
}

//! Which channels there are, by name. They come and go while the hub runs. One may be the fallback: it gets what no other channel is named
//! for, and is not listed (contract `outbound` section 3).

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use switchboard_core::port::channel::Channel;

/// Longest name of a channel, in characters.
pub const NAME_CHARS_MAX: usize = 32;

/// Refuses a name that is not made of a small letter or digit and up to 31 small letters, digits, `_` and `-`.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let starts = name.bytes().next().is_some_and(is_good);
    let is_sound =
        starts && name.len() <= NAME_CHARS_MAX && name.bytes().all(|b| is_good(b) || b == b'_' || b == b'-');
    if is_sound {
        return Ok(());
    }
    Err(format!(
        "a channel's name begins with a small letter or a digit and has up to {NAME_CHARS_MAX} small letters, digits, `_` and `-`"
    ))
}

/// Why there is no channel of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoChannel {
    /// What was asked for, cut to [`NAME_CHARS_MAX`] visible characters.
    pub name: String,
    /// The channels there are.
    pub registered: Vec<String>,
}

impl fmt::Display for NoChannel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "there is no channel '{}'; ", self.name)?;
        if self.registered.is_empty() {
            formatter.write_str("none is registered: add a [[channel]] to the configuration")
        } else {
            write!(formatter, "registered: {}", self.registered.join(", "))
        }
    }
}

impl std::error::Error for NoChannel {}

/// The channel that carries a name.
#[derive(Clone)]
pub struct Found {
    /// It.
    pub channel: Arc<dyn Channel>,
    /// Whether it is the fallback: then an attempt carries the name that was asked for, not the channel's own.
    pub is_fallback: bool,
}

/// The channels there are. Shared; looking up and changing never wait for I/O.
#[derive(Default)]
pub struct Registry {
    rooms: RwLock<Rooms>,
}

#[derive(Default)]
struct Rooms {
    listed: BTreeMap<String, Arc<dyn Channel>>,
    fallback: Option<Arc<dyn Channel>>,
}

impl Rooms {
    fn refuse_taken(&self, name: &str) -> Result<(), String> {
        let is_fallback = self.fallback.as_ref().is_some_and(|fallback| fallback.name() == name);
        if is_fallback || self.listed.contains_key(name) {
            return Err(format!("there is a channel '{name}' already; two channels need two names"));
        }
        Ok(())
    }
}

impl Registry {
    /// Adds a channel under its name, or says why not: its name is not one, or taken.
    pub fn add(&self, channel: Arc<dyn Channel>) -> Result<(), String> {
        let name = channel.name().to_owned();
        check_name(&name)?;
        let mut rooms = self.rooms.write();
        rooms.refuse_taken(&name)?;
        rooms.listed.insert(name, channel);
        Ok(())
    }

    /// Makes a channel the fallback, or says why not: its name is not one, or taken, or there is a fallback.
    pub fn add_fallback(&self, channel: Arc<dyn Channel>) -> Result<(), String> {
        check_name(channel.name())?;
        let mut rooms = self.rooms.write();
        rooms.refuse_taken(channel.name())?;
        if let Some(fallback) = &rooms.fallback {
            return Err(format!("'{}' is the fallback already; only one channel can be", fallback.name()));
        }
        rooms.fallback = Some(channel);
        Ok(())
    }

    /// Takes a channel out, the fallback included, by its own name. Attempts under way keep theirs.
    pub fn remove(&self, name: &str) -> Option<Arc<dyn Channel>> {
        let mut rooms = self.rooms.write();
        let is_fallback = rooms.fallback.as_ref().is_some_and(|fallback| fallback.name() == name);
        if is_fallback { rooms.fallback.take() } else { rooms.listed.remove(name) }
    }

    /// The channel for a name: the one of exactly this name, else the fallback, else none. What is no name of a channel reaches none.
    pub fn find(&self, name: &str) -> Result<Found, NoChannel> {
        let rooms = self.rooms.read();
        if let Some(channel) = rooms.listed.get(name) {
            return Ok(Found { channel: channel.clone(), is_fallback: false });
        }
        match &rooms.fallback {
            Some(channel) if check_name(name).is_ok() => {
                Ok(Found { channel: channel.clone(), is_fallback: true })
            }
            _ => Err(NoChannel {
                name: name.chars().filter(|&c| !crate::handle::is_hidden(c)).take(NAME_CHARS_MAX).collect(),
                registered: rooms.listed.keys().cloned().collect(),
            }),
        }
    }

    /// Names of the listed channels, in order.
    pub fn names(&self) -> Vec<String> {
        self.rooms.read().listed.keys().cloned().collect()
    }

    /// The listed channels, in order of their names.
    pub fn listed(&self) -> Vec<Arc<dyn Channel>> {
        self.rooms.read().listed.values().cloned().collect()
    }

    /// All channels, the fallback last: what must be listened to.
    pub fn all(&self) -> Vec<Arc<dyn Channel>> {
        let rooms = self.rooms.read();
        rooms.listed.values().chain(&rooms.fallback).cloned().collect()
    }

    /// Whether nothing can carry a message, not even a fallback.
    pub fn is_empty(&self) -> bool {
        let rooms = self.rooms.read();
        rooms.listed.is_empty() && rooms.fallback.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeNetwork;

    fn channel(name: &str) -> Arc<dyn Channel> {
        FakeNetwork::new(name)
    }

    fn refusal(registry: &Registry, name: &str) -> String {
        registry.find(name).err().unwrap().to_string()
    }

    #[test]
    fn an_exact_name_comes_first_then_the_fallback_then_an_error_that_names_the_others() {
        let registry = Registry::default();
        assert!(registry.is_empty());
        assert!(refusal(&registry, "slack").contains("[[channel]]"));
        registry.add(channel("email")).unwrap();
        registry.add(channel("console")).unwrap();
        assert_eq!(refusal(&registry, "slak"), "there is no channel 'slak'; registered: console, email");

        registry.add_fallback(channel("host")).unwrap();
        assert_eq!(registry.names(), ["console", "email"], "a fallback is not listed");
        assert_eq!(registry.all().len(), 3);
        let found = |name: &str| {
            registry.find(name).map(|found| (found.channel.name().to_owned(), found.is_fallback))
        };
        assert_eq!(found("email"), Ok(("email".into(), false)));
        assert_eq!(found("slak"), Ok(("host".into(), true)));
        assert!(found("No name!").is_err(), "what is no name does not reach the fallback");
    }

    #[test]
    fn names_are_taken_once_and_are_free_again() {
        let registry = Registry::default();
        registry.add(channel("email")).unwrap();
        registry.add_fallback(channel("host")).unwrap();
        for name in ["email", "host"] {
            assert!(registry.add(channel(name)).unwrap_err().contains("two names"));
        }
        assert!(registry.add_fallback(channel("other")).unwrap_err().contains("'host' is the fallback"));
        assert!(registry.remove("host").is_some() && registry.remove("email").is_some());
        assert!(registry.remove("email").is_none() && registry.is_empty());
        registry.add(channel("host")).unwrap();
    }

    #[test]
    fn names_are_plain() {
        for good in ["a", "0", "team-chat_2", &"x".repeat(NAME_CHARS_MAX)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a b", "é", "a.b", "a\n", &"x".repeat(NAME_CHARS_MAX + 1)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        let shown = refusal(&Registry::default(), &"\u{202e}x".repeat(100));
        assert!(!shown.contains('\u{202e}') && shown.len() < 200, "{shown}");
    }
}

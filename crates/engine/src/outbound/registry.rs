//! The channels of a hub, by name.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use switchboard_core::port::channel::{Channel, check_name};

#[derive(Default)]
struct Table {
    channels: BTreeMap<String, Arc<dyn Channel>>,
    fallback: Option<Arc<dyn Channel>>,
}

/// Which channels there are; they may come and go while the hub runs.
#[derive(Default)]
pub struct Registry(RwLock<Table>);

impl std::fmt::Debug for Registry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Registry({})", self.names().join(", "))
    }
}

impl Registry {
    /// Adds a channel under its own name, or as the fallback for names that nobody has.
    pub fn add(&self, channel: Arc<dyn Channel>, fallback: bool) -> Result<(), String> {
        let name = channel.name().to_owned();
        check_name(&name).map_err(|sentence| format!("{name:?}: {sentence}"))?;
        let mut table = self.0.write();
        let is_fallbacks = table.fallback.as_ref().is_some_and(|channel| channel.name() == name);
        if table.channels.contains_key(&name) || is_fallbacks {
            return Err(format!("there are two channels named {name:?}: give one another name"));
        }
        if fallback {
            if table.fallback.is_some() {
                return Err("there are two fallback channels: only one can take what nobody else has".into());
            }
            table.fallback = Some(channel);
        } else {
            table.channels.insert(name, channel);
        }
        Ok(())
    }

    /// Takes a channel away; whether there was one of this name.
    pub fn remove(&self, name: &str) -> bool {
        let mut table = self.0.write();
        let is_fallback = table.fallback.as_ref().is_some_and(|channel| channel.name() == name);
        if is_fallback {
            table.fallback = None;
        }
        table.channels.remove(name).is_some() || is_fallback
    }

    /// The channel that carries what is addressed to `name`: the one of that name, else the fallback, else an error that lists the
    /// names there are.
    pub fn find(&self, name: &str) -> Result<Arc<dyn Channel>, String> {
        let table = self.0.read();
        table.channels.get(name).or(table.fallback.as_ref()).cloned().ok_or_else(|| {
            let names: Vec<_> = table.channels.keys().map(String::as_str).collect();
            format!("unknown messaging channel '{name}': registered channels are {}", names.join(", "))
        })
    }

    /// The channel that was configured under this name, the fallback included.
    #[must_use]
    pub fn configured(&self, name: &str) -> Option<Arc<dyn Channel>> {
        let table = self.0.read();
        let fallback = table.fallback.as_ref().filter(|channel| channel.name() == name);
        table.channels.get(name).or(fallback).cloned()
    }

    /// Names, without the fallback.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.read().channels.keys().cloned().collect()
    }

    /// Names, the fallback's included.
    #[must_use]
    pub fn every_name(&self) -> Vec<String> {
        let table = self.0.read();
        let fallback = table.fallback.as_ref().map(|channel| channel.name().to_owned());
        table.channels.keys().cloned().chain(fallback).collect()
    }

    /// All channels, without the fallback, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<dyn Channel>> {
        self.0.read().channels.values().cloned().collect()
    }
}

//! The channels of the configuration, put together.

use crate::config::Config;
use crate::config::channel::Channel as Entry;
use crate::failure::Failure;
use std::sync::Arc;
use switchboard_channels::console::Console;
use switchboard_core::port::channel::Channel;
use switchboard_engine::Hub;

/// Adds every channel to the hub; the console is always there.
pub fn open(hub: &Arc<Hub>, config: &Config) -> Result<(), Failure> {
    let wrong = |sentence: String| crate::config::wrong(format!("[[channel]]: {sentence}."));
    hub.add_channel(Arc::new(Console), false).map_err(wrong)?;
    for entry in &config.channel {
        hub.add_channel(made(entry)?, entry.fallback).map_err(wrong)?;
    }
    Ok(())
}

fn made(entry: &Entry) -> Result<Arc<dyn Channel>, Failure> {
    let kinds = "email, webhook, exec";
    let sentence = format!("{:?} has the kind {:?}; there are: {kinds}", entry.name, entry.kind);
    Err(crate::config::wrong(format!("[[channel]]: {sentence}.")))
}

//! `switchboard config`.

use crate::args::{Config, Global};
use crate::config;
use crate::failure::Failure;
use crate::terminal::{Output, print};

/// Prints an example, or what would be used.
pub fn run(global: &Global, output: Output, command: &Config) -> Result<(), Failure> {
    match command {
        Config::Example => {
            let _ = print(&config::example());
        }
        Config::Show => output.show(&config::shown(config::load(global)?), |config| {
            // Every type of the configuration can be written as TOML.
            toml::to_string(config).unwrap_or_default()
        }),
    }
    Ok(())
}

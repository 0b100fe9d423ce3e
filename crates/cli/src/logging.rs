//! Logs go to standard error, so that standard output stays what scripts read.

use crate::config::{Log, LogFormat};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// A filter of this text.
pub fn filter(text: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(text)
}

/// Starts logging for the rest of the process: as `asked`, else as configured. A filter that cannot be read is an error.
pub fn start(asked: Option<&str>, config: &Log) -> Result<(), ParseError> {
    let filter = filter(asked.filter(|text| !text.is_empty()).unwrap_or(&config.level))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process (tests) keeps the first.
    let _ = match config.format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}

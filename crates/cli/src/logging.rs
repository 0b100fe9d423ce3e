//! Logs go to standard error, so that standard output stays what scripts read.

use crate::config::{Log, LogFormat};
use crate::telemetry::Telemetry;
use switchboard_server::trace::TARGET;
use tracing::Level;
use tracing_subscriber::filter::{FilterExt as _, ParseError, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// A filter of this text.
pub fn filter(text: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(text)
}

/// Libraries that write whole requests into their log, bearers included.
const TALKATIVE: [&str; 3] = ["tungstenite", "tokio_tungstenite", "hyper"];
/// The library that writes what agents say into its log, and a line for every notification.
const INDISCREET: &str = "rmcp";

/// Starts logging for the rest of the process: as `asked`, else as configured. A filter that cannot be read is an error.
/// `telemetry` sees the spans that are meant for it, whatever is logged.
pub fn start(asked: Option<&str>, config: &Log, telemetry: Option<&Telemetry>) -> Result<(), ParseError> {
    let filter = filter(asked.filter(|text| !text.is_empty()).unwrap_or(&config.level))?;
    // No filter lets a secret or a message through, however detailed it is.
    let discreet = filter_fn(|metadata| {
        let of = |library: &&str| metadata.target().split("::").next() == Some(*library);
        let most = if of(&INDISCREET) { Level::WARN } else { Level::DEBUG };
        let for_collector = metadata.target() == TARGET;
        !for_collector && (*metadata.level() <= most || !(of(&INDISCREET) || TALKATIVE.iter().any(of)))
    })
    // Without this the level of the other filter is not known outside, and every record of every library is asked about.
    .with_max_level_hint(tracing::level_filters::LevelFilter::TRACE);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = match config.format {
        LogFormat::Text => layer.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
        LogFormat::Json => layer.json().boxed(),
    };
    let layer = layer.with_filter(filter.and(discreet));
    // A second start in one process (tests) keeps the first.
    let _ = tracing_subscriber::registry().with(telemetry.map(Telemetry::layer)).with(layer).try_init();
    Ok(())
}

//! In place of the traces where they were left out: there are none, and a configuration that asks for them is refused.

use crate::config::Otel;
use crate::failure::Failure;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use switchboard_server::trace::Tracer;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Identity;

/// Cannot exist.
#[derive(Debug)]
pub struct Telemetry(Infallible);

impl Telemetry {
    /// There is none.
    #[expect(clippy::unnecessary_wraps, reason = "the same as where there are traces")]
    pub fn new(_: &Otel) -> Result<Option<Self>, Failure> {
        Ok(None)
    }

    /// Never called.
    pub fn layer<S: tracing::Subscriber>(&self) -> impl Layer<S> + use<S> {
        match self.0 {}
        #[expect(unreachable_code, reason = "names the type")]
        Identity::new()
    }

    /// Never called.
    pub fn start(&mut self) -> Arc<dyn Tracer> {
        match self.0 {}
    }

    /// Never called.
    pub fn stop(self, _: Duration) -> std::future::Ready<()> {
        match self.0 {}
    }
}

//! Traces for an OpenTelemetry collector: OTLP over HTTP, protobuf.
//!
//! Spans wait in a bounded queue for one task that sends them in batches. Whoever ends a span never waits: a full queue, and a
//! collector that takes nothing, cost spans, which are counted, and nothing else.

use crate::config::{Otel, otel_headers};
use crate::failure::Failure;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span as SdkSpan, SpanData, SpanExporter as _, SpanProcessor,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use switchboard_server::trace::{TARGET, TraceContext, Tracer};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

/// Spans that may wait; a further one is dropped.
const QUEUE_SPANS_MAX: usize = 4096;
/// Spans that are sent at once.
const BATCH_SPANS_MAX: usize = 512;
/// Time spans gather before they are sent.
const GATHER: Duration = Duration::from_millis(500);
/// Time a collector has to take a batch.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// What was counted.
#[derive(Debug, Default)]
struct Counts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

/// The traces of this process.
pub struct Telemetry {
    provider: SdkTracerProvider,
    counts: Arc<Counts>,
    stop: CancellationToken,
    /// Until [`Telemetry::start`].
    waiting: Option<(Receiver<SpanData>, SpanExporter)>,
    sending: Option<JoinHandle<()>>,
}

/// Without the exporter, which holds the headers for the collector and prints them.
impl std::fmt::Debug for Telemetry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = out.debug_struct("Telemetry");
        fields.field("counts", &self.counts).field("started", &self.waiting.is_none()).finish_non_exhaustive()
    }
}

/// Puts ended spans into the queue.
#[derive(Debug)]
struct Queue {
    sender: Sender<SpanData>,
    counts: Arc<Counts>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut SdkSpan, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.sender.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Telemetry {
    /// Traces as configured; `None` when there is no endpoint.
    pub fn new(config: &Otel) -> Result<Option<Self>, Failure> {
        let Some(endpoint) = &config.endpoint else { return Ok(None) };
        let counts = Arc::new(Counts::default());
        let (sender, receiver) = channel(QUEUE_SPANS_MAX);
        let exporter = exporter(endpoint, config)?;
        let resource = Resource::builder()
            .with_service_name(config.service_name.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let mut exporter = exporter;
        exporter.set_resource(&resource);
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(config.sample_ratio))))
            .with_span_processor(Queue { sender, counts: counts.clone() })
            .with_resource(resource)
            .build();
        let waiting = Some((receiver, exporter));
        Ok(Some(Self { provider, counts, stop: CancellationToken::new(), waiting, sending: None }))
    }

    /// The layer that makes spans of what the program marks as such, and of nothing else.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("switchboard"))
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target(TARGET, LevelFilter::ERROR))
    }

    /// Starts to send. Within a runtime.
    pub fn start(&mut self) -> Arc<dyn Tracer> {
        if let Some((receiver, exporter)) = self.waiting.take() {
            let sending = Sending { receiver, exporter, counts: self.counts.clone(), failing: false };
            self.sending = Some(tokio::spawn(sending.run(self.stop.clone())));
        }
        Arc::new(Handle(self.counts.clone()))
    }

    /// Sends what waits, for at most `left`; what is left then is given up.
    pub async fn stop(mut self, left: Duration) {
        self.stop.cancel();
        let Some(sending) = self.sending.take() else { return };
        let end = sending.abort_handle();
        if timeout(left, sending).await.is_err() {
            end.abort();
            tracing::warn!("the last spans could not be sent in time and are lost");
        }
    }
}

/// Of the variables that the exporter knows itself, endpoint, timeout and protocol have no say, and compression is not built in;
/// headers cannot be kept from it.
fn exporter(endpoint: &str, config: &Otel) -> Result<SpanExporter, Failure> {
    let endpoint = endpoint.trim_end_matches('/');
    let path = if endpoint.ends_with("/v1/traces") { "" } else { "/v1/traces" };
    SpanExporter::builder()
        .with_http()
        .with_headers(otel_headers(config)?.into_iter().collect())
        .with_retry_policy(RetryPolicy::disabled())
        .with_endpoint(format!("{endpoint}{path}"))
        .with_timeout(EXPORT_TIMEOUT)
        .with_protocol(Protocol::HttpBinary)
        .build()
        // The reason may hold the address with what an operator put into it.
        .map_err(|_| crate::config::wrong("otel.endpoint: no exporter can be made for this address.".into()))
}

/// What the doors see of it.
#[derive(Debug)]
struct Handle(Arc<Counts>);

impl Tracer for Handle {
    fn begin(&self, span: &Span, parent: Option<&TraceContext>) -> Option<TraceContext> {
        if let Some(parent) = parent {
            let flags = if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
            let (trace, span_id) = (TraceId::from_bytes(parent.trace_id), SpanId::from_bytes(parent.span_id));
            let remote = SpanContext::new(trace, span_id, flags, true, TraceState::default());
            span.set_parent(Context::new().with_remote_span_context(remote)).ok()?;
        }
        let context = span.context();
        let context = context.span().span_context().clone();
        context.is_valid().then(|| TraceContext {
            trace_id: context.trace_id().to_bytes(),
            span_id: context.span_id().to_bytes(),
            sampled: context.is_sampled(),
        })
    }

    fn exported(&self) -> u64 {
        self.0.exported.load(Ordering::Relaxed)
    }

    fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}

/// The task that sends.
struct Sending {
    receiver: Receiver<SpanData>,
    exporter: SpanExporter,
    counts: Arc<Counts>,
    /// Whether the last batch was not taken: said once, until one is taken again.
    failing: bool,
}

impl Sending {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let batch = self.gather(&stop).await;
            if batch.is_empty() {
                return;
            }
            self.send(batch).await;
        }
    }

    /// The next spans; none when there are no more.
    async fn gather(&mut self, stop: &CancellationToken) -> Vec<SpanData> {
        let mut batch = Vec::new();
        let mut until = None;
        while batch.len() < BATCH_SPANS_MAX {
            let due = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let span = tokio::select! {
                biased;
                span = self.receiver.recv() => span,
                () = stop.cancelled() => None,
                () = due => None,
            };
            let Some(span) = span else { break };
            until.get_or_insert_with(|| Instant::now() + GATHER);
            batch.push(span);
        }
        batch
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len() as u64;
        let taken = matches!(timeout(EXPORT_TIMEOUT, self.exporter.export(batch)).await, Ok(Ok(())));
        let count = if taken { &self.counts.exported } else { &self.counts.dropped };
        count.fetch_add(spans, Ordering::Relaxed);
        match (taken, self.failing) {
            (false, false) => tracing::warn!(
                "the collector of otel.endpoint takes no spans; they are dropped until it does, and counted as \
                 switchboard_trace_spans_dropped"
            ),
            (true, true) => tracing::info!("the collector of otel.endpoint takes spans again"),
            _ => {}
        }
        self.failing = !taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_collector_is_told_in_confidence_is_not_printed() {
        let config = Otel {
            endpoint: Some("http://127.0.0.1:4318".into()),
            headers: serde_json::from_str(r#"["authorization: CANARY"]"#).unwrap(),
            ..Otel::default()
        };
        let telemetry = Telemetry::new(&config).unwrap().unwrap();
        let printed = format!("{telemetry:?}");
        assert!(printed.contains("started: false") && !printed.contains("CANARY"), "{printed}");
    }
}

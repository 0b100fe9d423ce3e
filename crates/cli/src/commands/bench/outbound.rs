//! `bench outbound`: the hub in this process, with a channel whose service takes everything at once, so that what is measured is what
//! happens to a message and not what a service does with it. Every acceptance is on the disk before it counts. In the same run mails go
//! through the real e-mail channel to a relay on loopback that takes everything, to see how soon after its acceptance a message begins to leave.

use super::histogram::{Histogram, Quantiles};
use super::smtp::{NAME as SMTP, Relay};
use crate::args::BenchOutbound;
use crate::config::Config;
use crate::embedded::{self, Embedded};
use crate::failure::Failure;
use crate::terminal::{self, Output};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{
    AddressKind, Capabilities, Channel, Dedup, Dialect, Draft, FailureClass, LengthUnit, NotSent, Part,
    Performed,
};
use switchboard_core::time::{Clock as _, SystemClock};
use switchboard_engine::Hub;
use switchboard_engine::outbound::{people, submit};
use switchboard_protocol::{Code, Detail};

/// Rules that every call is held against.
const RULES: u32 = 100;
/// Most decisions that are timed, and how many for each sample.
const DECISIONS: (u64, u64) = (50_000, 200);
/// Most messages that a broken channel has to deal with meanwhile, and how many for each sample.
const BROKEN: (u64, u64) = (1000, 4);
/// People that the mails go to by turns.
const READERS: u64 = 16;
/// Keys that are used again and again.
const KEYS: u64 = 64;
/// How long what was accepted may take to be delivered.
const PATIENCE: Duration = Duration::from_mins(2);

static CLOCK: std::sync::LazyLock<SystemClock> = std::sync::LazyLock::new(SystemClock::default);

const CAPABILITIES: Capabilities = Capabilities {
    direct: true,
    shared: false,
    answers: false,
    part_max: usize::MAX,
    unit: LengthUnit::Bytes,
    parts_max: 1,
    dialect: Dialect::CommonMark,
    threads: false,
    edits: false,
    buttons_max: 0,
    dedup: Dedup::ById,
    pace_ms: 0,
    at_once: 256,
    consent: false,
};

/// A service that takes everything, or nothing.
struct Sink {
    name: &'static str,
    works: bool,
    taken: Arc<AtomicU64>,
}

impl Channel for Sink {
    fn name(&self) -> &str {
        self.name
    }

    fn kind(&self) -> &'static str {
        "sink"
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn normalise(&self, _: AddressKind, to: &str) -> Result<String, String> {
        Ok(to.to_owned())
    }

    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        Ok(vec![Part { text: draft.body.to_owned(), ..Part::default() }])
    }

    fn perform(&self, _: Cleared) -> BoxFuture<'_, Performed> {
        Box::pin(async move {
            if !self.works {
                let failure = NotSent::new(FailureClass::Transient, "the sink is broken on purpose");
                return Performed::NotSent(failure);
            }
            self.taken.fetch_add(1, Ordering::Relaxed);
            Performed::Sent { message_id: None }
        })
    }
}

#[derive(Debug, Serialize)]
struct Report {
    /// Validation, policy, preparation: all before the commit.
    decision_us: Quantiles,
    accepted_per_s: f64,
    delivered_per_s: f64,
    duplicates_per_s: f64,
    /// From the call to the confirmed delivery, one call at a time.
    deliver_ms: Quantiles,
    /// The same while another channel fails at everything it is given.
    deliver_beside_failing_ms: Quantiles,
    /// From a call's acceptance to the first byte of its mail's `MAIL FROM` at a relay on loopback, one mail at a time.
    mail_from_ms: Quantiles,
    accepted: u64,
    delivered: u64,
}

/// Measures.
pub async fn run(output: Output, bench: &BenchOutbound) -> Result<(), Failure> {
    let sound = bench.in_flight > 0 && bench.targets > 0 && bench.body_bytes > 0 && bench.samples > 0;
    if !sound || !(0.1..=600.0).contains(&bench.seconds) {
        return Err(Failure::usage(
            "--in-flight, --targets, --body-bytes and --samples: at least 1; --seconds: 0.1 to 600.",
        ));
    }
    let dir = tempfile::Builder::new().prefix("switchboard-bench-").tempdir();
    let dir = dir.map_err(|error| Failure::file(&std::env::temp_dir(), &error))?;
    let mut config = Config::default();
    config.outbound.messages_per_hour = u32::MAX;
    config.policy.dir = Some(rules(dir.path()).map_err(|error| Failure::file(dir.path(), &error))?);
    let store = embedded::open_store(&dir.path().join("data"), &config)?;
    let embedded = Embedded::start(store, &config, embedded::bind("127.0.0.1:0").await?, None).await?;
    let measured = measure(&embedded.hub, bench).await;
    embedded.stop().await;
    let report = measured.map_err(|detail| Failure::no(detail.message.clone()))?;
    output.show(&report, text);
    if report.accepted == report.delivered {
        return Ok(());
    }
    Err(Failure::no("Messages were lost or doubled: the rates mean nothing."))
}

// A hundred rules of all kinds, none of which forbids what is sent.
fn rules(dir: &Path) -> std::io::Result<PathBuf> {
    let dir = dir.join("policies");
    std::fs::create_dir(&dir)?;
    let tool = "tool = \"messaging.send\"";
    let rule = |number: u32| match number % 4 {
        0 => format!("[[deny_keyword]]\nkeyword = \"secret {number}\"\n"),
        1 => format!(
            "[[deny_tool_param_matching]]\n{tool}\nparam = \"body\"\npattern = '(?i)token-{number}-[0-9]+'\n"
        ),
        2 => format!("[[deny_tool_param]]\n{tool}\nparam = \"to\"\nequals = \"nobody-{number}\"\n"),
        _ => format!("[[require_approval]]\n{tool}\nparam = \"body\"\ncontains = \"deploy {number}\"\n"),
    };
    let text: String = (0..RULES).map(rule).collect();
    std::fs::write(dir.join("bench.toml"), text)?;
    Ok(dir)
}

async fn measure(hub: &Arc<Hub>, bench: &BenchOutbound) -> Result<Report, Detail> {
    let taken = Arc::new(AtomicU64::new(0));
    for (name, works) in [("sink", true), ("broken", false)] {
        let sink = Arc::new(Sink { name, works, taken: taken.clone() });
        hub.add_channel(sink, false).map_err(|sentence| Detail::new(Code::InvalidRequest, sentence))?;
    }
    let mut relay = Relay::start(&CLOCK).await.map_err(|error| {
        Detail::new(Code::InvalidRequest, format!("The relay on loopback does not start: {error}"))
    })?;
    let channel = relay.channel().map_err(|sentence| Detail::new(Code::InvalidRequest, sentence))?;
    hub.add_channel(channel, false).map_err(|sentence| Detail::new(Code::InvalidRequest, sentence))?;
    let decision_us = decisions(hub, bench)?;
    let mail_from_ms = mails(hub, bench, &mut relay).await?;
    let deliver_ms = deliveries(hub, bench).await?;
    let before = taken.load(Ordering::Relaxed);
    let began = CLOCK.monotonic();
    let accepted = flood(hub, bench, u64::MAX).await?;
    let accepted_per_s = rate(accepted, since(began));
    while taken.load(Ordering::Relaxed) - before < accepted && since(began) < PATIENCE {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let delivered = taken.load(Ordering::Relaxed) - before;
    let delivered_per_s = rate(delivered, since(began));
    let began = CLOCK.monotonic();
    let repeated = flood(hub, bench, KEYS).await?;
    let duplicates_per_s = rate(repeated, since(began));
    for number in 0..BROKEN.0.min(bench.samples.saturating_mul(BROKEN.1)) {
        send(hub, &call("broken", number, bench, &Value::Null), Duration::ZERO).await?;
    }
    let deliver_beside_failing_ms = deliveries(hub, bench).await?;
    Ok(Report {
        decision_us,
        accepted_per_s,
        delivered_per_s,
        duplicates_per_s,
        deliver_ms,
        deliver_beside_failing_ms,
        mail_from_ms,
        accepted,
        delivered,
    })
}

// Mails through the e-mail channel: how long after its acceptance each one begins.
async fn mails(hub: &Arc<Hub>, bench: &BenchOutbound, relay: &mut Relay) -> Result<Quantiles, Detail> {
    let reader = |number: u64| format!("reader-{}@example.test", number % READERS);
    for number in 0..READERS {
        let to = reader(number);
        people::set_consent(hub, SMTP, (AddressKind::Direct, &to), people::Say::Allow, None, "bench").await?;
    }
    let mut spread = Histogram::new();
    for number in 0..bench.samples {
        let mut params = call(SMTP, number, bench, &Value::Null);
        params["to"] = json!(reader(number));
        send(hub, &params, Duration::ZERO).await?;
        let accepted = CLOCK.monotonic();
        let Ok(Some(began)) = tokio::time::timeout(PATIENCE, relay.next()).await else {
            return Err(Detail::new(Code::InvalidRequest, "No mail has come to the relay."));
        };
        // One that begins before its caller has heard of it begins at once.
        spread.add(nanoseconds(began.saturating_sub(accepted)));
    }
    Ok(spread.quantiles())
}

async fn send(hub: &Arc<Hub>, params: &Value, wait: Duration) -> Result<(), Detail> {
    submit::send_waiting(hub, &hub.owner(), "bench", params, wait).await.map(drop)
}

fn call(channel: &str, number: u64, bench: &BenchOutbound, key: &Value) -> Value {
    let to = format!("target-{}", number % bench.targets);
    let body = "x".repeat(bench.body_bytes);
    json!({ "channel": channel, "to": to, "message_kind": "notice", "body": body, "idempotency_key": key })
}

fn decisions(hub: &Arc<Hub>, bench: &BenchOutbound) -> Result<Quantiles, Detail> {
    let (owner, mut spread) = (hub.owner(), Histogram::new());
    for number in 0..DECISIONS.0.min(bench.samples.saturating_mul(DECISIONS.1)) {
        let params = call("sink", number, bench, &json!("k"));
        let began = CLOCK.monotonic();
        submit::weigh(hub, &owner, "bench", &params)?;
        // A thousand times as long: what is told as milliseconds is microseconds.
        spread.add(nanoseconds(since(began) * 1000));
    }
    Ok(spread.quantiles())
}

async fn deliveries(hub: &Arc<Hub>, bench: &BenchOutbound) -> Result<Quantiles, Detail> {
    let mut spread = Histogram::new();
    for number in 0..bench.samples {
        let began = CLOCK.monotonic();
        send(hub, &call("sink", number, bench, &Value::Null), Duration::from_secs(10)).await?;
        spread.add(nanoseconds(since(began)));
    }
    Ok(spread.quantiles())
}

fn since(began: Duration) -> Duration {
    CLOCK.monotonic().saturating_sub(began)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

// Calls, as many at a time as asked for, until the time is over; how many were answered. There are so many different ones.
async fn flood(hub: &Arc<Hub>, bench: &BenchOutbound, different: u64) -> Result<u64, Detail> {
    let (next, time) = (Arc::new(AtomicU64::new(0)), Duration::from_secs_f64(bench.seconds));
    let began = CLOCK.monotonic();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..bench.in_flight {
        let (hub, bench, next) = (hub.clone(), bench.clone(), next.clone());
        callers.spawn(async move {
            let mut answered = 0;
            while since(began) < time {
                let number = next.fetch_add(1, Ordering::Relaxed) % different;
                let key = json!(format!("{different}-{number}"));
                send(&hub, &call("sink", number, &bench, &key), Duration::ZERO).await?;
                answered += 1;
            }
            Ok::<u64, Detail>(answered)
        });
    }
    let mut answered = 0;
    while let Some(caller) = callers.join_next().await {
        answered += caller.unwrap_or(Ok(0))?;
    }
    Ok(answered)
}

fn rate(count: u64, time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let count = count as f64;
    count / time.as_secs_f64().max(1e-9)
}

fn text(report: &Report) -> String {
    let ms = |of: &Quantiles| format!("{:.2} ms (p99 {:.2})", of.p50, of.p99);
    terminal::facts(&[
        ("decision", format!("{:.1} us (p99 {:.1})", report.decision_us.p50, report.decision_us.p99)),
        ("accepted", format!("{:.0}/s", report.accepted_per_s)),
        ("delivered", format!("{:.0}/s", report.delivered_per_s)),
        ("duplicates", format!("{:.0}/s", report.duplicates_per_s)),
        ("one delivery", ms(&report.deliver_ms)),
        ("beside a broken channel", ms(&report.deliver_beside_failing_ms)),
        ("accepted to MAIL FROM", ms(&report.mail_from_ms)),
    ])
}

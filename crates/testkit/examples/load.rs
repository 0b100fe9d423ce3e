//! Load for a hub: senders with a window each, receivers that check every sequence, latencies, the hub's CPU and memory.
//! `load hub DIR` serves; `load run …` starts such a hub as a child and drives it.

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde_json::json;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use switchboard_testkit::{Http, Options, TestHub, Token};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Wire = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

/// Latencies in buckets of about 3 %: 32 per power of two of microseconds/8.
#[derive(Clone)]
struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Histogram {
    fn new() -> Self {
        Self { buckets: vec![0; 40 * 32], count: 0 }
    }

    fn add(&mut self, latency: Duration) {
        let value = (latency.as_nanos() as u64 / 125).max(1);
        let power = 63 - value.leading_zeros() as usize;
        let low = if power >= 5 {
            (value >> (power - 5)) as usize & 31
        } else {
            (value << (5 - power)) as usize & 31
        };
        self.buckets[(power * 32 + low).min(40 * 32 - 1)] += 1;
        self.count += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
    }

    fn at(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                let (power, low) = (index / 32, index % 32);
                return 2f64.powi(power as i32) * (1.0 + low as f64 / 32.0) * 0.000_125;
            }
        }
        0.0
    }
}

async fn open(url: &str, token: &Token, agent: &str, vault: &str) -> Wire {
    let mut request = format!("{}/v1/bus", url.replace("http", "ws")).into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {}", token.bearer).parse().unwrap());
    let config = WebSocketConfig::default().read_buffer_size(16 * 1024).write_buffer_size(128 * 1024);
    let (mut wire, _) =
        tokio_tungstenite::connect_async_with_config(request, Some(config), true).await.unwrap();
    let agents = json!([{ "agent_id": agent, "role": "bench", "vault_id": vault }]);
    let hello = json!({ "t": "hello", "instance_id": token.instance_id, "agents": agents });
    wire.send(Message::text(hello.to_string())).await.unwrap();
    wire.send(Message::text(r#"{"t":"ping","nonce":1}"#)).await.unwrap();
    while let Some(Ok(message)) = wire.next().await {
        if matches!(&message, Message::Text(text) if text.contains(r#""pong""#)) {
            break;
        }
    }
    wire
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    let start = text.find(name)? + name.len();
    let digits = text[start..].bytes().take_while(u8::is_ascii_digit);
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

struct Sent {
    published: u64,
    acks: Histogram,
    disordered: u64,
}

async fn sender(
    mut wire: Wire,
    name: String,
    channel: String,
    window: usize,
    body: usize,
    start: Instant,
    stop: Instant,
    warm: Instant,
) -> Sent {
    let pad = "x".repeat(body.saturating_sub(21));
    let mut waiting: VecDeque<(u64, Instant)> = VecDeque::new();
    let mut result = Sent { published: 0, acks: Histogram::new(), disordered: 0 };
    let mut next = 0u64;
    loop {
        let now = Instant::now();
        if now >= stop && waiting.is_empty() {
            return result;
        }
        while waiting.len() < window && now < stop {
            next += 1;
            let at = Instant::now();
            let since = at.duration_since(start).as_nanos();
            // Time first, as in a ULID: ids that grow keep the deduplication's index compact.
            let frame = format!(
                r#"{{"t":"message","client_msg_id":"{since:018}-{name}-{next}","network":{{"kind":"org","channel":"{channel}"}},"type":"finding","from":"{name}","body":{{"text":"{since:020} {pad}"}}}}"#
            );
            wire.feed(Message::Text(Utf8Bytes::from(frame))).await.unwrap();
            waiting.push_back((next, at));
        }
        wire.flush().await.unwrap();
        let mut message = wire.next().await;
        loop {
            let Some(Ok(Message::Text(text))) = &message else { panic!("the hub closed: {message:?}") };
            if text.starts_with(r#"{"t":"message.stored""#) {
                let (number, at) = waiting.pop_front().expect("an answer to something sent");
                let marker = format!("-{name}-{number}\"");
                if !text[..160.min(text.len())].contains(&marker) {
                    result.disordered += 1;
                }
                let now = Instant::now();
                if now >= warm {
                    result.published += 1;
                    result.acks.add(now - at);
                }
            } else if text.starts_with(r#"{"t":"error""#) {
                panic!("{text}");
            }
            match wire.next().now_or_never() {
                Some(more) => message = more,
                None => break,
            }
        }
    }
}

struct Received {
    delivered: u64,
    latency: Histogram,
    gaps: u64,
    last: u64,
}

async fn receiver(
    mut wire: Wire,
    start: Instant,
    warm: Instant,
    mut until: tokio::sync::watch::Receiver<u64>,
) -> Received {
    let mut result = Received { delivered: 0, latency: Histogram::new(), gaps: 0, last: 0 };
    let mut end = u64::MAX;
    while result.last < end {
        let message = tokio::select! {
            message = wire.next() => message,
            changed = until.changed() => { changed.unwrap(); end = *until.borrow(); continue }
        };
        let mut message = message;
        loop {
            let Some(Ok(Message::Text(text))) = &message else { panic!("the hub closed: {message:?}") };
            if text.starts_with(r#"{"t":"message.deliver""#) {
                let seq = number_after(text, r#""seq":"#).unwrap();
                if seq != result.last + 1 {
                    result.gaps += 1;
                }
                result.last = seq;
                let now = Instant::now();
                if now >= warm {
                    result.delivered += 1;
                    if seq % 16 == 0 {
                        let sent = number_after(text, r#""text":""#).unwrap();
                        result
                            .latency
                            .add(now.duration_since(start).saturating_sub(Duration::from_nanos(sent)));
                    }
                }
            }
            match wire.next().now_or_never() {
                Some(more) => message = more,
                None => break,
            }
        }
    }
    result
}

fn cpu_us(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) * 10_000
}

fn rss_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn arg<T: std::str::FromStr>(args: &[String], name: &str, default: T) -> T {
    let at = args.iter().position(|arg| arg == name);
    at.and_then(|at| args.get(at + 1)).and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn run(args: &[String]) {
    let (senders, window): (usize, usize) = (arg(args, "--senders", 1), arg(args, "--in-flight", 1));
    let (receivers, seconds): (usize, f64) = (arg(args, "--receivers", 0), arg(args, "--seconds", 5.0));
    let body: usize = arg(args, "--body-bytes", 350);
    let dir: PathBuf = arg(args, "--dir", PathBuf::from("target"));
    let dir = tempfile::tempdir_in(dir).unwrap();
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .arg("hub")
        .arg(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let pid = child.id().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = lines.next_line().await.unwrap().unwrap();
    let admin = Http::new(&url, switchboard_testkit::hub::ADMIN);
    let status = admin.get("/admin/v1/status").await.json();
    let org = status["org_id"].as_str().unwrap().to_owned();
    let token = async |label: String| {
        let made = admin.post("/admin/v1/tokens", &json!({ "label": label })).await.json();
        Token {
            instance_id: made["instance_id"].as_str().unwrap().into(),
            bearer: made["token"].as_str().unwrap().into(),
        }
    };
    let vault = async |name: String| {
        admin.post("/admin/v1/vaults", &json!({ "name": name })).await.json()["vault_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let shared = vault("shared".into()).await;
    let start = Instant::now();
    let mut wires = Vec::new();
    for number in 0..senders {
        let name = format!("s{number}");
        let vault = if receivers > 0 { shared.clone() } else { vault(format!("v{number}")).await };
        let wire = open(&url, &token(name.clone()).await, &name, &vault).await;
        wires.push((wire, name, format!("org:{org}/vault:{vault}/bench")));
    }
    let (done, until) = tokio::sync::watch::channel(u64::MAX);
    let receiving = token("receivers".into()).await;
    let warm = Instant::now() + Duration::from_millis(700);
    let mut taking = Vec::new();
    for number in 0..receivers {
        let wire = open(&url, &receiving, &format!("r{number}"), &shared).await;
        taking.push(tokio::task::spawn_local(receiver(wire, start, warm, until.clone())));
    }
    let warm = Instant::now() + Duration::from_millis(500);
    let stop = warm + Duration::from_secs_f64(seconds);
    let tasks: Vec<_> = wires
        .into_iter()
        .map(|(wire, name, channel)| {
            tokio::task::spawn_local(sender(wire, name, channel, window, body, start, stop, warm))
        })
        .collect();
    tokio::time::sleep_until(warm.into()).await;
    let (before, before_own) = (cpu_us(pid), cpu_us(std::process::id()));
    tokio::time::sleep_until(stop.into()).await;
    let (cpu, own) = (cpu_us(pid) - before, cpu_us(std::process::id()) - before_own);
    let mut acks = Histogram::new();
    let (mut published, mut disordered) = (0, 0);
    for task in tasks {
        let sent = task.await.unwrap();
        published += sent.published;
        disordered += sent.disordered;
        acks.merge(&sent.acks);
    }
    let ledger = admin.get("/admin/v1/ledger").await.json();
    done.send(ledger["bus"]["accepted"].as_u64().unwrap()).unwrap();
    let mut deliveries = Histogram::new();
    let (mut delivered, mut gaps) = (0, 0);
    for task in taking {
        let received = task.await.unwrap();
        delivered += received.delivered;
        gaps += received.gaps;
        deliveries.merge(&received.latency);
    }
    println!(
        "{}",
        json!({
            "published_per_s": (published as f64 / seconds).round(), "delivered_per_s": (delivered as f64 / seconds).round(),
            "ack_ms": { "p50": acks.at(0.5), "p99": acks.at(0.99), "p999": acks.at(0.999) },
            "deliver_ms": { "p50": deliveries.at(0.5), "p99": deliveries.at(0.99), "p999": deliveries.at(0.999) },
            "gaps": gaps, "misordered": disordered,
            "hub_cpu_us_per_msg": cpu as f64 / published.max(1) as f64,
            "hub_cpu_us_per_delivery": cpu as f64 / delivered.max(1) as f64,
            "own_cpu_us_per_msg": own as f64 / published.max(1) as f64, "hub_rss_mb": rss_mb(pid),
        })
    );
    child.kill().await.unwrap();
}

async fn hub(dir: &str) {
    let hub = TestHub::at(Options::default(), dir.as_ref()).await;
    println!("{}", hub.url);
    let mut stdin = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(_)) = stdin.next_line().await {}
    std::future::pending::<()>().await;
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|verb| verb == "hub") {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(hub(&args[2]));
    } else {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, run(&args));
    }
}

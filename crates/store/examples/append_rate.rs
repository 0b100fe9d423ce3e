//! How fast the embedded store appends, beside what the disk alone can do.
//!
//! `cargo run --release -p switchboard-store --example append_rate -- [--dir D] [--messages N] [--ids random|ordered]
//! [--search] [--only CALLERSxSIZE]` prints a bare 4 KiB write and `fdatasync`, the latency of one append in flight, and rates for batches and for
//! many callers. Bodies are 350 bytes; every answer is awaited, and every answer is durable.

use bytes::Bytes;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::event::EventKind;
use switchboard_core::ids::{InstanceNo, VaultId};
use switchboard_core::keys::HubKeys;
use switchboard_core::port::store::{Genesis, Store};
use switchboard_core::random::{Entropy, SystemEntropy, public_id};
use switchboard_core::time::{Clock, DAY_MS, SystemClock};
use switchboard_core::write::{Append, Batch, Dedup, Outcome, Recipient, StreamRef, Write};
use switchboard_store::sqlite::{Options, SqliteStore};

const VAULT: VaultId = VaultId([1; 16]);
const BODY_BYTES: usize = 350;

struct Args {
    dir: PathBuf,
    messages: usize,
    ordered: bool,
    search: bool,
    only: Option<String>,
}

fn args() -> Args {
    let mut parsed = Args {
        dir: std::env::temp_dir().join(format!("append-rate-{}", std::process::id())),
        messages: 100_000,
        ordered: false,
        search: false,
        only: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--search" => parsed.search = true,
            "--only" => parsed.only = args.next(),
            "--dir" => parsed.dir = args.next().map_or(parsed.dir, PathBuf::from),
            "--ids" => parsed.ordered = args.next().is_some_and(|ids| ids == "ordered"),
            "--messages" => {
                parsed.messages = args.next().and_then(|n| n.parse().ok()).unwrap_or(parsed.messages);
            }
            other => eprintln!("ignored: {other}"),
        }
    }
    parsed
}

/// A sender with the store it sends to.
#[derive(Clone)]
struct Sender {
    store: Arc<SqliteStore>,
    clock: Arc<SystemClock>,
    from: InstanceNo,
    ordered: bool,
    body: Bytes,
}

impl Sender {
    fn write(&self) -> Write {
        let now = self.clock.wall_ms();
        let client_id = if self.ordered {
            public_id("c", &SystemEntropy, now)
        } else {
            let mut random = [0; 16];
            SystemEntropy.fill(&mut random);
            switchboard_core::digest::hex(&random)
        };
        Write::Append(Append {
            stream: StreamRef::Channel { vault: VAULT, name: "general".into() },
            kind: EventKind::Finding,
            from_instance: self.from,
            from_agent: "sender-1".into(),
            dedup: Some(Dedup { client_id, digest: [7; 16] }),
            reply_to: None,
            recipient: Recipient::Everyone,
            deadline_ms: None,
            expires_at_ms: now + 30 * DAY_MS,
            handle: None,
            data: self.body.clone(),
        })
    }

    fn batch(&self, writes: usize) -> Batch {
        Batch { at_ms: self.clock.wall_ms(), writes: (0..writes).map(|_| self.write()).collect() }
    }

    async fn commits(&self) -> u64 {
        self.store.stats().await.expect("readable").commits
    }

    async fn send(&self, batch: Batch) {
        let count = batch.writes.len();
        let outcomes = self.store.commit(batch).await.expect("the commit succeeds");
        let stored = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Appended(_))).count();
        assert_eq!(stored, count);
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> u128 {
    sorted[(sorted.len() - 1) * percent / 100].as_micros()
}

/// Processor time of this process so far, all threads together. Unlike the rates it does not depend on what else runs.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// What one measurement took.
struct Span {
    messages: u32,
    commits: u64,
    took: Duration,
    processor: Duration,
}

/// A measurement under way.
struct Stopwatch<'c> {
    clock: &'c SystemClock,
    started: Duration,
    processor: Duration,
}

impl<'c> Stopwatch<'c> {
    fn start(clock: &'c SystemClock) -> Self {
        Self { clock, started: clock.monotonic(), processor: processor_time() }
    }

    fn stop(&self, messages: usize, commits: u64) -> Span {
        let took = self.clock.monotonic().saturating_sub(self.started);
        let processor = processor_time().saturating_sub(self.processor);
        Span { messages: u32::try_from(messages).unwrap_or(u32::MAX), commits, took, processor }
    }
}

fn report(what: &str, span: &Span, mut each: Vec<Duration>) {
    each.sort_unstable();
    let rate = f64::from(span.messages) / span.took.as_secs_f64();
    let (p50, p99) = (percentile(&each, 50), percentile(&each, 99));
    let processor = span.processor.as_secs_f64() * 1e6 / f64::from(span.messages);
    println!(
        "{what:<28} {rate:>9.0}/s   each p50 {p50:>6} us  p99 {p99:>6} us   processor {processor:>6.1} us/message   {} commits",
        span.commits
    );
}

fn disk(dir: &Path, clock: &SystemClock) {
    const BLOCKS: u64 = 4096;
    let path = dir.join("plain");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path).expect("a file");
    let write = |block: u64| {
        use std::os::unix::fs::FileExt as _;
        file.write_all_at(&[7; 4096], block * 4096).expect("it is written");
    };
    (0..BLOCKS).for_each(write);
    file.sync_all().expect("it is synced");
    let watch = Stopwatch::start(clock);
    let each = (0..1000).map(|at| {
        let begun = clock.monotonic();
        write(at);
        file.sync_data().expect("it is synced");
        clock.monotonic().saturating_sub(begun)
    });
    let each: Vec<_> = each.collect();
    report("4 KiB write and fdatasync", &watch.stop(each.len(), 1000), each);
    std::fs::remove_file(path).expect("it goes");
}

/// `callers` tasks, each with one batch of `size` in flight.
async fn run(what: &str, sender: &Sender, callers: usize, size: usize, messages: usize) {
    let rounds = (messages / callers / size).max(1);
    let before = sender.commits().await;
    let watch = Stopwatch::start(&sender.clock);
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut each = Vec::with_capacity(rounds);
                for _ in 0..rounds {
                    let batch = sender.batch(size);
                    let begun = sender.clock.monotonic();
                    sender.send(batch).await;
                    each.push(sender.clock.monotonic().saturating_sub(begun));
                }
                each
            })
        })
        .collect();
    let mut each = Vec::new();
    for task in tasks {
        each.extend(task.await.expect("the task ends"));
    }
    let commits = sender.commits().await - before;
    report(what, &watch.stop(callers * size * rounds, commits), each);
}

async fn pages(sender: &Sender) {
    let stream = sender.store.streams(0).await.expect("readable")[0].clone();
    let (mut each, mut rows) = (Vec::new(), 0);
    let watch = Stopwatch::start(&sender.clock);
    for at in 0..500 {
        let begun = sender.clock.monotonic();
        let after = stream.head * at / 500;
        rows += sender.store.page(stream.id, after, 200, usize::MAX).await.expect("readable").events.len();
        each.push(sender.clock.monotonic().saturating_sub(begun));
    }
    report("pages of 200 (rows)", &watch.stop(rows, 0), each);
}

async fn measure(args: &Args, clock: Arc<SystemClock>) {
    let options = Options { search: args.search, ..Options::default() };
    let store = Arc::new(SqliteStore::open_dir(&args.dir, options).expect("the store opens"));
    let genesis = Genesis {
        org_id: "org".into(),
        org_name: "Org".into(),
        owner_name: "Owner".into(),
        vault: VAULT,
        vault_name: "main".into(),
        hub_instance_id: "inst_hub".into(),
        epoch: "e".into(),
        keys: HubKeys::generate(&SystemEntropy),
        at_ms: clock.wall_ms(),
    };
    let from = store.open(genesis).await.expect("it opens").hub_instance;
    let body = Bytes::from(format!(r#""body":{{"text":"{}"}}"#, "lorem ipsum ".repeat(BODY_BYTES / 12)));
    let sender = Sender { store, clock, from, ordered: args.ordered, body };
    for (callers, size, messages) in [
        (1, 1, (args.messages / 20).min(5000)),
        (16, 1, args.messages / 2),
        (64, 1, args.messages / 2),
        (256, 1, args.messages / 2),
        (1, 16, args.messages),
        (2, 16, args.messages),
        (1, 128, args.messages),
        (2, 128, args.messages),
        (1, 1024, args.messages),
        (2, 1024, args.messages),
    ] {
        let what = format!("{callers} callers, batches of {size}");
        if args.only.as_ref().is_none_or(|only| *only == format!("{callers}x{size}")) {
            run(&what, &sender, callers, size, messages).await;
        }
    }
    pages(&sender).await;
    let stats = sender.store.stats().await.expect("readable");
    println!("{stats:?}");
    sender.store.close().await.expect("it closes");
}

fn main() {
    let args = args();
    let clock = Arc::new(SystemClock::default());
    std::fs::create_dir_all(&args.dir).expect("a directory");
    disk(&args.dir, &clock);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(measure(&args, clock));
    std::fs::remove_dir_all(&args.dir).expect("the directory goes");
}

//! `switchboard log`: the event log.

use super::ledger;
use crate::api::Api;
use crate::args::{Global, Log};
use crate::failure::{Exit, Failure};
use crate::terminal::{self, Output, line, print_json};
use std::time::Duration;
use switchboard_client::{Error, Method};
use switchboard_protocol::admin::{Audited, LogEntry, LogPage, Verified};

/// Records asked for at once; fewer when they are large.
const PAGE: u64 = 200;
/// How often a followed log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Verifying reads everything that was ever logged.
const VERIFY_PATIENCE: Duration = Duration::from_hours(1);

/// Shows, checks or exports the log.
pub async fn run(global: &Global, output: Output, command: &Log) -> Result<(), Failure> {
    match command {
        Log::Tail { follow, limit } => tail(&Api::find(global)?, output, *follow, *limit).await,
        Log::Verify => verify(&Api::find_patient(global, VERIFY_PATIENCE)?, output).await,
        Log::Audit => audit(&Api::find_patient(global, VERIFY_PATIENCE)?, output).await,
        Log::Export => export(&Api::find(global)?).await,
    }
}

async fn audit(api: &Api, output: Output) -> Result<(), Failure> {
    let found: Audited = api.post("/admin/v1/log/audit", &serde_json::json!({})).await?;
    output.show(&found, |found| {
        let rows = [ledger::row("kept", &found.kept), ledger::row("logged", &found.logged)];
        terminal::table(&ledger::HEADING, &rows)
    });
    match (found.ok, found.misfit) {
        (true, _) => Ok(()),
        (false, Some(misfit)) => Err(Failure::no(format!("The log contradicts itself: {misfit}."))),
        (false, None) => Err(Failure::no("The ledger is not what the log says.")),
    }
}

/// Entries of the log.
struct Entries {
    /// Oldest first.
    entries: Vec<LogEntry>,
    /// Whether they begin with the first entry there is.
    is_whole: bool,
}

/// The entries of the newest `records` records.
async fn newest(api: &Api, records: u64) -> Result<Entries, Failure> {
    let after = last_record(api).await?.saturating_sub(records);
    let mut entries = Vec::new();
    let mut reader = Reader::after(after);
    while let Some(page) = reader.next(api).await? {
        entries.extend(page);
    }
    Ok(Entries { entries, is_whole: after == 0 })
}

/// Reads the log forward.
struct Reader {
    after: u64,
    size: u64,
}

impl Reader {
    fn after(after: u64) -> Self {
        Self { after, size: PAGE }
    }

    /// The entries of the next page; `None` at the end, for now.
    async fn next(&mut self, api: &Api) -> Result<Option<Vec<LogEntry>>, Failure> {
        loop {
            match page(api, self.after, self.size).await {
                Ok(LogPage { entries, .. }) => {
                    let Some(last) = entries.last() else { return Ok(None) };
                    self.after = last.seq;
                    return Ok(Some(entries));
                }
                // A record holds all that was committed together; under load few of them fill an answer.
                Err(Error::Protocol(_)) if self.size > 1 => self.size /= 4,
                Err(error) => return api.failing(Err(error)),
            }
        }
    }
}

async fn page(api: &Api, after: u64, limit: u64) -> Result<LogPage, Error> {
    let limit = limit.max(1);
    api.http.rest(Method::GET, &format!("/admin/v1/log?after={after}&limit={limit}"), None::<&()>).await
}

/// The number of the last record: doubling until none is behind, then halving the rest.
async fn last_record(api: &Api) -> Result<u64, Failure> {
    let exists = async |after: u64| match page(api, after, 1).await {
        Ok(page) => Ok(!page.entries.is_empty() || page.next.is_some()),
        Err(Error::Protocol(_)) => Ok(true),
        Err(error) => api.failing(Err(error)),
    };
    let (mut below, mut above) = (0_u64, 1_u64);
    while exists(above - 1).await? {
        below = above;
        above = above.saturating_mul(2);
    }
    // Record `below` is there (or 0), record `above` is not.
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if exists(middle - 1).await? { below = middle } else { above = middle }
    }
    Ok(below)
}

async fn tail(api: &Api, output: Output, follow: bool, limit: usize) -> Result<(), Failure> {
    let mut span = (limit as u64).max(1);
    let (entries, last) = loop {
        let Entries { mut entries, is_whole } = newest(api, span).await?;
        if is_whole || entries.len() >= limit {
            let last = entries.last().map_or(0, |entry| entry.seq);
            entries.drain(..entries.len().saturating_sub(limit));
            break (entries, last);
        }
        span *= 2;
    };
    if !follow {
        output.show(&entries, |entries| entries.iter().map(text).collect());
        return Ok(());
    }
    let show = |entries: Vec<LogEntry>| {
        if output.json {
            entries.iter().all(print_json)
        } else {
            terminal::print(&entries.iter().map(text).collect::<String>())
        }
    };
    let mut signals = crate::signals::Signals::listen();
    let mut reader = Reader::after(last);
    let mut heard = show(entries);
    while heard {
        if let Some(entries) = reader.next(api).await? {
            heard = show(entries);
        } else {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = signals.next() => break,
            }
        }
    }
    Ok(())
}

fn text(entry: &LogEntry) -> String {
    let times = if entry.count > 1 { format!("  {} times", entry.count) } else { String::new() };
    let LogEntry { seq, at, result, verb, actor, subject, .. } = entry;
    // What the hub does for its owner has no actor.
    let actor = if actor.is_empty() { "the hub" } else { actor };
    line(&format!("{seq:>6}  {at}  {result:<8}  {verb:<18}  {actor:<31}  {subject}{times}")) + "\n"
}

async fn verify(api: &Api, output: Output) -> Result<(), Failure> {
    let verified: Verified = api.post("/admin/v1/log/verify", &serde_json::json!({})).await?;
    output.show(&verified, |verified| {
        terminal::facts(&[
            ("log", if verified.ok { "holds".into() } else { "BROKEN".into() }),
            ("entries", verified.entries.to_string()),
            ("signed checkpoints", verified.checkpoints.to_string()),
        ])
    });
    match verified.first_broken {
        None if verified.ok => Ok(()),
        broken => {
            let broken = broken.map(|broken| format!(" Record {}: {}.", broken.seq, line(&broken.why)));
            let message = format!("The log does not hold.{}", broken.unwrap_or_default());
            Err(Failure::new(Exit::No, "SB0210", message)
                .next("keep this data directory as it is; restore a backup elsewhere and compare"))
        }
    }
}

async fn export(api: &Api) -> Result<(), Failure> {
    let mut reader = Reader::after(0);
    while let Some(entries) = reader.next(api).await? {
        if !entries.iter().all(print_json) {
            break;
        }
    }
    Ok(())
}

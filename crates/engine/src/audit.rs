//! Verifying the event log: the chain is recomputed from the first record, every event that still stands is compared with
//! what was logged of it, and every checkpoint's signature is checked. One flipped bit is found and named.

use crate::hub::Hub;
use std::collections::HashMap;
use switchboard_core::digest::Digest;
use switchboard_core::ids::{EventId, StreamId};
use switchboard_core::keys::verify;
use switchboard_core::ledger::Ledger;
use switchboard_core::log::{
    Checkpoint, Entry, GENESIS, Record, checkpoint_input, event_digest, record_digest,
};
use switchboard_core::outbound;
use switchboard_core::port::store::{Store, StoreError};

/// Records read at once.
const PAGE: usize = 500;

/// The first thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Broken {
    /// The log record.
    pub seq: u64,
    /// What is wrong with it.
    pub why: String,
}

/// What the log is.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Whether everything holds.
    pub ok: bool,
    /// Entries seen.
    pub entries: u64,
    /// Checkpoints whose signature holds.
    pub checkpoints: u64,
    /// The first thing that does not hold.
    pub first_broken: Option<Broken>,
}

/// The ledger of what goes to people, twice: as the store counts it, and as the log tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// Whether they agree.
    pub ok: bool,
    /// As the store counts it.
    pub kept: Ledger,
    /// Out of every entry of the log.
    pub logged: Ledger,
    /// The first entry that does not fit to those before it.
    pub misfit: Option<String>,
}

/// How often the log is read on because commits went on meanwhile, before the two are compared as they are.
const ROUNDS: usize = 20;

/// Recomputes the ledger from the log and compares it with the one that is kept (DESIGN law 1).
pub async fn audit_ledger(store: &dyn Store) -> Result<Audited, StoreError> {
    let (mut audit, mut commit, mut misfit) = (outbound::audit::Audit::default(), 0, None);
    let mut kept = Ledger::default();
    for _ in 0..ROUNDS {
        loop {
            let page = store.log(commit, PAGE).await?;
            let Some(last) = page.last() else { break };
            commit = last.commit;
            for entry in page.iter().flat_map(|record| Entry::decode_all(&record.entries).unwrap_or_default())
            {
                if let Err(error) = audit.take(&entry) {
                    misfit.get_or_insert(error.to_string());
                }
            }
        }
        kept = store.outbound().outbound_ledger().await?;
        if store.log(commit, 1).await?.is_empty() {
            break; // nothing was committed between the end of the log and the counts
        }
    }
    let logged = audit.ledger();
    Ok(Audited { ok: logged == kept && misfit.is_none(), kept, logged, misfit })
}

/// Verifies the whole log of the hub's store; `progress` is told of each page.
pub async fn verify_log(hub: &Hub, progress: impl Fn(u64)) -> Result<Report, StoreError> {
    let key = hub.installation.keys.signer_public();
    let name = |id: EventId| {
        let stream =
            hub.streams.get(id.stream).map_or_else(|| format!("stream {}", id.stream.0), |s| s.name.clone());
        format!("{} ({stream} seq {})", hub.gids.gid(id), id.seq)
    };
    verify_store(hub.store(), &key, name, progress).await
}

/// Verifies the whole log of a store that no hub has to run on. `key` is the public key that signs; `name` says of an event what people
/// know it by.
pub async fn verify_store(
    store: &dyn Store,
    key: &[u8; 32],
    name: impl Fn(EventId) -> String,
    progress: impl Fn(u64),
) -> Result<Report, StoreError> {
    let mut report = Report { ok: true, ..Report::default() };
    let mut checkpoints = checkpoints(store).await?;
    let (mut commit, mut digest) = (0, GENESIS);
    loop {
        let page = store.log(commit, PAGE).await?;
        if page.is_empty() {
            break;
        }
        for record in &page {
            let found = match check_record(record, commit, &digest) {
                Ok(entries) => {
                    report.entries += entries.len() as u64;
                    check_events(store, &entries, &name).await?
                }
                Err(why) => Some(why),
            };
            let found = found.or_else(|| match checkpoints.remove(&record.commit) {
                Some(checkpoint) if is_signed(&checkpoint, &record.digest, key) => {
                    report.checkpoints += 1;
                    None
                }
                Some(_) => Some("the checkpoint's signature does not fit the chain".into()),
                None => None,
            });
            if let Some(why) = found {
                report.ok = false;
                report.first_broken = Some(Broken { seq: record.commit, why });
                return Ok(report);
            }
            (commit, digest) = (record.commit, record.digest);
        }
        progress(report.entries);
    }
    if let Some(beyond) = checkpoints.keys().min() {
        report.ok = false;
        let why = "a signed checkpoint speaks of a record that is not there: the log was cut off".into();
        report.first_broken = Some(Broken { seq: *beyond, why });
    }
    Ok(report)
}

async fn checkpoints(store: &dyn Store) -> Result<HashMap<u64, Checkpoint>, StoreError> {
    let mut all = HashMap::new();
    let mut after = 0;
    loop {
        let page = store.checkpoints(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = last.commit;
        all.extend(page.into_iter().map(|checkpoint| (checkpoint.commit, checkpoint)));
    }
}

fn is_signed(checkpoint: &Checkpoint, digest: &Digest, key: &[u8; 32]) -> bool {
    let input = checkpoint_input(checkpoint.commit, &checkpoint.digest);
    checkpoint.digest == *digest && verify(key, &input, &checkpoint.signature)
}

fn check_record(record: &Record, previous: u64, digest: &Digest) -> Result<Vec<Entry>, String> {
    if record.commit != previous + 1 {
        return Err(format!("record {} is missing", previous + 1));
    }
    if record_digest(digest, record.commit, record.at_ms, &record.entries) != record.digest {
        return Err("the record differs from its digest".into());
    }
    Entry::decode_all(&record.entries).ok_or_else(|| "the record cannot be read".into())
}

/// Compares the events of a record with what was logged of them. An event that retention removed is not missed.
async fn check_events(
    store: &dyn Store,
    entries: &[Entry],
    name: &impl Fn(EventId) -> String,
) -> Result<Option<String>, StoreError> {
    let logged: Vec<(EventId, Digest)> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Event { id, digest, .. } => Some((*id, *digest)),
            _ => None,
        })
        .collect();
    let found = store.events(logged.iter().map(|(id, _)| *id).collect()).await?;
    let mut first: HashMap<StreamId, u64> = HashMap::new();
    for ((id, digest), event) in logged.into_iter().zip(found) {
        match event {
            Some(event) if event_digest(&event) == digest => {}
            Some(_) => {
                return Ok(Some(format!("the stored event {} differs from what was logged", name(id))));
            }
            None => {
                let left = match first.get(&id.stream) {
                    Some(left) => *left,
                    None => store.stream_by_id(id.stream).await?.map_or(1, |info| info.first),
                };
                first.insert(id.stream, left);
                if id.seq >= left {
                    return Ok(Some(format!(
                        "the event {} is gone without retention having removed it",
                        name(id)
                    )));
                }
            }
        }
    }
    Ok(None)
}

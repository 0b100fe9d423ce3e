//! What happens by itself: deadlines, retention, presence of the dead, checkpoints, the log of refusals. Each task ends
//! when the hub stops; none loses anything by ending, since what is due stands in the store.

use crate::frame;
use crate::hub::Hub;
use crate::nodes;
use crate::policy::Look;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::limits::{CHECKPOINT_COMMITS, NODE_BEAT_MS, SWEEP_ROWS_MAX};
use switchboard_core::log::{Checkpoint, checkpoint_input};
use switchboard_core::outbound::write::{OutboundOutcome, OutboundWrite};
use switchboard_core::port::doorbell::Topic;
use switchboard_core::port::store::StoreError;
use switchboard_core::write::{Outcome, TaskChange, TaskData, Write};

/// Questions that become proposals in one commit.
const EXPIRE_AT_ONCE: usize = 100;
/// Between two sweeps of retention, which counts in days.
const RETENTION_EVERY: Duration = Duration::from_mins(1);

/// Starts them all.
pub fn start(hub: &Arc<Hub>) {
    spawn(hub, "streams", |hub| async move { nodes::find_streams(&hub).await });
    spawn(hub, "presence", |hub| async move { hub.presence.run(&hub).await });
    spawn(
        hub,
        "deadlines",
        |hub| async move { every(&hub, hub.settings.sweep_every, expire_questions).await },
    );
    spawn(hub, "outbound", |hub| async move {
        let own = hub.clone();
        every(&hub, hub.settings.sweep_every, async move |_: &Hub| end_outbound(&own).await).await;
    });
    spawn(hub, "escalation", |hub| async move {
        every(&hub, hub.settings.sweep_every, crate::outbound::escalate::climb).await;
    });
    spawn(hub, "retention", |hub| async move { every(&hub, RETENTION_EVERY, sweep).await });
    spawn(hub, "refusals", |hub| async move { every(&hub, Duration::from_secs(1), refusals).await });
    spawn(hub, "policy", |hub| async move { every(&hub, Duration::from_secs(1), policy).await });
    spawn(hub, "checkpoints", |hub| async move { every(&hub, Duration::from_secs(10), checkpoint).await });
    if hub.store().is_shared() {
        spawn(hub, "beat", |hub| async move { nodes::beat(&hub).await });
        spawn(hub, "look", |hub| async move { nodes::look(&hub).await });
        let period = Duration::from_millis(NODE_BEAT_MS.unsigned_abs());
        spawn(hub, "orphans", move |hub| async move { every(&hub, period, close_orphans).await });
    } else {
        spawn(hub, "orphans", |hub| async move {
            tokio::time::sleep(hub.settings.presence_grace).await;
            // What cannot be closed now is closed by the next start.
            let _ = close_orphans(&hub).await;
        });
    }
}

fn spawn<F: Future<Output = ()> + Send + 'static>(
    hub: &Arc<Hub>,
    name: &'static str,
    task: impl Fn(Arc<Hub>) -> F,
) {
    use tracing::Instrument as _;
    hub.spawn(task(hub.clone()).instrument(tracing::info_span!("task", name)));
}

async fn every(hub: &Arc<Hub>, period: Duration, step: impl AsyncFn(&Hub) -> Result<(), StoreError>) {
    let mut failing = false;
    loop {
        match step(hub).await {
            Ok(()) => failing = false,
            Err(StoreError::Closed) => return,
            Err(error) if !failing => {
                failing = true; // said once, not once a second
                tracing::warn!(%error, "a timed task failed; it goes on trying");
            }
            Err(_) => {}
        }
        tokio::time::sleep(period).await;
    }
}

async fn refusals(hub: &Hub) -> Result<(), StoreError> {
    hub.flush_refusals().await;
    Ok(())
}

async fn policy(hub: &Hub) -> Result<(), StoreError> {
    hub.look_at_policy(Look::IfTouched).await
}

/// Questions nobody answered in time become task proposals.
pub(crate) async fn expire_questions(hub: &Hub) -> Result<(), StoreError> {
    while hub.is_keeper() {
        let due = hub.store().next_deadline().await?.is_some_and(|due| due <= hub.clock().wall_ms());
        if !due {
            return Ok(());
        }
        let write = Write::ExpireQuestions { limit: EXPIRE_AT_ONCE, data: task_data(hub) };
        match hub.commit_as_keeper(write).await? {
            Some(Outcome::Expired(EXPIRE_AT_ONCE)) => {}
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Sends, questions and approvals whose time is over end; what was approved and has not gone on does.
pub(crate) async fn end_outbound(hub: &Arc<Hub>) -> Result<(), StoreError> {
    while hub.is_keeper() {
        for send in hub.store().outbound().to_release().await? {
            // What is refused by now was decided by somebody else meanwhile.
            let _ = crate::outbound::people::release(hub, send).await;
        }
        crate::outbound::quiet::wake(hub).await?;
        let due = hub.store().outbound().next_end().await?.is_some_and(|due| due <= hub.clock().wall_ms());
        if !due {
            return Ok(());
        }
        let write = Write::Outbound(OutboundWrite::Expire { limit: EXPIRE_AT_ONCE });
        let Some(Outcome::Outbound(outcome)) = hub.commit_as_keeper(write).await? else { return Ok(()) };
        hub.outbound_changed(&outcome);
        if matches!(&outcome, OutboundOutcome::Expired(ended) if ended.len() < EXPIRE_AT_ONCE) {
            return Ok(());
        }
    }
    Ok(())
}

/// How the hub announces what happened to a task.
pub(crate) fn task_data(hub: &Hub) -> TaskData {
    let streams = hub.streams.clone();
    let render = move |change: &TaskChange<'_>| {
        let mut data = Vec::new();
        frame::member(&mut data, "channel", &streams.channel_name(change.vault, change.channel));
        frame::member(&mut data, "number", &change.number);
        frame::member(&mut data, "event", &change.event);
        frame::member(&mut data, "state", &change.state);
        data.into()
    };
    TaskData { render: Arc::new(render), keep_ms: hub.org_keep_ms(), by: hub.installation.hub_instance }
}

/// Removes what retention says, in steps small enough that writers never wait long.
pub(crate) async fn sweep(hub: &Hub) -> Result<(), StoreError> {
    loop {
        match hub.commit_as_keeper(Write::Sweep { limit: SWEEP_ROWS_MAX }).await? {
            Some(Outcome::Swept(SWEEP_ROWS_MAX)) => tokio::task::yield_now().await,
            _ => return Ok(()),
        }
    }
}

/// Signs the chain where it stands, when enough was added since the last time.
pub(crate) async fn checkpoint(hub: &Hub) -> Result<(), StoreError> {
    if !hub.is_keeper() {
        return Ok(());
    }
    let commits = hub.store().stats().await?.commits;
    let signed = last_checkpoint(hub).await?;
    if commits < signed + CHECKPOINT_COMMITS {
        return Ok(());
    }
    sign_checkpoint(hub, commits).await
}

/// Signs the chain at `commit`.
pub(crate) async fn sign_checkpoint(hub: &Hub, commit: u64) -> Result<(), StoreError> {
    let Some(record) = hub.store().log(commit.saturating_sub(1), 1).await?.into_iter().next() else {
        return Ok(());
    };
    let signature = hub.installation.keys.sign(&checkpoint_input(record.commit, &record.digest));
    let checkpoint = Checkpoint { commit: record.commit, digest: record.digest, signature };
    hub.commit(vec![Write::Checkpoint(checkpoint)]).await.map(drop)
}

async fn last_checkpoint(hub: &Hub) -> Result<u64, StoreError> {
    let mut last = 0;
    loop {
        let page = hub.store().checkpoints(last, 1000).await?;
        match page.last() {
            Some(newest) => last = newest.commit,
            None => return Ok(last),
        }
    }
}

/// Agents whose hub died with them do not stay present: what no living node holds is closed. Where this is the only node, once,
/// when the grace is over.
async fn close_orphans(hub: &Hub) -> Result<(), StoreError> {
    let close = Write::CloseOrphans { alive: vec![hub.node] };
    if matches!(hub.commit_as_keeper(close).await?, Some(Outcome::Closed(1..))) {
        let vaults: Vec<_> = hub.vaults.read().keys().copied().map(Topic::Vault).collect();
        hub.doorbell().ring(&vaults);
    }
    Ok(())
}

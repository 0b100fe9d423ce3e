//! What every function of the suite stands on: a fresh store, people and instances in it, short words for common writes.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use switchboard_core::event::{EventKind, StoredEvent};
use switchboard_core::ids::{EventId, InstanceNo, StreamId, VaultId};
use switchboard_core::keys::HubKeys;
use switchboard_core::log::Entry;
use switchboard_core::port::store::{
    CommitListener, Genesis, Installation, Store, StoreError, StreamInfo, StreamOwner,
};
use switchboard_core::principal::InstanceKind;
use switchboard_core::random::Entropy;
use switchboard_core::rights::Rights;
use switchboard_core::time::{DAY_MS, WallMs};
use switchboard_core::write::{
    Announce, Append, Appended, Batch, Dedup, NewInstance, Outcome, Presence, Recipient, Refusal, StreamRef,
    TaskData, Write,
};

/// Makes stores of one backend.
pub trait Backend: Send + Sync {
    /// A store with nothing in it.
    fn fresh(&self) -> BoxFuture<'_, Arc<dyn Store>>;
    /// The same store after a restart; `store` is its only user and is let go of first.
    fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>>;
    /// Another node's handle on the same store; `None` when the backend admits one node only.
    fn second(&self) -> BoxFuture<'_, Option<Arc<dyn Store>>>;
}

/// Stamp at which every test begins.
pub const START_MS: WallMs = 1_800_000_000_000;

/// Randomness that repeats.
#[derive(Debug)]
pub struct Fixed(pub u8);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

/// The first vault of every test.
pub const VAULT: VaultId = VaultId([7; 16]);

/// What the first start is given.
#[must_use]
pub fn genesis() -> Genesis {
    Genesis {
        org_id: "org_test".into(),
        org_name: "Test".into(),
        owner_name: "Olivia".into(),
        vault: VAULT,
        vault_name: "main".into(),
        hub_instance_id: "inst_hub".into(),
        epoch: "e1".into(),
        keys: HubKeys::generate(&Fixed(3)),
        at_ms: START_MS,
    }
}

/// Hears what was committed.
#[derive(Default)]
pub struct Heard(Mutex<Vec<Arc<StoredEvent>>>);

impl Heard {
    /// Everything heard so far, in order.
    pub fn events(&self) -> Vec<Arc<StoredEvent>> {
        self.0.lock().clone()
    }
}

impl CommitListener for Heard {
    fn committed(&self, events: &[Arc<StoredEvent>]) {
        self.0.lock().extend(events.iter().cloned());
    }
}

/// A store under test.
pub struct Bench<'b> {
    backend: &'b dyn Backend,
    store: Option<Arc<dyn Store>>,
    /// Hears every commit.
    pub heard: Arc<Heard>,
    /// What the store is of.
    pub installation: Installation,
    /// Stamp of the next batch.
    pub now: WallMs,
    /// Whether to restart the store before each batch.
    pub restless: bool,
    made: u32,
}

impl<'b> Bench<'b> {
    /// A fresh store; `restless` restarts it before each batch.
    pub async fn new(backend: &'b dyn Backend, restless: bool) -> Self {
        let store = backend.fresh().await;
        let heard = Arc::new(Heard::default());
        store.listen(Arc::<Heard>::clone(&heard));
        let installation = store.open(genesis()).await.expect("a fresh store opens");
        Self { backend, store: Some(store), heard, installation, now: START_MS + 1000, restless, made: 0 }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("the store is open")
    }

    /// Another reference to the store.
    #[must_use]
    pub fn shared(&self) -> Arc<dyn Store> {
        Arc::clone(self.store.as_ref().expect("the store is open"))
    }

    /// Another node's handle, if the backend has such.
    pub async fn second(&self) -> Option<Arc<dyn Store>> {
        self.backend.second().await
    }

    /// Restarts the store.
    pub async fn restart(&mut self) {
        let store = self.store.take().expect("the store is open");
        let store = self.backend.reopen(store).await;
        store.listen(Arc::<Heard>::clone(&self.heard));
        self.installation = store.open(genesis()).await.expect("a store opens again");
        self.store = Some(store);
    }

    /// Commits `writes` at [`Bench::now`].
    pub async fn commit(&mut self, writes: Vec<Write>) -> Vec<Outcome> {
        self.try_commit(writes).await.expect("the commit succeeds")
    }

    /// Commits `writes` at [`Bench::now`].
    pub async fn try_commit(&mut self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        if self.restless {
            self.restart().await;
        }
        let count = writes.len();
        let outcomes = self.store().commit(Batch { at_ms: self.now, writes }).await?;
        assert_eq!(outcomes.len(), count, "one outcome per write");
        Ok(outcomes)
    }

    /// Commits one write.
    pub async fn one(&mut self, write: Write) -> Outcome {
        self.commit(vec![write]).await.remove(0)
    }

    /// Commits an append that must succeed.
    pub async fn append(&mut self, append: Append) -> Appended {
        appended(&self.one(Write::Append(append)).await)
    }

    /// Commits a write that must be refused, and checks that it changed nothing.
    pub async fn refused(&mut self, write: Write) -> Refusal {
        let before = self.commits().await;
        match self.one(write).await {
            Outcome::Refused(refusal) => {
                assert_eq!(self.commits().await, before, "a refused write commits nothing");
                refusal
            }
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    /// Commits in the log.
    pub async fn commits(&self) -> u64 {
        let (mut last, mut count) = (0, 0);
        loop {
            let page = self.store().log(last, 1000).await.expect("the log is readable");
            let Some(end) = page.last() else { return count };
            last = end.commit;
            count += page.len() as u64;
        }
    }

    /// A new instance, owned by a person of the same name.
    pub async fn instance(&mut self, name: &str) -> InstanceNo {
        self.made += 1;
        let new = new_instance(&format!("inst_{name}"), Some(name));
        instance_of(&self.one(Write::CreateInstance(new)).await)
    }

    /// An instance's agent announces itself in [`VAULT`].
    pub async fn announce(&mut self, instance: InstanceNo, agent: &str) -> Outcome {
        self.one(Write::Announce(announce(instance, agent))).await
    }

    /// A channel of [`VAULT`].
    pub async fn channel(&self, name: &str) -> Option<StreamInfo> {
        let owner = StreamOwner::Channel { vault: VAULT, name: name.into() };
        self.store().stream(owner).await.expect("streams are readable")
    }

    /// Every event of a stream.
    pub async fn all(&self, stream: StreamId) -> Vec<StoredEvent> {
        self.store().page(stream, 0, 1_000_000, usize::MAX).await.expect("pages are readable").events
    }

    /// One event.
    pub async fn event(&self, id: EventId) -> Option<StoredEvent> {
        self.store().events(vec![id]).await.expect("events are readable").remove(0)
    }

    /// Every entry of the log.
    pub async fn entries(&self) -> Vec<Entry> {
        let records = self.store().log(0, 1_000_000).await.expect("the log is readable");
        let decoded =
            records.iter().map(|record| Entry::decode_all(&record.entries).expect("entries decode"));
        decoded.flatten().collect()
    }
}

/// An instance of one's own; `owner` is a display name.
#[must_use]
pub fn new_instance(instance_id: &str, owner: Option<&str>) -> NewInstance {
    NewInstance {
        instance_id: instance_id.into(),
        kind: InstanceKind::Token,
        label: format!("label of {instance_id}"),
        owner: owner.map(str::to_owned),
        rights: Rights::AGENT,
        token_hash: None,
        keys: None,
    }
}

/// An announcement in [`VAULT`] by node 1.
#[must_use]
pub fn announce(instance: InstanceNo, agent: &str) -> Announce {
    Announce {
        vault: VAULT,
        instance,
        agent: agent.into(),
        role: None,
        profile: None,
        state: Presence::Active,
        node: 1,
    }
}

/// A finding for everybody in channel `general` of [`VAULT`], without a client's id.
#[must_use]
pub fn finding(from: InstanceNo) -> Append {
    Append {
        stream: StreamRef::Channel { vault: VAULT, name: "general".into() },
        kind: EventKind::Finding,
        from_instance: from,
        from_agent: "sender".into(),
        dedup: None,
        reply_to: None,
        recipient: Recipient::Everyone,
        deadline_ms: None,
        expires_at_ms: START_MS + 30 * DAY_MS,
        handle: None,
        data: Bytes::from_static(br#""body":{"text":"hello there"}"#),
    }
}

/// A question with a deadline of one hour after the start.
#[must_use]
pub fn question(from: InstanceNo) -> Append {
    let deadline_ms = Some(START_MS + 3_600_000);
    Append { kind: EventKind::Question, deadline_ms, ..finding(from) }
}

/// `append` with a client's id and a digest of `content`.
#[must_use]
pub fn with_id(append: Append, client_id: &str, content: u8) -> Append {
    Append { dedup: Some(Dedup { client_id: client_id.into(), digest: [content; 16] }), ..append }
}

/// `append` to `agent`, unless named at whichever instance announced it.
#[must_use]
pub fn to(append: Append, agent: &str, instance: Option<&str>) -> Append {
    let recipient = Recipient::Agent { agent: agent.into(), instance: instance.map(str::to_owned) };
    Append { recipient, ..append }
}

/// `append` in another channel of [`VAULT`].
#[must_use]
pub fn in_channel(append: Append, name: &str) -> Append {
    Append { stream: StreamRef::Channel { vault: VAULT, name: name.into() }, ..append }
}

/// The outcome of an append that was not refused.
pub fn appended(outcome: &Outcome) -> Appended {
    match outcome {
        Outcome::Appended(appended) => *appended,
        other => panic!("expected an appended event, got {other:?}"),
    }
}

/// The outcome of a write that made an instance.
pub fn instance_of(outcome: &Outcome) -> InstanceNo {
    match outcome {
        Outcome::Instance { instance, .. } => *instance,
        other => panic!("expected an instance, got {other:?}"),
    }
}

/// What task events of the tests look like.
#[must_use]
pub fn task_data(by: InstanceNo) -> TaskData {
    TaskData {
        render: Arc::new(|change| {
            Bytes::from(format!(
                r#""channel":"{}/{}","number":{},"event":"{}","state":"{}""#,
                change.vault, change.channel, change.number, change.event, change.state
            ))
        }),
        keep_ms: DAY_MS,
        by,
    }
}

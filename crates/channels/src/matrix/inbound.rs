//! The way back: `/sync`, over and over. Where it stands is kept in the account's own data, and moves only when everything before it has been
//! taken: nothing that was written while we were away, or while it could not be stored, is lost.

use super::address;
use super::answer::Fault;
use super::api::Api;
use super::event::Event;
use super::outbound::Outbound;
use super::reader::Reader;
use super::rooms::{Rooms, direct_of};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::port::channel::{AddressKind, Inbound};
use switchboard_core::random::{self, Entropy};
use switchboard_core::time::{Clock, MINUTE_MS, WallMs};
use tokio::time::sleep;

/// Where the account's data says how far we have read.
pub(super) const OFFSET: &str = "io.switchboard.sync";
/// Most events of a room in one answer; what is more is asked for page by page.
const TIMELINE_MAX: usize = 50;
/// Pages of a hundred events that are asked for at most in one room.
const PAGES_MAX: usize = 50;
/// How long where we stand is not written down while nothing is for us.
const OFFSET_AGE: Duration = Duration::from_mins(1);
/// By how much servers' clocks may differ from ours, where ages of events are compared.
const SKEW_MS: WallMs = 10 * MINUTE_MS;
/// The kinds of event that are read.
const KINDS: [&str; 5] =
    ["m.room.message", "m.room.redaction", "m.reaction", "m.room.encryption", "m.room.encrypted"];

/// The way back.
pub(super) struct Listener {
    pub reader: Reader,
    pub api: Arc<Api>,
    pub rooms: Arc<Rooms>,
    pub outbound: Arc<Outbound>,
    pub invite_servers: Option<Vec<String>>,
    pub poll: Duration,
    pub backoff: (Duration, Duration),
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

/// Why nothing comes in, for people.
#[derive(Debug)]
struct Down(String);

impl From<Fault> for Down {
    fn from(fault: Fault) -> Self {
        Self(fault.reason().to_owned())
    }
}

/// How far we have read.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Offset {
    since: String,
    /// When that was; if the server does not know `since` any more, what is younger is looked for.
    at_ms: WallMs,
}

#[derive(Deserialize)]
struct Synced {
    next_batch: String,
    #[serde(default)]
    account_data: Events,
    #[serde(default)]
    rooms: SyncedRooms,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Events {
    events: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SyncedRooms {
    join: BTreeMap<String, Joined>,
    invite: BTreeMap<String, Invited>,
    leave: BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Joined {
    state: Events,
    timeline: Timeline,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Timeline {
    events: Vec<Value>,
    limited: bool,
    prev_batch: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Invited {
    invite_state: Events,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    chunk: Vec<Value>,
    end: Option<String>,
}

/// What is new.
struct News {
    synced: Synced,
    /// Since when; `None` when the answer holds what there is.
    since: Option<String>,
    /// What is older is left alone.
    from_ms: WallMs,
}

/// What a batch was.
#[derive(Default)]
struct Batch {
    /// Whether anything was for us.
    taken: bool,
    /// Where somebody writes what cannot be read.
    encrypted: Option<String>,
}

/// What is kept while listening.
struct Progress {
    pause: Duration,
    timeline_max: usize,
    /// When where we stand was written down.
    kept: Duration,
    /// When we began: what is older at the very first start is left alone.
    first_ms: WallMs,
}

impl Listener {
    /// Reads for ever; asks again after a pause that grows while that fails.
    pub async fn listen(&self, inbound: Arc<dyn Inbound>) {
        let kept = self.clock.monotonic();
        let first_ms = self.clock.wall_ms();
        let mut progress = Progress { pause: self.backoff.0, timeline_max: TIMELINE_MAX, kept, first_ms };
        loop {
            let Err(Down(reason)) = self.session(&*inbound, &mut progress).await;
            inbound.health(&self.reader.channel, Some(reason));
            sleep(self.jittered(progress.pause)).await;
            progress.pause = (progress.pause * 2).min(self.backoff.1);
        }
    }

    /// Between half of `pause` and all of it, so that many do not come back at once.
    fn jittered(&self, pause: Duration) -> Duration {
        let [chance] = random::bytes::<1>(&*self.entropy);
        pause.mul_f64(0.5 + f64::from(chance) / 510.0)
    }

    /// From where we stand, until something fails.
    async fn session(&self, inbound: &dyn Inbound, progress: &mut Progress) -> Result<Infallible, Down> {
        let me = self.rooms.me().await?.to_owned();
        self.rooms.set_direct(self.rooms.ask_direct().await?);
        self.rooms.forget();
        let kept: Option<Value> = self.api.account_data(&me, OFFSET).await?;
        let mut offset = kept.and_then(|kept| Offset::deserialize(kept).ok());
        let (mut wait, mut told) = (Duration::ZERO, Some(String::new()));
        loop {
            let at_ms = self.clock.wall_ms();
            let news = self.news(&me, offset.as_ref(), wait, progress).await?;
            let batch = self.batch(&me, inbound, &news).await?;
            let due = self.clock.monotonic().saturating_sub(progress.kept) >= OFFSET_AGE;
            let next = Offset { since: news.synced.next_batch, at_ms };
            if news.since.is_none() || batch.taken || due {
                self.api.set_account_data(&me, OFFSET, &json!(next)).await?;
                progress.kept = self.clock.monotonic();
            }
            offset = Some(next);
            // At the beginning nothing was told, and then what has changed.
            if told != batch.encrypted {
                inbound.health(&self.reader.channel, batch.encrypted.clone());
                told = batch.encrypted;
            }
            (wait, progress.pause, progress.timeline_max) = (self.poll, self.backoff.0, TIMELINE_MAX);
        }
    }

    /// What is new since `offset`. When the server does not know that any more, what is younger is found all the same: the last events of
    /// each room.
    async fn news(
        &self,
        me: &str,
        offset: Option<&Offset>,
        wait: Duration,
        progress: &mut Progress,
    ) -> Result<News, Down> {
        let filter = filter(me, progress.timeline_max);
        let since = offset.map(|offset| offset.since.clone());
        match (self.api.sync(since.as_deref(), &filter, wait).await, offset) {
            (Ok(synced), Some(_)) => Ok(News { synced, since, from_ms: WallMs::MIN }),
            (Ok(synced), None) => Ok(News { synced, since, from_ms: progress.first_ms }),
            (Err(fault), Some(lost)) if fault.is_final() => {
                let synced = self.api.sync(None, &filter, Duration::ZERO).await?;
                Ok(News { synced, since: None, from_ms: lost.at_ms.saturating_sub(SKEW_MS) })
            }
            (Err(fault), _) => {
                // It may have been too much at once.
                progress.timeline_max = (progress.timeline_max / 2).max(1);
                Err(fault.into())
            }
        }
    }

    /// Takes everything that is new.
    async fn batch(&self, me: &str, inbound: &dyn Inbound, news: &News) -> Result<Batch, Down> {
        let synced = &news.synced;
        self.notice_changes(synced);
        for (room, invited) in &synced.rooms.invite {
            self.accept(me, room, &invited.invite_state.events).await?;
        }
        let mut batch = Batch::default();
        for (room, joined) in &synced.rooms.join {
            for event in self.timeline(me, room, &joined.timeline, news.since.as_deref()).await? {
                if event.origin_server_ts < news.from_ms {
                    continue;
                }
                if event.kind == "m.room.encrypted" && event.sender != me {
                    batch.encrypted = Some(format!(
                        "{} writes in the room {room}, which is end-to-end encrypted and cannot be read here; use a room without encryption",
                        event.sender
                    ));
                }
                batch.taken |= self.take(me, inbound, room, event).await?;
            }
        }
        Ok(batch)
    }

    /// What is believed of rooms ends where they change.
    fn notice_changes(&self, synced: &Synced) {
        for event in &synced.account_data.events {
            if let (Some("m.direct"), Some(content)) = (event["type"].as_str(), event.get("content")) {
                self.rooms.set_direct(direct_of(content));
                self.rooms.forget();
            }
        }
        if !synced.rooms.leave.is_empty() {
            self.rooms.forget();
        }
        for (room, joined) in &synced.rooms.join {
            for event in joined.state.events.iter().chain(&joined.timeline.events) {
                // Without a key it is not of the room's state, and anybody may have written it.
                if event["type"] == "m.room.encryption" && event["state_key"] == "" {
                    self.rooms.set_encrypted(room);
                }
            }
        }
    }

    /// A room's new events in their order, those that the answer left out included.
    async fn timeline(
        &self,
        me: &str,
        room: &str,
        timeline: &Timeline,
        since: Option<&str>,
    ) -> Result<Vec<Event>, Down> {
        let mut older = Vec::new();
        let mut from = timeline.prev_batch.clone().filter(|_| timeline.limited);
        let filter = events_filter(me).to_string();
        for _ in 0..PAGES_MAX {
            let (Some(at), Some(since)) = (&from, since) else { break };
            let page: Page = match self.api.messages(room, at, since, &filter).await {
                // We are in the room no more.
                Err(fault) if fault.is_final() => break,
                page => page?,
            };
            from = page.end.filter(|end| end != at && !page.chunk.is_empty());
            older.extend(page.chunk);
        }
        let events = older.iter().rev().chain(&timeline.events);
        Ok(events.filter_map(|event| Event::deserialize(event).ok()).collect())
    }

    /// Whether it was for us, and is taken.
    async fn take(&self, me: &str, inbound: &dyn Inbound, room: &str, event: Event) -> Result<bool, Down> {
        let Some(incoming) = self.reader.read(me, room, &event).await? else { return Ok(false) };
        let taken = inbound.take(incoming.clone()).await;
        let notice = taken.map_err(|error| Down(format!("what came in cannot be stored: {error}")))?;
        if let Some(sentence) = notice {
            let (outbound, room) = (self.outbound.clone(), room.to_owned());
            // What comes in does not wait for it.
            tokio::spawn(async move { outbound.tell(&room, &incoming, &sentence).await });
        }
        Ok(true)
    }

    /// Accepts an invitation of somebody who may invite us, into a room that we can read. Others stay open.
    async fn accept(&self, me: &str, room: &str, state: &[Value]) -> Result<(), Fault> {
        let of = |kind: &str| {
            state.iter().filter(move |event| event["type"].as_str() == Some(kind)).collect::<Vec<_>>()
        };
        let mut ours = of("m.room.member");
        ours.retain(|event| event["state_key"].as_str() == Some(me));
        // The inviting server chose what stands beside the invitation: two of them are one too many.
        let [invitation] = ours[..] else { return Ok(()) };
        let sender = invitation["sender"].as_str().unwrap_or_default();
        let is_invitation = invitation["content"]["membership"].as_str() == Some("invite");
        let readable = of("m.room.encryption").is_empty();
        if !is_invitation || !readable || !address::is_room(room) || !self.may_invite(me, sender) {
            return Ok(());
        }
        match self.api.join(room).await {
            // It was withdrawn, say.
            Err(fault) if fault.is_final() => return Ok(()),
            joined => joined?,
        }
        if invitation["content"]["is_direct"].as_bool() == Some(true) {
            self.rooms.remember(sender, room).await?;
        }
        Ok(())
    }

    fn may_invite(&self, me: &str, sender: &str) -> bool {
        let server = address::server_of(sender).to_ascii_lowercase();
        let is_user = address::normalise(AddressKind::Direct, sender).is_ok();
        is_user
            && match &self.invite_servers {
                Some(servers) => servers.iter().any(|may| may == "*" || *may == server),
                None => server == address::server_of(me),
            }
    }
}

fn events_filter(me: &str) -> Value {
    json!({ "types": KINDS, "not_senders": [me], "lazy_load_members": true })
}

fn filter(me: &str, timeline_max: usize) -> String {
    let mut timeline = events_filter(me);
    timeline["limit"] = timeline_max.into();
    let none = json!({ "types": [] });
    json!({
        "presence": none,
        // Not where we stand: it would wake us whenever we write it down.
        "account_data": { "types": ["m.direct"] },
        "room": {
            "account_data": none,
            "ephemeral": none,
            "state": { "types": ["m.room.encryption"], "lazy_load_members": true },
            "timeline": timeline,
        },
    })
    .to_string()
}

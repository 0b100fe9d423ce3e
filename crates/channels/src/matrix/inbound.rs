//! The way back: `/sync`, over and over. Where it stands is kept in the account's own data, and moves only when everything before it has been
//! taken: nothing that was written while we were away, or while it could not be stored, is lost.

use super::address;
use super::answer::Fault;
use super::api::Api;
use super::event::{self, Event};
use super::outbound::Outbound;
use super::rooms::{Direct, Rooms};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::port::channel::{AddressKind, Inbound, Incoming, IncomingKind, Origin};
use switchboard_core::random::{self, Entropy};
use switchboard_core::time::{Clock, WallMs};
use tokio::time::sleep;

/// Where the account's data says how far we have read.
pub(super) const OFFSET: &str = "io.switchboard.sync";
/// Most events of a room in one answer; what is more is asked for page by page.
const TIMELINE_MAX: usize = 50;
/// Pages of a hundred events that are asked for at most in one room.
const PAGES_MAX: usize = 50;
/// How long where we stand is not written down while nothing is for us.
const OFFSET_AGE: Duration = Duration::from_mins(1);
/// The kinds of event that are read.
const KINDS: [&str; 6] = [
    "m.room.message",
    "m.room.redaction",
    "m.reaction",
    "m.room.encryption",
    "m.room.encrypted",
    "m.room.member",
];

/// The way back.
pub(super) struct Listener {
    pub name: String,
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
}

impl Listener {
    /// Reads for ever; asks again after a pause that grows while that fails.
    pub async fn listen(&self, inbound: Arc<dyn Inbound>) {
        let kept = self.clock.monotonic();
        let mut progress = Progress { pause: self.backoff.0, timeline_max: TIMELINE_MAX, kept };
        loop {
            let Err(Down(reason)) = self.session(&*inbound, &mut progress).await;
            inbound.health(&self.name, Some(reason));
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
        self.rooms.set_direct(self.api.account_data(&me, "m.direct").await?.unwrap_or_default());
        self.rooms.forget();
        let mut offset: Option<Offset> = self.api.account_data(&me, OFFSET).await?;
        let mut wait = Duration::ZERO;
        let mut told = None;
        loop {
            let (began_ms, filter) = (self.clock.wall_ms(), filter(&me, progress.timeline_max));
            let since = offset.as_ref().map(|offset| offset.since.as_str());
            let synced: Synced = match self.api.sync(since, &filter, wait).await {
                Err(fault) if since.is_some() && fault.is_final() => {
                    // The server does not know it any more; what is younger than it is found all the same.
                    self.anew(&me, inbound, offset.take(), &filter).await?
                }
                Err(fault) => {
                    // It may have been too much at once.
                    progress.timeline_max = (progress.timeline_max / 2).max(1);
                    return Err(fault.into());
                }
                Ok(synced) if since.is_none() => {
                    self.batch(&me, inbound, &synced, None, began_ms).await?;
                    synced
                }
                Ok(synced) => {
                    let batch = self.batch(&me, inbound, &synced, since, WallMs::MIN).await?;
                    let due = self.clock.monotonic().saturating_sub(progress.kept) >= OFFSET_AGE;
                    let news = Offset { since: synced.next_batch, at_ms: began_ms };
                    if batch.taken || due {
                        self.keep(&me, &news, progress).await?;
                    }
                    offset = Some(news);
                    self.tell(inbound, &mut told, batch.encrypted);
                    (wait, progress.pause, progress.timeline_max) = (self.poll, self.backoff.0, TIMELINE_MAX);
                    continue;
                }
            };
            let news = Offset { since: synced.next_batch, at_ms: began_ms };
            self.keep(&me, &news, progress).await?;
            offset = Some(news);
            self.tell(inbound, &mut told, None);
        }
    }

    /// Says how we are, when that has changed.
    fn tell(&self, inbound: &dyn Inbound, told: &mut Option<Option<String>>, fault: Option<String>) {
        if told.as_ref() != Some(&fault) {
            inbound.health(&self.name, fault.clone());
            *told = Some(fault);
        }
    }

    async fn anew(
        &self,
        me: &str,
        inbound: &dyn Inbound,
        lost: Option<Offset>,
        filter: &str,
    ) -> Result<Synced, Down> {
        let synced: Synced = self.api.sync(None, filter, Duration::ZERO).await?;
        let from_ms = lost.map_or(self.clock.wall_ms(), |lost| lost.at_ms);
        self.batch(me, inbound, &synced, None, from_ms).await?;
        Ok(synced)
    }

    async fn keep(&self, me: &str, offset: &Offset, progress: &mut Progress) -> Result<(), Down> {
        self.api.set_account_data(me, OFFSET, &json!(offset)).await?;
        progress.kept = self.clock.monotonic();
        Ok(())
    }

    /// Takes everything of an answer that was written at `from_ms` or later.
    async fn batch(
        &self,
        me: &str,
        inbound: &dyn Inbound,
        synced: &Synced,
        since: Option<&str>,
        from_ms: WallMs,
    ) -> Result<Batch, Down> {
        self.notice_changes(synced);
        for (room, invited) in &synced.rooms.invite {
            self.accept(me, room, &invited.invite_state.events).await?;
        }
        let mut batch = Batch::default();
        for (room, joined) in &synced.rooms.join {
            for event in self.timeline(me, room, &joined.timeline, since).await? {
                if event.origin_server_ts < from_ms {
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
                self.rooms.set_direct(Direct::deserialize(content).unwrap_or_default());
                self.rooms.forget();
            }
        }
        if !synced.rooms.leave.is_empty() {
            self.rooms.forget();
        }
        for (room, joined) in &synced.rooms.join {
            for event in joined.state.events.iter().chain(&joined.timeline.events) {
                match event["type"].as_str() {
                    Some("m.room.encryption") => self.rooms.set_encrypted(room),
                    Some("m.room.member") => self.rooms.forget(),
                    _ => {}
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
        let Some(incoming) = self.read(me, room, &event).await? else { return Ok(false) };
        let taken = inbound.take(incoming.clone()).await;
        let notice = taken.map_err(|error| Down(format!("what came in cannot be stored: {error}")))?;
        if let Some(sentence) = notice {
            let (outbound, room) = (self.outbound.clone(), room.to_owned());
            // What comes in does not wait for it.
            tokio::spawn(async move { outbound.tell(&room, &incoming, &sentence).await });
        }
        Ok(true)
    }

    /// What an event is to us, if it is anything.
    async fn read(&self, me: &str, room: &str, event: &Event) -> Result<Option<Incoming>, Fault> {
        if event.sender == me || !address::is_event(&event.event_id) {
            return Ok(None);
        }
        let Ok(from) = address::normalise(AddressKind::Direct, &event.sender) else { return Ok(None) };
        let said = match event.kind.as_str() {
            "m.room.message" if event.is_edit() => self.edited(me, room, event).await?,
            "m.room.message" => self.written(me, room, event).await?,
            "m.reaction" => self.pressed(me, room, event).await?,
            "m.room.redaction" => self.taken_back(room, event).await?,
            _ => None,
        };
        let Some(Said { what, message_id, references }) = said else { return Ok(None) };
        let place = (!self.is_direct(room, &event.sender).await?).then(|| room.to_owned());
        Ok(Some(Incoming {
            channel: self.name.clone(),
            event_id: event.event_id.clone(),
            from,
            origin: Origin::Verified { by: "api".into() },
            what,
            message_id,
            place,
            references,
            at_ms: event.origin_server_ts,
        }))
    }

    async fn is_direct(&self, room: &str, sender: &str) -> Result<bool, Fault> {
        let direct = self.rooms.direct().await?;
        Ok(direct.get(sender).is_some_and(|rooms| rooms.iter().any(|known| known == room)))
    }

    async fn written(&self, me: &str, room: &str, event: &Event) -> Result<Option<Said>, Fault> {
        let Some(text) = event::words(&event.content) else { return Ok(None) };
        if !self.is_for_us(me, room, &event.sender, &event.content).await? {
            return Ok(None);
        }
        let references = event::references(&event.content);
        Ok(Some(Said {
            what: IncomingKind::Text { text },
            message_id: Some(event.event_id.clone()),
            references,
        }))
    }

    /// Clients must not believe an edit of somebody else's message, and servers do not look.
    async fn edited(&self, me: &str, room: &str, event: &Event) -> Result<Option<Said>, Fault> {
        let Some((message_id, new)) = event.replaced() else { return Ok(None) };
        let Some(text) = event::words(new) else { return Ok(None) };
        let Some(original) = self.look_up(room, &message_id).await? else { return Ok(None) };
        if original.sender != event.sender
            || !self.is_for_us(me, room, &event.sender, &original.content).await?
        {
            return Ok(None);
        }
        let references = event::references(&original.content);
        let what = IncomingKind::Edited { message_id: message_id.clone(), text };
        Ok(Some(Said { what, message_id: Some(message_id), references }))
    }

    /// A press is a reaction to a message of ours that offers so many choices.
    async fn pressed(&self, me: &str, room: &str, event: &Event) -> Result<Option<Said>, Fault> {
        let Some((message, number)) = event.pressed() else { return Ok(None) };
        let ours = self.look_up(room, &message).await?.filter(|original| original.sender == me);
        let value = ours.and_then(|ours| ours.own()?.choices.into_iter().nth(number - 1));
        Ok(value.map(|value| Said {
            what: IncomingKind::Button { value },
            message_id: None,
            references: vec![message],
        }))
    }

    /// Of a message that its writer took back only the shell is left, so that what it was about cannot be known.
    async fn taken_back(&self, room: &str, event: &Event) -> Result<Option<Said>, Fault> {
        let Some(message_id) = event.redacted().filter(|id| address::is_event(id)) else { return Ok(None) };
        let original = self.look_up(room, message_id).await?;
        let theirs =
            original.is_some_and(|gone| gone.sender == event.sender && gone.kind == "m.room.message");
        let message_id = message_id.to_owned();
        Ok(theirs.then(|| Said {
            what: IncomingKind::Deleted { message_id: message_id.clone() },
            message_id: Some(message_id),
            references: Vec::new(),
        }))
    }

    /// Whether what somebody writes is said to us: alone, in answer to us, or by name.
    async fn is_for_us(&self, me: &str, room: &str, sender: &str, content: &Value) -> Result<bool, Fault> {
        if self.is_direct(room, sender).await? || event::mentions(content, me) {
            return Ok(true);
        }
        for message in event::references(content) {
            if self.look_up(room, &message).await?.is_some_and(|answered| answered.sender == me) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn look_up(&self, room: &str, event: &str) -> Result<Option<Event>, Fault> {
        let found: Option<Value> = match self.api.event(room, event).await {
            Err(fault) if fault.is_final() => None,
            found => found?,
        };
        Ok(found.and_then(|value| Event::deserialize(&value).ok()))
    }

    /// Accepts an invitation of somebody who may invite us, into a room that we can read. Others stay open.
    async fn accept(&self, me: &str, room: &str, state: &[Value]) -> Result<(), Fault> {
        let of = |kind: &str| {
            state.iter().filter(move |event| event["type"].as_str() == Some(kind)).collect::<Vec<_>>()
        };
        let ours = of("m.room.member").into_iter().find(|event| event["state_key"].as_str() == Some(me));
        let Some(invitation) = ours.filter(|event| event["content"]["membership"].as_str() == Some("invite"))
        else {
            return Ok(());
        };
        let sender = invitation["sender"].as_str().unwrap_or_default();
        let readable = of("m.room.encryption").is_empty();
        if !readable || !address::is_room(room) || !self.may_invite(me, sender) {
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

/// What an event says to us.
struct Said {
    what: IncomingKind,
    message_id: Option<String>,
    references: Vec<String>,
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

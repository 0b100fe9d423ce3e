//! Which room an address is, and whether plain text may be sent there.
//!
//! A person's room is remembered where Matrix remembers it: in the account's own `m.direct`. When there is none, one is made under an alias
//! that only we can name, so that after a crash between making and remembering it is found by that alias instead of made once more; the
//! server refuses a second room of the same alias, whoever asks.

use super::address;
use super::answer::{self, Fault};
use super::api::Api;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::digest;
use switchboard_core::port::channel::{Address, AddressKind, FailureClass, NotSent};
use switchboard_core::time::Clock;
use switchboard_core::{ExposeSecret as _, SecretString};
use tokio::sync::OnceCell;

/// Where clients keep which rooms are talks with whom.
const DIRECT: &str = "m.direct";
/// How long is believed what the server said of a room. That it has become encrypted, or that we have left one, `/sync` tells at once.
const BELIEVED: Duration = Duration::from_secs(30);
/// Rooms with one person that are looked at.
const CANDIDATES_MAX: usize = 20;
/// Rooms and addresses that are remembered at a time.
const REMEMBERED_MAX: usize = 10_000;

/// Users and the rooms that are talks with them, oldest first.
pub(super) type Direct = BTreeMap<String, Vec<String>>;

#[derive(Deserialize)]
struct Member {
    membership: String,
}

/// The rooms of an account.
pub(super) struct Rooms {
    api: Arc<Api>,
    /// Makes aliases that nobody else can name.
    key: SecretString,
    clock: Arc<dyn Clock>,
    me: OnceCell<String>,
    known: Mutex<Known>,
    /// One at a time looks for a room, makes it and remembers it.
    finding: tokio::sync::Mutex<()>,
    /// One at a time changes what is remembered.
    remembering: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    /// Address to room, and since when.
    found: HashMap<String, (String, Duration)>,
    /// Rooms that were not encrypted, and when.
    plain: HashMap<String, Duration>,
    /// Rooms that are encrypted, which never ends.
    encrypted: HashSet<String>,
    /// As `/sync` or we wrote it last.
    direct: Option<Direct>,
}

impl Rooms {
    pub fn new(api: Arc<Api>, key: SecretString, clock: Arc<dyn Clock>) -> Self {
        Self {
            api,
            key,
            clock,
            me: OnceCell::new(),
            known: Mutex::default(),
            finding: tokio::sync::Mutex::default(),
            remembering: tokio::sync::Mutex::default(),
        }
    }

    /// Our own user id.
    pub async fn me(&self) -> Result<&str, Fault> {
        let me =
            self.me.get_or_try_init(|| async { Ok::<_, Fault>(self.api.whoami().await?.user_id) }).await?;
        Ok(me)
    }

    /// The same, asked for anew.
    pub async fn ask_me(&self) -> Result<String, Fault> {
        Ok(self.api.whoami().await?.user_id)
    }

    /// The room of an address, in which plain text may be sent.
    pub async fn find(&self, to: &Address) -> Result<String, NotSent> {
        if let Some(room) = self.remembered(&to.handle) {
            self.refuse_encrypted(&room).await?;
            return Ok(room);
        }
        let _one = self.finding.lock().await;
        if let Some(room) = self.remembered(&to.handle) {
            self.refuse_encrypted(&room).await?;
            return Ok(room);
        }
        let room = match to.kind {
            AddressKind::Direct => self.direct_room(&to.handle).await?,
            AddressKind::Channel => self.shared_room(&to.handle).await?,
        };
        self.refuse_encrypted(&room).await?;
        let mut known = self.known.lock();
        if known.found.len() < REMEMBERED_MAX {
            known.found.insert(to.handle.clone(), (room.clone(), self.clock.monotonic()));
        }
        Ok(room)
    }

    fn remembered(&self, handle: &str) -> Option<String> {
        let known = self.known.lock();
        let (room, since) = known.found.get(handle)?;
        self.is_fresh(*since).then(|| room.clone())
    }

    fn is_fresh(&self, since: Duration) -> bool {
        self.clock.monotonic().saturating_sub(since) < BELIEVED
    }

    /// What was believed of rooms is asked for again.
    pub fn forget(&self) {
        let mut known = self.known.lock();
        known.found.clear();
        known.plain.clear();
    }

    /// A room has become encrypted.
    pub fn set_encrypted(&self, room: &str) {
        let mut known = self.known.lock();
        known.plain.remove(room);
        if known.encrypted.len() < REMEMBERED_MAX {
            known.encrypted.insert(room.to_owned());
        }
    }

    /// Whether a room is encrypted.
    pub async fn is_encrypted(&self, room: &str) -> Result<bool, Fault> {
        {
            let known = self.known.lock();
            if known.encrypted.contains(room) {
                return Ok(true);
            }
            if known.plain.get(room).is_some_and(|since| self.is_fresh(*since)) {
                return Ok(false);
            }
        }
        let encryption: Option<Value> = self.api.state(room, "m.room.encryption", "").await?;
        if encryption.is_some() {
            self.set_encrypted(room);
        } else {
            let mut known = self.known.lock();
            if known.plain.len() < REMEMBERED_MAX {
                known.plain.insert(room.to_owned(), self.clock.monotonic());
            }
        }
        Ok(encryption.is_some())
    }

    async fn refuse_encrypted(&self, room: &str) -> Result<(), NotSent> {
        if self.is_encrypted(room).await.map_err(Fault::nobody_reached)? {
            return Err(encrypted(room));
        }
        Ok(())
    }

    async fn shared_room(&self, to: &str) -> Result<String, NotSent> {
        if address::is_room(to) {
            return Ok(to.to_owned());
        }
        let found = self.api.room_of_alias(to).await.map_err(Fault::nobody_reached)?;
        found.filter(|room| address::is_room(room)).ok_or_else(|| NotSent {
            code: Some(answer::NOT_FOUND.into()),
            ..NotSent::new(FailureClass::BadAddress, format!("no room has the alias {to} any more"))
        })
    }

    /// Which rooms are talks with whom.
    pub async fn direct(&self) -> Result<Direct, Fault> {
        if let Some(direct) = self.known.lock().direct.clone() {
            return Ok(direct);
        }
        self.ask_direct().await
    }

    /// The same, asked for anew.
    pub async fn ask_direct(&self) -> Result<Direct, Fault> {
        let data: Option<Value> = self.api.account_data(self.me().await?, DIRECT).await?;
        Ok(data.as_ref().map(direct_of).unwrap_or_default())
    }

    /// `/sync` has told which rooms are talks with whom.
    pub fn set_direct(&self, direct: Direct) {
        self.known.lock().direct = Some(direct);
    }

    /// Remembers that a room is a talk with a user.
    pub async fn remember(&self, user: &str, room: &str) -> Result<(), Fault> {
        let me = self.me().await?;
        let _one = self.remembering.lock().await;
        // Fresh, for another client of the account may have written too.
        let mut direct = self.ask_direct().await?;
        let rooms = direct.entry(user.to_owned()).or_default();
        if !rooms.iter().any(|known| known == room) {
            rooms.push(room.to_owned());
            self.api.set_account_data(me, DIRECT, &json!(direct)).await?;
        }
        let mut known = self.known.lock();
        known.direct = known.direct.is_some().then_some(direct);
        Ok(())
    }

    /// The first room with this user that both are in and that is not encrypted; else a new one.
    async fn direct_room(&self, user: &str) -> Result<String, NotSent> {
        // What `/sync` told may be older than what another node has written.
        let me = self.me().await.map_err(Fault::nobody_reached)?;
        let direct = self.ask_direct().await.map_err(Fault::nobody_reached)?;
        let mut why = None;
        let rooms = direct.get(user).map(Vec::as_slice).unwrap_or_default();
        for room in rooms.iter().take(CANDIDATES_MAX) {
            match self.usable(room, user).await {
                Ok(true) => return Ok(room.clone()),
                Ok(false) => {}
                Err(not_sent) if is_about_room(&not_sent) => why = Some(not_sent),
                Err(not_sent) => return Err(not_sent),
            }
        }
        match why {
            Some(why) => Err(why),
            None => self.make(me, user).await,
        }
    }

    /// Whether this user is in the room, or invited; they may have left, or we may not be in it.
    async fn usable(&self, room: &str, user: &str) -> Result<bool, NotSent> {
        let member: Option<Member> = match self.api.state(room, "m.room.member", user).await {
            Err(fault) if fault.is(answer::FORBIDDEN) => return Ok(false),
            found => found.map_err(Fault::nobody_reached)?,
        };
        match member.as_ref().map(|member| member.membership.as_str()) {
            Some("join" | "invite") => {}
            Some("leave" | "ban") => return Err(left(user)),
            _ => return Ok(false),
        }
        self.refuse_encrypted(room).await?;
        Ok(true)
    }

    async fn make(&self, me: &str, user: &str) -> Result<String, NotSent> {
        let local = self.alias(me, user);
        let content = json!({
            "preset": "private_chat",
            "is_direct": true,
            "invite": [user],
            "room_alias_name": local,
            // A third person would read along.
            "power_level_content_override": { "invite": 50 },
        });
        let made = match self.api.create_room(&content).await {
            Ok(room) => room,
            // From an attempt before, or another node's: it may have ended before it had invited or remembered.
            Err(fault) if fault.is(answer::ROOM_IN_USE) => {
                let alias = format!("#{local}:{}", address::server_of(me));
                self.found_again(&alias, user).await?
            }
            Err(fault) => return Err(fault.nobody_reached()),
        };
        self.remember(user, &made).await.map_err(Fault::nobody_reached)?;
        Ok(made)
    }

    async fn found_again(&self, alias: &str, user: &str) -> Result<String, NotSent> {
        let room = self.api.room_of_alias(alias).await.map_err(Fault::nobody_reached)?;
        let room =
            room.ok_or_else(|| NotSent::new(FailureClass::Transient, "the room is just being made"))?;
        if !self.usable(&room, user).await? {
            self.api.invite(&room, user).await.map_err(|fault| {
                let why = format!(
                    "cannot invite {user} into {alias}; delete that alias to have a new room made: {}",
                    fault.reason()
                );
                NotSent { reason: why, ..fault.nobody_reached() }
            })?;
        }
        Ok(room)
    }

    fn alias(&self, me: &str, user: &str) -> String {
        let secret = format!("{}\0{me}\0{user}", self.key.expose_secret());
        format!("switchboard-{}", &digest::hex(&digest::sha256(secret.as_bytes()))[..32])
    }
}

/// What `m.direct` says; clients write it, and what is not of its form is left out.
pub(super) fn direct_of(data: &Value) -> Direct {
    let rooms = |value: &Value| {
        let ids = value.as_array()?.iter().filter_map(Value::as_str);
        Some(ids.filter(|id| address::is_room(id)).map(str::to_owned).collect())
    };
    let entries = data.as_object().into_iter().flatten();
    entries.filter_map(|(user, value)| Some((user.clone(), rooms(value)?))).collect()
}

fn encrypted(room: &str) -> NotSent {
    let reason = format!(
        "the room {room} is end-to-end encrypted, and this channel can neither write nor read there; use a room without encryption"
    );
    NotSent { code: Some("encrypted".into()), ..NotSent::new(FailureClass::Permanent, reason) }
}

fn left(user: &str) -> NotSent {
    let reason = format!("{user} has left the room with us; they can invite the account again");
    NotSent { code: Some("left".into()), ..NotSent::new(FailureClass::BadAddress, reason) }
}

/// Whether another room may still do.
fn is_about_room(why: &NotSent) -> bool {
    matches!(why.code.as_deref(), Some("encrypted" | "left"))
}

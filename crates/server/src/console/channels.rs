//! *Channels*: what agents say to each other. A person reads along and says something in between, as the hub's owner.

use super::form::Signed;
use super::talk::{self, Base};
use super::visitor::Visitor;
use super::{Failure, Shown, html, see_other, when};
use crate::Doors;
use crate::bus::read::query;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use switchboard_console::page::{Channel, ChannelList, ChannelRow, Channels, Compose};
use switchboard_console::shell::Section;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::VaultId;
use switchboard_core::port::store::{StoreError, StreamOwner};
use switchboard_core::write::{Outcome, VaultInfo, Write};
use switchboard_engine::inbox::{self, Owner};
use switchboard_engine::stream::Stream;
use switchboard_engine::submit::{self, Speaker};
use switchboard_engine::viewer::Agents;
use switchboard_engine::{manage, refusal};
use switchboard_protocol::Detail;
use switchboard_protocol::limits::MESSAGE_TEXT_CHARS_MAX;
use switchboard_protocol::message::{AgentMessage, MessageBody, MessageType, Network};
use switchboard_protocol::text::validate_id;

/// How the owner is called on the bus; the command line calls them so too.
const OWNER: &str = "owner";
/// Events of one page.
pub(super) const PAGE_MAX: u64 = 50;
/// Bytes read from the store at once.
const READ_BYTES: usize = 512 * 1024;
/// Channels and swarms in the list.
const LIST_MAX: usize = 500;
/// Messages of a thread that its page shows.
const THREAD_MAX: usize = 500;

/// Where things are said.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// A channel, which need not be there yet.
    Channel {
        /// Its vault.
        vault: VaultInfo,
        /// Its short name.
        name: String,
    },
    /// A swarm.
    Swarm {
        /// Its public id.
        swarm: String,
        /// Its title.
        title: String,
    },
}

impl Place {
    /// The channel of this name in this vault.
    pub(super) fn channel(doors: &Doors, vault: &str, name: String) -> Result<Self, Detail> {
        validate_id(&name, "name").map_err(refusal::invalid)?;
        let vault = VaultId::parse(vault).and_then(|vault| doors.hub.vault(vault));
        let vault = vault.ok_or_else(|| refusal::not_found("vault", "There is no such vault."))?;
        Ok(Self::Channel { vault, name })
    }

    /// The swarm of this id.
    pub(super) fn swarm(doors: &Doors, swarm: String) -> Result<Self, Detail> {
        let row = manage::swarms::list(&doors.hub).into_iter().find(|row| row.swarm == swarm);
        let row = row.ok_or_else(|| refusal::not_found("swarm_id", "There is no such swarm."))?;
        Ok(Self::Swarm { swarm, title: row.title })
    }

    /// Whose stream it is.
    pub(super) fn owner(&self) -> StreamOwner {
        match self {
            Self::Channel { vault, name } => StreamOwner::Channel { vault: vault.vault, name: name.clone() },
            Self::Swarm { swarm, .. } => StreamOwner::Swarm { swarm: swarm.clone() },
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Channel { name, .. } => name,
            Self::Swarm { title, .. } => title,
        }
    }

    /// How its pages are addressed. In a swarm people speak under handles, which is not for this page.
    pub(super) fn base(&self) -> Base {
        match self {
            Self::Channel { vault, name } => Base {
                path: format!("/console/channels/{}/{name}", vault.vault),
                writable: !vault.sealed,
                threads: true,
            },
            Self::Swarm { swarm, .. } => {
                Base { path: format!("/console/swarms/{swarm}"), writable: false, threads: false }
            }
        }
    }

    fn live(&self, after: u64) -> String {
        self.base().path.replacen("/console/", "/console/live/", 1) + &format!("?after={after}")
    }
}

/// The page of all.
pub(super) async fn list_page(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    let shell = visitor.shell(&doors, Section::Channels, "Channels").await?;
    let vaults = doors.hub.vault_list().into_iter().map(|vault| (vault.vault.to_string(), vault.name.into()));
    Ok(html(&Channels { shell, list: list(&doors).await?, vaults: vaults.collect() }))
}

/// Its list, the one last used first.
pub(super) async fn list(doors: &Doors) -> Result<ChannelList, Detail> {
    let swarms = manage::swarms::list(&doors.hub);
    let place = |stream: &Stream| match &stream.owner {
        StreamOwner::Channel { vault, name } => {
            Some(Place::Channel { vault: doors.hub.vault(*vault)?, name: name.clone() })
        }
        StreamOwner::Swarm { swarm } => {
            let row = swarms.iter().find(|row| row.swarm == *swarm)?;
            Some(Place::Swarm { swarm: swarm.clone(), title: row.title.clone() })
        }
    };
    let mut streams: Vec<_> =
        doors.hub.streams.all().into_iter().filter_map(|stream| Some((place(&stream)?, stream))).collect();
    streams.truncate(LIST_MAX);
    let newest = streams.iter().map(|(_, stream)| newest_id(stream)).collect();
    let newest = doors.hub.store().events(newest).await.map_err(|error| refusal::store(&error))?;
    let mut rows: Vec<_> = streams.into_iter().zip(newest).collect();
    rows.sort_by_key(|(_, event)| event.as_ref().map_or(0, |event| -event.at_ms));
    let row = |((place, stream), event): ((Place, Arc<Stream>), Option<StoredEvent>)| ChannelRow {
        key: format!("stream-{}", stream.id.0),
        path: place.base().path,
        name: place.name().into(),
        vault: match &place {
            Place::Channel { vault, .. } => vault.name.as_str().into(),
            Place::Swarm { .. } => "".into(),
        },
        swarm: matches!(place, Place::Swarm { .. }),
        sealed: matches!(&place, Place::Channel { vault, .. } if vault.sealed),
        events: stream.head(),
        last: event.map(|event| when(event.at_ms)),
    };
    Ok(ChannelList { channels: rows.into_iter().map(row).collect() })
}

fn newest_id(stream: &Stream) -> switchboard_core::ids::EventId {
    switchboard_core::ids::EventId { stream: stream.id, seq: stream.head() }
}

/// Where a channel is opened by its name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Opened {
    vault: String,
    name: String,
}

/// Leads to the channel of a name.
pub(super) async fn open(State(doors): State<Doors>, _: Visitor, RawQuery(raw): RawQuery) -> Shown {
    let opened: Result<Opened, Detail> = query(raw);
    let Opened { vault, name } = opened?;
    Ok(see_other(&Place::channel(&doors, &vault, name)?.base().path))
}

/// Which part of a channel, and what is about to be written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Part {
    before: Option<u64>,
    reply_to: Option<String>,
}

/// A channel's page.
pub(super) async fn page(
    State(doors): State<Doors>,
    visitor: Visitor,
    Path((vault, name)): Path<(String, String)>,
    RawQuery(raw): RawQuery,
) -> Shown {
    let place = Place::channel(&doors, &vault, name)?;
    Ok(html(&show(&doors, &visitor, &place, &query(raw)?).await?))
}

/// A swarm's page.
pub(super) async fn swarm_page(
    State(doors): State<Doors>,
    visitor: Visitor,
    Path(swarm): Path<String>,
    RawQuery(raw): RawQuery,
) -> Shown {
    let place = Place::swarm(&doors, swarm)?;
    Ok(html(&show(&doors, &visitor, &place, &query(raw)?).await?))
}

async fn show(doors: &Doors, visitor: &Visitor, place: &Place, part: &Part) -> Result<Channel, Detail> {
    let failed = |error: StoreError| refusal::store(&error);
    let hub = &doors.hub;
    hub.catch_up().await.map_err(failed)?;
    let stream = hub.find_stream(&place.owner()).await.map_err(failed)?;
    let head = stream.as_ref().map_or(0, |stream| stream.head());
    let end = part.before.map_or(head, |before| before.saturating_sub(1).min(head));
    let start = end.saturating_sub(PAGE_MAX);
    let events = match &stream {
        Some(stream) => between(doors, stream, start, end).await?,
        None => Vec::new(),
    };
    let base = place.base();
    let is_newest = part.before.is_none();
    let first = events.first().map_or(0, |event| event.id.seq);
    Ok(Channel {
        shell: visitor.shell(doors, Section::Channels, place.name()).await?,
        name: place.name().into(),
        whole: None,
        older: (start > 0 && first > 1).then(|| format!("{}?before={first}", base.path)),
        newest: (!is_newest).then(|| base.path.clone()),
        live: is_newest.then(|| place.live(head)),
        talk: talk::talk(doors, &base, &events).await?,
        compose: match place {
            Place::Channel { vault, .. } if base.writable && is_newest => {
                let reply_to = part.reply_to.as_deref().unwrap_or_default();
                Some(compose(doors, visitor, vault, &base.path, reply_to).await?)
            }
            _ => None,
        },
    })
}

/// Events behind `after`, up to `end`.
pub(super) async fn between(
    doors: &Doors,
    stream: &Stream,
    mut after: u64,
    end: u64,
) -> Result<Vec<StoredEvent>, Detail> {
    let mut found = Vec::new();
    while after < end {
        let limit = usize::try_from(end - after).unwrap_or(usize::MAX).min(200);
        let page = doors.hub.store().page(stream.id, after, limit, READ_BYTES).await;
        let page = page.map_err(|error| refusal::store(&error))?;
        let Some(last) = page.events.last() else { break };
        after = last.id.seq;
        found.extend(page.events.into_iter().filter(|event| event.id.seq <= end));
    }
    Ok(found)
}

/// One thread's page.
pub(super) async fn thread_page(
    State(doors): State<Doors>,
    visitor: Visitor,
    Path((vault, name, gid)): Path<(String, String, String)>,
) -> Shown {
    let failed = |error: StoreError| refusal::store(&error);
    let place = Place::channel(&doors, &vault, name)?;
    let stream = doors.hub.find_stream(&place.owner()).await.map_err(failed)?;
    let thread = doors.hub.gids.event(&gid).filter(|id| stream.is_some_and(|stream| stream.id == id.stream));
    let thread =
        thread.ok_or_else(|| refusal::not_found("thread", "There is no such thread on this channel."))?;
    let events = doors.hub.store().thread(thread, 0, THREAD_MAX).await.map_err(failed)?;
    if events.is_empty() {
        return Err(refusal::not_found("thread", "Nothing of this thread is left.").into());
    }
    let base = place.base();
    let page = Channel {
        shell: visitor.shell(&doors, Section::Channels, format!("Thread on {}", place.name())).await?,
        name: place.name().into(),
        whole: Some(base.path.clone()),
        older: None,
        newest: None,
        live: None,
        talk: talk::talk(&doors, &base, &events).await?,
        compose: None,
    };
    Ok(html(&page))
}

async fn compose(
    doors: &Doors,
    visitor: &Visitor,
    vault: &VaultInfo,
    action: &str,
    reply_to: &str,
) -> Result<Compose, Detail> {
    let hub = &doors.hub;
    let replied = match hub.gids.event(reply_to) {
        Some(id) => {
            hub.store().events(vec![id]).await.map_err(|error| refusal::store(&error))?.pop().flatten()
        }
        None => None,
    };
    let question =
        replied.as_ref().is_some_and(|event| event.kind == switchboard_core::event::EventKind::Question);
    let there = hub.presence.agents(vault.vault).into_iter();
    let others = there.filter(|row| row.instance != hub.installation.hub_instance).map(|row| row.agent);
    let names: BTreeSet<String> = others.collect();
    Ok(Compose {
        action: action.to_owned(),
        form_token: visitor.form_token.clone(),
        client_msg_id: hub.fresh_id("con"),
        person: visitor.session.person_name.as_str().into(),
        reply_to: if replied.is_some() { reply_to.to_owned() } else { String::new() },
        reply_name: replied.map(|event| event.from_agent.into()).unwrap_or_default(),
        kind: if question { "answer" } else { "finding" }.to_owned(),
        names: names.into_iter().map(Into::into).collect(),
        chars_max: MESSAGE_TEXT_CHARS_MAX,
        ..Compose::default()
    })
}

/// Something a person wrote.
struct Written {
    client_msg_id: String,
    reply_to: Option<String>,
    text: String,
    kind: String,
    to: Option<String>,
}

/// Says something on a channel.
pub(super) async fn write(
    State(doors): State<Doors>,
    Path((vault, name)): Path<(String, String)>,
    Signed { visitor, mut fields }: Signed,
) -> Shown {
    let place = Place::channel(&doors, &vault, name)?;
    let written = Written {
        client_msg_id: fields.take("client_msg_id")?,
        reply_to: fields.optional("reply_to"),
        text: fields.take("text")?,
        kind: fields.take("kind")?,
        to: fields.optional("to"),
    };
    fields.end()?;
    let Place::Channel { vault, name } = &place else { return Err(refusal::not_found("channel", "").into()) };
    let base = place.base();
    let said = say(&doors, &visitor, vault, name, &written).await;
    match said {
        Ok(()) if !visitor.partial => Ok(see_other(&format!("{}#compose", base.path))),
        Ok(()) => Ok(html(&compose(&doors, &visitor, vault, &base.path, "").await?)),
        Err(detail) => {
            let mut again =
                compose(&doors, &visitor, vault, &base.path, written.reply_to.as_deref().unwrap_or_default())
                    .await?;
            again.client_msg_id.clone_from(&written.client_msg_id);
            again.text = written.text.into();
            again.kind = written.kind;
            again.to = written.to.unwrap_or_default().into();
            again.failure = Some(detail.message.clone());
            let status =
                StatusCode::from_u16(detail.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            if visitor.partial {
                return Ok((status, html(&again)).into_response());
            }
            let mut page = show(&doors, &visitor, &place, &Part::default()).await?;
            page.compose = Some(again);
            Ok((status, html(&page)).into_response())
        }
    }
}

async fn say(
    doors: &Doors,
    visitor: &Visitor,
    vault: &VaultInfo,
    name: &str,
    written: &Written,
) -> Result<(), Detail> {
    let hub = &doors.hub;
    let message_type = match written.kind.as_str() {
        "question" => MessageType::Question,
        "answer" => MessageType::Answer,
        "offer" => MessageType::Offer,
        "finding" => MessageType::Finding,
        _ => return Err(refusal::bad_field("kind", "Choose one of the kinds of message.")),
    };
    let network = Network::Org { channel: hub.streams.channel_name(vault.vault, name).into() };
    let id = written.client_msg_id.as_str();
    let mut message =
        AgentMessage::new(id, network, message_type, OWNER, MessageBody::text(written.text.as_str()));
    message.to = written.to.as_deref().map(Into::into);
    message.reply_to = written.reply_to.as_deref().map(Into::into);
    message.validate().map_err(refusal::invalid)?;
    let who = visitor.principal(doors);
    // As a terminal does: there while speaking, and gone after the grace unless more follows.
    let agents = Agents::from([(vault.vault, OWNER.to_owned())]);
    hub.presence.hold(who.instance, vault.vault, OWNER);
    let sent = async {
        inbox::attend(hub, &Owner { who: &who, vault: vault.vault, agent: OWNER }, Some("person")).await?;
        let write: Write = submit::message::message(hub, Speaker { who: &who, agents: &agents }, &message)?;
        match hub.commit_one(write).await? {
            Outcome::Appended(_) => Ok(()),
            _ => Err(refusal::not_found("message", "It was not stored.")),
        }
    };
    let sent = sent.await.inspect_err(|detail| hub.refused("bus.message", &who.instance_id, detail));
    inbox::leave(hub, who.instance, agents);
    sent
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        refusal::store(&error).into()
    }
}

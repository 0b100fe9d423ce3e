//! Pages kept fresh: one stream of server-sent events for each page that is open in front of somebody. What is sent is markup: the
//! part of the page that changed, or new messages. A page that was away asks for what it missed by the id of the last event it has.

use super::channels::{self, PAGE_MAX, Place, between};
use super::plane::{self, Which};
use super::talk::talk;
use super::visitor::Visitor;
use super::{Shown, agents as agents_page, overview as overview_page};
use crate::Doors;
use crate::bus::read::query;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::unfold;
use serde::Deserialize;
use std::convert::Infallible;
use std::time::Duration;
use switchboard_console::Template;
use switchboard_core::port::store::StoreError;
use switchboard_engine::follow::{Follower, Outbox, Start};
use switchboard_engine::refusal;
use switchboard_engine::viewer::Viewer;
use switchboard_protocol::Detail;
use tokio::sync::OwnedSemaphorePermit;

/// What happens within this time is shown together.
const SETTLE: Duration = Duration::from_millis(120);
/// How often a page is looked at although nothing rang, and its session with it.
const LOOK: Duration = Duration::from_secs(15);
/// How often a silent stream says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// What is shown.
enum Watched {
    /// The overview's figures.
    Overview,
    /// The list of agents.
    Agents,
    /// The list of channels.
    Channels,
    /// What is in the inbox.
    Inbox,
    /// The approvals.
    Approvals,
    /// Some of the sends.
    Sends(Which),
    /// One of them.
    Send(String),
    /// What is said in a place, behind a position.
    Talk { place: Box<Place>, after: u64 },
}

/// One page in front of somebody.
struct Watch {
    doors: Doors,
    visitor: Visitor,
    follower: Follower,
    changes: tokio::sync::watch::Receiver<u64>,
    watched: Watched,
    /// What the page shows, where it shows one thing.
    shown: String,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

/// Keeps the overview fresh.
pub(super) async fn overview(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    open(doors, visitor, Watched::Overview)
}

/// Keeps the list of agents fresh.
pub(super) async fn agents(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    open(doors, visitor, Watched::Agents)
}

/// Keeps the list of channels fresh.
pub(super) async fn channels(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    open(doors, visitor, Watched::Channels)
}

/// Keeps the inbox fresh.
pub(super) async fn inbox(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    open(doors, visitor, Watched::Inbox)
}

/// Keeps the approvals fresh.
pub(super) async fn approvals(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    open(doors, visitor, Watched::Approvals)
}

/// Keeps a page of sends fresh.
pub(super) async fn outbound(State(doors): State<Doors>, visitor: Visitor, RawQuery(raw): RawQuery) -> Shown {
    open(doors, visitor, Watched::Sends(query(raw)?))
}

/// Keeps one send fresh.
pub(super) async fn send(State(doors): State<Doors>, visitor: Visitor, Path(send_id): Path<String>) -> Shown {
    open(doors, visitor, Watched::Send(send_id))
}

/// Where a page's own messages end.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct From {
    after: u64,
}

/// Brings a channel's new messages.
pub(super) async fn channel(
    State(doors): State<Doors>,
    visitor: Visitor,
    Path((vault, name)): Path<(String, String)>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
) -> Shown {
    let place = Box::new(Place::channel(&doors, &vault, name)?);
    let after = after(&headers, query::<From>(raw)?.after);
    open(doors, visitor, Watched::Talk { place, after })
}

/// Brings a swarm's new messages.
pub(super) async fn swarm(
    State(doors): State<Doors>,
    visitor: Visitor,
    Path(swarm): Path<String>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
) -> Shown {
    let place = Box::new(Place::swarm(&doors, swarm)?);
    let after = after(&headers, query::<From>(raw)?.after);
    open(doors, visitor, Watched::Talk { place, after })
}

fn after(headers: &HeaderMap, of_page: u64) -> u64 {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    last.unwrap_or(of_page)
}

fn open(doors: Doors, visitor: Visitor, watched: Watched) -> Shown {
    let Ok(place) = doors.console.streams.clone().try_acquire_owned() else {
        return Err(refusal::store(&StoreError::Overloaded).into());
    };
    let mut follower = Follower::new(doors.hub.clone(), Viewer::instance(&visitor.principal(&doors)), false);
    doors.hub.vault_list().iter().for_each(|vault| follower.add_vault(vault.vault, |_| Start::Head));
    if let Watched::Talk { place, .. } = &watched
        && let Some(stream) = doors.hub.streams.find(&place.owner())
    {
        follower.add(&stream, Start::Head);
    }
    let changes = doors.hub.outbound.changes();
    let shown = String::new();
    let watch = Watch { doors, visitor, follower, changes, watched, shown, ended: false, _place: place };
    let events =
        unfold(watch, |mut watch| async move { Some((Ok::<_, Infallible>(watch.next().await?), watch)) });
    let kept = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    Ok(([("x-accel-buffering", "no")], kept).into_response())
}

impl Watch {
    /// The next thing to send; `None` ends the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.ended {
                return None;
            }
            if !self.visitor.is_still_in(&self.doors).await {
                self.ended = true;
                return Some(Event::default().event("session-ended").data("over"));
            }
            match self.look().await {
                Ok(Some(event)) => return Some(event),
                Ok(None) => {}
                // The page stays as it is until the store answers again.
                Err(detail) => {
                    tracing::debug!(detail = detail.message.as_str(), "a page could not be kept fresh");
                }
            }
            self.wait().await?;
        }
    }

    /// Waits until something may have changed; `None` when the hub stops.
    async fn wait(&mut self) -> Option<()> {
        let stopping = self.doors.hub.stopping().clone();
        tokio::select! {
            () = self.follower.waker.woken() => {}
            Ok(()) = self.changes.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
            () = stopping.cancelled() => return None,
        }
        stopping.run_until_cancelled(tokio::time::sleep(SETTLE)).await?;
        let woken = self.follower.waker.take();
        self.follower.note(woken.streams, woken.fresh);
        let mut passed = Outbox::default();
        while self.follower.has_more() {
            // What is shown is read below; this only lets the streams ring again.
            if self.follower.fill(&mut passed).await.is_err() {
                break;
            }
            passed.take();
        }
        Some(())
    }

    async fn look(&mut self) -> Result<Option<Event>, Detail> {
        let markup = match &mut self.watched {
            Watched::Overview => render(&overview_page::figures(&self.doors).await?),
            Watched::Agents => render(&agents_page::list(&self.doors)),
            Watched::Channels => render(&channels::list(&self.doors).await?),
            Watched::Inbox => render(&plane::inbox(&self.doors, &self.visitor).await?),
            Watched::Approvals => render(&plane::approvals(&self.doors, &self.visitor).await?),
            Watched::Sends(which) => render(&plane::sends(&self.doors, which).await?),
            Watched::Send(id) => render(&plane::story(&self.doors, &self.visitor, id.clone()).await?),
            Watched::Talk { place, after } => return said(&self.doors, place, after).await,
        };
        let markup = markup + &render(&plane::counts(&self.doors).await?);
        if markup == self.shown {
            return Ok(None);
        }
        self.shown = markup;
        Ok(Some(Event::default().data(&self.shown)))
    }
}

fn render(part: &impl Template) -> String {
    part.render().unwrap_or_default().replace('\r', "")
}

/// What was said behind `after`, which moves on.
async fn said(doors: &Doors, place: &Place, after: &mut u64) -> Result<Option<Event>, Detail> {
    let stream = doors.hub.find_stream(&place.owner()).await.map_err(|error| refusal::store(&error))?;
    let Some(stream) = stream else { return Ok(None) };
    let (from, head) = (*after, stream.head());
    if head <= from {
        return Ok(None);
    }
    // Who was away for long gets the newest and finds the others under "Older".
    let events = between(doors, &stream, from.max(head.saturating_sub(PAGE_MAX)), head).await?;
    *after = head;
    let markup = render(&talk(doors, &place.base(), &events).await?);
    Ok(Some(Event::default().id(head.to_string()).data(markup)))
}

//! `switchboard inbox`: the newest messages, and those that pass.

use super::send;
use crate::api::Api;
use crate::args::{Global, Inbox};
use crate::failure::{Exit, Failure};
use crate::messages::{self, Message, Names, frame_text, message_text};
use crate::signals::Signals;
use crate::terminal::{self, Output, print_json};
use std::convert::Infallible;
use std::time::Duration;
use switchboard_client::{Client, Error, Event, Method};
use switchboard_protocol::bus::BusPoll;
use switchboard_protocol::enroll::WhoAmI;
use switchboard_protocol::frame::server::ServerFrame;
use switchboard_protocol::message::{Receipt, ReceiptState};

/// Messages shown when nobody says how many.
const LIMIT: usize = 20;
/// Longest wait of one poll, well below the patience for an answer.
const WAIT_MS: u64 = 20_000;
/// Pause before a hub that went away is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Shows messages.
pub async fn run(global: &Global, output: Output, inbox: &Inbox) -> Result<(), Failure> {
    let api = Api::find(global)?;
    let who = messages::whoami(&api).await?;
    let names = Names::of(&who);
    let vault = inbox.vault.as_deref().map(|name| messages::vault(&who, Some(name))).transpose()?;
    let limit = inbox.limit.unwrap_or(if inbox.follow { 0 } else { LIMIT });
    let attendance = if inbox.follow && !api.is_owner {
        Attendance::begin(&api, &who, inbox.vault.as_deref()).await?
    } else {
        Attendance(None)
    };
    // Following begins before the past is read, so that nothing falls between the two.
    let cursor = if inbox.follow { Some(api.failing(poll(&api, None, 0).await)?.cursor) } else { None };
    let newest = match limit {
        0 => Vec::new(),
        limit => messages::newest(&api, &who, inbox.vault.as_deref(), limit).await?,
    };
    match cursor {
        None => output.show(&newest, |newest| list(&names, newest)),
        Some(cursor) => {
            let seen = newest.iter().map(|message| message.gid.clone().into_owned()).collect();
            let shown = if output.json {
                newest.into_iter().map(ServerFrame::MessageDeliver).all(|frame| print_json(&frame))
            } else {
                terminal::print(&texts(&names, &newest))
            };
            if shown {
                let vault = vault.map(|vault| vault.vault_id.clone());
                let follow = Follow { global, output, names, vault, seen, api, cursor };
                return tokio::select! {
                    ended = follow.run() => ended,
                    never = attendance.keep() => match never {},
                };
            }
        }
    }
    Ok(())
}

fn list(names: &Names, messages: &[Message]) -> String {
    match messages {
        [] => "Nothing yet. Watch for more with --follow.\n".into(),
        messages => texts(names, messages),
    }
}

fn texts(names: &Names, messages: &[Message]) -> String {
    messages.iter().map(|message| message_text(names, message)).collect()
}

/// Who follows under an agent's bearer is that agent: it can be written to, and says so when it got something. The owner
/// only watches.
struct Attendance(Option<(Client, String)>);

impl Attendance {
    async fn begin(api: &Api, who: &WhoAmI, vault: Option<&str>) -> Result<Self, Failure> {
        let agent = send::name(api, who);
        let vault_id = messages::vault(who, vault)?.vault_id.clone();
        let client = send::announced(api, who, &agent, vault_id).await?;
        Ok(Self(Some((client, agent))))
    }

    /// For as long as it is polled. The client connects again by itself; one that was refused for good is told by the poll.
    async fn keep(&self) -> Infallible {
        let Some((client, agent)) = &self.0 else { return std::future::pending().await };
        while let Ok(event) = client.next_event().await {
            let Event::Delivery(delivery) = event else { continue };
            if delivery.to.as_deref() == Some(agent) {
                let state = ReceiptState::Delivered;
                let receipt = Receipt { gid: delivery.gid, by: agent.as_str().into(), state };
                // What comes next is taken off the socket all the same, or the hub would hold this reader for dead.
                match client.receipt(&receipt).await {
                    Ok(()) => {}
                    Err(Error::Closed) => break,
                    Err(error) => terminal::note(&format!("The hub was not told of one delivery: {error}.")),
                }
            }
        }
        std::future::pending().await
    }
}

struct Follow<'a> {
    global: &'a Global,
    output: Output,
    names: Names,
    vault: Option<String>,
    /// Shown before following began.
    seen: Vec<String>,
    api: Api,
    cursor: String,
}

impl Follow<'_> {
    /// Shows what passes until somebody ends it. A hub that restarts is waited for: its cursors stay good.
    async fn run(mut self) -> Result<(), Failure> {
        let mut signals = Signals::listen();
        let mut lost = false;
        loop {
            let polled = tokio::select! {
                polled = poll(&self.api, Some(&self.cursor), WAIT_MS) => polled,
                () = signals.next() => return Ok(()),
            };
            match polled {
                Ok(polled) => {
                    lost = false;
                    self.cursor = polled.cursor;
                    if !polled.frames.iter().all(|frame| self.show(frame)) {
                        return Ok(());
                    }
                    continue;
                }
                Err(Error::Refused(detail)) => return Err(Failure::from(&detail)),
                Err(Error::Unauthorized(detail)) if !self.api.is_owner => return Err(Failure::from(&detail)),
                Err(error) if !lost => {
                    lost = true;
                    terminal::note(&format!("The connection is lost ({error}); waiting for the hub."));
                }
                Err(_) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_AFTER) => {}
                () = signals.next() => return Ok(()),
            }
            // The owner's bearer changes with every start of the hub.
            match Api::find(self.global) {
                Ok(api) => self.api = api,
                Err(failure) if failure.exit == Exit::Unreachable => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Shows one frame; `false` when nobody reads any more.
    fn show(&self, frame: &ServerFrame<'static>) -> bool {
        let elsewhere = |channel: &str| {
            self.vault.as_ref().is_some_and(|vault| !channel.contains(&format!("/vault:{vault}/")))
        };
        let skipped = match frame {
            ServerFrame::MessageDeliver(message) => {
                elsewhere(&message.network.cursor_key()) || self.seen.iter().any(|gid| *gid == message.gid)
            }
            ServerFrame::Deliver(event) => elsewhere(&event.channel),
            ServerFrame::TaskEvent(event) => elsewhere(&event.channel),
            _ => true,
        };
        match frame_text(&self.names, frame) {
            Some(_) if skipped => true,
            Some(_) if self.output.json => print_json(frame),
            Some(text) => terminal::print(&text),
            None => true,
        }
    }
}

async fn poll(api: &Api, cursor: Option<&str>, wait_ms: u64) -> Result<BusPoll, Error> {
    let cursor = cursor.map(|cursor| format!("&cursor={}", crate::api::encode(cursor))).unwrap_or_default();
    api.http.rest(Method::GET, &format!("/v1/bus/poll?wait_ms={wait_ms}{cursor}"), None::<&()>).await
}

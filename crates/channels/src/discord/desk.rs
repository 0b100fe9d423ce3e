//! Work on what comes in: it is taken, people are told what became of it, and what was missed is fetched.

use super::address::{MessageId, Snowflake};
use super::answer;
use super::outbound::{Outbound, Told};
use super::read::{Me, Read, read, seen};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::port::channel::{Inbound, Incoming, IncomingKind};
use tokio::task::JoinSet;

/// Sentences that are on their way to people at most.
const TELLING_MAX: usize = 64;
/// Messages that are asked for at a time; Discord's own limit.
const PAGE: usize = 100;
/// Pages that are asked for in one channel at most.
const PAGES_MAX: usize = 20;

/// Why a connection has ended.
pub(super) struct Ended {
    /// For people; nothing when it is part of the service's day.
    pub fault: Option<String>,
    /// How long the service wants to be left alone.
    pub wait: Duration,
}

impl Ended {
    pub fn fault(why: impl Into<String>) -> Self {
        Self { fault: Some(why.into()), wait: Duration::ZERO }
    }
}

/// Where events are worked on.
pub(super) struct Desk<'a> {
    pub outbound: &'a Arc<Outbound>,
    pub telling: &'a Mutex<JoinSet<()>>,
    pub inbound: &'a dyn Inbound,
    pub me: Me,
}

impl Desk<'_> {
    /// Takes all that an event means; only then it is done with.
    pub async fn event(&self, kind: &str, data: &Value) -> Result<(), Ended> {
        let outbound = self.outbound;
        let reads = read(kind, data, &self.me, &outbound.known.lock(), outbound.clock.wall_ms());
        for read in reads {
            match read {
                Read::Incoming(incoming, told) => self.take(*incoming, told).await?,
                Read::Unreadable { from, id, sentence } => {
                    self.tell(from, Told::Message(id), id.to_string(), Some(sentence.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Whoever pressed a button gets its answer only when the press is stored. Else they see that it has failed, and press again.
    async fn take(&self, incoming: Incoming, told: Option<Told>) -> Result<(), Ended> {
        let taken = self.inbound.take(incoming.clone()).await;
        let sentence =
            taken.map_err(|error| Ended::fault(format!("what came in cannot be stored: {error}")))?;
        if let (IncomingKind::Text { .. }, Some((id, who))) = (&incoming.what, seen(&incoming)) {
            let mut known = self.outbound.known.lock();
            known.set_seen(id, who);
            if !who.shared {
                known.set_direct(who.from, id.channel);
                known.done(id);
            }
        }
        if let (Some(told), Some(from)) = (told, Snowflake::parse(&incoming.from)) {
            self.tell(from, told, incoming.event_id, sentence);
        }
        Ok(())
    }

    /// Beside the events: they do not wait for it.
    fn tell(&self, from: Snowflake, told: Told, event: String, sentence: Option<String>) {
        let outbound = self.outbound.clone();
        let mut telling = self.telling.lock();
        while telling.try_join_next().is_some() {}
        if telling.len() < TELLING_MAX {
            telling.spawn(async move { outbound.tell(from, &told, &event, sentence.as_deref()).await });
        }
    }

    /// Takes what was written in the known channels of direct messages since the last one that was taken.
    pub async fn catch_up(&self) -> Result<(), Ended> {
        let lasts = self.outbound.known.lock().lasts();
        for mut last in lasts {
            for _ in 0..PAGES_MAX {
                let page = self.page(last).await?;
                let Some(newest) = page.last().map(|(id, _)| *id) else { break };
                for (_, data) in &page {
                    self.event("MESSAGE_CREATE", data).await?;
                }
                last.id = newest;
                self.outbound.known.lock().done(last);
                if page.len() < PAGE {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Messages after `last`, oldest first; none of a channel that is not ours to see any more.
    async fn page(&self, last: MessageId) -> Result<Vec<(Snowflake, Value)>, Ended> {
        let outbound = self.outbound;
        let path = format!("/channels/{}/messages?after={}&limit={PAGE}", last.channel, last.id);
        let answer = outbound.rest.call(Method::GET, &path, None).await;
        let missed = |why: String| Ended::fault(format!("what was written meanwhile cannot be read: {why}"));
        let answer = answer.map_err(|error| missed(what(&error)))?;
        if matches!(answer.status, 403 | 404) {
            outbound.known.lock().forget_last(last.channel);
            return Ok(Vec::new());
        }
        let refused = answer::refused(&answer, outbound.clock.wall_ms());
        let wait = refused.and_then(|why| why.retry_after_ms).unwrap_or(0);
        let page: Option<Vec<Value>> =
            serde_json::from_slice(&answer.body).ok().filter(|_| answer.is_success());
        let page = page.ok_or_else(|| Ended {
            wait: Duration::from_millis(wait),
            ..missed(format!("Discord answered {}", answer.status))
        })?;
        let id = |data: &Value| data["id"].as_str().and_then(Snowflake::parse);
        let mut page: Vec<_> = page.into_iter().filter_map(|data| Some((id(&data)?, data))).collect();
        page.sort_by_key(|(id, _)| *id);
        Ok(page)
    }
}

/// The innermost cause; outer ones name the address.
pub(super) fn what(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    if error.is_timeout() { "time ran out".to_owned() } else { inner.to_string() }
}

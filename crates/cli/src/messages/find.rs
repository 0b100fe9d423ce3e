//! Which channels there are, what stands at their ends, and whole threads.

use super::{Message, Start, history, vault};
use crate::api::Api;
use crate::failure::{Exit, Failure};
use std::collections::VecDeque;
use switchboard_client::Error;
use switchboard_protocol::Code;
use switchboard_protocol::bus::StreamItem;
use switchboard_protocol::enroll::WhoAmI;
use switchboard_protocol::message::Network;

/// How much further back to look when what was looked at was mostly for others.
const SPAN_FACTOR: u64 = 4;

/// What the bearer may read; only of the vault `only`, if one is named.
async fn streams(api: &Api, who: &WhoAmI, only: Option<&str>) -> Result<Vec<StreamItem>, Failure> {
    let wanted = only.map(|name| vault(who, Some(name))).transpose()?.map(|vault| &vault.vault_id);
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = api.failing(api.http.streams(after.as_deref()).await)?;
        all.extend(page.streams);
        match page.next_after {
            Some(next) if after.as_ref() != Some(&next) => after = Some(next),
            _ => break,
        }
    }
    all.retain(|stream| wanted.is_none() || stream.vault_id.as_ref() == wanted);
    Ok(all)
}

/// The newest `limit` messages, oldest first.
pub async fn newest(
    api: &Api,
    who: &WhoAmI,
    only: Option<&str>,
    limit: usize,
) -> Result<Vec<Message>, Failure> {
    let mut all = Vec::new();
    for stream in streams(api, who, only).await? {
        all.extend(api.failing(tail(api, &stream, limit).await)?);
    }
    // Within a second only the positions of one network are ordered.
    all.sort_by_cached_key(|message: &Message| {
        (message.server_time, message.network.cursor_key().into_owned(), message.seq)
    });
    all.drain(..all.len().saturating_sub(limit));
    Ok(all)
}

/// The newest `limit` messages of a stream, fewer when it has no more for this bearer.
async fn tail(api: &Api, stream: &StreamItem, limit: usize) -> Result<VecDeque<Message>, Error> {
    let network = stream.network().into_owned();
    let mut span = limit as u64;
    loop {
        let after = stream.head.saturating_sub(span);
        let mut tail = VecDeque::new();
        let keep = |page: Vec<Message>| {
            tail.extend(page);
            tail.drain(..tail.len().saturating_sub(limit));
            true
        };
        history(api, &network, None, Start::After(after), keep).await?;
        if tail.len() >= limit || after < stream.first_available {
            return Ok(tail);
        }
        span = span.saturating_mul(SPAN_FACTOR);
    }
}

/// The whole thread of a message; on `place`, if one is named, where also a thread is found whose first message is gone.
pub async fn whole_thread(
    api: &Api,
    place: Option<Network<'static>>,
    gid: &str,
) -> Result<Vec<Message>, Failure> {
    let found = match api.http.message(gid).await {
        Ok(message) => Some((message.network, message.thread_id.into_owned())),
        Err(Error::Refused(detail)) if detail.code == Code::NotFound => {
            place.clone().map(|place| (place, gid.to_owned()))
        }
        Err(error) => return api.failing(Err(error)),
    };
    let found = found.filter(|(network, _)| place.as_ref().is_none_or(|place| place == network));
    let mut thread = Vec::new();
    if let Some((network, first)) = found {
        let keep = |page: Vec<Message>| {
            thread.extend(page);
            true
        };
        match history(api, &network, Some(&first), Start::First, keep).await {
            Err(Error::Refused(detail)) if detail.code == Code::NotFound => {}
            other => api.failing(other)?,
        }
    }
    if thread.is_empty() {
        return Err(Failure::new(
            Exit::Refused,
            "SB0115",
            format!("No message {gid} where this bearer can look."),
        )
        .next("if the message is gone and its thread is not: name its place with --channel or --swarm"));
    }
    Ok(thread)
}

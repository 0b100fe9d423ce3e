//! Which channels there are and what stands at their ends. The owner finds out from the event log; everybody else looks at
//! the channels it names.

use super::{GENERAL, Message, channel, history, vault};
use crate::api::Api;
use crate::commands::log::{self, Entries};
use crate::failure::{Exit, Failure};
use std::collections::{BTreeMap, VecDeque};
use switchboard_client::Error;
use switchboard_protocol::Code;
use switchboard_protocol::admin::LogEntry;
use switchboard_protocol::enroll::WhoAmI;
use switchboard_protocol::message::Network;

/// Log records looked at first, and how much further each time.
const SPAN_FIRST: u64 = 256;
const SPAN_FACTOR: u64 = 4;
/// Log records looked at most for the channels of a thread.
const SPAN_MAX: u64 = 100_000;

/// An event of the bus as the log names it.
struct Logged {
    gid: String,
    network: Network<'static>,
    is_message: bool,
}

impl Logged {
    /// The event of an entry whose subject is `GID on CHANNEL seq N`.
    fn of(entry: &LogEntry) -> Option<Self> {
        let kind = entry.verb.strip_prefix("bus.").filter(|_| entry.result == "admitted")?;
        let (gid, rest) = entry.subject.split_once(" on ")?;
        let (name, _) = rest.rsplit_once(" seq ")?;
        let network = match name.strip_prefix("swarm:") {
            Some(swarm_id) => Network::Swarm { swarm_id: swarm_id.to_owned().into() },
            None => Network::Org { channel: name.to_owned().into() },
        };
        let is_message = matches!(kind, "question" | "offer" | "handoff" | "answer" | "finding");
        Some(Self { gid: gid.to_owned(), network, is_message })
    }
}

/// The networks to look through: those of `only`, a vault, if one is named.
pub async fn networks(api: &Api, who: &WhoAmI, only: Option<&str>) -> Result<Vec<Network<'static>>, Failure> {
    let wanted = only.map(|name| vault(who, Some(name))).transpose()?;
    let vaults =
        who.vaults.iter().filter(|vault| wanted.is_none_or(|wanted| wanted.vault_id == vault.vault_id));
    let mut networks: Vec<_> = vaults.map(|vault| channel(who, vault, GENERAL)).collect();
    if api.is_owner {
        let Entries { entries, .. } = log::newest(api, SPAN_MAX).await?;
        for logged in entries.iter().filter_map(Logged::of) {
            if !networks.contains(&logged.network)
                && belongs(&logged.network, wanted.map(|vault| &*vault.vault_id))
            {
                networks.push(logged.network);
            }
        }
    }
    Ok(networks)
}

fn belongs(network: &Network<'_>, vault_id: Option<&str>) -> bool {
    match (network, vault_id) {
        (_, None) => true,
        (Network::Org { channel }, Some(id)) => channel.contains(&format!("/vault:{id}/")),
        (Network::Swarm { .. }, Some(_)) => false,
    }
}

/// The newest `limit` messages, oldest first.
pub async fn newest(
    api: &Api,
    who: &WhoAmI,
    only: Option<&str>,
    limit: usize,
) -> Result<Vec<Message>, Failure> {
    let wanted = only.map(|name| vault(who, Some(name))).transpose()?.map(|vault| vault.vault_id.as_str());
    let starts = if api.is_owner {
        starts(api, wanted, limit).await?
    } else {
        networks(api, who, only).await?.into_iter().map(|network| (network, None)).collect()
    };
    let mut all = Vec::new();
    for (network, after) in starts {
        let mut tail = VecDeque::new();
        let keep = |page: Vec<Message>| {
            tail.extend(page);
            tail.drain(..tail.len().saturating_sub(limit));
            true
        };
        match history(api, &network, None, after, keep).await {
            // Retention has removed where the log says to begin: what is left is all newer.
            Err(Error::Refused(detail)) if detail.code == Code::NotFound => {}
            other => api.failing(other)?,
        }
        all.extend(tail);
    }
    // Within a second only the positions of one network are ordered.
    all.sort_by_cached_key(|message: &Message| {
        (message.server_time, message.network.cursor_key().into_owned(), message.seq)
    });
    all.drain(..all.len().saturating_sub(limit));
    Ok(all)
}

/// Where to begin reading in each network, so that at least `limit` messages are behind.
async fn starts(
    api: &Api,
    vault_id: Option<&str>,
    limit: usize,
) -> Result<Vec<(Network<'static>, Option<String>)>, Failure> {
    let mut span = SPAN_FIRST.max(limit as u64 * 2);
    loop {
        let Entries { entries, is_whole } = log::newest(api, span).await?;
        let logged: Vec<_> = entries
            .iter()
            .filter_map(Logged::of)
            .filter(|logged| belongs(&logged.network, vault_id))
            .collect();
        let messages = logged.iter().filter(|logged| logged.is_message).count();
        let mut starts = BTreeMap::new();
        for Logged { gid, network, .. } in logged {
            let after = (!is_whole).then_some(gid);
            starts.entry(network.cursor_key().into_owned()).or_insert((network, after));
        }
        // The first event of each network is where reading begins, so it is not read itself.
        if is_whole || messages >= limit + starts.len() {
            return Ok(starts.into_values().collect());
        }
        span *= SPAN_FACTOR;
    }
}

/// The whole thread of a message, on the first of `networks` that has it.
pub async fn whole_thread(
    api: &Api,
    networks: &[Network<'static>],
    gid: &str,
) -> Result<Vec<Message>, Failure> {
    for network in networks {
        if let Some(thread) = api.failing(thread_on(api, network, gid).await)? {
            return Ok(thread);
        }
    }
    Err(Failure::new(Exit::Refused, "SB0115", format!("No message {gid} where this bearer can look."))
        .next("name its place with --vault, --channel or --swarm"))
}

/// The thread of a message of this network; `None` when it is not of this network.
async fn thread_on(api: &Api, network: &Network<'static>, gid: &str) -> Result<Option<Vec<Message>>, Error> {
    match thread_of(api, network, gid).await {
        Ok(thread) if thread.is_empty() => {}
        Ok(thread) => return Ok(Some(thread)),
        Err(Error::Refused(detail)) if detail.code == Code::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    // A thread is named by its first message, and this is a later one: it says which when it is met.
    let mut first = None;
    let look = |page: Vec<Message>| {
        first = page.into_iter().find(|message| message.gid == gid).map(|message| message.thread_id);
        first.is_none()
    };
    history(api, network, None, None, look).await?;
    match first {
        Some(first) => thread_of(api, network, &first).await.map(Some),
        None => Ok(None),
    }
}

async fn thread_of(api: &Api, network: &Network<'static>, first: &str) -> Result<Vec<Message>, Error> {
    let mut thread = Vec::new();
    let keep = |page: Vec<Message>| {
        thread.extend(page);
        true
    };
    history(api, network, Some(first), None, keep).await?;
    Ok(thread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_protocol::UtcTime;

    fn entry(result: &str, verb: &str, subject: &str) -> LogEntry {
        let [result, verb, subject] = [result, verb, subject].map(str::to_owned);
        LogEntry { seq: 1, at: UtcTime::from_unix(0), result, verb, actor: String::new(), subject, count: 1 }
    }

    #[test]
    fn events_are_found_in_the_log() {
        let subject = "msg_1 on org:o/vault:00/general seq 7";
        let logged = Logged::of(&entry("admitted", "bus.question", subject)).unwrap();
        assert_eq!((logged.gid.as_str(), logged.is_message), ("msg_1", true));
        assert_eq!(logged.network.cursor_key(), "org:o/vault:00/general");
        assert!(belongs(&logged.network, Some("00")) && !belongs(&logged.network, Some("01")));
        let swarm = Logged::of(&entry("admitted", "bus.publish", "msg_2 on swarm:sw_1 seq 1")).unwrap();
        assert!(
            matches!(&swarm.network, Network::Swarm { swarm_id } if swarm_id == "sw_1") && !swarm.is_message
        );
        assert!(Logged::of(&entry("refused", "bus.question", subject)).is_none());
        assert!(Logged::of(&entry("admitted", "vault.create", "main")).is_none());
    }
}

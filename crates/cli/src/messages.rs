//! Messages as commands read and show them.

mod find;
mod show;

pub use find::{newest, whole_thread};
pub use show::{Names, frame_text, message_text};

use crate::api::Api;
use crate::args::Place;
use crate::failure::{Exit, Failure};
use switchboard_client::MessageQuery;
use switchboard_protocol::enroll::{WhoAmI, WhoAmIVault};
use switchboard_protocol::message::{Delivery, Network};
use switchboard_protocol::text::Channel;

/// A message as it is read back.
pub type Message = Delivery<'static>;

/// The vault that every hub starts with.
const MAIN: &str = "main";

/// Whose bearer it is, and the vaults it may use.
pub async fn whoami(api: &Api) -> Result<WhoAmI, Failure> {
    api.failing(api.http.whoami().await)
}

/// The vault of this name or id; without one, `main` or the only one.
pub fn vault<'a>(who: &'a WhoAmI, asked: Option<&str>) -> Result<&'a WhoAmIVault, Failure> {
    let vaults = &who.vaults;
    let found = match asked {
        Some(asked) => vaults.iter().find(|vault| vault.vault_id == asked || vault.name == asked),
        None => {
            vaults.iter().find(|vault| vault.name == MAIN).or(vaults.first().filter(|_| vaults.len() == 1))
        }
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = vaults.iter().map(|vault| vault.name.as_str()).collect();
        Failure::new(Exit::Refused, "SB0115", format!("No vault {:?}.", asked.unwrap_or(MAIN)))
            .next(format!("--vault NAME with one of: {}", names.join(", ")))
    })
}

/// The network that `place` names.
pub fn network(who: &WhoAmI, place: &Place) -> Result<Network<'static>, Failure> {
    if let Some(swarm_id) = &place.swarm {
        return Ok(Network::Swarm { swarm_id: swarm_id.clone().into() });
    }
    let vault = vault(who, place.vault.as_deref())?;
    Ok(channel(who, vault, &place.channel))
}

/// A channel of a vault.
pub fn channel(who: &WhoAmI, vault: &WhoAmIVault, name: &str) -> Network<'static> {
    Network::Org { channel: Channel::format(&who.org_id, &vault.vault_id, name).into() }
}

/// Where reading begins.
#[derive(Debug, Clone, Copy)]
pub enum Start {
    /// With the first message that is there.
    First,
    /// Behind this position.
    After(u64),
}

/// Everything on a network, or in a thread, from `start` on; handed over page by page until one says that it is enough.
pub async fn history(
    api: &Api,
    network: &Network<'static>,
    thread_id: Option<&str>,
    start: Start,
    mut wants_more: impl FnMut(Vec<Message>) -> bool,
) -> Result<(), switchboard_client::Error> {
    let mut after: Option<String> = None;
    loop {
        let after_seq = match (&after, start) {
            (None, Start::After(seq)) => Some(seq),
            _ => None,
        };
        let after_gid = after.as_deref();
        let query = MessageQuery { network: network.clone(), thread_id, after_gid, after_seq, limit: None };
        let list = api.http.messages(&query).await?;
        let next = if wants_more(list.messages) { list.next } else { None };
        match next {
            Some(next) if after.as_deref() != Some(&*next) => after = Some(next.into_owned()),
            _ => return Ok(()),
        }
    }
}

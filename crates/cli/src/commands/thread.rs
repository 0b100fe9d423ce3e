//! `switchboard thread`: everything said in reply to one message.

use crate::api::Api;
use crate::args::Thread;
use crate::failure::Failure;
use crate::messages::{self, Names, message_text};
use crate::terminal::Output;
use switchboard_protocol::message::Network;

/// Shows a thread.
pub async fn run(api: &Api, output: Output, thread: &Thread) -> Result<(), Failure> {
    let who = messages::whoami(api).await?;
    let place = match (&thread.swarm, &thread.channel) {
        (Some(swarm_id), _) => Some(Network::Swarm { swarm_id: swarm_id.clone().into() }),
        (None, Some(name)) => {
            let vault = messages::vault(&who, thread.vault.as_deref())?;
            Some(messages::channel(&who, vault, name))
        }
        (None, None) => None,
    };
    let found = messages::whole_thread(api, place, &thread.gid).await?;
    let names = Names::of(&who);
    output.show(&found, |found| found.iter().map(|message| message_text(&names, message)).collect());
    Ok(())
}

//! `switchboard thread`: everything said in reply to one message.

use crate::api::Api;
use crate::args::Thread;
use crate::failure::Failure;
use crate::messages::{self, GENERAL, Names, message_text};
use crate::terminal::Output;
use switchboard_protocol::message::Network;

/// Shows a thread.
pub async fn run(api: &Api, output: Output, thread: &Thread) -> Result<(), Failure> {
    let who = messages::whoami(api).await?;
    let networks = match (&thread.swarm, &thread.channel) {
        (Some(swarm_id), _) => vec![Network::Swarm { swarm_id: swarm_id.clone().into() }],
        (None, Some(name)) => {
            let vault = messages::vault(&who, thread.vault.as_deref())?;
            vec![messages::channel(&who, vault, name)]
        }
        (None, None) => {
            // The usual channel first: most threads are there, and finding the others takes longer.
            let vaults = who.vaults.iter().filter(|vault| {
                thread.vault.as_deref().is_none_or(|asked| asked == vault.name || asked == vault.vault_id)
            });
            let usual: Vec<_> = vaults.map(|vault| messages::channel(&who, vault, GENERAL)).collect();
            match messages::whole_thread(api, &usual, &thread.gid).await {
                Ok(found) => return show(output, &Names::of(&who), &found),
                Err(failure) if failure.sb.as_deref() != Some("SB0115") => return Err(failure),
                Err(_) => messages::networks(api, &who, thread.vault.as_deref()).await?,
            }
        }
    };
    show(output, &Names::of(&who), &messages::whole_thread(api, &networks, &thread.gid).await?)
}

#[expect(clippy::unnecessary_wraps, reason = "the last step of a command")]
fn show(output: Output, names: &Names, thread: &[messages::Message]) -> Result<(), Failure> {
    output.show(&thread, |thread| thread.iter().map(|message| message_text(names, message)).collect());
    Ok(())
}

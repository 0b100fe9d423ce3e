//! `bus_reply`.

use super::send::{Waited, appended, compose, deadline, report, set_id, write};
use super::{Reply, locate, network_of, no_message, vault_of};
use crate::mcp::Door;
use crate::mcp::args::{self, Common};
use crate::mcp::call::Call;
use crate::mcp::gate::Caller;
use rmcp::model::JsonObject;
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::write::{Outcome, Write};
use switchboard_engine::submit::receipt;
use switchboard_engine::{inbox, refusal};
use switchboard_protocol::Detail;
use switchboard_protocol::message::{Network, Receipt, ReceiptState};

pub(super) async fn run(
    door: &Arc<Door>,
    caller: Caller,
    mut arguments: JsonObject,
) -> Result<Reply, Detail> {
    let common = Common::take(&mut arguments)?;
    let reply: args::Reply = args::read(arguments)?;
    let found = locate(door, &caller, &reply.gid, "gid").await?;
    let original = found.event.filter(|event| event.kind.is_message()).ok_or_else(|| no_message("gid"))?;
    let call = Call::begin(door, caller, common, vault_of(&found.owner)).await?;
    let network = network_of(&call.hub, &found.owner);
    let to = match &network {
        Network::Org { .. } => addressee(&call, &original),
        Network::Swarm { .. } => None,
    };
    let mut message = compose(&call, network, reply.kind.into(), reply.text, &reply.references)?;
    set_id(&mut message, reply.client_msg_id);
    message.reply_to = Some(reply.gid.as_str().into());
    message.to = to.map(Into::into);
    message.deadline = deadline(&call, reply.deadline_hours)?;
    let mut writes = vec![write(&call, &message)?];
    // Who replies has read. What was no message to the caller gets no receipt, and needs none.
    writes.extend(read(&call, &reply.gid).ok());
    let outcomes = call.hub.commit(writes).await.map_err(|error| refusal::store(&error))?;
    if matches!(outcomes.get(1), Some(Outcome::Receipt { advanced: true })) {
        inbox::tell_senders(&call.hub, vec![original.id]).await;
    }
    let stored = appended(outcomes.into_iter().next().unwrap_or(Outcome::Done))?;
    report(&call, &message, &stored, Waited::default()).await
}

/// Whom a reply is for: the sender; for more on an own message, whoever that one was for.
fn addressee(call: &Call, original: &StoredEvent) -> Option<String> {
    let own = original.from_instance == call.caller.who.instance && original.from_agent == call.agent;
    if own { original.to.as_ref().map(|to| to.agent.clone()) } else { Some(original.from_agent.clone()) }
}

fn read(call: &Call, gid: &str) -> Result<Write, Detail> {
    let read = Receipt { gid: gid.into(), by: call.agent.as_str().into(), state: ReceiptState::Read };
    receipt::receipt(&call.hub, call.speaker(), &read)
}

//! `bus_reply`.

use super::send::{Waited, appended, compose, deadline, report, set_id, write};
use super::{Reply, locate, no_message};
use crate::mcp::Door;
use crate::mcp::args::{self, Common};
use crate::mcp::call::Call;
use crate::mcp::gate::Caller;
use rmcp::model::JsonObject;
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::write::{Outcome, Write};
use switchboard_engine::submit::receipt;
use switchboard_engine::viewer::Viewer;
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
    let place = locate(door, &reply.gid, "gid").await?;
    let call = Call::begin(door, caller, common, place.vault()).await?;
    let original = readable(&call, &reply.gid).await?;
    let network = place.network(&call.hub);
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

/// The message, if the caller may read it.
async fn readable(call: &Call, gid: &str) -> Result<StoredEvent, Detail> {
    let id = call.hub.gids.event(gid).ok_or_else(|| no_message("gid"))?;
    let found = call.hub.store().events(vec![id]).await.map_err(|error| refusal::store(&error))?;
    let viewer = Viewer::instance(&call.caller.who);
    let member = |event: &StoredEvent| call.hub.is_member(&call.caller.who, event.id.stream);
    let event = found.into_iter().flatten().next().filter(|event| viewer.may_read(event) && member(event));
    event.filter(|event| event.kind.is_message()).ok_or_else(|| no_message("gid"))
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

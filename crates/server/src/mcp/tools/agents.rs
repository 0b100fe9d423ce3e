//! `agents_list`.

use super::send::state;
use super::{Reply, begin, counted};
use crate::mcp::Door;
use crate::mcp::args::{self, Common};
use crate::mcp::call::Call;
use crate::mcp::gate::Caller;
use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;
use switchboard_core::port::store::AgentRow;
use switchboard_core::write::Presence;
use switchboard_engine::frame;
use switchboard_engine::presence::profile;
use switchboard_protocol::Detail;
use switchboard_protocol::fence::FenceHeader;
use switchboard_protocol::message::Trust;

/// Agents listed at most; those that are there come first.
const LISTED_MAX: usize = 200;

/// Who is there.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(in crate::mcp) struct Listed {
    /// Your own agent's name.
    you: String,
    /// Your own instance.
    your_instance: String,
    /// The vault.
    vault_id: String,
    /// Its agents; those that are there first.
    agents: Vec<Row>,
    /// Whether there are more than are listed.
    more: bool,
    /// What they say about themselves, fenced.
    text: String,
}

/// One agent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Row {
    /// Its name, for to of `bus_send`.
    agent: String,
    /// Its instance, for `to_instance` when a name occurs twice.
    instance_id: String,
    /// active, idle or closed.
    state: &'static str,
    /// Whether your own instance runs it.
    mine: bool,
    /// When it last announced itself, UTC.
    announced_at: String,
}

pub(super) async fn run(
    door: &Arc<Door>,
    caller: Caller,
    mut arguments: JsonObject,
) -> Result<Reply, Detail> {
    let common = Common::take(&mut arguments)?;
    let args::Agents {} = args::read(arguments)?;
    let call = begin(door, caller, common).await?;
    let mut rows = call.hub.presence.agents(call.vault.vault);
    rows.sort_by(|one, other| order(one).cmp(&order(other)));
    let more = rows.len() > LISTED_MAX;
    rows.truncate(LISTED_MAX);
    let agents: Vec<_> = rows.iter().map(|row| agent(&call, row)).collect();
    let text = claims(&call, &rows);
    let listed = Listed {
        you: call.agent.clone(),
        your_instance: call.caller.who.instance_id.clone(),
        vault_id: call.vault.vault.to_string(),
        agents,
        more,
        text,
    };
    Ok(Reply::new(tell(&call, &listed), &listed))
}

fn order(row: &AgentRow) -> (u8, &str, &str) {
    (row.state as u8, &row.agent, &row.instance_id)
}

fn agent(call: &Call, row: &AgentRow) -> Row {
    Row {
        agent: row.agent.clone(),
        instance_id: row.instance_id.clone(),
        state: state(row.state),
        mine: row.instance == call.caller.who.instance,
        announced_at: frame::utc(row.seen_ms).to_string(),
    }
}

/// What the agents, and those who named their instances, wrote about them.
fn claims(call: &Call, rows: &[AgentRow]) -> String {
    let mut body = String::new();
    for row in rows {
        let said = profile(row).unwrap_or_default();
        let _ = write!(
            body,
            "{} on {}: role {:?}, label {:?}, owner {:?}",
            row.agent, row.instance_id, row.role, row.instance_label, row.owner_name
        );
        for (name, value) in [("called", said.display_name), ("model", said.model)] {
            if let Some(value) = value {
                let _ = write!(body, ", {name} {value:?}");
            }
        }
        if !said.roles.is_empty() {
            let _ = write!(body, ", can be asked for {}", said.roles.join(" "));
        }
        body.push('\n');
    }
    let header = FenceHeader::new("each agent about itself", Trust::Team).with("vault", &call.vault.name);
    call.fence(&header, &body)
}

fn tell(call: &Call, listed: &Listed) -> String {
    let mut text = format!(
        "You are {} on instance {}. {} known in vault {}:\n",
        listed.you,
        listed.your_instance,
        counted(listed.agents.len(), "agent is", "agents are"),
        call.vault.name
    );
    for row in &listed.agents {
        let you = if row.mine && row.agent == listed.you { " (you)" } else { "" };
        let _ = writeln!(text, "- {}{you}: {}, instance {}", row.agent, row.state, row.instance_id);
    }
    if listed.more {
        text.push_str("- and more\n");
    }
    let closed = listed.agents.iter().any(|row| row.state == state(Presence::Closed));
    if closed {
        text.push_str("Closed ones can be written to for 24 hours after they were last announced.\n");
    }
    text.push('\n');
    text.push_str(&listed.text);
    text
}

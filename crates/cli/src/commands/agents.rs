//! `switchboard agents`: who can be written to.

use crate::api::{Api, encode};
use crate::failure::Failure;
use crate::terminal::{self, Output};
use switchboard_protocol::profile::{AgentProfile, AgentProfileList};

/// Pages read at most, so that a listing ends.
const PAGES_MAX: usize = 500;

/// Lists agents.
pub async fn run(api: &Api, output: Output) -> Result<(), Failure> {
    let mut agents: Vec<AgentProfile> = Vec::new();
    let mut path = "/v1/agents".to_owned();
    for _ in 0..PAGES_MAX {
        let page: AgentProfileList = api.get(&path).await?;
        agents.extend(page.profiles);
        match page.next_after {
            Some(after) => path = format!("/v1/agents?after={}", encode(&after)),
            None => break,
        }
    }
    output.show(&agents, |agents| list(agents));
    Ok(())
}

fn list(agents: &[AgentProfile]) -> String {
    if agents.is_empty() {
        return "No agent has announced itself yet.\n".into();
    }
    let row = |agent: &AgentProfile| {
        vec![
            agent.agent.clone(),
            agent.instance_label.clone(),
            agent.owner.clone(),
            agent.model.clone().unwrap_or_default(),
            agent.last_seen.map(|at| at.to_string()).unwrap_or_default(),
        ]
    };
    terminal::table(
        &["AGENT", "INSTANCE", "OWNER", "MODEL", "LAST SEEN"],
        &agents.iter().map(row).collect::<Vec<_>>(),
    )
}

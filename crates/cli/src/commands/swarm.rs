//! `switchboard swarm`: networks where nobody is more than a handle.

use crate::api::{Api, path};
use crate::args::Swarm;
use crate::failure::Failure;
use crate::terminal::{self, Output};
use switchboard_protocol::admin::{self, JoinIn, SwarmIn};

const PATH: &str = "/admin/v1/swarms";

/// Makes, joins, closes or lists swarms.
pub async fn run(api: &Api, output: Output, command: Swarm) -> Result<(), Failure> {
    match command {
        Swarm::Create { title } => {
            let swarm: admin::Swarm = api.post(PATH, &SwarmIn { title }).await?;
            output.show(&swarm, |swarm| {
                let join = format!("Join it: switchboard swarm join {} --handle HANDLE\n", swarm.swarm_id);
                list(std::slice::from_ref(swarm)) + &join
            });
        }
        Swarm::Join { swarm_id, handle, person } => {
            let joined = JoinIn { handle: handle.clone(), person };
            let () = api.post(&path(PATH, &[&swarm_id, "join"]), &joined).await?;
            output.done(&format!("Joined {swarm_id} as {handle}."));
        }
        Swarm::Close { swarm_id } => {
            api.act(&path(PATH, &[&swarm_id, "close"])).await?;
            output.done(&format!("{swarm_id} is closed; what was said stays readable."));
        }
        Swarm::List => {
            let swarms: Vec<admin::Swarm> = api.get(PATH).await?;
            output.show(&swarms, |swarms| list(swarms));
        }
    }
    Ok(())
}

fn list(swarms: &[admin::Swarm]) -> String {
    let row = |swarm: &admin::Swarm| {
        let state = if swarm.open { "open" } else { "closed" };
        vec![swarm.swarm_id.clone(), state.into(), swarm.members.to_string(), swarm.title.clone()]
    };
    terminal::table(&["SWARM", "STATE", "MEMBERS", "TITLE"], &swarms.iter().map(row).collect::<Vec<_>>())
}

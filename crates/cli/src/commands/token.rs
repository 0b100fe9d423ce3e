//! `switchboard token`: bearers for agents, scripts and CI.

use crate::api::{Api, path};
use crate::args::Token;
use crate::connect;
use crate::failure::Failure;
use crate::terminal::{self, Output};
use switchboard_protocol::admin::{Instance, TokenIn, TokenOut};

const PATH: &str = "/admin/v1/tokens";

/// Makes, lists or ends bearers.
pub async fn run(api: &Api, output: Output, command: Token) -> Result<(), Failure> {
    match command {
        Token::Create { label, owner, rights } => {
            let created: TokenOut = api.post(PATH, &TokenIn { label, owner, rights }).await?;
            output.show(&created, |created| text(api, created));
        }
        Token::List => {
            let instances: Vec<Instance> = api.get(PATH).await?;
            output.show(&instances, |instances| list(instances));
        }
        Token::Revoke { instance_id } => {
            api.delete(&path(PATH, &[&instance_id])).await?;
            output.done(&format!("{instance_id} is revoked, with all its credentials."));
        }
    }
    Ok(())
}

fn text(api: &Api, created: &TokenOut) -> String {
    format!(
        "{}\nThis bearer is shown this once. To connect an agent with it:\n\n{}",
        terminal::facts(&[
            ("instance", created.instance_id.clone()),
            ("organization", created.org_id.clone()),
            ("token", created.token.clone()),
        ]),
        connect::lines(&api.url, &created.token)
    )
}

fn list(instances: &[Instance]) -> String {
    let row = |instance: &Instance| {
        vec![
            instance.instance_id.clone(),
            instance.kind.clone(),
            instance.label.clone(),
            instance.owner.clone(),
            instance.created_at.to_string(),
            instance.revoked_at.map_or_else(|| "active".into(), |at| format!("revoked {at}")),
            instance.rights.join(","),
        ]
    };
    let rows: Vec<_> = instances.iter().map(row).collect();
    terminal::table(&["INSTANCE", "KIND", "LABEL", "OWNER", "MADE", "STATE", "RIGHTS"], &rows)
}

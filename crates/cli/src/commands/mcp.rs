//! `switchboard mcp`: the hub's MCP door for clients that start a program and speak with it on standard input and output.

use crate::api::Api;
use crate::args::Mcp;
use crate::failure::Failure;
use switchboard_client::mcp::{Options, bridge};

/// Bridges until standard input ends. Nothing but messages goes to standard output.
pub async fn run(api: &Api, mcp: Mcp) -> Result<(), Failure> {
    if api.is_owner {
        return Err(Failure::usage("A model must not act as the hub's owner.").next(
            "give it a bearer of its own: `switchboard token create --label NAME`, then set SWITCHBOARD_TOKEN",
        ));
    }
    let options =
        Options { agent: mcp.agent, trust: api.trust.clone(), ..Options::new(&api.url, api.token.clone()) };
    api.failing(bridge(options, tokio::io::stdin(), tokio::io::stdout()).await)
}

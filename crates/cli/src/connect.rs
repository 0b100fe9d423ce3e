//! How an agent is connected: lines to paste.

use serde_json::{Value, json};

/// Address of the MCP door.
pub fn mcp_url(url: &str) -> String {
    format!("{url}/mcp")
}

/// The configuration that most MCP clients read.
pub fn mcp_json(url: &str, token: &str) -> Value {
    let headers = json!({ "Authorization": format!("Bearer {token}") });
    json!({ "mcpServers": { "switchboard": { "type": "http", "url": mcp_url(url), "headers": headers } } })
}

/// One line to paste per client that is known.
pub fn lines(url: &str, token: &str) -> String {
    let mcp = mcp_url(url);
    let header = format!("--header \"Authorization: Bearer {token}\"");
    format!(
        "  Claude Code  claude mcp add --transport http switchboard {mcp} {header}\n  \
           Codex        export SWITCHBOARD_TOKEN={token}\n               \
                        codex mcp add switchboard --url {mcp} --bearer-token-env-var SWITCHBOARD_TOKEN\n  \
           Gemini       gemini mcp add --transport http {header} switchboard {mcp}\n  \
           others       {}\n",
        mcp_json(url, token)
    )
}

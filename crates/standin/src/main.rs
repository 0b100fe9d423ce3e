//! `switchboard-standin KIND`: runs a stand-in until standard input ends. The first line on standard output is its address; then each
//! line on standard input is one act of a person or of the service as JSON, answered by one line of JSON.

use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};
use switchboard_standin::discord::Discord;

/// What a bot has to show to the stand-ins that are run by this program.
const TOKEN: &str = "standin-token";

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let kind = std::env::args().nth(1).unwrap_or_default();
    if kind == "discord" {
        let discord = runtime.block_on(Discord::start(TOKEN));
        return run(&discord.api(), |act| discord.act(act));
    }
    eprintln!("there is no stand-in {kind:?}");
    std::process::exit(2);
}

/// Answers acts until there are none more.
fn run(address: &str, act: impl Fn(&Value) -> Value) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{address}")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(parsed) => act(&parsed),
            Err(error) => json!({ "error": error.to_string() }),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

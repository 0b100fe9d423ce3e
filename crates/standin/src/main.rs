//! `switchboard-standin KIND`: runs a stand-in until standard input ends. The first line on standard output is its address; then each
//! line on standard input is one act of a person or of the service as JSON, answered by one line of JSON.

use std::io::Write as _;
use switchboard_standin::slack;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin, stdin};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let kind = std::env::args().nth(1).unwrap_or_default();
    let lines = BufReader::new(stdin()).lines();
    if kind == "slack" {
        return run_slack(lines).await;
    }
    eprintln!("there is no stand-in {kind:?}");
    std::process::exit(2);
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

async fn run_slack(mut lines: Lines<BufReader<Stdin>>) -> std::io::Result<()> {
    let slack = slack::Slack::start("xoxb-standin", "xapp-standin", "8f742231b10e8888abcd99yyyzzz85a5").await;
    say(&format!("http://{}", slack.address))?;
    while let Some(line) = lines.next_line().await? {
        say(&slack::act(&slack, &line).await.to_string())?;
    }
    Ok(())
}

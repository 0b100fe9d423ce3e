//! `switchboard-standin KIND`: runs a stand-in until standard input ends. The first line on standard output is its address; then each
//! line on standard input is one act of a person or of the service as JSON, answered by one line of JSON.

use std::io::Write as _;
use switchboard_standin::{discord, slack, telegram};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let kind = std::env::args().nth(1).unwrap_or_default();
    match kind.as_str() {
        "discord" => run_discord().await,
        "slack" => run_slack().await,
        "telegram" => run_telegram().await,
        _ => {
            eprintln!("there is no stand-in {kind:?}; there are: discord, slack, telegram");
            std::process::exit(2);
        }
    }
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

// Reading blocks this thread alone: a stand-in has others.

async fn run_discord() -> std::io::Result<()> {
    let discord = discord::Discord::start(discord::TOKEN).await;
    say(&discord.api())?;
    for line in std::io::stdin().lines() {
        say(&discord::act(&discord, &line?).to_string())?;
    }
    Ok(())
}

async fn run_slack() -> std::io::Result<()> {
    let slack = slack::Slack::start("xoxb-standin", "xapp-standin", "8f742231b10e8888abcd99yyyzzz85a5").await;
    say(&format!("http://{}", slack.address))?;
    for line in std::io::stdin().lines() {
        say(&slack::act(&slack, &line?).await.to_string())?;
    }
    Ok(())
}

async fn run_telegram() -> std::io::Result<()> {
    let telegram = telegram::Telegram::start(telegram::TOKEN).await?;
    say(&telegram.url())?;
    for line in std::io::stdin().lines() {
        say(&telegram::act(&telegram, &line?).to_string())?;
    }
    Ok(())
}

//! `switchboard-standin KIND`: runs a stand-in until standard input ends. The first line on standard output is its address; then each
//! line on standard input is one act of a person or of the service as JSON, answered by one line of JSON.

use std::io::Write as _;
use switchboard_standin::telegram;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let kind = std::env::args().nth(1).unwrap_or_default();
    match kind.as_str() {
        "telegram" => run_telegram().await,
        "" => leave("name a stand-in: telegram"),
        _ => leave(&format!("there is no stand-in {kind:?}")),
    }
}

fn leave(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(2);
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Reading blocks this thread alone: the stand-in has others.
async fn run_telegram() -> std::io::Result<()> {
    let telegram = telegram::Telegram::start(telegram::TOKEN).await?;
    say(&telegram.url())?;
    for line in std::io::stdin().lines() {
        say(&telegram::act(&telegram, &line?).to_string())?;
    }
    Ok(())
}

//! `switchboard search`.

use crate::api::{Api, encode};
use crate::args::Search;
use crate::failure::{Exit, Failure};
use crate::messages::{self, Message, Names, message_text};
use crate::terminal::Output;
use switchboard_protocol::message::MessageList;

/// Searches what the bearer may read.
pub async fn run(api: &Api, output: Output, search: &Search) -> Result<(), Failure> {
    let who = messages::whoami(api).await?;
    let words = encode(&search.words.join(" "));
    let found: serde_json::Value = api.get(&format!("/v1/search?q={words}&limit={}", search.limit)).await?;
    let hits = read(&found.to_string())
        .map_err(|error| Failure::new(Exit::Unreachable, "SB0202", format!("Unexpected answer: {error}.")))?;
    let names = Names::of(&who);
    output.show(&hits, |hits| match hits.as_slice() {
        [] => "Nothing found.\n".into(),
        hits => hits.iter().map(|message| message_text(&names, message)).collect(),
    });
    Ok(())
}

fn read(text: &str) -> Result<Vec<Message>, serde_json::Error> {
    Ok(serde_json::from_str::<MessageList<'_>>(text)?.into_owned().messages)
}

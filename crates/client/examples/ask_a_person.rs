//! Asks the person behind a mail address, and waits for the answer: `cargo run --example ask_a_person -- URL TOKEN ADDRESS`.

use std::error::Error;
use std::time::Duration;
use switchboard_client::sink::{HubSink, MessageSink, OutboundMessage, Recipient};
use switchboard_client::{Http, Secret, Tuning};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next =
        |what: &str| arguments.next().ok_or_else(|| format!("give URL TOKEN ADDRESS: {what} is missing"));
    let (url, token, address) = (next("URL")?, next("TOKEN")?, next("ADDRESS")?);
    let sink = HubSink::new(Http::new(&url, Secret::new(token), &Tuning::default())?);
    let receipt = sink
        .send(&OutboundMessage {
            channel: "email".into(),
            to: Recipient::Direct(address),
            body: "May I deploy version 7 now?".into(),
            message_kind: None, // a question
            deadline_ms: None,
            idempotency_key: Some("deploy-7".into()), // sent once, however often this runs
            choices: vec!["Yes".into(), "No".into()],
        })
        .await?;
    let topic = receipt.topic_id.ok_or("a question has a topic")?;
    let found = sink.conversation(&topic, Duration::from_mins(1)).await?;
    match found.answer {
        // What a person wrote is data, never an instruction.
        Some(answer) => println!("{} says: {}", answer.by, answer.text),
        None => println!("no answer yet: {}", found.state),
    }
    Ok(())
}

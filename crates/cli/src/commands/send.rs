//! `switchboard send` and `switchboard ask`.

use super::people;
use super::reach::{self, Meant, Typed};
use crate::api::Api;
use crate::args::{Ask, Envelope, Kind, Send};
use crate::failure::{Exit, Failure};
use crate::messages::{self, Message, Names, message_text};
use crate::terminal::{self, Output, line};
use crate::time;
use serde::Serialize;
use std::io::Read as _;
use std::time::Duration;
use switchboard_client::{Client, Event, Options, message_id};
use switchboard_core::random::{self, SystemEntropy};
use switchboard_core::time::{Clock as _, SystemClock};
use switchboard_protocol::UtcTime;
use switchboard_protocol::enroll::WhoAmI;
use switchboard_protocol::frame::client::HelloAgent;
use switchboard_protocol::limits::MESSAGE_TEXT_CHARS_MAX;
use switchboard_protocol::message::{
    AgentMessage, MessageBody, MessageType, Network, Receipt, ReceiptState, Stored,
};
use switchboard_protocol::text::Channel;

/// How the hub's owner is called when writing from a terminal.
const OWNER: &str = "owner";
/// Bytes read from standard input at most: more than the longest text.
const STDIN_BYTES_MAX: u64 = 4 * MESSAGE_TEXT_CHARS_MAX as u64 + 16;

/// Sends one message.
pub async fn send(api: &Api, output: Output, send: &Send) -> Result<(), Failure> {
    let said = text(&send.text)?;
    if people::is_for_person(&send.envelope, &send.reach) {
        return people::send(api, output, send, &said).await;
    }
    let kind =
        send.kind.unwrap_or(if send.envelope.reply_to.is_some() { Kind::Answer } else { Kind::Finding });
    let outgoing =
        Outgoing { envelope: &send.envelope, kind, text: &said, deadline: send.deadline.as_deref() };
    let (client, stored, _) = match outgoing.send(api).await {
        Ok(done) => done,
        Err(failure) => {
            let to = (&send.envelope, &send.reach);
            let Meant { envelope, reach } = reach::person(api, to, failure, &Typed::send(&said)).await?;
            let send = Send { envelope, reach, ..send.clone() };
            return people::send(api, output, &send, &said).await;
        }
    };
    client.close().await;
    output.show(&stored, |stored| format!("Stored as {} (position {}).\n", stored.gid, stored.seq));
    Ok(())
}

/// A question and what came of it.
#[derive(Debug, Serialize)]
struct Asked {
    question: Stored<'static>,
    answer: Option<Message>,
}

/// Sends a question and waits for its answer.
pub async fn ask(api: &Api, output: Output, ask: &Ask) -> Result<(), Failure> {
    let said = text(&ask.text)?;
    if people::is_for_person(&ask.envelope, &ask.reach) {
        return people::ask(api, output, ask, &said).await;
    }
    let timeout = time::duration("--timeout", &ask.timeout)?;
    let outgoing = Outgoing {
        envelope: &ask.envelope,
        kind: Kind::Question,
        text: &said,
        deadline: ask.deadline.as_deref(),
    };
    let (client, question, from) = match outgoing.send(api).await {
        Ok(sent) => sent,
        Err(failure) => {
            let to = (&ask.envelope, &ask.reach);
            let typed = Typed::ask(&said, &ask.choices);
            let Meant { envelope, reach } = reach::person(api, to, failure, &typed).await?;
            let ask = Ask { envelope, reach, ..ask.clone() };
            return people::ask(api, output, &ask, &said).await;
        }
    };
    if !output.json {
        terminal::note(&format!("Stored as {}; waiting for the answer.", question.gid));
    }
    let answer = tokio::time::timeout(timeout, answer(&client, &question, &from, output)).await;
    client.close().await;
    let answer = answer.ok().transpose()?;
    let asked = Asked { question, answer };
    let names = Names::of(&messages::whoami(api).await?);
    output.show(&asked, |asked| {
        asked.answer.as_ref().map(|answer| message_text(&names, answer)).unwrap_or_default()
    });
    if asked.answer.is_some() {
        Ok(())
    } else {
        let waited = time::human(timeout.as_secs());
        let gid = &asked.question.gid;
        Err(Failure::new(
            Exit::No,
            "SB0209",
            format!("No answer within {waited}. The question stays open until its deadline."),
        )
        .next(format!("look later: `switchboard thread {gid}`")))
    }
}

/// Waits for the answer, telling who got the question meanwhile, and marks it as read.
async fn answer(
    client: &Client,
    question: &Stored<'_>,
    from: &str,
    output: Output,
) -> Result<Message, Failure> {
    loop {
        match client.next_event().await? {
            Event::Delivery(delivery)
                if delivery.message_type == MessageType::Answer
                    && delivery.reply_to.as_deref() == Some(&*question.gid) =>
            {
                let receipt =
                    Receipt { gid: delivery.gid.clone(), by: from.into(), state: ReceiptState::Read };
                client.receipt(&receipt).await?;
                // Nobody is announced any more; when the hub has taken that, it has taken the receipt too.
                client.hello(Vec::new()).await?;
                return Ok(*delivery);
            }
            Event::Status(status) if status.gid == question.gid && !output.json => {
                let state = if status.state == ReceiptState::Read { "read" } else { "received" };
                terminal::note(&line(&format!("{} has {state} it.", status.by)));
            }
            Event::Disconnected { reason, .. } if !output.json => {
                terminal::note(&line(&format!("The connection is lost ({reason}); connecting again.")));
            }
            _ => {}
        }
    }
}

struct Outgoing<'a> {
    envelope: &'a Envelope,
    kind: Kind,
    text: &'a str,
    deadline: Option<&'a str>,
}

impl Outgoing<'_> {
    /// Announces the sender, sends, and keeps the connection; also how the sender is called.
    async fn send(&self, api: &Api) -> Result<(Client, Stored<'static>, String), Failure> {
        let deadline = self.deadline.map(|text| time::duration("--deadline", text)).transpose()?;
        let who = messages::whoami(api).await?;
        let network = messages::network(&who, &self.envelope.place)?;
        let from = self.envelope.sender.clone().unwrap_or_else(|| name(api, &who));
        let message = self.message(network, &from, self.text, deadline);
        message.validate().map_err(|invalid| Failure::from(switchboard_client::Error::Invalid(invalid)))?;
        let client = announced(api, &who, &from, home(&who, &message.network)?).await?;
        let stored = api.failing(client.send(&message).await)?;
        Ok((client, stored, from))
    }

    fn message<'a>(
        &'a self,
        network: Network<'a>,
        from: &'a str,
        text: &'a str,
        deadline: Option<Duration>,
    ) -> AgentMessage<'a> {
        let now_ms = SystemClock::default().wall_ms();
        let id = message_id(now_ms.unsigned_abs(), random::bytes(&SystemEntropy));
        let mut message = AgentMessage::new(id, network, wire(self.kind), from, MessageBody::text(text));
        message.to = self.envelope.to.as_deref().map(Into::into);
        message.to_instance = self.envelope.to_instance.as_deref().map(Into::into);
        message.reply_to = self.envelope.reply_to.as_deref().map(Into::into);
        message.deadline = deadline.map(|after| {
            let after_s = i64::try_from(after.as_secs()).unwrap_or(i64::MAX / 2);
            // The wire has whole seconds: never earlier than asked for.
            UtcTime::from_unix(now_ms.div_euclid(1000) + 1).plus_s(after_s)
        });
        message
    }
}

/// A connection on which an agent is announced in a vault.
pub(super) async fn announced(
    api: &Api,
    who: &WhoAmI,
    agent: &str,
    vault_id: String,
) -> Result<Client, Failure> {
    let mut options = Options::new(&api.url, api.token.clone());
    options.trust = api.trust.clone();
    options.instance_id = Some(who.instance_id.clone());
    options.agents = vec![HelloAgent {
        agent_id: agent.to_owned().into(),
        role: if api.is_owner { "person".into() } else { "cli".into() },
        vault_id: vault_id.into(),
    }];
    let client = api.failing(Client::connect(options).await)?;
    api.failing(client.ready().await)?;
    Ok(client)
}

fn wire(kind: Kind) -> MessageType {
    match kind {
        Kind::Question => MessageType::Question,
        Kind::Offer => MessageType::Offer,
        Kind::Handoff => MessageType::Handoff,
        Kind::Answer => MessageType::Answer,
        Kind::Finding => MessageType::Finding,
    }
}

/// The text as typed, or standard input for `-`.
pub(super) fn text(typed: &str) -> Result<String, Failure> {
    if typed != "-" {
        return Ok(typed.to_owned());
    }
    let mut text = String::new();
    let read = std::io::stdin().lock().take(STDIN_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("Standard input cannot be read as text: {error}.")))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// How the sender is called when nobody says: the owner, or the instance's label as an id.
pub(super) fn name(api: &Api, who: &WhoAmI) -> String {
    if api.is_owner {
        return OWNER.into();
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = who.label.chars().map(plain).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "cli".into() } else { name.chars().take(64).collect() }
}

/// The vault to be announced in: that of the channel; for a swarm any.
fn home(who: &WhoAmI, network: &Network<'_>) -> Result<String, Failure> {
    match network {
        Network::Org { channel } => {
            let channel = Channel::parse(channel).map_err(|invalid| Failure::usage(invalid.message))?;
            Ok(channel.vault.to_owned())
        }
        Network::Swarm { .. } => {
            let vault = who.vaults.first();
            vault
                .map(|vault| vault.vault_id.clone())
                .ok_or_else(|| Failure::usage("This bearer has no vault to speak from."))
        }
    }
}

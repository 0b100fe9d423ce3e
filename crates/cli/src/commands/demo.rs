//! `switchboard demo`: two agents over the client library, a question, its answer, the receipts, as they happen, on a hub of
//! their own that leaves nothing behind.

use crate::api::Api;
use crate::config::Config;
use crate::embedded::{self, Embedded};
use crate::failure::{Exit, Failure};
use crate::signals::Signals;
use crate::terminal::{self, Output, line};
use serde::Serialize;
use std::time::Duration;
use switchboard_client::{Client, Event, Options, Secret, Trust, message_id};
use switchboard_core::ExposeSecret as _;
use switchboard_core::random::{self, SystemEntropy};
use switchboard_core::rights::Rights;
use switchboard_core::time::{Clock as _, SystemClock};
use switchboard_engine::manage;
use switchboard_engine::once::Request;
use switchboard_protocol::admin::{Ledgers, Verified};
use switchboard_protocol::frame::client::HelloAgent;
use switchboard_protocol::message::{
    AgentMessage, Delivery, MessageBody, MessageType, Network, Receipt, ReceiptState,
};
use switchboard_protocol::text::Channel;

/// The demo ends here at the latest.
const TIME_MAX: Duration = Duration::from_secs(10);
const QUESTION: &str = "Which retry budget does the payments service use?";
const ANSWER: &str = "Three attempts within two seconds, then the queue. See config/payments.toml.";

/// Shows the whole path of a question.
pub async fn run(output: Output) -> Result<(), Failure> {
    let mut signals = Signals::listen();
    let dir = tempfile::Builder::new()
        .prefix("switchboard-demo-")
        .tempdir()
        .map_err(|error| Failure::file(&std::env::temp_dir(), &error))?;
    let config = Config::default();
    let store = embedded::open_store(&dir.path().join("data"), &config)?;
    let embedded = Embedded::start(store, &config, embedded::bind("127.0.0.1:0").await?, None).await?;
    let mut stage = Stage { output, clock: SystemClock::default(), steps: Vec::new() };
    let played = tokio::select! {
        played = tokio::time::timeout(TIME_MAX, play(&embedded, &mut stage)) => played.unwrap_or_else(|_| Err(slow())),
        () = signals.next() => Err(Failure::no("Interrupted.")),
    };
    embedded.stop().await;
    dir.close().map_err(|error| Failure::file(&std::env::temp_dir(), &error))?;
    let (ledger, verified) = played?;
    stage.say("demo", "done; the hub and its data are gone again");
    let steps = &stage.steps;
    output
        .show(&serde_json::json!({ "ok": true, "steps": steps, "ledger": ledger, "log": verified }), |_| {
            "\nThe same with your own agents: switchboard serve\n".into()
        });
    Ok(())
}

fn slow() -> Failure {
    let message = format!("The demo did not finish within {} s.", TIME_MAX.as_secs());
    Failure::new(Exit::No, "SB0209", message).next("is the machine very busy? try again")
}

/// Something that happened.
#[derive(Debug, Serialize)]
struct Step {
    ms: u64,
    who: &'static str,
    what: String,
}

/// Where the demo is seen.
struct Stage {
    output: Output,
    clock: SystemClock,
    steps: Vec<Step>,
}

impl Stage {
    fn say(&mut self, who: &'static str, what: impl Into<String>) {
        let ms = u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX);
        let what = what.into();
        if !self.output.json {
            let _ = terminal::print(&format!("{ms:>5} ms  {who:<7} {}\n", line(&what)));
        }
        self.steps.push(Step { ms, who, what });
    }
}

/// An agent with a bearer and a connection of its own.
struct Agent {
    name: &'static str,
    client: Client,
    channel: String,
}

impl Agent {
    async fn arrive(embedded: &Embedded, name: &'static str, role: &'static str) -> Result<Self, Failure> {
        let hub = &embedded.hub;
        let created = manage::tokens::create(hub, &Request::fresh(hub), name, None, Rights::AGENT).await;
        let token = created.map_err(|detail| Failure::from(&detail))?.token;
        let vault =
            hub.vault_list().into_iter().next().map(|vault| vault.vault.to_string()).unwrap_or_default();
        let mut options = Options::new(&embedded.local_url, Secret::new(token.expose_secret()));
        options.agents =
            vec![HelloAgent { agent_id: name.into(), role: role.into(), vault_id: vault.clone().into() }];
        let client = Client::connect(options).await?;
        client.ready().await?;
        let channel = Channel::format(&hub.installation.org_id, &vault, "general");
        Ok(Self { name, client, channel })
    }

    async fn send(
        &self,
        kind: MessageType,
        to: &str,
        reply_to: Option<&str>,
        text: &str,
    ) -> Result<String, Failure> {
        let now_ms = SystemClock::default().wall_ms().unsigned_abs();
        let id = message_id(now_ms, random::bytes(&SystemEntropy));
        let network = Network::Org { channel: self.channel.as_str().into() };
        let mut message = AgentMessage::new(id, network, kind, self.name, MessageBody::text(text));
        message.to = Some(to.into());
        message.reply_to = reply_to.map(Into::into);
        Ok(self.client.send(&message).await?.gid.into_owned())
    }

    /// The next message of this type.
    async fn receive(&self, kind: MessageType) -> Result<Delivery<'static>, Failure> {
        loop {
            if let Event::Delivery(delivery) = self.client.next_event().await?
                && delivery.message_type == kind
            {
                return Ok(*delivery);
            }
        }
    }

    async fn acknowledge(&self, message: &Delivery<'_>) -> Result<(), Failure> {
        let receipt = Receipt { gid: message.gid.clone(), by: self.name.into(), state: ReceiptState::Read };
        Ok(self.client.receipt(&receipt).await?)
    }
}

async fn play(embedded: &Embedded, stage: &mut Stage) -> Result<(Ledgers, Verified), Failure> {
    stage.say("hub", format!("started on {} with an empty data directory", embedded.local_url));
    let asker = Agent::arrive(embedded, "asker", "writes the checkout").await?;
    let helper = Agent::arrive(embedded, "helper", "knows payments").await?;
    stage.say("hub", "asker and helper are announced in the vault main");
    let gid = asker.send(MessageType::Question, "helper", None, QUESTION).await?;
    stage.say("asker", format!("asks helper: {QUESTION}"));
    stage.say("hub", format!("stored on disk as {gid}, then acknowledged"));
    let question = helper.receive(MessageType::Question).await?;
    stage.say("helper", "receives it, as data inside a fence, and says that it has read it");
    helper.acknowledge(&question).await?;
    let status = read_receipt(&asker, &gid).await?;
    stage.say("asker", format!("learns that {status} has read the question"));
    helper.send(MessageType::Answer, "asker", Some(&question.gid), ANSWER).await?;
    stage.say("helper", "answers in the same thread");
    let answer = asker.receive(MessageType::Answer).await?;
    let text = answer.body.as_ref().map(|body| body.text.to_string()).unwrap_or_default();
    stage.say("asker", format!("receives the answer: {text}"));
    if answer.thread_id != gid || answer.reply_to.as_deref() != Some(&*gid) {
        return Err(Failure::no("The answer came outside of its thread."));
    }
    asker.acknowledge(&answer).await?;
    read_receipt(&helper, &answer.gid).await?;
    stage.say("helper", "learns that its answer was read");
    asker.client.close().await;
    helper.client.close().await;
    account(embedded, stage).await
}

/// Waits until somebody has read `gid`; who it was.
async fn read_receipt(sender: &Agent, gid: &str) -> Result<String, Failure> {
    loop {
        if let Event::Status(status) = sender.client.next_event().await?
            && status.gid == gid
            && status.state == ReceiptState::Read
        {
            return Ok(status.by.into_owned());
        }
    }
}

async fn account(embedded: &Embedded, stage: &mut Stage) -> Result<(Ledgers, Verified), Failure> {
    let api = Api::open(&embedded.local_url, embedded.token.clone(), true, TIME_MAX, &Trust::default())?;
    let ledger: Ledgers = api.get("/admin/v1/ledger").await?;
    let bus = &ledger.bus;
    stage.say(
        "hub",
        format!(
            "ledger: {} accepted = {} delivered + {} answered + {} pending",
            bus.accepted, bus.delivered, bus.answered, bus.pending
        ),
    );
    let verified: Verified = api.post("/admin/v1/log/verify", &serde_json::json!({})).await?;
    let holds = if verified.ok { "holds" } else { "is broken" };
    stage.say("hub", format!("the log of {} entries {holds}", verified.entries));
    Ok((ledger, verified))
}

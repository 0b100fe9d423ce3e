//! A question nobody answers goes on to other apps and other people, as its rule said before it was asked, and ends as it said.

use super::{Desk, by_clock, in_time, question, said, with};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use switchboard_channels::fake::{CAPABILITIES, FakeNetwork, Script};
use switchboard_core::port::channel::{FailureClass, Incoming, IncomingKind, NotSent};
use switchboard_core::time::{Clock as _, ManualClock, WallMs};
use switchboard_engine::outbound::hear;
use switchboard_testkit::{Mcp, Options};

const MINUTE_MS: u64 = 60_000;
const RULE: &str = "[[escalate]]\nname = \"duty\"\ntool = \"messaging.send\"\nparam = \"to\"\nequals = \"ada\"\nthen = \"deny\"\n\
    rungs = [\n  { after = \"10m\", channel = \"mail\", to = \"ada\" },\n  { after = \"20m\", channel = \"mail\", to = \"cy\" },\n  \
    { after = \"30m\", propose_task = true },\n  { after = \"2h\", channel = \"mail\", to = \"ada\" },\n]\n";

/// A hub with the networks `chat` and `mail`, whose rules say whom a question to Ada goes to.
struct Duty {
    desk: Desk,
    mail: Arc<FakeNetwork>,
    clock: Arc<ManualClock>,
    rules: tempfile::TempDir,
}

impl Duty {
    async fn open() -> Self {
        Self::with_rule(RULE).await
    }

    async fn with_rule(rule: &str) -> Self {
        let rules = tempfile::tempdir().unwrap();
        write(rules.path(), rule);
        let (mut options, clock): (Options, _) = by_clock();
        options.settings.policy_dir = Some(rules.path().to_owned());
        let mut desk = Desk::with(options, CAPABILITIES).await;
        let mail = FakeNetwork::with("mail", CAPABILITIES);
        desk.add(mail.clone(), false).await;
        assert_eq!(desk.allow("mail", "cy", true).await.status, 200);
        Self { desk, mail, clock, rules }
    }

    /// Asks Ada, for an hour; the receipt.
    async fn ask(&self) -> Value {
        let more =
            json!({ "deadline_ms": self.deadline(60), "choices": ["Yes", "No"], "idempotency_key": "k" });
        let receipt = self.desk.sent(&with(question("ada", "Deploy now?"), &more)).await;
        self.desk.until(&receipt["send_id"], "open").await;
        receipt
    }

    fn deadline(&self, minutes: WallMs) -> WallMs {
        self.clock.wall_ms() + minutes * 60_000
    }

    /// Waits until the rungs are in these states.
    async fn until(&self, receipt: &Value, states: &[&str]) -> Value {
        let shown = self.desk.until_shown(&receipt["send_id"], |shown| {
            let rungs = shown["topic"]["escalation"].as_array().unwrap();
            rungs.iter().map(|rung| rung["state"].as_str().unwrap()).eq(states.iter().copied())
        });
        shown.await["topic"].clone()
    }

    /// Somebody presses a button of `mail`.
    async fn press(&self, event: &str, from: &str, value: &str) -> Option<String> {
        let what = IncomingKind::Button { value: value.into() };
        let incoming = Incoming { channel: "mail".into(), what, ..said(event, from, "") };
        hear::take(&self.desk.hub.hub, incoming).await.unwrap()
    }
}

fn write(dir: &Path, rule: &str) {
    std::fs::write(dir.join("duty.toml"), rule).unwrap();
}

fn states(chain: &Value) -> Vec<&str> {
    chain["escalation"].as_array().unwrap().iter().map(|rung| rung["state"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_answers_and_the_chain_is_climbed_to_its_end() {
    let duty = Duty::open().await;
    let receipt = duty.ask().await;
    // The whole chain is known before anybody is asked anything more.
    assert_eq!(receipt["then"], "deny", "{receipt}");
    assert_eq!(states(&receipt), ["waiting", "waiting", "waiting", "skipped"], "{receipt}");
    assert_eq!(
        (&receipt["escalation"][0]["to"], &receipt["escalation"][0]["after_ms"]),
        (&json!("ada"), &json!(600_000))
    );
    assert_eq!(receipt["escalation"][2]["task"], true, "{receipt}");
    assert!(receipt["escalation"][3]["reason"].as_str().unwrap().contains("deadline"), "{receipt}");
    let again = json!({ "deadline_ms": duty.deadline(60), "choices": ["Yes", "No"], "idempotency_key": "k" });
    let again = duty.desk.sent(&with(question("ada", "Deploy now?"), &again)).await;
    assert_eq!((&again["deduplicated"], &again["then"]), (&json!(true), &json!("deny")), "{again}");
    assert_eq!(again["escalation"], receipt["escalation"], "a repeat knows it as well");
    assert!(duty.mail.accepted().is_empty());

    duty.clock.advance(10 * MINUTE_MS);
    in_time(duty.mail.until_accepted(1)).await;
    let (first, topic) = (duty.mail.accepted().remove(0), &receipt["topic_id"]);
    assert_eq!((first.to.handle.as_str(), first.part.text.as_str()), ("ada", "Deploy now?"));
    assert_eq!(first.part.buttons.len(), 2, "with buttons of its own");
    let shown = duty.until(&receipt, &["asked", "waiting", "waiting", "skipped"]).await;
    let message = duty.desk.show(&shown["escalation"][0]["send_id"]).await;
    assert_eq!((&message["asks"], &message["message_kind"]), (topic, &json!("question")), "{message}");

    // The hub is down when the next one's time comes: it comes then, once, and waits for its channel.
    let Duty { mut desk, mail, clock, rules } = duty;
    let more = std::mem::take(&mut desk.more);
    let desk = desk.restart_after(|| clock.advance(10 * MINUTE_MS)).await;
    let duty = Duty { desk, mail, clock, rules };
    duty.until(&receipt, &["asked", "asked", "waiting", "skipped"]).await;
    assert_eq!(duty.mail.accepted().len(), 1);
    for (channel, fallback) in more {
        duty.desk.hub.hub.add_channel(channel, fallback).unwrap();
    }
    in_time(duty.mail.until_accepted(2)).await;
    assert_eq!(duty.mail.accepted()[1].to.handle, "cy");
    duty.clock.advance(10 * MINUTE_MS);
    duty.until(&receipt, &["asked", "asked", "proposed", "skipped"]).await;
    a_task_is_proposed(&duty, topic).await;
    duty.clock.advance(30 * MINUTE_MS);
    let ended = duty.desk.until(&receipt["send_id"], "expired").await;
    assert_eq!((&ended["topic"]["state"], &ended["topic"]["then"]), (&json!("expired"), &json!("deny")));
    let told = duty.desk.conversation(topic).await;
    assert_eq!((&told["state"], &told["then"]), (&json!("expired"), &json!("deny")), "{told}");
    let mcp = Mcp::open(&duty.desk.hub, &duty.desk.agent).await;
    let told = mcp.done("conversation_get", json!({ "topic_id": topic })).await;
    assert!(told.text.contains("Take that for a no."), "{}", told.text);
    assert_eq!(told.data["then"], "deny", "{}", told.text);
    in_time(duty.mail.until_amendments(2)).await;
    assert!(duty.mail.amendments().iter().all(|shown| shown.outcome == "Nobody answered in time."));
    the_log_tells_all_of_it(&duty, &receipt).await;
    duty.desk.ledger().await;
}

/// The bus proposes a task that names the question; deciding about it is no answer.
async fn a_task_is_proposed(duty: &Duty, topic: &Value) {
    duty.clock.advance(3_000);
    let admin = duty.desk.admin();
    let tasks = in_time(async {
        loop {
            let tasks = admin.get("/admin/v1/vaults/main/tasks").await.json();
            if !tasks.as_array().unwrap().is_empty() {
                return tasks;
            }
            tokio::task::yield_now().await;
        }
    });
    let tasks = tasks.await;
    let title = tasks[0]["title"].as_str().unwrap();
    assert!(title.contains(topic.as_str().unwrap()) && title.contains("planner"), "{tasks}");
    assert_eq!(admin.post("/admin/v1/vaults/main/tasks/1/approve", &json!({})).await.status, 204);
    assert_eq!(duty.desk.conversation(topic).await["state"], "open", "that is no answer");
}

async fn the_log_tells_all_of_it(duty: &Duty, receipt: &Value) {
    let topic = receipt["topic_id"].as_str().unwrap();
    let log = duty.desk.admin().get("/admin/v1/log?limit=500").await.text;
    let said = [
        format!("{topic} {} rungs=4 then=deny rule=duty.toml#escalate:duty", id(receipt)),
        format!("{topic} 1 asked"),
        format!("{topic} 3 proposed"),
        format!("{topic} then=deny rule=duty.toml#escalate:duty"),
    ];
    for said in said {
        assert_eq!(log.matches(&said).count(), 1, "{said}: {log}");
    }
}

fn id(receipt: &Value) -> &str {
    receipt["send_id"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_answers_that_race_in_two_apps_are_one_decision_and_both_show_it() {
    let duty = Duty::open().await;
    let receipt = duty.ask().await;
    duty.clock.advance(20 * MINUTE_MS);
    in_time(duty.mail.until_accepted(2)).await;
    let cy = duty.mail.accepted().into_iter().find(|sent| sent.to.handle == "cy").unwrap();
    duty.until(&receipt, &["asked", "asked", "waiting", "skipped"]).await;
    let chat = duty.desk.network.accepted().remove(0);
    let pressed = IncomingKind::Button { value: chat.part.buttons[0].value.clone() };
    let (hub, incoming) = (&duty.desk.hub.hub, Incoming { what: pressed, ..said("c1", "ada", "") });
    let by_chat = hear::take(hub, incoming);
    let by_mail = duty.press("m1", "cy", &cy.part.buttons[1].value);
    let (chat_told, mail_told) = tokio::join!(by_chat, by_mail);
    let late = [chat_told.unwrap(), mail_told].into_iter().flatten().collect::<Vec<_>>();
    assert!(late.len() == 1 && late[0].contains("already answered"), "one came too late: {late:?}");
    let found = duty.desk.conversation(&receipt["topic_id"]).await;
    let answer = (found["answer"]["text"].as_str().unwrap(), found["answer"]["by"].as_str().unwrap());
    assert!([("Yes", "ada"), ("No", "cy")].contains(&answer), "{found}");
    assert_eq!(states(&found)[2], "skipped", "nobody else is asked: {found}");

    in_time(duty.desk.network.until_amendments(1)).await;
    in_time(duty.mail.until_amendments(2)).await;
    let shown = [duty.desk.network.amendments(), duty.mail.amendments()].concat();
    assert_eq!(shown.len(), 3);
    assert!(shown.iter().all(|shown| shown.outcome.ends_with(&format!(": {}", answer.0))), "{shown:?}");
    duty.clock.advance(20 * MINUTE_MS);
    duty.desk.says("e9", "ada", "hello?").await;
    assert_eq!(duty.mail.accepted().len(), 2);
    duty.desk.ledger().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_delivered_goes_on_at_once_and_who_may_not_be_asked_is_passed_over() {
    let duty = Duty::open().await;
    let gone = NotSent::new(FailureClass::Permanent, "no such user");
    duty.desk.network.script([Script::NotSent(gone)]);
    let stop = Incoming { channel: "mail".into(), ..said("s1", "ada", "stop") };
    hear::take(&duty.desk.hub.hub, stop).await.unwrap();
    let more = json!({ "deadline_ms": duty.deadline(60) });
    let receipt = duty.desk.sent(&with(question("ada", "Deploy now?"), &more)).await;
    duty.desk.until(&receipt["send_id"], "dead").await;
    let shown = duty.until(&receipt, &["skipped", "waiting", "waiting", "skipped"]).await;
    assert!(shown["escalation"][0]["reason"].as_str().unwrap().contains("STOP"), "{shown}");
    assert_eq!((&shown["state"], &shown["send_state"]), (&json!("open"), &json!("dead")), "{shown}");
    duty.clock.advance(20 * MINUTE_MS);
    in_time(duty.mail.until_accepted(1)).await;
    let text = Incoming { channel: "mail".into(), ..said("m1", "cy", "go ahead") };
    hear::take(&duty.desk.hub.hub, text).await.unwrap();
    let found = duty.desk.conversation(&receipt["topic_id"]).await;
    assert_eq!((&found["state"], &found["answer"]["by"]), (&json!("answered"), &json!("cy")), "{found}");
    duty.desk.ledger().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_names_what_is_not_there_is_told_with_its_file() {
    let duty = Duty::with_rule(&RULE.replace("\"mail\"", "\"pager\"")).await;
    let refused = duty.desk.send(&question("ada", "Deploy now?")).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("duty.toml#escalate:duty") && message.contains("pager"), "{message}");
    assert_eq!(duty.desk.send(&question("ben", "And you?")).await.status, 200, "other questions go on");
    let notice = with(question("ada", "By the way"), &json!({ "message_kind": "notice" }));
    assert_eq!(duty.desk.send(&notice).await.status, 200, "so do notices");
    write(duty.rules.path(), RULE);
    assert_eq!(duty.desk.admin().post("/admin/v1/policy/reload", &json!({})).await.status, 200);
    assert_eq!(duty.desk.send(&question("ada", "Deploy now?")).await.status, 200);
    // Rules that have changed since decide about a rung whose time has come.
    let deny = "[[deny_tool_param]]\ntool = \"messaging.send\"\nparam = \"channel\"\nequals = \"mail\"\n";
    write(duty.rules.path(), deny);
    assert_eq!(duty.desk.admin().post("/admin/v1/policy/reload", &json!({})).await.status, 200);
    let topics = duty.desk.admin().get("/admin/v1/topics").await.json();
    let topic =
        topics["topics"].as_array().unwrap().iter().find(|topic| topic["to"] == "ada").unwrap().clone();
    duty.clock.advance(10 * MINUTE_MS);
    let shown = duty.until(&topic, &["skipped", "waiting", "waiting", "waiting"]).await;
    assert!(shown["escalation"][0]["reason"].as_str().unwrap().contains("deny_tool_param"), "{shown}");
    assert!(duty.mail.accepted().is_empty());
}

//! Calls that a rule holds until a person says yes: asked durably, decided once, and looked at by the rules once more.

use super::{Desk, by_clock, in_time, notice, options, question, with};
use crate::cli::{program, run};
use serde_json::{Value, json};
use std::path::Path;
use switchboard_channels::fake::{CAPABILITIES, Gate, Script};
use switchboard_testkit::Options;

const APPROVALS: &str = "/admin/v1/approvals";
const CARE: &str = "[[require_approval]]\nname = \"care\"\ntool = \"messaging.send\"\nparam = \"body\"\ncontains = \"deploy\"\n";

/// A hub whose rules hold what says "deploy" until somebody, among them the boss on `chat`, approves it.
async fn with_care(mut options: Options, rules: &Path) -> Desk {
    std::fs::write(rules.join("care.toml"), CARE).unwrap();
    options.settings.policy_dir = Some(rules.to_owned());
    options.settings.outbound.approvers = vec![("chat".into(), "boss".into())];
    let desk = Desk::with(options, CAPABILITIES).await;
    assert_eq!(desk.allow("chat", "boss", true).await.status, 200);
    desk
}

fn deploy() -> Value {
    with(notice("ada", "Please deploy version 7."), &json!({ "idempotency_key": "k" }))
}

/// A call that is held; its receipt.
async fn held(desk: &Desk) -> Value {
    let receipt = desk.sent(&deploy()).await;
    assert_eq!((&receipt["state"], &receipt["delivered"]), (&json!("held"), &json!(false)), "{receipt}");
    assert!(
        receipt["approval_id"].is_string() && receipt["reason"].as_str().unwrap().contains("approval"),
        "{receipt}"
    );
    receipt
}

/// What has gone out to somebody.
fn texts(desk: &Desk, to: &str) -> Vec<String> {
    let to = desk.network.accepted().into_iter().filter(|attempt| attempt.to.handle == to);
    to.map(|attempt| attempt.part.text).collect()
}

async fn decide(desk: &Desk, receipt: &Value, approve: bool) -> (u16, String) {
    let path = format!("{APPROVALS}/{}", receipt["approval_id"].as_str().unwrap());
    let reply = desk.admin().post(&path, &json!({ "approve": approve })).await;
    (reply.status, reply.text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_decision_counts_and_the_call_goes_on() {
    let rules = tempfile::tempdir().unwrap();
    let desk = with_care(options(), rules.path()).await;
    let receipt = held(&desk).await;
    in_time(desk.network.until_accepted(1)).await;
    let asked = texts(&desk, "boss").concat();
    assert!(asked.contains("> Please deploy version 7.") && asked.contains("care"), "{asked}");
    assert!(texts(&desk, "ada").is_empty());

    let desk = desk.restart().await; // nothing about it is only in memory
    let repeat = desk.sent(&deploy()).await;
    assert_eq!(
        (&repeat["state"], &repeat["approval_id"]),
        (&json!("held"), &receipt["approval_id"]),
        "{repeat}"
    );
    let listed = desk.admin().get(APPROVALS).await.json();
    assert_eq!(listed["approvals"][0]["approval_id"], receipt["approval_id"], "{listed}");
    let agent = desk.hub.http(&desk.agent);
    let path = format!("{APPROVALS}/{}", receipt["approval_id"].as_str().unwrap());
    assert_eq!(agent.post(&path, &json!({ "approve": true })).await.status, 403, "no agent approves");

    let code = desk.show(&receipt["send_id"]).await["code"].as_str().unwrap().to_owned();
    let (url, bearer) = (desk.hub.url.clone(), desk.hub.admin().bearer);
    let by_command = tokio::task::spawn_blocking(move || {
        let mut command = program(&["approval", "approve", "--json"]);
        run(command.args([&code, "--url", &url, "--token", &bearer])).json()
    });
    assert_eq!(by_command.await.unwrap()["state"], "approved");
    let shown = desk.until(&receipt["send_id"], "delivered").await;
    let why = shown["why"].to_string();
    assert!(why.contains("asked for an approval") && why.contains("via cli"), "{why}");
    assert_eq!(texts(&desk, "ada"), ["Please deploy version 7."]);

    let (status, told) = decide(&desk, &receipt, false).await;
    assert!(status == 409 && told.contains("already approved by Owner"), "{status} {told}");
    let told = desk.says("late", "boss", "deny").await.unwrap();
    assert!(told.contains("Nothing is open"), "{told}");
    let log = desk.admin().get("/admin/v1/log?limit=500").await.text;
    assert_eq!((log.matches("outbound.decided").count(), log.contains(" sig=")), (1, true), "{log}");
    desk.ledger().await;
}

#[tokio::test]
async fn a_word_in_the_chat_decides_and_only_of_those_who_were_asked() {
    let rules = tempfile::tempdir().unwrap();
    let desk = with_care(options(), rules.path()).await;
    let receipt = held(&desk).await;
    for (event, from) in [("a1", "ada"), ("a2", "ben"), ("a3", "stranger")] {
        desk.says(event, from, "approve").await;
        let code = desk.show(&receipt["send_id"]).await["code"].clone();
        desk.says(&format!("{event}c"), from, &format!("approve {}", code.as_str().unwrap())).await;
    }
    assert_eq!(desk.show(&receipt["send_id"]).await["state"], "held");
    desk.says("d1", "boss", "Deny.").await;
    let shown = desk.until(&receipt["send_id"], "refused").await;
    assert_eq!(
        (&shown["reason"], &shown["approval"]["state"]),
        (&json!("denied by boss"), &json!("denied")),
        "{shown}"
    );
    assert!(texts(&desk, "ada").is_empty());

    // Nothing was sent: the key is free, and it is asked again.
    let again = held(&desk).await;
    assert_ne!(again["send_id"], receipt["send_id"]);
    desk.says("d2", "boss", "approve").await;
    desk.until(&again["send_id"], "delivered").await;
}

#[tokio::test]
async fn a_bare_word_decides_nothing_when_several_things_are_open() {
    let rules = tempfile::tempdir().unwrap();
    let desk = with_care(options(), rules.path()).await;
    let asked = desk.sent(&question("boss", "Lunch?")).await;
    let receipt = held(&desk).await;
    let told = desk.says("b1", "boss", "approve").await.unwrap();
    assert!(told.contains("Several things are open") && told.matches("SB-").count() == 2, "{told}");
    assert_eq!(desk.show(&receipt["send_id"]).await["state"], "held");
    assert_eq!(desk.conversation(&asked["topic_id"]).await["state"], "open");
    let listed = desk.admin().get(super::OUTBOUND).await.json();
    let prompt =
        listed["sends"].as_array().unwrap().iter().find(|send| send["message_kind"] == "approval").unwrap();
    desk.says("b2", "boss", &format!("approve SB-{}", prompt["code"].as_str().unwrap())).await;
    desk.until(&receipt["send_id"], "delivered").await;
    assert_eq!(desk.conversation(&asked["topic_id"]).await["state"], "open");
}

/// The answer comes while the message that asks for it is still on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_faster_than_the_receipt_is_heard() {
    let rules = tempfile::tempdir().unwrap();
    let desk = with_care(options(), rules.path()).await;
    let gate = Gate::new();
    desk.network.script([Script::held(&gate, Script::Sent)]);
    let receipt = held(&desk).await;
    in_time(gate.reached()).await;
    desk.says("f1", "boss", "approve").await;
    gate.open();
    desk.until(&receipt["send_id"], "delivered").await;
    desk.ledger().await;
}

#[tokio::test]
async fn what_nobody_approves_is_refused_in_time_and_nobody_is_said_to_have_denied_it() {
    let rules = tempfile::tempdir().unwrap();
    let (options, clock) = by_clock();
    let desk = with_care(options, rules.path()).await;
    let receipt = held(&desk).await;
    let desk = desk.restart_after(|| clock.advance(24 * 3_600_000 + 1)).await;
    let shown = desk.until(&receipt["send_id"], "refused").await;
    assert_eq!(
        (&shown["reason"], &shown["approval"]["state"]),
        (&json!("nobody approved it in time"), &json!("expired"))
    );
    assert_eq!(shown["approval"]["decided_by"], Value::Null, "{shown}");
    let (status, told) = decide(&desk, &receipt, true).await;
    assert!(status == 409 && told.contains("was over"), "{status} {told}");
    assert!(texts(&desk, "ada").is_empty());
}

#[tokio::test]
async fn what_was_approved_is_refused_when_a_rule_forbids_it_by_then() {
    let rules = tempfile::tempdir().unwrap();
    let desk = with_care(options(), rules.path()).await;
    let receipt = held(&desk).await;
    std::fs::write(rules.path().join("words.toml"), "deny_keyword = [\"version 7\"]\n").unwrap();
    assert_eq!(desk.admin().post("/admin/v1/policy/reload", &json!({})).await.status, 200);
    assert_eq!(decide(&desk, &receipt, true).await.0, 200);
    let shown = desk.until(&receipt["send_id"], "refused").await;
    assert!(
        shown["reason"].as_str().unwrap().starts_with("approved, but forbidden since by words.toml"),
        "{shown}"
    );
    let refused = desk.send(&deploy()).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["reason"].clone()),
        (403, json!("policy")),
        "{}",
        refused.text
    );
    assert!(
        !refused.text.contains("version 7"),
        "the word that was looked for is not told: {}",
        refused.text
    );
    assert!(texts(&desk, "ada").is_empty());
}

/// A rule that comes while a message waits behind another counts for it, as one that asks for an approval does that nobody gave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_counts_for_what_waits_already() {
    let rules = tempfile::tempdir().unwrap();
    let (mut options, _clock) = by_clock(); // no call waits for its message
    options.settings.policy_dir = Some(rules.path().to_owned());
    let desk = Desk::with(options, CAPABILITIES).await;
    let gate = Gate::new();
    desk.network.script([Script::held(&gate, Script::Sent)]);
    let first = desk.sent(&notice("ada", "hello")).await;
    in_time(gate.reached()).await;
    let (second, third) = (desk.sent(&deploy()).await, desk.sent(&notice("ada", "bye")).await);
    std::fs::write(rules.path().join("care.toml"), CARE).unwrap();
    assert_eq!(desk.admin().post("/admin/v1/policy/reload", &json!({})).await.status, 200);
    gate.open();
    for (receipt, state) in [(first, "delivered"), (second, "refused"), (third, "delivered")] {
        desk.until(&receipt["send_id"], state).await;
    }
    assert_eq!(texts(&desk, "ada"), ["hello", "bye"]);
}

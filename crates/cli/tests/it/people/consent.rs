//! Nobody is written to who has not agreed, or not any more: looked at when a call is accepted, and once more before it leaves.

use super::{CONSENTS, Desk, in_time, notice, said};
use serde_json::{Value, json};
use switchboard_channels::fake::{Gate, Script};
use switchboard_core::port::channel::Origin;
use switchboard_testkit::Mcp;

async fn state(desk: &Desk, to: &str) -> Value {
    let listed = desk.admin().get(CONSENTS).await.json();
    let found =
        listed["consents"].as_array().unwrap().iter().find(|row| row["channel"] == "chat" && row["to"] == to);
    found.map_or(Value::Null, |row| row["state"].clone())
}

/// Something to Ada is on its way, and so much waits behind it.
async fn on_its_way(desk: &Desk, waiting: usize) -> (Gate, Vec<Value>) {
    let gate = Gate::new();
    desk.network.script([Script::held(&gate, Script::Sent)]);
    let mut ids = Vec::new();
    let call = |number: usize| {
        let mut call = notice("ada", &format!("{number}"));
        call["idempotency_key"] = json!(format!("{number}"));
        call
    };
    for number in 0..=waiting {
        let (hub, token) = (desk.hub.http(&desk.agent), call(number));
        // The receipt would wait for the one on its way.
        tokio::spawn(async move { hub.post(super::SEND, &token).await });
        if number == 0 {
            in_time(gate.reached()).await;
        }
    }
    let mut changes = desk.hub.hub.outbound.changes();
    in_time(async {
        loop {
            changes.mark_unchanged();
            let listed = desk.admin().get(super::OUTBOUND).await.json();
            let sends = listed["sends"].as_array().unwrap().clone();
            if sends.len() > waiting {
                ids.extend(sends.into_iter().rev().map(|send| send["send_id"].clone()));
                return;
            }
            changes.changed().await.unwrap();
        }
    })
    .await;
    (gate, ids)
}

#[tokio::test]
async fn who_is_not_paired_is_not_written_to_and_the_refusal_says_what_to_do() {
    let desk = Desk::open().await;
    let refused = desk.send(&notice("carl", "hi")).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    let error = refused.json()["error"].clone();
    assert_eq!((&error["reason"], &error["field"]), (&json!("not_paired"), &json!("to")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("switchboard pair"), "{error}");
    let by_mcp =
        Mcp::open(&desk.hub, &desk.agent).await.refused("messaging_send", notice("carl", "hi")).await;
    assert!(by_mcp.contains("carl has not agreed"), "{by_mcp}");
    let agent = desk.hub.http(&desk.agent);
    let own = json!({ "channel": "chat", "to": "carl", "allow": true });
    assert_eq!(agent.post(CONSENTS, &own).await.status, 403, "an agent cannot agree for a person");
    assert_eq!(desk.allow("chat", " CARL ", true).await.status, 200, "addresses have one form");
    assert_eq!(desk.sent(&notice("Carl", "hi")).await["delivered"], true);
    assert_eq!(desk.allow("chat", "carl", false).await.status, 200);
    assert_eq!(desk.send(&notice("carl", "hi")).await.status, 403);
    assert_eq!(desk.network.attempts().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consent_that_is_taken_back_counts_for_what_waits() {
    let desk = Desk::open().await;
    let (gate, ids) = on_its_way(&desk, 2).await;
    assert_eq!(desk.allow("chat", "ada", false).await.status, 200);
    gate.open();
    desk.until(&ids[0], "delivered").await;
    for id in &ids[1..] {
        let shown = desk.until(id, "refused").await;
        assert_eq!(shown["reason"], "the consent was taken back", "{shown}");
    }
    assert_eq!(desk.network.attempts().len(), 1, "the gate let nothing out");
    assert_eq!(desk.ledger().await["refused"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_ends_what_waits_and_only_the_person_takes_it_back() {
    let desk = Desk::open().await;
    let (gate, ids) = on_its_way(&desk, 2).await;
    let told = desk.says("e1", "ada", " s\u{200B}Top! ").await.unwrap();
    assert!(told.contains("START"), "{told}");
    for id in &ids[1..] {
        desk.until(id, "refused").await;
    }
    gate.open();
    desk.until_shown(&ids[0], |shown| shown["attempts"].as_array().unwrap().len() == 1).await;
    let refused = desk.send(&notice("ada", "please")).await;
    assert_eq!((refused.status, refused.json()["error"]["reason"].clone()), (403, json!("stopped")));
    let allowed = desk.allow("chat", "ada", true).await;
    assert_eq!(allowed.status, 403, "an operator does not speak for them: {}", allowed.text);
    assert_eq!(desk.network.attempts().len(), 1, "at most the one that was on its way");

    let claimed =
        switchboard_core::port::channel::Incoming { origin: Origin::Claimed, ..said("e2", "ada", "START") };
    switchboard_engine::outbound::hear::take(&desk.hub.hub, claimed).await.unwrap();
    assert_eq!(state(&desk, "ada").await, "stopped", "nobody vouches for who says it");
    let told = desk.says("e3", "ada", "start").await.unwrap();
    assert!(told.contains("written to again"), "{told}");
    assert_eq!(desk.sent(&notice("ada", "welcome back")).await["delivered"], true);
}

#[tokio::test]
async fn a_pairing_code_works_once_for_who_types_it_and_guessing_ends() {
    let desk = Desk::open().await;
    let admin = desk.admin();
    let made = admin.post("/admin/v1/pairing/codes", &json!({ "channel": "chat" })).await.json();
    let code = made["code"].as_str().unwrap();
    let wrong = code.chars().rev().collect::<String>();
    assert!(desk.says("w1", "mallory", &wrong).await.unwrap().contains("not valid"));
    let told = desk.says("p1", "carl", &format!("/pair {}", code.to_lowercase())).await.unwrap();
    assert!(told.contains("paired"), "{told}");
    assert_eq!(state(&desk, "carl").await, "paired");
    assert!(desk.says("p2", "dora", code).await.unwrap().contains("not valid"), "it works once");
    assert_eq!(state(&desk, "dora").await, Value::Null);

    let made =
        admin.post("/admin/v1/pairing/codes", &json!({ "channel": "chat", "to": "dora" })).await.json();
    let code = made["code"].as_str().unwrap();
    assert!(desk.says("p3", "eve", code).await.unwrap().contains("not valid"), "it is Dora's alone");
    for guess in 0..10 {
        desk.says(&format!("g{guess}"), "mallory", &wrong).await;
    }
    let desk = desk.restart().await;
    assert!(
        desk.says("g11", "mallory", code).await.unwrap().contains("Too many"),
        "a restart forgives no guesses"
    );
    assert!(desk.says("p4", "dora", code).await.unwrap().contains("paired"), "and others are not locked out");
}

#[tokio::test]
async fn a_consent_can_be_given_by_channel_for_a_shared_one() {
    let desk = Desk::open().await;
    let mut call = notice("ops", "hi all");
    call["kind"] = json!("channel");
    assert_eq!(desk.send(&call).await.status, 403);
    assert_eq!(desk.allow("chat", "ops", true).await.status, 200, "a person named so");
    assert_eq!(desk.send(&call).await.status, 403, "is no shared channel");
    let shared = json!({ "channel": "chat", "to": "ops", "kind": "channel", "allow": true });
    assert_eq!(desk.admin().post(CONSENTS, &shared).await.status, 200);
    assert_eq!(desk.sent(&call).await["delivered"], true);
}

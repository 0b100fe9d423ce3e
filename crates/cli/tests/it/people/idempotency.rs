//! A key makes a repeat harmless: always, everywhere, and for this very call alone.

use super::{Desk, in_time, notice, question, with};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::HashSet;
use switchboard_channels::fake::{Gate, Script};
use switchboard_core::port::channel::{FailureClass, NotSent};

fn keyed(body: &str, key: &str) -> Value {
    with(notice("ada", body), &json!({ "idempotency_key": key }))
}

#[tokio::test]
async fn a_repeat_gets_the_first_receipt_also_after_a_restart() {
    let desk = Desk::open().await;
    let first = desk.sent(&keyed("once", "k")).await;
    for round in 0..2 {
        let again = desk.sent(&keyed("once", "k")).await;
        assert_eq!(again, with(first.clone(), &json!({ "deduplicated": true })), "round {round}");
    }
    let desk = desk.restart().await;
    let again = desk.sent(&keyed("once", "k")).await;
    assert_eq!(again, with(first, &json!({ "deduplicated": true })), "a restart forgets nothing");
    assert_eq!(desk.network.attempts().len(), 1);
    assert_eq!(desk.ledger().await["accepted"], 1);
}

#[tokio::test]
async fn a_key_of_another_call_is_an_error_and_another_agents_key_is_another() {
    let desk = Desk::open().await;
    let first = desk.sent(&keyed("hello", "k")).await;
    for other in [
        keyed("other text", "k"),
        with(keyed("hello", "k"), &json!({ "to": "ben" })),
        with(keyed("hello", "k"), &json!({ "message_kind": "question" })),
    ] {
        let refused = desk.send(&other).await;
        assert_eq!(refused.status, 409, "{other}: {}", refused.text);
        let error = &refused.json()["error"];
        assert_eq!((&error["reason"], &error["field"]), (&json!("id_reused"), &json!("idempotency_key")));
    }
    let path = format!("{}?agent=reviewer", super::SEND);
    let reviewer = desk.hub.http(&desk.agent).post(&path, &keyed("hello", "k")).await.json();
    assert_eq!(reviewer["deduplicated"], false, "{reviewer}");
    assert_ne!(reviewer["send_id"], first["send_id"]);
    let stranger = desk.hub.token("planner").await;
    let stranger = desk.hub.http(&stranger).post(super::SEND, &keyed("hello", "k")).await.json();
    assert_eq!(stranger["deduplicated"], false, "keys of two instances never meet: {stranger}");
    assert_eq!(desk.network.accepted().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_go_out_once() {
    let desk = Desk::open().await;
    let gate = Gate::new();
    desk.network.script([Script::held(&gate, Script::Sent)]);
    let call = keyed("once", "k");
    let sending = async { join_all((0..8).map(|_| desk.sent(&call))).await };
    let opening = async {
        gate.reached().await;
        gate.open();
    };
    let (receipts, ()) = in_time(async { tokio::join!(sending, opening) }).await;
    let ids: HashSet<_> = receipts.iter().map(|receipt| receipt["send_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1, "{receipts:?}");
    let fresh = receipts.iter().filter(|receipt| receipt["deduplicated"] == false).count();
    assert_eq!((fresh, desk.network.attempts().len()), (1, 1), "{receipts:?}");
    assert!(
        receipts.iter().all(|receipt| receipt["delivered"] == true),
        "all wait for the one: {receipts:?}"
    );
}

#[tokio::test]
async fn a_failed_send_leaves_its_key_free() {
    let desk = Desk::open().await;
    desk.network.script([Script::NotSent(NotSent::new(FailureClass::Permanent, "too rude"))]);
    let failed = desk.sent(&keyed("hello", "k")).await;
    assert_eq!((&failed["state"], &failed["delivered"]), (&json!("dead"), &json!(false)), "{failed}");
    assert!(failed["reason"].as_str().unwrap().contains("too rude"), "{failed}");
    let again = desk.sent(&keyed("hello", "k")).await;
    assert_eq!((&again["delivered"], &again["deduplicated"]), (&json!(true), &json!(false)), "{again}");
    assert_ne!(again["send_id"], failed["send_id"]);
    let repeat = desk.sent(&keyed("hello", "k")).await;
    assert_eq!(repeat["send_id"], again["send_id"], "from then on it is that one's");
}

/// An agent that starts again and repeats all it did: nothing is posted again, and what was answered is there.
#[tokio::test]
async fn an_agent_that_repeats_everything_sends_nothing_again_and_gets_its_answers() {
    let desk = Desk::open().await;
    let asked = with(question("ada", "Red or blue?"), &json!({ "idempotency_key": "q1" }));
    desk.sent(&keyed("I begin", "m")).await;
    let first = desk.sent(&asked).await;
    desk.says("e1", "ada", "blue").await;
    for _ in 0..2 {
        assert_eq!(desk.sent(&keyed("I begin", "m")).await["deduplicated"], true);
        let again = desk.sent(&asked).await;
        assert_eq!(
            (&again["topic_id"], &again["state"]),
            (&first["topic_id"], &json!("answered")),
            "{again}"
        );
        assert_eq!(desk.conversation(&again["topic_id"]).await["answer"]["text"], "blue");
    }
    assert_eq!(desk.network.attempts().len(), 2);
}

#[tokio::test]
async fn without_a_key_everything_is_sent_each_time() {
    let desk = Desk::open().await;
    for _ in 0..2 {
        assert_eq!(desk.sent(&notice("ada", "again")).await["deduplicated"], false);
    }
    assert_eq!(desk.network.accepted().len(), 2);
}

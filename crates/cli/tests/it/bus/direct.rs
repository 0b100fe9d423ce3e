//! Direct messages bind to one instance (contract section 4).

use serde_json::{Value, json};
use std::sync::Arc;
use switchboard_core::time::{DAY_MS, ManualClock};
use switchboard_testkit::{Options, TestHub};

fn direct(hub: &TestHub, id: &str, from: &str, to: &str) -> Value {
    let mut message = hub.message(id, "finding", from, "for you");
    message["to"] = json!(to);
    message
}

#[tokio::test]
async fn it_reaches_the_single_instance_that_announced_the_name_and_nobody_else() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut sender = hub.agent(&a, "a").await;
    let mut addressee = hub.agent(&b, "b").await;
    let mut bystander = hub.agent(&c, "c").await;
    assert_eq!(sender.ask(&direct(&hub, "m1", "a", "b")).await["seq"], 1);
    assert_eq!(addressee.expect("message.deliver").await["to"], "b");
    sender.ask(&hub.message("m2", "finding", "a", "for all")).await;
    assert_eq!(bystander.expect("message.deliver").await["seq"], 2, "the first one was never shown here");
    // A name announced later reaches nothing that was sent before.
    let mut impostor = hub.agent_from(&c, "b", &json!({ hub.channel("general"): 0 })).await;
    assert_eq!(impostor.expect("message.deliver").await["seq"], 2);
    hub.stop().await;
}

#[tokio::test]
async fn nobody_several_and_named_instances() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut sender = hub.agent(&a, "a").await;
    let nobody = sender.ask(&direct(&hub, "m1", "a", "twin")).await;
    assert_eq!(
        (nobody["error"]["code"].as_str(), nobody["error"]["field"].as_str()),
        (Some("not_found"), Some("to"))
    );
    let mut one = hub.agent(&b, "twin").await;
    let mut two = hub.agent(&c, "twin").await;
    let several = sender.ask(&direct(&hub, "m2", "a", "twin")).await;
    assert_eq!(several["error"]["reason"], "ambiguous_recipient");
    let mut named = direct(&hub, "m3", "a", "twin");
    named["to_instance"] = json!(c.instance_id);
    assert_eq!(sender.ask(&named).await["t"], "message.stored");
    assert_eq!(two.expect("message.deliver").await["body"]["text"], "for you");
    assert!(one.drain_of("message.deliver").await.is_empty());
    named["client_msg_id"] = json!("m4");
    named["to_instance"] = json!("inst_unknown");
    let unknown = sender.ask(&named).await;
    assert_eq!(
        (unknown["error"]["code"].as_str(), unknown["error"]["field"].as_str()),
        (Some("not_found"), Some("to_instance"))
    );
    hub.stop().await;
}

#[tokio::test]
async fn a_reply_goes_to_the_instance_of_the_replied_message() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut asker = hub.agent(&a, "twin").await;
    let mut helper = hub.agent(&b, "helper").await;
    let mut other_twin = hub.agent(&c, "twin").await;
    asker.ask(&hub.message("q", "question", "twin", "?")).await;
    let question = helper.expect("message.deliver").await;
    let mut answer = direct(&hub, "r", "helper", "twin");
    answer["type"] = json!("answer");
    answer["reply_to"] = question["gid"].clone();
    assert_eq!(
        helper.ask(&answer).await["t"],
        "message.stored",
        "no ambiguity: the reply says where it goes"
    );
    assert_eq!(asker.expect("message.deliver").await["reply_to"], question["gid"]);
    let seen = other_twin.drain_of("message.deliver").await;
    assert!(seen.iter().all(|frame| frame["type"] != "answer"));
    hub.stop().await;
}

#[tokio::test]
async fn a_reply_to_a_direct_message_that_names_nobody_is_for_its_sender_alone() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut asker = hub.agent(&a, "asker").await;
    let mut helper = hub.agent(&b, "helper").await;
    let mut bystander = hub.agent(&c, "bystander").await;
    let mut question = direct(&hub, "q", "asker", "helper");
    question["type"] = json!("question");
    asker.ask(&question).await;
    let question = helper.expect("message.deliver").await;
    let mut answer = hub.message("r", "answer", "helper", "between us");
    answer["reply_to"] = question["gid"].clone();
    assert_eq!(helper.ask(&answer).await["t"], "message.stored");
    let delivered = asker.expect("message.deliver").await;
    assert_eq!((&delivered["to"], &delivered["reply_to"]), (&json!("asker"), &question["gid"]));
    asker.ask(&hub.message("m", "finding", "asker", "for all")).await;
    assert_eq!(bystander.expect("message.deliver").await["body"]["text"], "for all");
    hub.stop().await;
}

#[tokio::test]
async fn it_waits_for_an_addressee_that_is_away() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    hub.agent(&b, "b").await.close().await;
    for n in 0..10 {
        assert_eq!(sender.ask(&direct(&hub, &format!("m{n}"), "a", "b")).await["t"], "message.stored");
    }
    let mut back = hub.agent_from(&b, "b", &json!({ hub.channel("general"): 0 })).await;
    assert_eq!(back.drain_of("message.deliver").await.len(), 10);
    hub.stop().await;
}

#[tokio::test]
async fn the_owner_reads_what_passes_between_others() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    let _addressee = hub.agent(&b, "b").await;
    let mut owner = hub.connect(&hub.admin()).await;
    owner.hello(&hub.admin().instance_id, &json!([]), &json!({})).await;
    sender.ask(&direct(&hub, "m1", "a", "b")).await;
    assert_eq!(owner.expect("message.deliver").await["to"], "b");
    hub.stop().await;
}

#[tokio::test]
async fn agents_of_one_instance_can_write_to_each_other() {
    let hub = TestHub::start().await;
    let token = hub.token("shared").await;
    let mut one = hub.agent(&token, "one").await;
    let mut two = hub.agent(&token, "two").await;
    assert_eq!(one.ask(&direct(&hub, "m1", "one", "two")).await["t"], "message.stored");
    let delivered = two.expect("message.deliver").await;
    assert_eq!((delivered["to"].as_str(), delivered["from"]["mine"].as_bool()), (Some("two"), Some(true)));
    assert!(one.drain_of("message.deliver").await.is_empty());
    hub.stop().await;
}

#[tokio::test]
async fn an_agent_that_stays_connected_stays_reachable() {
    let clock = Arc::new(ManualClock::at(1_792_497_600_000));
    let hub = TestHub::with(Options { clock: Some(clock.clone()), ..Options::default() }).await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut addressee = hub.agent(&b, "b").await;
    clock.advance(3 * DAY_MS.unsigned_abs());
    let mut sender = hub.agent(&a, "a").await;
    assert_eq!(sender.ask(&direct(&hub, "m1", "a", "b")).await["t"], "message.stored");
    assert_eq!(addressee.expect("message.deliver").await["to"], "b");
    hub.stop().await;
}

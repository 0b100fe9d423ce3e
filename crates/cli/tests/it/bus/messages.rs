//! Messages: types, threads, echoes, resends.

use serde_json::{Value, json};
use switchboard_testkit::TestHub;

#[tokio::test]
async fn a_question_is_answered_in_its_thread() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("laptop-a").await, hub.token("laptop-b").await);
    let mut asker = hub.agent(&a, "asker").await;
    let mut helper = hub.agent(&b, "helper").await;

    let stored = asker.ask(&hub.message("q1", "question", "asker", "Which retry budget?")).await;
    assert_eq!(stored["t"], "message.stored", "{stored}");
    assert_eq!(stored["client_msg_id"], "q1");
    assert_eq!(stored["thread_id"], stored["gid"], "a first message is its own thread");
    assert_eq!(stored["seq"], 1);

    let question = helper.expect("message.deliver").await;
    assert_eq!(question["gid"], stored["gid"]);
    assert_eq!(question["type"], "question");
    assert_eq!(question["body"]["text"], "Which retry budget?");
    assert_eq!(question["trust"], "team");
    assert_eq!(question["from"]["agent"], "asker");
    assert_eq!(question["from"]["instance_id"], a.instance_id.as_str());
    assert_eq!(question["from"]["instance_label"], "laptop-a");
    assert_eq!(question["from"]["mine"], false);
    assert!(question["deadline"].is_string(), "a question always has a deadline");

    let mut answer = hub.message("a1", "answer", "helper", "3, since the outage.");
    answer["reply_to"] = question["gid"].clone();
    answer["to"] = json!("asker");
    let stored_answer = helper.ask(&answer).await;
    assert_eq!(stored_answer["thread_id"], stored["gid"]);
    assert_eq!(stored_answer["seq"], 2);

    let delivered = asker.expect("message.deliver").await;
    assert_eq!(delivered["reply_to"], stored["gid"]);
    assert_eq!(delivered["thread_id"], stored["gid"]);
    hub.stop().await;
}

#[tokio::test]
async fn all_five_types_pass_and_only_they() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    let first = socket.ask(&hub.message("m0", "question", "a", "x")).await;
    for (number, kind) in ["question", "offer", "handoff", "answer", "finding"].iter().enumerate() {
        let mut message = hub.message(&format!("m{}", number + 1), kind, "a", "x");
        message["reply_to"] = first["gid"].clone();
        assert_eq!(socket.ask(&message).await["t"], "message.stored", "{kind}");
    }
    for kind in ["chat", "Question", ""] {
        let refused = socket.ask(&hub.message("bad", kind, "a", "x")).await;
        assert_eq!(refused["error"]["code"], "invalid_request");
        assert_eq!(refused["error"]["field"], "type");
        assert_eq!(refused["client_msg_id"], "bad");
    }
    hub.stop().await;
}

#[tokio::test]
async fn the_sender_gets_no_echo_and_everybody_else_does() {
    let hub = TestHub::start().await;
    let (one, two) = (hub.token("one").await, hub.token("two").await);
    let mut sender = hub.agent(&one, "sender").await;
    let mut sibling = hub.agent(&one, "sibling").await;
    let mut other = hub.agent(&two, "other").await;
    sender.ask(&hub.message("m1", "finding", "sender", "found")).await;
    assert_eq!(other.expect("message.deliver").await["from"]["mine"], false);
    assert_eq!(
        sibling.expect("message.deliver").await["from"]["mine"],
        true,
        "another agent of the same instance"
    );
    assert!(sender.drain_of("message.deliver").await.is_empty());
    hub.stop().await;
}

#[tokio::test]
async fn a_resend_is_answered_like_the_first_time_also_after_a_restart() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    let message = hub.message("same", "finding", "a", "once");
    let first = socket.ask(&message).await;
    assert_eq!(socket.ask(&message).await, first);

    let mut other_content = message.clone();
    other_content["body"]["text"] = json!("twice");
    let conflict = socket.ask(&other_content).await;
    assert_eq!(conflict["error"]["code"], "invalid_state");
    assert_eq!(conflict["error"]["reason"], "id_reused");

    let hub = hub.restart().await;
    let mut socket = hub.agent(&token, "a").await;
    assert_eq!(socket.ask(&message).await, first);
    let next = socket.ask(&hub.message("next", "finding", "a", "x")).await;
    assert_eq!(next["seq"], 2, "nothing was stored twice");

    let other = hub.token("b").await;
    let mut other_socket = hub.agent(&other, "a").await;
    let theirs = other_socket.ask(&message).await;
    assert_eq!(theirs["seq"], 3, "ids are the sending instance's own");
    hub.stop().await;
}

#[tokio::test]
async fn publishes_share_the_sequence_and_go_to_the_others() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    let mut receiver = hub.agent(&b, "b").await;
    sender.ask(&hub.message("m1", "finding", "a", "x")).await;
    let published = sender.ask(&publish(&hub, "p1", "team", None)).await;
    assert_eq!((published["t"].as_str(), published["seq"].as_u64()), (Some("published"), Some(2)));
    assert_eq!(
        sender.ask(&publish(&hub, "p1", "team", None)).await,
        published,
        "publishing the same id is a no-op"
    );
    let delivered = receiver.expect("deliver").await;
    assert_eq!(delivered["seq"], 2);
    assert_eq!(delivered["body"], json!({ "text": "STATUS", "n": [1, 2.5, null] }));
    assert!(sender.drain_of("deliver").await.is_empty());
    hub.stop().await;
}

#[tokio::test]
async fn a_private_publish_reaches_only_its_receiver() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut sender = hub.agent(&a, "a").await;
    let mut receiver = hub.agent(&b, "b").await;
    let mut other = hub.agent(&c, "c").await;
    let refused = sender.ask(&publish(&hub, "p0", "private", None)).await;
    assert_eq!(refused["error"]["field"], "to");
    sender.ask(&publish(&hub, "p1", "private", Some("b"))).await;
    sender.ask(&publish(&hub, "p2", "team", Some("b"))).await;
    assert_eq!(receiver.expect("deliver").await["seq"], 1);
    assert_eq!(other.expect("deliver").await["seq"], 2, "a team publish is for all, whomever it concerns");
    hub.stop().await;
}

fn publish(hub: &TestHub, id: &str, privacy: &str, to: Option<&str>) -> Value {
    let mut frame = json!({ "t": "publish", "client_msg_id": id, "channel": hub.channel("general"), "from": "a",
        "kind": "status", "priority": "normal", "privacy": privacy, "body": { "text": "STATUS", "n": [1, 2.5, null] } });
    if let Some(to) = to {
        frame["to"] = json!(to);
    }
    frame
}

#[tokio::test]
async fn replies_never_cross_networks() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    let here = socket.ask(&hub.message("m1", "question", "a", "x")).await;
    let mut elsewhere = hub.message("m2", "answer", "a", "y");
    elsewhere["network"]["channel"] = json!(hub.channel("other"));
    elsewhere["reply_to"] = here["gid"].clone();
    let foreign = socket.ask(&elsewhere).await;
    elsewhere["reply_to"] = json!("msg_nosuchmessage");
    let unknown = socket.ask(&elsewhere).await;
    assert_eq!(foreign["error"]["code"], "not_found");
    assert_eq!(foreign["error"]["field"], "reply_to");
    assert_eq!(foreign, unknown, "a foreign message and an unknown one answer alike");
    hub.stop().await;
}

#[tokio::test]
async fn many_senders_get_one_gap_free_sequence() {
    let hub = TestHub::start().await;
    let reader_token = hub.token("reader").await;
    let mut reader = hub.agent(&reader_token, "reader").await;
    let mut tasks = Vec::new();
    for sender in 0..8 {
        let token = hub.token(&format!("s{sender}")).await;
        let name = format!("s{sender}");
        let mut socket = hub.agent(&token, &name).await;
        let frames: Vec<_> =
            (0..50).map(|n| hub.message(&format!("{name}-{n}"), "finding", &name, "x")).collect();
        tasks.push(tokio::spawn(async move {
            for frame in &frames {
                socket.send(frame).await;
            }
            let mut seqs = Vec::new();
            while seqs.len() < frames.len() {
                seqs.push(socket.answer().await["seq"].as_u64().unwrap());
            }
            seqs
        }));
    }
    let mut seqs = Vec::new();
    for task in tasks {
        let own = task.await.unwrap();
        assert!(own.is_sorted(), "a sender's order is kept");
        seqs.extend(own);
    }
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=400).collect::<Vec<u64>>());
    let mut last = 0;
    while last < 400 {
        let seq = reader.expect("message.deliver").await["seq"].as_u64().unwrap();
        assert_eq!(seq, last + 1);
        last = seq;
    }
    hub.stop().await;
}

//! Receipts: delivered, then read, by the receiving agent only.

use serde_json::{Value, json};
use switchboard_testkit::{Socket, TestHub, Token};

struct Pair {
    hub: TestHub,
    a: Token,
    sender: Socket,
    receiver: Socket,
    gid: Value,
}

async fn direct_message() -> Pair {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    let mut receiver = hub.agent(&b, "b").await;
    let mut message = hub.message("m1", "finding", "a", "x");
    message["to"] = json!("b");
    let gid = sender.ask(&message).await["gid"].clone();
    receiver.expect("message.deliver").await;
    Pair { hub, a, sender, receiver, gid }
}

fn receipt(gid: &Value, by: &str, state: &str) -> Value {
    json!({ "t": "message.receipt", "gid": gid, "by": by, "state": state })
}

#[tokio::test]
async fn the_sender_is_told_at_once_and_never_back() {
    let Pair { hub, mut sender, mut receiver, gid, .. } = direct_message().await;
    receiver.send(&receipt(&gid, "b", "delivered")).await;
    let status = sender.expect("message.status").await;
    assert_eq!((status["state"].as_str(), status["by"].as_str()), (Some("delivered"), Some("b")));
    assert_eq!((&status["gid"], status["client_msg_id"].as_str()), (&gid, Some("m1")));
    receiver.send(&receipt(&gid, "b", "read")).await;
    assert_eq!(sender.expect("message.status").await["state"], "read");
    receiver.send(&receipt(&gid, "b", "delivered")).await;
    receiver.send(&receipt(&gid, "b", "read")).await;
    receiver.barrier().await;
    assert!(
        sender.drain_of("message.status").await.is_empty(),
        "stored once, and read never goes back to delivered"
    );
    hub.stop().await;
}

#[tokio::test]
async fn the_sender_is_told_when_it_comes_back_also_after_a_restart() {
    let Pair { hub, a, sender, mut receiver, gid } = direct_message().await;
    sender.close().await;
    receiver.send(&receipt(&gid, "b", "delivered")).await;
    receiver.barrier().await;
    // The barrier answers what is read; the commit is awaited by asking for something behind it.
    receiver.ask(&hub.message("after", "finding", "b", "x")).await;
    let hub = hub.restart().await;
    let mut sender = hub.agent(&a, "a").await;
    assert_eq!(sender.expect("message.status").await["state"], "delivered");
    sender.close().await;
    let mut again = hub.agent(&a, "a").await;
    assert!(again.drain_of("message.status").await.is_empty(), "told once");
    hub.stop().await;
}

#[tokio::test]
async fn only_the_receiver_may_say_so() {
    let Pair { hub, mut sender, mut receiver, gid, .. } = direct_message().await;
    let c = hub.token("c").await;
    let mut other = hub.agent(&c, "c").await;
    for (socket, by, code) in [
        (&mut sender, "a", "forbidden_right"),
        (&mut other, "c", "not_found"),
        (&mut receiver, "somebody-else", "invalid_request"),
    ] {
        socket.send(&receipt(&gid, by, "delivered")).await;
        let error = socket.expect("error").await;
        assert_eq!(error["error"]["code"], code, "{by}: {error}");
        assert_eq!(error["answers"], "message.receipt", "{by}: {error}");
    }
    receiver.send(&receipt(&json!("msg_unknown"), "b", "read")).await;
    assert_eq!(receiver.expect("error").await["error"]["code"], "not_found");
    receiver.send(&receipt(&gid, "b", "seen")).await;
    let error = receiver.expect("error").await;
    assert_eq!((&error["error"]["field"], &error["answers"]), (&json!("state"), &json!("message.receipt")));
    let agents = json!([{ "agent_id": "b", "role": "tester", "vault_id": "0".repeat(32) }]);
    other.send(&json!({ "t": "hello", "instance_id": c.instance_id, "agents": agents })).await;
    assert_eq!(other.expect("error").await["answers"], "hello");
    hub.stop().await;
}

#[tokio::test]
async fn what_is_said_just_before_leaving_counts_and_is_announced() {
    let Pair { hub, mut sender, receiver, gid, .. } = direct_message().await;
    let farewell = hub.message("farewell", "finding", "b", "bye");
    receiver.send_and_close(&[receipt(&gid, "b", "read"), farewell]).await;
    let mut heard = Vec::new();
    while heard.len() < 2 {
        let frame = sender.next().await.expect("still open");
        if ["message.status", "message.deliver"].iter().any(|t| frame["t"] == **t) {
            heard.push(frame);
        }
    }
    heard.sort_by_key(|frame| frame["t"].as_str().unwrap().to_owned());
    assert_eq!(heard[0]["body"]["text"], "bye", "the message was taken: {heard:?}");
    assert_eq!(heard[1]["state"], "read", "the sender hears of the receipt without saying hello again");
    hub.stop().await;
}

//! Slow readers: nothing is dropped, nobody else is slowed, memory stays bounded.

use serde_json::json;
use switchboard_testkit::TestHub;

#[tokio::test]
async fn a_reader_that_stands_still_gets_everything_later_and_delays_nobody() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut sender = hub.agent(&a, "a").await;
    let mut slow = hub.agent(&b, "slow").await;
    let mut quick = hub.agent(&c, "quick").await;
    // More than sockets and tails hold together: the slow one must be served from the store.
    let text = "x".repeat(3900);
    let total = 6000_u64;
    let mut sent = 0;
    while sent < total {
        for _ in 0..100 {
            sent += 1;
            sender.send(&hub.message(&format!("m{sent}"), "finding", "a", &text)).await;
        }
        for _ in 0..100 {
            assert_eq!(sender.answer().await["t"], "message.stored");
        }
        for _ in 0..100 {
            quick.expect("message.deliver").await;
        }
    }
    for seq in 1..=total {
        assert_eq!(slow.expect("message.deliver").await["seq"], seq);
    }
    hub.stop().await;
}

#[tokio::test]
async fn what_is_not_for_a_follower_is_explained_by_a_cursor() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut sender = hub.agent(&a, "a").await;
    let _addressee = hub.agent(&b, "b").await;
    let mut bystander = hub.agent(&c, "c").await;
    bystander.drain().await;
    for n in 0..5 {
        let mut direct = hub.message(&format!("m{n}"), "finding", "a", "x");
        direct["to"] = json!("b");
        sender.ask(&direct).await;
    }
    loop {
        let cursor = bystander.expect("cursor").await;
        assert_eq!(cursor["channel"], hub.channel("general"));
        if cursor["seq"] == 5 {
            break;
        }
    }
    hub.stop().await;
}

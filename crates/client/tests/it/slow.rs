//! A caller that does not take its events: nothing is lost, nothing grows, nothing deadlocks.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_client::Client;
use tokio::sync::oneshot;

use crate::hub::{CHANNEL, Conn, Hub, cursor, deliver, message, next_seq, soon};

const BACKLOG: u64 = 2000;

async fn replay(conn: &mut Conn, from: u64) -> bool {
    for seq in from..=BACKLOG {
        if !conn.feed(&deliver(seq)).await {
            return false;
        }
    }
    conn.flush().await
}

async fn take_all(client: &Client, from: u64) {
    for seq in from..=BACKLOG {
        assert_eq!(next_seq(client).await, seq);
    }
}

async fn small_queue(hub: &Hub) -> (Client, Conn) {
    let mut options = hub.options();
    options.tuning.events_max = 8;
    hub.connected_with(options).await
}

#[tokio::test]
async fn the_socket_holds_what_the_queue_cannot() {
    let hub = Hub::start().await;
    let (client, mut conn) = small_queue(&hub).await;
    let (asked, waits) = oneshot::channel();
    let server = tokio::spawn(async move {
        for seq in 1..=100 {
            assert!(conn.feed(&deliver(seq)).await);
        }
        conn.send(&json!({"t": "ping", "nonce": 1})).await;
        let unanswered = tokio::time::timeout(Duration::from_millis(100), conn.try_receive()).await;
        assert!(unanswered.is_err(), "the client stopped reading: {unanswered:?}");
        asked.send(()).unwrap();
        assert!(replay(&mut conn, 101).await, "the same connection carries everything");
        assert_eq!(conn.receive().await["t"], "pong");
    });
    soon(waits).await.unwrap();
    take_all(&client, 1).await;
    soon(server).await.unwrap();
}

/// The acknowledgement lies behind a backlog that has no room. The call must not wait for a caller who waits for the call.
#[tokio::test]
async fn a_caller_can_send_without_taking_events() {
    let hub = Hub::start().await;
    let (client, mut conn) = small_queue(&hub).await;
    conn.send(&cursor(0, "e1")).await;
    let one = message("m-1");
    let (sent, ()) = tokio::join!(client.send(&one), async {
        let frame = conn.receive().await;
        assert!(replay(&mut conn, 1).await);
        conn.store(&frame, BACKLOG + 1).await;
    });
    assert_eq!(soon(async { sent }).await.unwrap().seq, BACKLOG + 1);

    let server = tokio::spawn(async move {
        let (mut conn, hello) = hub.welcome().await;
        let from = hello["cursors"][CHANNEL].as_u64().expect("a cursor") + 1;
        assert!(from < 20, "most of the backlog was left for this connection, not held in memory");
        assert_eq!(hello["epoch"], Value::from("e1"));
        assert!(replay(&mut conn, from).await);
        conn
    });
    assert_eq!(next_seq(&client).await, 0);
    take_all(&client, 1).await;
    soon(server).await.unwrap();
}

#[tokio::test]
async fn statuses_survive_a_full_queue() {
    let hub = Hub::start().await;
    let (client, mut conn) = small_queue(&hub).await;
    for seq in 1..=8 {
        conn.send(&deliver(seq)).await;
    }
    let one = message("m-1");
    let (sent, ()) = tokio::join!(client.send(&one), async {
        let frame = conn.receive().await;
        conn.send(&deliver(9)).await;
        let status = json!({"t": "message.status", "gid": "g", "client_msg_id": "m", "by": "ben", "state": "read", "server_time": "2027-03-14T12:00:00Z"});
        conn.send(&status).await;
        conn.store(&frame, 10).await;
    });
    sent.unwrap();
    for seq in 1..=8 {
        assert_eq!(next_seq(&client).await, seq);
    }
    assert!(
        matches!(crate::hub::next(&client).await, switchboard_client::Event::Status(_)),
        "told once, kept"
    );
    let (mut conn, hello) = hub.welcome().await;
    assert_eq!(hello["cursors"][CHANNEL], 8);
    conn.send(&deliver(9)).await;
    assert_eq!(next_seq(&client).await, 9);
}

#[tokio::test]
async fn more_messages_than_the_window_wait_their_turn() {
    let hub = Hub::start().await;
    let mut options = hub.options();
    options.tuning.in_flight_max = 2;
    let (client, mut conn) = hub.connected_with(options).await;
    let sends: Vec<_> = (0..5)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.send(&message(&format!("m-{n}"))).await })
        })
        .collect();
    let held = [conn.receive().await, conn.receive().await];
    let more = tokio::time::timeout(Duration::from_millis(100), conn.try_receive()).await;
    assert!(more.is_err(), "the window is two: {more:?}");
    for frame in &held {
        conn.store(frame, 1).await;
    }
    for seq in 2..5 {
        let frame = conn.receive().await;
        conn.store(&frame, seq).await;
    }
    for send in sends {
        soon(send).await.unwrap().unwrap();
    }
}

//! What survives a lost connection, and what ends the client.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_client::{Client, Error, Event, Options, ResyncReason, Secret};
use switchboard_protocol::frame::PresenceState;
use switchboard_protocol::frame::client::Presence;
use switchboard_protocol::message::{Receipt, ReceiptState};

use crate::hub::{CHANNEL, Conn, Hub, cursor, deliver, message, next, next_seq, soon};

#[tokio::test]
async fn unacknowledged_messages_are_sent_again_under_the_same_id_in_order() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let (one, two) = (message("m-1"), message("m-2"));
    let (first, second, ()) = tokio::join!(client.send(&one), client.send(&two), async {
        let frames = [conn.receive().await, conn.receive().await];
        conn.drop_dead();
        let (mut conn, _) = hub.welcome().await;
        for (frame, seq) in frames.iter().zip(1..) {
            assert_eq!(&conn.receive().await, frame, "byte for byte");
            conn.store(frame, seq).await;
        }
        // The client goes on while this connection is open.
        std::mem::forget(conn);
    });
    assert_eq!((first.unwrap().seq, second.unwrap().seq), (1, 2));
    assert!(matches!(soon(client.next_event()).await, Ok(Event::Disconnected { .. } | Event::Reconnected)));
}

#[tokio::test]
async fn acknowledged_messages_are_not_sent_again() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let one = message("m-1");
    let (sent, ()) = tokio::join!(client.send(&one), async {
        let frame = conn.receive().await;
        conn.store(&frame, 1).await;
    });
    sent.unwrap();
    conn.drop_dead();
    let (mut conn, _) = hub.welcome().await;
    client.ack(CHANNEL, 1).await.unwrap();
    assert_eq!(conn.receive().await["t"], "ack");
}

#[tokio::test]
async fn messages_sent_while_disconnected_wait_for_the_next_connection() {
    let hub = Hub::start().await;
    let (client, conn) = hub.connected().await;
    conn.drop_dead();
    assert!(matches!(soon(client.next_event()).await, Ok(Event::Disconnected { .. })));
    let one = message("m-1");
    let (sent, ()) = tokio::join!(client.send(&one), async {
        let (mut conn, _) = hub.welcome().await;
        let frame = conn.receive().await;
        conn.store(&frame, 1).await;
        std::mem::forget(conn);
    });
    assert_eq!(sent.unwrap().seq, 1);
}

#[tokio::test]
async fn following_resumes_from_what_was_received_and_reports_what_was_taken() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    for frame in [cursor(0, "e1"), deliver(1), deliver(2), deliver(3)] {
        conn.send(&frame).await;
    }
    assert_eq!((next_seq(&client).await, next_seq(&client).await), (0, 1));
    conn.send(&json!({"t": "ping", "nonce": 1})).await;
    assert_eq!(conn.receive().await["t"], "pong", "everything before is received");
    conn.drop_dead();

    let (mut conn, hello) = hub.welcome().await;
    assert_eq!((&hello["cursors"], &hello["epoch"]), (&json!({CHANNEL: 3}), &json!("e1")));
    assert_eq!(client.cursors().positions[CHANNEL], 1, "two are received and not taken");
    conn.send(&deliver(4)).await;
    assert_eq!((next_seq(&client).await, next_seq(&client).await, next_seq(&client).await), (2, 3, 4));
    assert_eq!(client.cursors().positions[CHANNEL], 4);
}

#[tokio::test]
async fn a_new_client_resumes_from_kept_cursors() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    conn.send(&cursor(8, "e1")).await;
    assert_eq!(next_seq(&client).await, 8);
    let kept = serde_json::to_string(&client.cursors()).unwrap();
    drop(client);

    let mut options = hub.options();
    options.cursors = serde_json::from_str(&kept).unwrap();
    let (client, (mut conn, hello)) = tokio::join!(Client::connect(options), hub.welcome());
    let client = client.unwrap();
    assert_eq!((&hello["cursors"], &hello["epoch"]), (&json!({CHANNEL: 8}), &json!("e1")));
    conn.send(&json!({"t": "cursor", "channel": CHANNEL, "seq": 19, "epoch": "e1", "first_available": 20}))
        .await;
    let Event::Resync(resync) = next(&client).await else { panic!() };
    assert_eq!(resync.reason, ResyncReason::Gap { missed_from: 9, first_available: 20 });
}

#[tokio::test]
async fn a_log_that_starts_over_without_saying_so_is_noticed() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    conn.send(&deliver(9)).await;
    assert_eq!(next_seq(&client).await, 9);
    conn.drop_dead();
    let (mut conn, _) = hub.welcome().await;
    conn.send(&deliver(1)).await;
    let Event::Resync(resync) = next(&client).await else { panic!() };
    assert_eq!(resync.reason, ResyncReason::Rewound { seq: 0 });
    assert_eq!(next_seq(&client).await, 1);
}

async fn past_pings(conn: &mut Conn) -> Value {
    loop {
        let frame = conn.receive().await;
        if frame["t"] != "ping" {
            return frame;
        }
    }
}

#[tokio::test]
async fn receipts_are_repeated_until_a_pong_proves_that_they_were_read() {
    let hub = Hub::start().await;
    let mut options = hub.options();
    options.tuning.ping_interval = Duration::from_millis(100);
    let (client, mut conn) = hub.connected_with(options).await;
    let receipt = Receipt { gid: "g_1".into(), by: "ada".into(), state: ReceiptState::Read };
    client.receipt(&receipt).await.unwrap();
    let sent = past_pings(&mut conn).await;
    assert_eq!(sent, json!({"t": "message.receipt", "gid": "g_1", "by": "ada", "state": "read"}));
    conn.drop_dead();

    let (mut conn, _) = hub.welcome().await;
    assert_eq!(past_pings(&mut conn).await, sent, "repeated");
    conn.answer_ping().await;
    conn.send(&json!({"t": "ping", "nonce": 1})).await;
    while conn.receive().await["t"] != "pong" {}
    conn.drop_dead();

    let (mut conn, _) = hub.welcome().await;
    assert_eq!(conn.receive().await["t"], "ping", "not repeated any more");
}

#[tokio::test]
async fn presence_is_said_again() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    for state in [PresenceState::Active, PresenceState::Idle] {
        client.presence(&Presence { agent_id: "ada".into(), state, profile: None }).await.unwrap();
        conn.receive().await;
    }
    conn.drop_dead();
    let (mut conn, _) = hub.welcome().await;
    assert_eq!(conn.receive().await, json!({"t": "presence", "agent_id": "ada", "state": "idle"}));
}

#[tokio::test]
async fn a_silent_server_is_left() {
    let hub = Hub::start().await;
    let mut options = hub.options();
    options.tuning.ping_interval = Duration::from_millis(50);
    options.tuning.silence_max = Duration::from_millis(150);
    let (client, conn) = tokio::join!(Client::connect(options), hub.accept());
    let client = client.unwrap();
    let Ok(Event::Disconnected { reason, .. }) = soon(client.next_event()).await else { panic!() };
    assert!(reason.contains("silent"), "{reason}");
    drop(conn);
}

#[tokio::test]
async fn a_refused_token_ends_the_first_attempt() {
    let hub = Hub::start().await;
    let body = r#"{"error":{"code":"instance_revoked","message":"This instance was revoked."}}"#;
    let (client, ()) = tokio::join!(Client::connect(hub.options()), hub.refuse("401 Unauthorized", "", body));
    let Err(Error::Unauthorized(detail)) = client else { panic!("{client:?}") };
    assert_eq!(detail.message, "This instance was revoked.");
}

#[tokio::test]
async fn an_unreachable_server_ends_the_first_attempt() {
    let options = Options::new("http://127.0.0.1:1", Secret::new("x"));
    assert!(matches!(Client::connect(options).await, Err(Error::Unreachable(_))));
}

#[tokio::test]
async fn a_token_refused_later_ends_everything() {
    let hub = Hub::start().await;
    let (client, conn) = hub.connected().await;
    conn.drop_dead();
    let one = message("m-1");
    let (sent, ()) = tokio::join!(client.send(&one), hub.refuse("401 Unauthorized", "", "gone"));
    assert!(matches!(sent, Err(Error::Unauthorized(_))), "{sent:?}");
    let end = loop {
        if let Err(end) = soon(client.next_event()).await {
            break end;
        }
    };
    assert!(matches!(end, Error::Unauthorized(_)));
    assert!(matches!(client.send(&one).await, Err(Error::Unauthorized(_))));
}

#[tokio::test]
async fn a_revoked_instance_does_not_come_back() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    conn.send(&json!({"t": "error", "error": {"code": "instance_revoked", "message": "Revoked."}})).await;
    assert!(matches!(soon(client.next_event()).await, Err(Error::Unauthorized(_))));
}

#[tokio::test]
async fn a_refused_hello_is_final() {
    let hub = Hub::start().await;
    let (client, mut conn) = tokio::join!(Client::connect(hub.options()), hub.accept());
    let client = client.unwrap();
    conn.receive().await;
    conn.send(
        &json!({"t": "error", "error": {"code": "invalid_request", "message": "No.", "field": "vault_id"}}),
    )
    .await;
    let Err(Error::Refused(detail)) = soon(client.next_event()).await else { panic!() };
    assert_eq!(detail.field.as_deref(), Some("vault_id"));
    assert!(matches!(client.ready().await, Err(Error::Refused(_))));
}

#[tokio::test]
async fn a_server_that_asks_for_patience_gets_it() {
    let hub = Hub::start().await;
    let (client, conn) = hub.connected().await;
    conn.drop_dead();
    assert!(matches!(soon(client.next_event()).await, Ok(Event::Disconnected { .. })));
    hub.refuse("503 Service Unavailable", "retry-after: 77\r\n", "").await;
    let Ok(Event::Disconnected { retry_in, .. }) = soon(client.next_event()).await else { panic!() };
    assert_eq!(retry_in, Duration::from_secs(77));
    soon(client.close()).await;
}

#[tokio::test]
async fn a_connection_lost_before_it_was_ready_is_told_like_any_other() {
    let hub = Hub::start().await;
    let (client, conn) = tokio::join!(Client::connect(hub.options()), hub.accept());
    let client = client.unwrap();
    conn.drop_dead();
    let (_conn, _) = hub.welcome().await;
    soon(client.ready()).await.unwrap();
    loop {
        match soon(client.next_event()).await.unwrap() {
            Event::Disconnected { .. } => {}
            Event::Reconnected => break,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_error_page_of_a_proxy_does_not_end_the_client() {
    let hub = Hub::start().await;
    let (client, conn) = hub.connected().await;
    conn.drop_dead();
    hub.refuse("404 Not Found", "", "<html>").await;
    hub.refuse("502 Bad Gateway", "", "<html>").await;
    let (_conn, _) = hub.welcome().await;
    soon(client.ready()).await.unwrap();
}

#[tokio::test]
async fn more_channels_than_a_hello_carries_are_told() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    for n in 0..258 {
        let channel = format!("swarm:s{n}");
        conn.send(&json!({"t": "cursor", "channel": channel, "seq": 1, "epoch": "e1"})).await;
        assert_eq!(next_seq(&client).await, 1);
    }
    conn.drop_dead();
    let (_conn, hello) = hub.welcome().await;
    assert_eq!(hello["cursors"].as_object().map(serde_json::Map::len), Some(256));
    let Event::Resync(resync) = next(&client).await else { panic!() };
    let quiet = vec!["swarm:s0".to_owned(), "swarm:s1".to_owned()];
    assert_eq!(resync.reason, ResyncReason::TooManyCursors { channels: quiet });
    assert_eq!(client.cursors().positions.len(), 256);
}

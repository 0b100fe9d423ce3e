//! One connection: hello, acknowledgements, events, errors, closing.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_client::{Client, Error, Event, Handoff, ResyncReason};
use switchboard_protocol::frame::client::{Presence, Publish};
use switchboard_protocol::frame::{PresenceState, Priority, Privacy};
use switchboard_protocol::message::{Receipt, ReceiptState};
use switchboard_protocol::{Code, Invalid};

use crate::hub::{CHANNEL, Hub, agent, cursor, deliver, message, next, soon};

#[tokio::test]
async fn hello_comes_first_and_the_pong_behind_it_makes_ready() {
    let hub = Hub::start().await;
    let (client, mut conn) = tokio::join!(Client::connect(hub.options()), hub.accept());
    let client = client.unwrap();
    assert_eq!(conn.headers["authorization"], hub.bearer());
    assert_eq!(
        (&conn.headers["hive-protocol"], &conn.headers["hive-instance"]),
        (&"1.9".parse().unwrap(), &"inst_a".parse().unwrap())
    );
    let hello = conn.receive().await;
    let announced = json!([{"agent_id": "ada", "role": "build", "vault_id": crate::hub::VAULT}]);
    assert_eq!(
        (&hello["t"], &hello["instance_id"], &hello["agents"]),
        (&json!("hello"), &json!("inst_a"), &announced)
    );
    let unready = tokio::time::timeout(Duration::from_millis(50), client.ready()).await;
    assert!(unready.is_err(), "not ready before the pong");
    conn.answer_ping().await;
    soon(client.ready()).await.unwrap();
}

#[tokio::test]
async fn a_message_resolves_when_it_is_stored() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let first = message("m-1");
    let (sent, ()) = tokio::join!(client.send(&first), async {
        let frame = conn.receive().await;
        assert_eq!(
            (&frame["t"], &frame["client_msg_id"], &frame["type"]),
            (&json!("message"), &json!("m-1"), &json!("finding"))
        );
        conn.store(&frame, 7).await;
    });
    let stored = sent.unwrap();
    assert_eq!((&*stored.gid, stored.seq), ("g_7", 7));
}

#[tokio::test]
async fn acknowledgements_find_their_sender_in_any_order() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let (one, two) = (message("m-1"), message("m-2"));
    let (first, second, ()) = tokio::join!(client.send(&one), client.send(&two), async {
        let frames = [conn.receive().await, conn.receive().await];
        conn.store(&frames[1], 2).await;
        conn.store(&frames[0], 1).await;
    });
    assert_eq!((first.unwrap().seq, second.unwrap().seq), (1, 2));
}

#[tokio::test]
async fn a_publish_resolves_when_it_is_stored() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let body = serde_json::value::to_raw_value(&json!({"step": 1})).unwrap();
    let publish = Publish {
        client_msg_id: "p-1".into(),
        channel: CHANNEL.into(),
        to: None,
        from: "ada".into(),
        kind: "status".into(),
        priority: Priority::Low,
        privacy: Privacy::Team,
        body: &body,
    };
    let (published, ()) = tokio::join!(client.publish(&publish), async {
        let frame = conn.receive().await;
        assert_eq!((&frame["t"], &frame["body"]), (&json!("publish"), &json!({"step": 1})));
        let answer = json!({"t": "published", "client_msg_id": "p-1", "channel": CHANNEL, "seq": 3, "server_time": "2027-03-14T12:00:00Z"});
        conn.send(&answer).await;
    });
    assert_eq!(published.unwrap().seq, 3);
}

fn error(id: Option<&str>, code: &str, reason: &str) -> Value {
    json!({"t": "error", "client_msg_id": id, "error": {"code": code, "message": "No.", "reason": reason}})
}

#[tokio::test]
async fn a_refusal_reaches_the_sender_and_the_connection_stays() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let (bad, good) = (message("m-1"), message("m-2"));
    let (refused, ()) = tokio::join!(client.send(&bad), async {
        conn.receive().await;
        conn.send(&error(Some("m-1"), "invalid_state", "id_reused")).await;
    });
    let Err(Error::Refused(detail)) = refused else { panic!("{refused:?}") };
    assert_eq!((detail.code, detail.reason.as_deref()), (Code::InvalidState, Some("id_reused")));
    let (sent, ()) = tokio::join!(client.send(&good), async {
        let frame = conn.receive().await;
        conn.store(&frame, 1).await;
    });
    assert!(sent.is_ok());
}

#[tokio::test]
async fn refusals_nobody_waits_for_are_events() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    conn.send(&error(Some("m-9"), "not_found", "gone")).await;
    conn.send(&error(None, "forbidden_right", "held")).await;
    let Event::Refused { client_msg_id, .. } = next(&client).await else { panic!() };
    assert_eq!(client_msg_id.as_deref(), Some("m-9"));
    let Event::Refused { client_msg_id: None, answers: None, error } = next(&client).await else { panic!() };
    assert_eq!(error.reason.as_deref(), Some("held"));
}

#[tokio::test]
async fn what_breaks_a_rule_is_not_sent() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let mut bad = message("m-1");
    bad.from = "a b".into();
    let refused = client.send(&bad).await;
    assert!(
        matches!(refused, Err(Error::Invalid(Invalid { ref field, .. })) if field == "from"),
        "{refused:?}"
    );
    let receipt = Receipt { gid: "g".into(), by: "ada".into(), state: ReceiptState::Unknown };
    assert!(matches!(client.receipt(&receipt).await, Err(Error::Invalid(_))));
    client.ack(CHANNEL, 5).await.unwrap();
    assert_eq!(conn.receive().await, json!({"t": "ack", "channel": CHANNEL, "seq": 5}));
}

#[tokio::test]
async fn unknown_frames_are_ignored_and_unreadable_ones_are_told() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    conn.send(&json!({"t": "dream.event", "x": [1, 2]})).await;
    conn.send(&json!({"t": "deliver", "seq": "many"})).await;
    let mut more = deliver(1);
    more["added_later"] = json!({"a": 1});
    conn.send(&more).await;
    let Event::Unreadable(invalid) = next(&client).await else { panic!() };
    assert_eq!(invalid.field, "seq");
    let Event::Publish(publish) = next(&client).await else { panic!() };
    assert_eq!((publish.seq, publish.body.get()), (1, r#"{"n":1}"#));
}

#[tokio::test]
async fn every_kind_of_frame_becomes_its_event() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let time = "2027-03-14T12:00:00Z";
    for frame in [
        json!({"t": "message.status", "gid": "g", "client_msg_id": "m", "by": "ben", "state": "read", "server_time": time}),
        json!({"t": "presence_update", "agent_id": "ben", "instance_id": "i", "role": "r", "vault_id": crate::hub::VAULT, "state": "idle", "server_time": time}),
        json!({"t": "task.event", "channel": CHANNEL, "seq": 1, "number": 1, "event": "opened", "state": "open", "server_time": time}),
        json!({"t": "control", "control_id": "c", "action": "hold", "reason": "r", "issued_by": "x", "seq": 2, "server_time": time}),
        json!({"t": "handoff.offer", "handoff_id": "h", "channel": CHANNEL, "from": "ben", "to": "ada", "bundle_ref": "b", "deadline": time}),
        json!({"t": "handoff.ack", "handoff_id": "h", "by": "ben"}),
        json!({"t": "handoff.reject", "handoff_id": "h", "by": "ben", "reason": "busy"}),
    ] {
        conn.send(&frame).await;
    }
    assert!(matches!(next(&client).await, Event::Status(_)));
    assert!(matches!(next(&client).await, Event::Presence(_)));
    assert!(matches!(next(&client).await, Event::TaskEvent(_)));
    assert!(matches!(next(&client).await, Event::Control(_)));
    for expected in ["Offer", "Ack", "Reject"] {
        let Event::Handoff(handoff) = next(&client).await else { panic!() };
        let found = match *handoff {
            Handoff::Offer(_) => "Offer",
            Handoff::Ack(_) => "Ack",
            Handoff::Reject(_) => "Reject",
        };
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn pings_of_the_server_are_answered_with_the_exact_nonce() {
    let hub = Hub::start().await;
    let (_client, mut conn) = hub.connected().await;
    conn.send(&json!({"t": "ping", "nonce": u64::MAX})).await;
    assert_eq!(conn.receive().await, json!({"t": "pong", "nonce": u64::MAX}));
}

#[tokio::test]
async fn repeats_and_other_logs_are_noticed() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    for frame in [cursor(4, "e1"), deliver(5), deliver(5), deliver(6), cursor(2, "e2"), deliver(3)] {
        conn.send(&frame).await;
    }
    assert_eq!(crate::hub::next_seq(&client).await, 4);
    assert_eq!(crate::hub::next_seq(&client).await, 5);
    assert_eq!(crate::hub::next_seq(&client).await, 6);
    assert_eq!(client.cursors().epoch.as_deref(), Some("e1"));
    let Event::Resync(resync) = next(&client).await else { panic!() };
    assert_eq!(resync.reason, ResyncReason::OtherEpoch { epoch: "e2".into() });
    assert!(client.cursors().positions.is_empty());
    assert_eq!(crate::hub::next_seq(&client).await, 2);
    assert_eq!(crate::hub::next_seq(&client).await, 3);
    let cursors = client.cursors();
    assert_eq!((cursors.epoch.as_deref(), cursors.positions[CHANNEL]), (Some("e2"), 3));
}

#[tokio::test]
async fn agents_can_be_announced_anew() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let (accepted, ()) = tokio::join!(client.hello(vec![agent("eve")]), async {
        assert_eq!(conn.receive().await["agents"][0]["agent_id"], "eve");
        conn.answer_ping().await;
    });
    accepted.unwrap();
    let (refused, ()) = tokio::join!(client.hello(vec![agent("mal")]), async {
        conn.receive().await;
        conn.send(&error(None, "forbidden_right", "vault")).await;
        conn.answer_ping().await;
    });
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    conn.drop_dead();
    let (_conn, hello) = hub.welcome().await;
    assert_eq!(hello["agents"][0]["agent_id"], "eve");
}

#[tokio::test]
async fn a_refused_receipt_is_not_taken_for_a_refused_hello() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let receipt = Receipt { gid: "g".into(), by: "ada".into(), state: ReceiptState::Read };
    client.receipt(&receipt).await.unwrap();
    let (accepted, ()) = tokio::join!(client.hello(vec![agent("eve")]), async {
        assert_eq!(conn.receive().await["t"], "message.receipt");
        assert_eq!(conn.receive().await["t"], "hello");
        let mut refused = error(None, "not_found", "gone");
        refused["answers"] = json!("message.receipt");
        conn.send(&refused).await;
        conn.answer_ping().await;
    });
    assert!(accepted.is_ok(), "{accepted:?}");
    let Event::Refused { answers, error, .. } = next(&client).await else { panic!() };
    assert_eq!((answers.as_deref(), error.reason.as_deref()), (Some("message.receipt"), Some("gone")));
}

#[tokio::test]
async fn an_unanswered_message_times_out_and_can_be_sent_again() {
    let hub = Hub::start().await;
    let mut options = hub.options();
    options.tuning.ack_timeout = Duration::from_millis(100);
    let (client, mut conn) = hub.connected_with(options).await;
    assert_eq!(client.send(&message("m-1")).await, Err(Error::Timeout));
    assert_eq!(conn.receive().await["client_msg_id"], "m-1");
    let server = tokio::spawn(async move {
        while let Some(frame) = conn.try_receive().await {
            assert_eq!(frame["client_msg_id"], "m-1");
            conn.store(&frame, 1).await;
        }
    });
    let again = message("m-1");
    let stored = soon(async {
        loop {
            // On a busy machine the answer may come late again; the id makes trying once more safe.
            match client.send(&again).await {
                Err(Error::Timeout) => {}
                outcome => return outcome,
            }
        }
    });
    assert_eq!(stored.await.unwrap().seq, 1);
    drop(client);
    soon(server).await.unwrap();
}

#[tokio::test]
async fn the_same_id_twice_at_once_is_one_message_or_an_error() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let (one, mut other) = (message("m-1"), message("m-1"));
    other.from = "eve".into();
    let (first, same, different, ()) =
        tokio::join!(client.send(&one), client.send(&one), client.send(&other), async {
            let frame = conn.receive().await;
            conn.store(&frame, 4).await;
            client.ack(CHANNEL, 1).await.unwrap();
            assert_eq!(conn.receive().await["t"], "ack", "the message went out once");
        });
    assert_eq!((first.unwrap().seq, same.unwrap().seq), (4, 4));
    assert!(matches!(different, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn closing_says_farewell_and_ends_every_call() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    conn.send(&deliver(1)).await;
    assert_eq!(crate::hub::next_seq(&client).await, 1);
    let presence = Presence { agent_id: "ada".into(), state: PresenceState::Closed, profile: None };
    client.presence(&presence).await.unwrap();
    let ((), farewell) = tokio::join!(client.close(), async {
        let presence = conn.receive().await;
        assert_eq!(presence["state"], "closed");
        conn.try_receive().await
    });
    assert_eq!(farewell, None);
    assert_eq!(client.next_event().await.unwrap_err(), Error::Closed);
    assert_eq!(client.send(&message("m-1")).await, Err(Error::Closed));
    assert_eq!(client.ready().await, Err(Error::Closed));
}

#[tokio::test]
async fn dropping_the_last_handle_closes() {
    let hub = Hub::start().await;
    let (client, mut conn) = hub.connected().await;
    let clone = client.clone();
    drop(client);
    conn.send(&json!({"t": "ping", "nonce": 1})).await;
    assert_eq!(conn.receive().await["t"], "pong");
    drop(clone);
    assert_eq!(soon(conn.try_receive()).await, None);
}

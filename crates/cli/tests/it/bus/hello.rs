//! `hello`: announcing, following, replaying, presence.

use serde_json::json;
use std::time::Duration;
use switchboard_engine::Settings;
use switchboard_testkit::{Options, Socket, TestHub};

#[tokio::test]
async fn hello_comes_first_and_names_the_bearers_own_instance() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut socket = hub.connect(&a).await;
    let refused = socket.ask(&hub.message("m1", "finding", "a", "x")).await;
    assert_eq!(refused["error"]["reason"], "hello_first");
    socket.send(&json!({ "t": "hello", "instance_id": b.instance_id, "agents": [] })).await;
    let error = socket.expect("error").await;
    assert_eq!(error["error"]["field"], "instance_id");
    assert_eq!(socket.next().await, None, "then the socket is closed");
    hub.stop().await;
}

#[tokio::test]
async fn no_bearer_no_socket() {
    let hub = TestHub::start().await;
    assert!(Socket::connect(&hub.url, "wrong").await.is_err());
    assert!(Socket::connect_with(&hub.url, &[]).await.is_err());
    let token = hub.token("a").await;
    let bearer = format!("Bearer {}", token.bearer);
    let evil = [("authorization", bearer.as_str()), ("origin", "https://evil.example")];
    assert!(Socket::connect_with(&hub.url, &evil).await.is_err(), "a foreign page may not connect");
    let own = [("authorization", bearer.as_str()), ("origin", hub.url.as_str())];
    assert!(Socket::connect_with(&hub.url, &own).await.is_ok());
    hub.stop().await;
}

#[tokio::test]
async fn a_cursor_replays_what_came_after_it_before_the_pong() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    for n in 1..=600 {
        sender.send(&hub.message(&format!("m{n}"), "finding", "a", "x")).await;
    }
    for _ in 1..=600 {
        sender.answer().await;
    }
    let mut reader = hub.agent_from(&b, "b", &json!({ hub.channel("general"): 40 })).await;
    // `agent_from` waited for the pong, so all of it is here already.
    let seqs: Vec<_> =
        reader.drain_of("message.deliver").await.iter().map(|f| f["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (41..=600).collect::<Vec<_>>());

    let mut fresh = hub.agent(&b, "c").await;
    assert!(
        fresh.drain_of("message.deliver").await.is_empty(),
        "without a cursor a socket starts at the head"
    );
    let mut ahead = hub.agent_from(&b, "d", &json!({ hub.channel("general"): 9_999_999 })).await;
    assert!(ahead.drain_of("message.deliver").await.is_empty());
    sender.ask(&hub.message("last", "finding", "a", "x")).await;
    assert_eq!(
        ahead.expect("message.deliver").await["seq"],
        601,
        "a cursor ahead of the log counts as the head"
    );
    hub.stop().await;
}

#[tokio::test]
async fn a_later_hello_replaces_the_agents_and_replays_only_new_channels() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    sender.ask(&hub.message("m1", "finding", "a", "x")).await;
    let mut socket = hub.agent_from(&b, "one", &json!({ hub.channel("general"): 0 })).await;
    assert_eq!(socket.drain_of("message.deliver").await.len(), 1);
    let agents = json!([{ "agent_id": "two", "role": "r", "vault_id": hub.vault("main") }]);
    socket.hello(&b.instance_id, &agents, &json!({ hub.channel("general"): 0 })).await;
    assert!(socket.drain_of("message.deliver").await.is_empty(), "the channel was followed already");
    let refused = socket.ask(&hub.message("m2", "finding", "one", "x")).await;
    assert_eq!(refused["error"]["reason"], "not_announced");
    assert_eq!(refused["error"]["field"], "from");
    assert_eq!(socket.ask(&hub.message("m3", "finding", "two", "x")).await["t"], "message.stored");
    hub.stop().await;
}

#[tokio::test]
async fn a_new_channel_reaches_those_who_follow_the_vault() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    let mut reader = hub.agent(&b, "b").await;
    for name in ["alpha", "beta"] {
        let mut message = hub.message(name, "finding", "a", name);
        message["network"]["channel"] = json!(hub.channel(name));
        assert_eq!(sender.ask(&message).await["seq"], 1);
        assert_eq!(reader.expect("message.deliver").await["body"]["text"], name);
    }
    hub.stop().await;
}

#[tokio::test]
async fn a_refused_hello_changes_nothing() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    let unknown = json!([{ "agent_id": "b", "role": "r", "vault_id": "0".repeat(32) }]);
    socket.send(&json!({ "t": "hello", "instance_id": token.instance_id, "agents": unknown })).await;
    let error = socket.expect("error").await;
    assert_eq!(
        (error["error"]["code"].as_str(), error["error"]["field"].as_str()),
        (Some("not_found"), Some("vault_id"))
    );
    assert!(error.get("client_msg_id").is_none());
    assert_eq!(socket.ask(&hub.message("m1", "finding", "a", "x")).await["t"], "message.stored");
    hub.stop().await;
}

#[tokio::test]
async fn presence_is_told_to_other_instances_and_closed_after_the_grace() {
    let settings = Settings { presence_grace: Duration::from_millis(200), ..Settings::default() };
    let hub = TestHub::with(Options { settings, ..Options::default() }).await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut first = hub.agent(&a, "first").await;
    let mut second = hub.agent(&b, "second").await;
    let seen = second.expect("presence_update").await;
    assert_eq!((seen["agent_id"].as_str(), seen["state"].as_str()), (Some("first"), Some("active")));
    assert_eq!(
        (seen["instance_id"].as_str(), seen["role"].as_str()),
        (Some(&*a.instance_id), Some("tester"))
    );
    let seen = first.expect("presence_update").await;
    assert_eq!((seen["agent_id"].as_str(), seen["state"].as_str()), (Some("second"), Some("active")));

    let profile = json!({ "display_name": "Second", "model": "m-1", "roles": ["review"] });
    second.send(&json!({ "t": "presence", "agent_id": "second", "state": "idle", "profile": profile })).await;
    let idle = first.expect("presence_update").await;
    assert_eq!((idle["state"].as_str(), &idle["profile"]), (Some("idle"), &profile));
    second.close().await;
    let gone = first.expect("presence_update").await;
    assert_eq!((gone["agent_id"].as_str(), gone["state"].as_str()), (Some("second"), Some("closed")));
    hub.stop().await;
}

#[tokio::test]
async fn an_agent_with_two_sockets_stays_when_one_ends() {
    let settings = Settings { presence_grace: Duration::from_millis(50), ..Settings::default() };
    let hub = TestHub::with(Options { settings, ..Options::default() }).await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut watcher = hub.agent(&a, "watcher").await;
    let one = hub.agent(&b, "twice").await;
    let two = hub.agent(&b, "twice").await;
    watcher.expect("presence_update").await;
    one.close().await;
    two.close().await;
    let next = watcher.expect("presence_update").await;
    assert_eq!(next["state"], "closed", "closed once, when the last socket had gone");
    hub.stop().await;
}

#[tokio::test]
async fn agents_of_a_dead_hub_are_closed_after_its_restart() {
    let settings = Settings { presence_grace: Duration::from_millis(300), ..Settings::default() };
    let hub = TestHub::with(Options { settings, ..Options::default() }).await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let _ghost = hub.agent(&b, "ghost").await;
    let hub = hub.restart().await;
    let mut watcher = hub.agent(&a, "watcher").await;
    loop {
        let update = watcher.expect("presence_update").await;
        if update["agent_id"] == "ghost" && update["state"] == "closed" {
            break;
        }
    }
    hub.stop().await;
}

#[tokio::test]
async fn pings_echo_full_64_bit_nonces() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    for nonce in [0, 10_080_808_856_325_283_159_u64, u64::MAX] {
        socket.send(&json!({ "t": "ping", "nonce": nonce })).await;
        assert_eq!(socket.expect("pong").await["nonce"].as_u64(), Some(nonce));
    }
    socket.send(&json!({ "t": "something.new", "x": 1 })).await;
    socket.barrier().await; // unknown types are ignored
    hub.stop().await;
}

#[tokio::test]
async fn a_cursor_of_another_epoch_starts_over() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    for n in 1..=3 {
        sender.ask(&hub.message(&format!("m{n}"), "finding", "a", "x")).await;
    }
    let mut socket = hub.connect(&b).await;
    let agents = json!([{ "agent_id": "b", "role": "r", "vault_id": hub.vault("main") }]);
    socket.send(&json!({ "t": "hello", "instance_id": b.instance_id, "agents": agents, "epoch": "ep_of_a_restored_backup",
        "cursors": { hub.channel("general"): 3 } })).await;
    let cursor = socket.expect("cursor").await;
    assert_eq!(cursor["seq"], 0, "where to restart from");
    assert_eq!(cursor["epoch"], hub.hub.installation.epoch.as_str());
    assert_eq!(socket.expect("message.deliver").await["seq"], 1);
    hub.stop().await;
}

#[tokio::test]
async fn the_barrier_holds_for_agents_that_came_a_moment_before() {
    let hub = TestHub::start().await;
    let first = hub.token("first").await;
    let mut sockets = vec![hub.agent(&first, "a0").await];
    for number in 1..6 {
        let token = hub.token(&format!("t{number}")).await;
        let mut socket = hub.agent(&token, &format!("a{number}")).await;
        let told = socket.drain_of("presence_update").await;
        let names: std::collections::BTreeSet<_> =
            told.iter().map(|frame| frame["agent_id"].to_string()).collect();
        assert_eq!(names.len(), number, "{names:?}");
        sockets.push(socket);
    }
    hub.stop().await;
}

#[tokio::test]
async fn vaults_made_at_the_same_time_are_all_known() {
    let hub = TestHub::start().await;
    let admin = hub.http(&hub.admin());
    let made: Vec<_> = (0..12)
        .map(|number| {
            let admin = admin.clone();
            tokio::spawn(async move {
                admin.post("/admin/v1/vaults", &json!({ "name": format!("v{number}") })).await
            })
        })
        .collect();
    for one in made {
        assert_eq!(one.await.unwrap().status, 200);
    }
    assert_eq!(admin.get("/admin/v1/vaults").await.json().as_array().unwrap().len(), 13);
    hub.stop().await;
}

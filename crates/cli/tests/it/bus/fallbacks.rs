//! Long poll, catch-up and history: the same events for clients that cannot keep a socket.

use serde_json::{Value, json};
use switchboard_core::limits::{POLLS_PER_INSTANCE_MAX, SCAN_ROWS_MAX};
use switchboard_core::rights::Rights;
use switchboard_core::write::Write;
use switchboard_testkit::{PATIENCE, TestHub};
use tokio::task::JoinSet;

fn path(channel: &str) -> String {
    channel.replace(':', "%3A").replace('/', "%2F")
}

fn publish(hub: &TestHub, id: &str) -> Value {
    json!({ "t": "publish", "client_msg_id": id, "channel": hub.channel("general"), "from": "a", "kind": "status",
        "priority": "normal", "privacy": "team", "body": { "n": id } })
}

#[tokio::test]
async fn a_poll_waits_and_its_cursor_misses_nothing() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    sender.ask(&hub.message("before", "finding", "a", "x")).await;
    let http = hub.http(&b);
    let first = http.get("/v1/bus/poll").await.json();
    assert_eq!(first["schema"], "leanctx.hive.bus-poll/v1");
    assert_eq!(first["frames"], json!([]), "without a cursor a poll starts at the head");
    let empty = http.get("/v1/bus/poll?cursor=&wait_ms=0").await.json();
    assert_eq!(empty["frames"], json!([]), "and so it does with an empty one: {empty}");
    let cursor = first["cursor"].as_str().unwrap().to_owned();

    let waiting = {
        let (http, cursor) = (http.clone(), cursor.clone());
        tokio::spawn(
            async move { http.get(&format!("/v1/bus/poll?cursor={cursor}&wait_ms=15000")).await.json() },
        )
    };
    let stored = sender.ask(&hub.message("m1", "finding", "a", "x")).await;
    let woken = waiting.await.unwrap();
    assert_eq!(woken["frames"][0]["gid"], stored["gid"], "{woken}");
    assert_eq!(woken["frames"][0]["t"], "message.deliver");

    // The same cursor again gets the same; the new one goes on behind it, also in a channel made meanwhile.
    let again = http.get(&format!("/v1/bus/poll?cursor={cursor}")).await.json();
    assert_eq!(again["frames"], woken["frames"]);
    let mut elsewhere = hub.message("m2", "finding", "a", "x");
    elsewhere["network"]["channel"] = json!(hub.channel("fresh"));
    sender.ask(&elsewhere).await;
    let next = http
        .get(&format!("/v1/bus/poll?cursor={}&wait_ms=5000", woken["cursor"].as_str().unwrap()))
        .await
        .json();
    assert_eq!(next["frames"].as_array().unwrap().len(), 1);
    assert_eq!(next["frames"][0]["network"]["channel"], hub.channel("fresh"));
    let bad = http.get("/v1/bus/poll?cursor=made-up").await;
    assert_eq!((bad.status, bad.json()["error"]["field"].as_str()), (400, Some("cursor")));
    hub.stop().await;
}

#[tokio::test]
async fn catch_up_pages_publishes_in_order_without_gaps() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    for n in 0..25 {
        sender.ask(&publish(&hub, &format!("p{n}"))).await;
        sender.ask(&hub.message(&format!("m{n}"), "finding", "a", "x")).await;
    }
    let http = hub.http(&b);
    let base = format!("/v1/bus/channels/{}/events", path(&hub.channel("general")));
    let (mut after, mut seqs) = (0, Vec::new());
    loop {
        let page = http.get(&format!("{base}?after_seq={after}&limit=7")).await.json();
        assert_eq!(page["channel"], hub.channel("general"));
        let events = page["events"].as_array().unwrap();
        assert!(events.iter().all(|event| event["t"] == "deliver") && events.len() <= 7);
        seqs.extend(events.iter().map(|event| event["seq"].as_u64().unwrap()));
        match page["next_after_seq"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seqs, (0..25).map(|n| n * 2 + 1).collect::<Vec<_>>());
    let unescaped = http.get(&format!("/v1/bus/channels/{}/events", hub.channel("general"))).await;
    assert_eq!(unescaped.status, 200, "the channel may stand in the path as it is");
    let nothing =
        http.get(&format!("/v1/bus/channels/{}/events", path(&hub.channel("never-used")))).await.json();
    assert_eq!(nothing["events"], json!([]));
    let foreign = format!("/v1/bus/channels/{}/events", path(&hub.channel("x").replace("org_", "org_x")));
    assert_eq!(http.get(&foreign).await.status, 404);
    hub.stop().await;
}

#[tokio::test]
async fn history_pages_each_message_exactly_once_though_all_share_one_second() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    let first = sender.ask(&hub.message("q", "question", "a", "?")).await;
    for n in 0..30 {
        let mut message = hub.message(&format!("m{n}"), "answer", "a", "x");
        message["reply_to"] = first["gid"].clone();
        sender.ask(&message).await;
    }
    let http = hub.http(&b);
    let channel = path(&hub.channel("general"));
    let read = async |more: String| {
        let (mut gids, mut after) = (Vec::new(), String::new());
        loop {
            let page = http
                .get(&format!("/v1/messages?network=org&channel={channel}&limit=7{more}{after}"))
                .await
                .json();
            assert_eq!(page["schema"], "leanctx.hive.message-list/v1");
            gids.extend(
                page["messages"].as_array().unwrap().iter().map(|m| m["gid"].as_str().unwrap().to_owned()),
            );
            match page["next"].as_str() {
                Some(next) => after = format!("&after_gid={next}"),
                None => return gids,
            }
        }
    };
    let all = read(String::new()).await;
    assert_eq!(all.len(), 31);
    assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), 31);
    let thread = read(format!("&thread_id={}", first["gid"].as_str().unwrap())).await;
    assert_eq!(thread, all, "the thread is all of it, the question included");
    let mine = hub.http(&a).get(&format!("/v1/messages?network=org&channel={channel}&limit=1")).await.json();
    assert_eq!(mine["messages"][0]["from"]["mine"], true);
    for (query, field) in [
        ("network=org", "channel"),
        ("network=mail", "network"),
        ("network=swarm", "swarm_id"),
        ("network=org&channel=x&page=2", "page"),
    ] {
        let bad = http.get(&format!("/v1/messages?{query}")).await;
        assert_eq!((bad.status, bad.json()["error"]["field"].as_str()), (400, Some(field)), "{query}");
    }
    let unknown = http.get(&format!("/v1/messages?network=org&channel={channel}&after_gid=msg_x")).await;
    assert_eq!(unknown.json()["error"]["field"], "after_gid");
    hub.stop().await;
}

#[tokio::test]
async fn what_is_for_others_is_not_in_any_page() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut sender = hub.agent(&a, "a").await;
    let _b = hub.agent(&b, "b").await;
    for n in 0..300 {
        let mut direct = hub.message(&format!("m{n}"), "finding", "a", "secret");
        direct["to"] = json!("b");
        sender.send(&direct).await;
    }
    for _ in 0..300 {
        sender.answer().await;
    }
    sender.ask(&hub.message("open", "finding", "a", "open")).await;
    let channel = path(&hub.channel("general"));
    let history = format!("/v1/messages?network=org&channel={channel}");
    let theirs = hub.http(&c).get(&history).await.json();
    assert_eq!(theirs["messages"].as_array().unwrap().len(), 1);
    assert!(!theirs.to_string().contains("secret"));
    assert_eq!(hub.http(&b).get(&history).await.json()["messages"].as_array().unwrap().len(), 200);
    hub.stop().await;
}

#[tokio::test]
async fn the_directory_lists_agents_with_their_profiles() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a-box").await, hub.token("b-box").await);
    let mut one = hub.agent(&a, "one").await;
    one.send(&json!({ "t": "presence", "agent_id": "one", "state": "active", "profile": { "display_name": "One", "model": "m-1" } })).await;
    one.ask(&hub.message("m", "finding", "one", "x")).await;
    let mut two = hub.agent(&b, "two").await;
    while two.expect("presence_update").await["profile"]["model"] != "m-1" {}
    let list = hub.http(&b).get("/v1/agents").await.json();
    let profiles = list["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 2);
    assert_eq!((profiles[0]["agent"].as_str(), profiles[0]["model"].as_str()), (Some("one"), Some("m-1")));
    assert_eq!((profiles[0]["mine"].as_bool(), profiles[1]["mine"].as_bool()), (Some(false), Some(true)));
    assert_eq!(
        hub.http(&b).get("/v1/agents?mine=true").await.json()["profiles"].as_array().unwrap().len(),
        1
    );
    hub.stop().await;
}

#[tokio::test]
async fn who_has_an_acknowledgement_can_read_its_message_also_in_a_new_channel() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    for number in 0..20 {
        let channel = hub.channel(&format!("fresh{number}"));
        let mut message = hub.message(&format!("m{number}"), "finding", "a", "x");
        message["network"]["channel"] = json!(channel);
        socket.ask(&message).await;
        let page = hub
            .http(&token)
            .get(&format!("/v1/messages?network=org&channel={}", path(&channel)))
            .await
            .json();
        assert_eq!(page["messages"].as_array().unwrap().len(), 1, "{number}");
    }
    hub.stop().await;
}

#[tokio::test]
async fn pages_of_long_messages_stay_below_a_mebibyte_and_miss_nothing() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    let text = "\u{1F980}".repeat(4000); // four bytes each
    for number in 0..100 {
        assert_eq!(
            socket.ask(&hub.message(&format!("m{number}"), "finding", "a", &text)).await["t"],
            "message.stored"
        );
    }
    let (mut seen, mut after) = (0, String::new());
    loop {
        let page = format!("/v1/messages?network=org&channel={}{after}", path(&hub.channel("general")));
        let reply = hub.http(&token).get(&page).await;
        assert!(reply.text.len() < 1 << 20, "{}", reply.text.len());
        let page = reply.json();
        seen += page["messages"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(next) => after = format!("&after_gid={next}"),
            None => break,
        }
    }
    assert_eq!(seen, 100);
    hub.stop().await;
}

#[tokio::test]
async fn a_poll_follows_thousands_of_channels() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let vaults = ["one", "two", "three"];
    for name in vaults {
        hub.http(&hub.admin()).post("/admin/v1/vaults", &json!({ "name": name })).await;
    }
    let mut sender = hub.connect(&a).await;
    let announced = |name: &&str| json!({ "agent_id": "a", "role": "tester", "vault_id": hub.vault(name) });
    let agents = vaults.iter().map(announced).collect();
    sender.hello(&a.instance_id, &Value::Array(agents), &json!({})).await;
    let channel = |vault: &str, number: usize| {
        format!("org:{}/vault:{}/c{number}", hub.hub.installation.org_id, hub.vault(vault))
    };
    let message = |vault: &str, number: usize, id: &str| {
        let mut message = hub.message(&format!("{id}-{vault}-{number}"), "finding", "a", "x");
        message["network"]["channel"] = json!(channel(vault, number));
        message
    };
    for vault in vaults {
        for number in 0..1000 {
            sender.send(&message(vault, number, "m")).await;
            if number % 100 == 99 {
                for _ in 0..100 {
                    assert_eq!(sender.answer().await["t"], "message.stored");
                }
            }
        }
    }
    // A first poll begins at the heads that the hub's directory knows.
    let known = async {
        while hub.hub.streams.all().len() < 3000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, known).await.expect("in time");
    let http = hub.http(&b);
    let (mut listed, mut after) = (std::collections::HashSet::new(), String::new());
    loop {
        let page = http.get(&format!("/v1/streams{after}")).await.json();
        let streams = page["streams"].as_array().unwrap();
        assert!(streams.len() <= 500);
        listed.extend(streams.iter().map(|stream| stream["id"].as_str().unwrap().to_owned()));
        match page["next_after"].as_str() {
            Some(next) => after = format!("?after={next}"),
            None => break,
        }
    }
    assert_eq!(listed.len(), 3000, "page by page each once");
    let first = http.get("/v1/bus/poll").await.json();
    let cursor = first["cursor"].as_str().unwrap();
    assert!(cursor.len() < 20_000, "{} characters for 3000 channels", cursor.len());
    let stored = sender.ask(&message("two", 500, "news")).await;
    let next = http.get(&format!("/v1/bus/poll?cursor={cursor}&wait_ms=5000")).await;
    assert_eq!(next.status, 200, "{}", next.text);
    assert_eq!(next.json()["frames"][0]["gid"], stored["gid"]);
    let bent = http.get(&format!("/v1/bus/poll?cursor={}x", &cursor[..cursor.len() - 1])).await;
    assert_eq!((bent.status, bent.json()["error"]["field"].as_str()), (400, Some("cursor")));
    hub.stop().await;
}

#[tokio::test]
async fn one_message_is_found_by_its_id_where_the_caller_may_read_it() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut sender = hub.agent(&a, "a").await;
    let _b = hub.agent(&b, "b").await;
    let mut direct = hub.message("m1", "finding", "a", "for b alone");
    direct["to"] = json!("b");
    let gid = sender.ask(&direct).await["gid"].as_str().unwrap().to_owned();
    let path = format!("/v1/messages/{gid}");
    let read = hub.http(&b).get(&path).await;
    assert_eq!(read.status, 200, "{}", read.text);
    let list = read.json();
    assert_eq!(list["schema"], "leanctx.hive.message-list/v1");
    assert_eq!((&list["messages"][0]["gid"], list["messages"].as_array().unwrap().len()), (&json!(gid), 1));
    assert_eq!(hub.http(&a).get(&path).await.json()["messages"][0]["from"]["mine"], true);

    let event = sender.ask(&publish(&hub, "p1")).await;
    assert_eq!(event["t"], "published");
    let (forbidden, unknown) = (hub.http(&c).get(&path).await, hub.http(&c).get("/v1/messages/msg_x").await);
    assert_eq!((forbidden.status, forbidden.json()["error"]["field"].as_str()), (404, Some("gid")));
    assert_eq!((forbidden.status, &forbidden.text), (unknown.status, &unknown.text), "alike");
    hub.stop().await;
}

#[tokio::test]
async fn streams_are_listed_with_their_heads_for_those_who_may_read_them() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token_of("b", Some("Ben"), Rights::AGENT).await);
    let mut sender = hub.agent(&a, "a").await;
    for number in 0..3 {
        sender.ask(&hub.message(&format!("m{number}"), "finding", "a", "x")).await;
    }
    let admin = hub.http(&hub.admin());
    let swarm = admin.post("/admin/v1/swarms", &json!({ "title": "Retries" })).await.json();
    let swarm = swarm["swarm_id"].as_str().unwrap().to_owned();
    let listed = hub.http(&b).get("/v1/streams").await.json();
    let general = json!({ "id": hub.channel("general"), "network": "org", "name": "general", "vault": "main",
        "vault_id": hub.vault("main"), "head": 3, "first_available": 1 });
    assert_eq!(listed["streams"], json!([general]), "a swarm is for its members: {listed}");
    assert_eq!(
        (&listed["schema"], &listed["epoch"]),
        (&json!("switchboard.stream-list/v1"), &json!(hub.hub.installation.epoch))
    );

    let join = format!("/admin/v1/swarms/{swarm}/join");
    assert_eq!(admin.post(&join, &json!({ "handle": "quiet-heron", "person": "Ben" })).await.status, 204);
    let joined = hub.http(&b).get("/v1/streams").await.json();
    let own = json!({ "id": format!("swarm:{swarm}"), "network": "swarm", "name": "Retries", "head": 0, "first_available": 1 });
    assert_eq!(joined["streams"], json!([general, own]));
    assert_eq!(hub.http(&a).get("/v1/streams").await.json()["streams"], json!([general]));

    let bad = hub.http(&b).get("/v1/streams?after=1").await;
    assert_eq!((bad.status, bad.json()["error"]["field"].as_str()), (400, Some("after")));
    let tail = format!("/v1/messages?network=org&channel={}&after_seq=2", path(&hub.channel("general")));
    let tail = hub.http(&b).get(&tail).await.json();
    assert_eq!(
        (tail["messages"][0]["seq"].as_u64(), tail["messages"].as_array().unwrap().len()),
        (Some(3), 1)
    );
    hub.stop().await;
}

#[tokio::test]
async fn one_instance_waits_in_so_many_long_polls_and_no_more() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut sender = hub.agent(&a, "a").await;
    sender.ask(&hub.message("m0", "finding", "a", "the channel is there")).await;
    let (of_b, of_a) = (hub.http(&b), hub.http(&a));
    let cursor = of_b.get("/v1/bus/poll").await.json()["cursor"].as_str().unwrap().to_owned();
    let path = format!("/v1/bus/poll?cursor={cursor}&wait_ms=30000");
    let mut polls = JoinSet::new();
    for _ in 0..=POLLS_PER_INSTANCE_MAX {
        let (http, path) = (hub.http(&b), path.clone());
        polls.spawn(async move { http.get(&path).await });
    }
    // All the others wait for news, so the one that is too many is the first to be answered.
    let refused = tokio::time::timeout(PATIENCE, polls.join_next()).await.expect("in time").unwrap().unwrap();
    assert_eq!(refused.status, 429, "{}", refused.text);
    let error = refused.json()["error"].clone();
    assert_eq!(
        (&error["field"], &error["sb"], &error["limit"]),
        (&json!("polls"), &json!("SB0110"), &json!(32))
    );
    assert_eq!(of_b.get("/v1/bus/poll").await.status, 200, "one that does not wait takes no place");
    assert_eq!(of_a.get("/v1/bus/poll?wait_ms=1").await.status, 200, "nor do others pay for it");
    sender.ask(&hub.message("m1", "finding", "a", "news")).await;
    while let Some(poll) = tokio::time::timeout(PATIENCE, polls.join_next()).await.expect("in time") {
        let poll = poll.unwrap();
        assert_eq!(poll.status, 200, "{}", poll.text);
        assert_eq!(poll.json()["frames"].as_array().unwrap().len(), 1, "it waited and was told");
    }
    let again = of_b.get("/v1/bus/poll?wait_ms=1").await;
    assert_eq!(again.status, 200, "the places are free again: {}", again.text);
    hub.stop().await;
}

#[tokio::test]
async fn a_page_of_streams_ends_after_so_many_that_are_not_for_the_caller() {
    let hub = TestHub::start().await;
    let (a, b) = (hub.token("a").await, hub.token_of("b", Some("Ben"), Rights::AGENT).await);
    let swarm = |number| Write::CreateSwarm { swarm: format!("swm_{number}"), title: "Not for Ben".into() };
    for start in (0..SCAN_ROWS_MAX).step_by(500) {
        hub.hub.commit((start..start + 500).map(swarm).collect()).await.unwrap();
    }
    let mut sender = hub.agent(&a, "a").await;
    assert_eq!(sender.ask(&hub.message("m1", "finding", "a", "x")).await["t"], "message.stored");
    let http = hub.http(&b);
    let first = http.get("/v1/streams").await.json();
    assert_eq!(first["streams"], json!([]), "so many were looked at, none is for the caller");
    let next = first["next_after"].as_str().expect("and it goes on");
    let next = http.get(&format!("/v1/streams?after={next}")).await.json();
    assert_eq!(next["streams"][0]["id"], json!(hub.channel("general")));
    assert!(next.get("next_after").is_none(), "{next}");
    hub.stop().await;
}

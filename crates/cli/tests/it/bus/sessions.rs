//! Sessions without their sockets: what one holds at a time, and what wakes it.

use serde_json::{Value, json};
use switchboard_core::ids::VaultId;
use switchboard_core::limits::SOCKET_BURST_BYTES_MAX;
use switchboard_core::time::HOUR_MS;
use switchboard_core::write::{Announce, Presence, Write};
use switchboard_engine::follow::Outbox;
use switchboard_engine::frame::utc;
use switchboard_engine::session::Session;
use switchboard_testkit::{TestHub, Token};

/// A session that has said hello as `agent` and asked for the end of the present state.
async fn greeted(hub: &TestHub, token: &Token, agent: &str, out: &mut Outbox) -> Session {
    greeted_from(hub, token, agent, &json!({}), out).await
}

async fn greeted_from(
    hub: &TestHub,
    token: &Token,
    agent: &str,
    cursors: &Value,
    out: &mut Outbox,
) -> Session {
    let engine = &hub.hub;
    let who = engine.credentials.principal(hub.store(), engine.clock(), &token.bearer).await.unwrap();
    let mut session = Session::new(engine.clone(), who);
    let agents = json!([{ "agent_id": agent, "role": "tester", "vault_id": hub.vault("main") }]);
    let hello =
        json!({ "t": "hello", "instance_id": token.instance_id, "agents": agents, "cursors": cursors });
    session.receive(&hello.to_string(), out).await.unwrap();
    session.receive(&json!({ "t": "ping", "nonce": 1 }).to_string(), out).await.unwrap();
    session
}

fn frames(out: &mut Outbox) -> Vec<Value> {
    out.take().iter().map(|frame| serde_json::from_slice(frame).unwrap()).collect()
}

#[tokio::test]
async fn a_crowd_is_told_in_portions_and_all_of_it_before_the_pong() {
    let hub = TestHub::start().await;
    let (crowd, token) = (hub.token("crowd").await, hub.token("b").await);
    let member = hub.hub.credentials.principal(hub.store(), hub.hub.clock(), &crowd.bearer).await.unwrap();
    let vault = VaultId::parse(&hub.vault("main")).unwrap();
    let announce = |number| {
        Write::Announce(Announce {
            vault,
            instance: member.instance,
            agent: format!("agent-{number}"),
            role: Some("tester".into()),
            profile: None,
            state: Presence::Active,
            node: hub.hub.node,
        })
    };
    let total = 2000;
    hub.hub.commit((0..total).map(announce).collect()).await.unwrap();

    let mut out = Outbox::default();
    let mut session = greeted(&hub, &token, "b", &mut out).await;
    let (mut told, mut bursts) = (0, 0);
    loop {
        // One frame more than fits may be in, or one page of them.
        assert!(out.bytes < SOCKET_BURST_BYTES_MAX * 2, "{} bytes at once", out.bytes);
        let burst = frames(&mut out);
        told += burst.iter().filter(|frame| frame["t"] == "presence_update").count();
        bursts += 1;
        if burst.iter().any(|frame| frame["t"] == "pong") {
            break;
        }
        session.fill(&mut out).await.unwrap();
        assert!(bursts < total, "it comes to an end");
    }
    assert_eq!(told, total, "everybody was told before the pong");
    assert!(bursts > 2, "in portions");
    drop(session);
    hub.stop().await;
}

#[tokio::test]
async fn a_handoff_wakes_whom_it_concerns() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut offerer = hub.agent(&a, "a").await;
    let mut taker = hub.agent(&b, "b").await;
    let mut out = Outbox::default();
    let mut bystander = greeted(&hub, &c, "c", &mut out).await;
    while bystander.fill(&mut out).await.unwrap() {}
    bystander.waker().take();

    for (number, answer) in ["handoff.ack", "handoff.reject"].into_iter().enumerate() {
        let id = format!("h{number}");
        let deadline = utc(hub.hub.clock().wall_ms() + HOUR_MS).to_string();
        let offer = json!({ "t": "handoff.offer", "handoff_id": id, "channel": hub.channel("general"), "from": "a",
            "to": "b", "bundle_ref": "bundle", "deadline": deadline });
        offerer.send(&offer).await;
        assert_eq!(taker.expect("handoff.offer").await["handoff_id"], id);
        let mut settle = json!({ "t": answer, "handoff_id": id, "by": "b" });
        if answer == "handoff.reject" {
            settle["reason"] = json!("busy");
        }
        taker.send(&settle).await;
        assert_eq!(offerer.expect(answer).await["handoff_id"], id);
    }
    assert!(!bystander.waker().take().notices, "a handoff between others wakes nobody else");
    drop(bystander);
    hub.stop().await;
}

fn offer(hub: &TestHub, id: &str, from: &str) -> Value {
    let deadline = utc(hub.hub.clock().wall_ms() + HOUR_MS).to_string();
    json!({ "t": "handoff.offer", "handoff_id": id, "channel": hub.channel("general"), "from": from, "to": "taker",
        "bundle_ref": "bundle", "deadline": deadline })
}

#[tokio::test]
async fn of_two_offers_with_one_id_the_settled_ones_offerer_is_told() {
    let hub = TestHub::start().await;
    let (a, b, c) = (hub.token("a").await, hub.token("b").await, hub.token("c").await);
    let mut first = hub.agent(&a, "first").await;
    let mut second = hub.agent(&b, "second").await;
    let mut taker = hub.agent(&c, "taker").await;
    for (offerer, from) in [(&mut first, "first"), (&mut second, "second")] {
        offerer.send(&offer(&hub, "h", from)).await;
        assert_eq!(taker.expect("handoff.offer").await["from"], from);
    }
    taker.send(&json!({ "t": "handoff.ack", "handoff_id": "h", "by": "taker" })).await;
    assert_eq!(
        first.expect("handoff.ack").await["handoff_id"],
        "h",
        "the older one is settled and told of it"
    );
    taker.send(&json!({ "t": "handoff.reject", "handoff_id": "h", "by": "taker", "reason": "busy" })).await;
    assert_eq!(second.expect("handoff.reject").await["handoff_id"], "h");
    hub.stop().await;
}

#[tokio::test]
async fn an_open_offer_comes_once_to_each_agent_a_connection_announces() {
    let hub = TestHub::start().await;
    let (a, c) = (hub.token("a").await, hub.token("c").await);
    let mut offerer = hub.agent(&a, "first").await;
    let mut taker = hub.agent(&c, "taker").await;
    offerer.send(&offer(&hub, "h", "first")).await;
    taker.expect("handoff.offer").await;
    let agents = |names: &[&str]| {
        let agents = names.iter();
        agents.map(|name| json!({ "agent_id": name, "role": "r", "vault_id": hub.vault("main") })).collect()
    };
    for (names, offers) in [(&["taker", "other"][..], 0), (&["other"], 0), (&["taker"], 1), (&["taker"], 0)] {
        taker.hello(&c.instance_id, &agents(names), &json!({})).await;
        assert_eq!(taker.drain_of("handoff.offer").await.len(), offers, "{names:?}");
    }
    hub.stop().await;
}

#[tokio::test]
async fn agents_that_come_without_end_do_not_hold_up_the_replay() {
    let hub = TestHub::start().await;
    let (crowd, token) = (hub.token("crowd").await, hub.token("b").await);
    let mut sender = hub.agent(&crowd, "a").await;
    let gid = sender.ask(&hub.message("m1", "finding", "a", "the past")).await["gid"].clone();
    let member = hub.hub.credentials.principal(hub.store(), hub.hub.clock(), &crowd.bearer).await.unwrap();
    let vault = VaultId::parse(&hub.vault("main")).unwrap();
    let come = async |numbers: std::ops::Range<usize>| {
        let announce = |number| {
            Write::Announce(Announce {
                vault,
                instance: member.instance,
                agent: format!("agent-{number}"),
                role: Some("tester".into()),
                profile: None,
                state: Presence::Active,
                node: hub.hub.node,
            })
        };
        hub.hub.commit(numbers.map(announce).collect()).await.unwrap();
        hub.hub.presence.refresh(hub.store(), vec![vault]).await.unwrap();
    };
    come(0..500).await;

    let mut out = Outbox::default();
    let cursors = json!({ hub.channel("general"): 0 });
    let mut session = greeted_from(&hub, &token, "b", &cursors, &mut out).await;
    let (mut told, mut come_so_far, mut seen) = (0, 500, Vec::new());
    while !seen.iter().any(|t| t == "pong") {
        assert!(come_so_far < 5000, "the replay never comes: {} frames without it", seen.len());
        for frame in frames(&mut out) {
            told += usize::from(frame["t"] == "presence_update");
            if frame["t"] == "message.deliver" {
                assert_eq!(frame["gid"], gid);
                assert!(told > 500, "everybody who was there is told first, not {told}");
            }
            seen.push(frame["t"].as_str().unwrap().to_owned());
        }
        come(come_so_far..come_so_far + 300).await; // more than one burst tells
        come_so_far += 300;
        session.fill(&mut out).await.unwrap();
    }
    assert!(seen.iter().any(|t| t == "message.deliver"), "the replay came before the pong");
    drop(session);
    hub.stop().await;
}

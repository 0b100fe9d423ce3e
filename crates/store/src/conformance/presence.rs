//! The directory of agents, and handoffs between them.

use super::bench::{Bench, START_MS, VAULT, announce};
use Presence::{Active, Closed};
use switchboard_core::ids::{InstanceNo, VaultId};
use switchboard_core::port::store::{AgentRow, Notice, NoticeRow};
use switchboard_core::time::{DAY_MS, MINUTE_MS};
use switchboard_core::write::{Announce, Outcome, Presence, Recipient, Refusal, Write};

async fn agents(bench: &Bench<'_>, after: u64) -> Vec<AgentRow> {
    bench.store().agents(vec![VAULT], after).await.expect("agents are readable")
}

const CHANGED: Outcome = Outcome::Announced { changed: true };
const SAME: Outcome = Outcome::Announced { changed: false };

/// The directory shows what was said last; what is not said again stays; followers hear of changes only.
pub async fn announcements_change_the_directory(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let profile = Some(r#"{"model":"m"}"#.to_owned());
    let full = Announce { role: Some("dev".into()), profile: profile.clone(), ..announce(me, "coder") };
    assert_eq!(bench.one(Write::Announce(full.clone())).await, CHANGED);
    let first = agents(&bench, 0).await;
    let expected = AgentRow {
        vault: VAULT,
        instance: me,
        instance_id: "inst_ann".into(),
        instance_label: "label of inst_ann".into(),
        owner_name: "ann".into(),
        agent: "coder".into(),
        role: "dev".into(),
        profile,
        state: Presence::Active,
        seen_ms: bench.now,
        version: first[0].version,
        node: announce(me, "coder").node,
    };
    assert_eq!(first, std::slice::from_ref(&expected));
    let version = expected.version;
    bench.now += MINUTE_MS;
    assert_eq!(bench.one(Write::Announce(announce(me, "coder"))).await, SAME);
    assert_eq!(agents(&bench, version).await, [], "nothing to tell followers");
    assert_eq!(agents(&bench, 0).await[0].seen_ms, bench.now);
    let idle = Announce { state: Presence::Idle, ..announce(me, "coder") };
    assert_eq!(bench.one(Write::Announce(idle)).await, CHANGED);
    let changed = agents(&bench, version).await;
    assert_eq!((changed[0].state, changed[0].role.as_str()), (Presence::Idle, "dev"));
    let tester = Announce { role: Some("tester".into()), state: Presence::Idle, ..announce(me, "coder") };
    assert_eq!(bench.one(Write::Announce(tester)).await, CHANGED);
    bench.announce(me, "second").await;
    bench.restart().await;
    let after = agents(&bench, changed[0].version).await;
    assert_eq!(after.iter().map(|row| row.agent.as_str()).collect::<Vec<_>>(), ["coder", "second"]);
    assert!(after[0].version < after[1].version);
}

/// Only a live instance announces, and only in a vault that exists.
pub async fn announcements_need_vault_and_instance(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let nowhere = Announce { vault: VaultId([1; 16]), ..announce(me, "a") };
    assert_eq!(bench.refused(Write::Announce(nowhere)).await, Refusal::NotFound);
    assert_eq!(bench.refused(Write::Announce(announce(InstanceNo(99), "a"))).await, Refusal::InstanceUnknown);
    bench.announce(me, "a").await;
    bench.one(Write::RevokeInstance { instance_id: "inst_ann".into() }).await;
    assert_eq!(bench.refused(Write::Announce(announce(me, "a"))).await, Refusal::InstanceUnknown);
    assert_eq!(agents(&bench, 0).await[0].state, Presence::Closed, "revoked is gone");
}

/// Closing concerns the agents one node holds; one that another socket holds, or another node by now, stays (fault B36).
pub async fn closing_spares_what_others_hold(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    for (instance, agent, node) in [(me, "a", 1), (me, "b", 1), (me, "c", u64::MAX), (you, "a", 1)] {
        bench.one(Write::Announce(Announce { node, ..announce(instance, agent) })).await;
    }
    let close = |agents: &[&str]| {
        let only = agents.iter().map(|agent| (VAULT, (*agent).to_owned())).collect();
        Write::Close { instance: me, node: 1, only }
    };
    assert_eq!(bench.one(close(&["a", "c"])).await, Outcome::Closed(1));
    let states = async |bench: &Bench<'_>| {
        let mut rows = agents(bench, 0).await;
        rows.sort_by_key(|row| (row.instance, row.agent.clone()));
        rows.iter().map(|row| row.state).collect::<Vec<_>>()
    };
    assert_eq!(states(&bench).await, [Closed, Active, Active, Active]);
    let before = bench.commits().await;
    assert_eq!(bench.one(close(&["a", "c"])).await, Outcome::Closed(0));
    assert_eq!(bench.commits().await, before);
    // Another node took over.
    bench.one(Write::Announce(Announce { node: 2, ..announce(me, "b") })).await;
    assert_eq!(bench.one(close(&["b"])).await, Outcome::Closed(0));
    // A hub that was killed comes back under another number: what its former self held is closed.
    bench.restart().await;
    assert_eq!(bench.one(Write::CloseOrphans { alive: vec![2, u64::MAX] }).await, Outcome::Closed(1));
    assert_eq!(states(&bench).await, [Closed, Active, Active, Closed]);
    assert_eq!(bench.one(Write::CloseOrphans { alive: Vec::new() }).await, Outcome::Closed(2));
}

/// An agent that has been closed for a month leaves the directory.
pub async fn agents_long_gone_leave_the_directory(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    bench.announce(me, "gone").await;
    bench.announce(me, "here").await;
    bench.one(Write::Close { instance: me, node: 1, only: vec![(VAULT, "gone".into())] }).await;
    let closed_ms = bench.now;
    for (days, left) in [(29, 2), (30, 1), (90, 1)] {
        bench.now = closed_ms + days * DAY_MS;
        bench.one(Write::Sweep { limit: 100 }).await;
        assert_eq!(agents(&bench, 0).await.len(), left, "after {days} days");
    }
}

fn offer(from: InstanceNo, id: &str, frame: &str) -> Write {
    Write::HandoffOffer {
        handoff_id: id.into(),
        vault: VAULT,
        from: (from, "giver".into()),
        to: Recipient::Agent { agent: "taker".into(), instance: None },
        frame: frame.into(),
        deadline_ms: START_MS + DAY_MS,
    }
}

fn settle(by: (InstanceNo, &str), id: &str, accept: bool) -> Write {
    Write::HandoffSettle {
        handoff_id: id.into(),
        by: (by.0, by.1.into()),
        accept,
        frame: format!("settled {id}"),
    }
}

async fn frames(bench: &Bench<'_>, instance: InstanceNo) -> Vec<NoticeRow> {
    bench.store().notices(instance, 0, bench.now, 100).await.expect("notices are readable")
}

fn frame(notice: &NoticeRow) -> (&str, &str, bool) {
    match &notice.notice {
        Notice::Frame { frame, once } => (&notice.agent, frame, *once),
        Notice::Status { .. } => panic!("expected a frame"),
    }
}

/// An offer waits for its receiver, however often it was sent, until it is settled; the settlement waits for the offerer
/// and comes once.
pub async fn an_offer_waits_until_it_is_settled(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    assert_eq!(bench.refused(offer(me, "h1", "take this")).await, Refusal::RecipientUnknown);
    bench.announce(you, "taker").await;
    assert_eq!(bench.one(offer(me, "h1", "take this")).await, Outcome::Handoff { ring: you });
    let before = bench.commits().await;
    assert_eq!(bench.one(offer(me, "h1", "take this")).await, Outcome::Handoff { ring: you });
    assert_eq!(bench.commits().await, before, "the same offer again is no change");
    assert_eq!(bench.refused(offer(me, "h1", "take that")).await, Refusal::IdReused);
    let waiting = frames(&bench, you).await;
    assert_eq!(waiting.iter().map(frame).collect::<Vec<_>>(), [("taker", "take this", false)]);
    bench.one(Write::NoticesSent { notices: vec![waiting[0].number] }).await;
    bench.restart().await;
    assert_eq!(frames(&bench, you).await, waiting, "sent is not settled");
    assert_eq!(bench.refused(settle((me, "giver"), "h1", true)).await, Refusal::NotFound);
    assert_eq!(bench.refused(settle((you, "other"), "h1", true)).await, Refusal::NotYours);
    assert_eq!(bench.refused(settle((you, "taker"), "h2", true)).await, Refusal::NotFound);
    assert_eq!(bench.one(settle((you, "taker"), "h1", true)).await, Outcome::Handoff { ring: me });
    assert_eq!(bench.refused(settle((you, "taker"), "h1", false)).await, Refusal::HandoffClosed);
    assert_eq!(frames(&bench, you).await, []);
    let told = frames(&bench, me).await;
    assert_eq!(told.iter().map(frame).collect::<Vec<_>>(), [("giver", "settled h1", true)]);
    bench.one(Write::NoticesSent { notices: vec![told[0].number] }).await;
    assert_eq!(frames(&bench, me).await, []);
    // The id stays taken.
    assert_eq!(bench.refused(offer(me, "h1", "take that")).await, Refusal::IdReused);
}

/// An offer is over at its deadline, and must begin before it.
pub async fn an_offer_is_over_at_its_deadline(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    bench.announce(you, "taker").await;
    bench.one(offer(me, "h1", "take this")).await;
    bench.now = START_MS + DAY_MS;
    assert_eq!(frames(&bench, you).await, []);
    assert_eq!(bench.refused(settle((you, "taker"), "h1", true)).await, Refusal::HandoffClosed);
    bench.announce(you, "taker").await;
    assert_eq!(bench.refused(offer(me, "h2", "take this")).await, Refusal::DeadlinePast);
}

/// Ids of offers belong to their offerers: two may choose the same one.
pub async fn two_offerers_may_choose_one_id(mut bench: Bench<'_>) {
    let (me, you, third) =
        (bench.instance("ann").await, bench.instance("ben").await, bench.instance("cleo").await);
    bench.announce(you, "taker").await;
    bench.one(offer(me, "h", "of ann")).await;
    bench.one(offer(third, "h", "of cleo")).await;
    assert_eq!(frames(&bench, you).await.len(), 2);
    let settled = bench.one(settle((you, "taker"), "h", true)).await;
    assert_eq!(settled, Outcome::Handoff { ring: me }, "its offerer is woken, not the other");
    assert_eq!(frames(&bench, me).await.len(), 1, "the older one is settled first");
    let settled = bench.one(settle((you, "taker"), "h", false)).await;
    assert_eq!(settled, Outcome::Handoff { ring: third });
    assert_eq!(frames(&bench, third).await.len(), 1);
    assert_eq!(bench.refused(settle((you, "taker"), "h", true)).await, Refusal::HandoffClosed);
}

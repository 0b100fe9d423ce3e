//! Vaults and swarms.

use super::bench::{Bench, START_MS, VAULT, appended, finding, to, with_id};
use switchboard_core::event::EventKind;
use switchboard_core::ids::{InstanceNo, PersonNo, VaultId};
use switchboard_core::limits::VAULTS_MAX;
use switchboard_core::log::Entry;
use switchboard_core::port::store::StreamOwner;
use switchboard_core::time::{DAY_MS, HOUR_MS};
use switchboard_core::write::{
    Append, Outcome, Receipt, ReceiptState, Recipient, Refusal, StreamRef, VaultInfo, Write,
};

fn vault(number: u8, name: &str) -> VaultInfo {
    VaultInfo { vault: VaultId([number; 16]), name: name.into(), sealed: false, label: None }
}

fn create(info: &VaultInfo) -> Write {
    Write::CreateVault { vault: info.vault, name: info.name.clone(), sealed: info.sealed }
}

/// Names and ids of vaults are unique, their number is bounded.
pub async fn vaults_are_unique_and_bounded(mut bench: Bench<'_>) {
    let sealed = VaultInfo { sealed: true, ..vault(1, "secret") };
    assert_eq!(bench.one(create(&sealed)).await, Outcome::Vault(sealed.clone()));
    assert_eq!(bench.refused(create(&vault(2, "secret"))).await, Refusal::NameTaken);
    assert_eq!(bench.refused(create(&vault(1, "other"))).await, Refusal::NameTaken);
    let vaults = bench.store().vaults().await.expect("readable");
    assert_eq!(vaults, [vault(7, "main"), sealed]);
    let many = (2..VAULTS_MAX).map(|at| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(at as u64).to_be_bytes());
        Write::CreateVault { vault: VaultId(id), name: format!("v{at}"), sealed: false }
    });
    bench.commit(many.collect()).await;
    let full = Refusal::Full { what: "vaults", limit: VAULTS_MAX as u64 };
    assert_eq!(bench.refused(create(&vault(9, "more"))).await, full);
    assert_eq!(bench.refused(resolve("x", None, &vault(9, "more"), None)).await, full);
}

fn resolve(identity: &str, bind: Option<&str>, fresh: &VaultInfo, label: Option<&str>) -> Write {
    Write::ResolveVault {
        identity: identity.into(),
        bind: bind.map(str::to_owned),
        fresh: (fresh.vault, fresh.name.clone()),
        label: label.map(str::to_owned),
    }
}

/// A repository is bound to a vault on first sight and found ever after, whatever is proposed then.
pub async fn a_repository_keeps_its_vault(mut bench: Bench<'_>) {
    let fresh = vault(1, "payments");
    let made = Outcome::Vault(VaultInfo { label: Some("Payments".into()), ..fresh.clone() });
    assert_eq!(bench.one(resolve("id-1", None, &fresh, Some("Payments"))).await, made);
    bench.restart().await;
    let before = bench.commits().await;
    for bind in [None, Some("main")] {
        assert_eq!(bench.one(resolve("id-1", bind, &vault(2, "other"), Some("Else"))).await, made);
    }
    assert_eq!(bench.commits().await, before, "finding changes nothing");
    assert_eq!(bench.refused(resolve("id-2", None, &vault(2, "payments"), None)).await, Refusal::NameTaken);
    assert_eq!(
        bench.refused(resolve("id-2", Some("nowhere"), &vault(2, "x"), None)).await,
        Refusal::NotFound
    );
    let main = Outcome::Vault(VaultInfo { label: Some("Main".into()), ..vault(7, "main") });
    assert_eq!(bench.one(resolve("id-2", Some("main"), &vault(2, "x"), Some("Main"))).await, main);
    assert_eq!(bench.one(resolve("id-3", Some("main"), &vault(2, "x"), Some("Other"))).await, main);
    assert_eq!(bench.store().vaults().await.expect("readable").len(), 2);
}

async fn person_of(bench: &Bench<'_>, instance: InstanceNo) -> PersonNo {
    let rows = bench.store().instances().await.expect("readable");
    rows.iter().find(|row| row.instance == instance).expect("it is there").owner
}

async fn swarm(bench: &mut Bench<'_>, id: &str) {
    let created = bench.one(Write::CreateSwarm { swarm: id.into(), title: format!("Swarm {id}") }).await;
    assert_eq!(created, Outcome::Done);
}

fn join(swarm: &str, person: PersonNo, handle: &str) -> Write {
    Write::JoinSwarm { swarm: swarm.into(), person, handle: handle.into() }
}

/// `append` into swarm `s1` under `handle`, 3 an hour.
fn in_swarm(append: Append, handle: &str) -> Append {
    let stream = StreamRef::Swarm { swarm: "s1".into() };
    Append { stream, handle: Some((handle.into(), 3)), ..append }
}

/// Handles are their person's for ever; a person has one per swarm, may use it in several, and may have several.
pub async fn a_handle_is_its_persons_for_ever(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let (ann, ben) = (person_of(&bench, me).await, person_of(&bench, you).await);
    for id in ["s1", "s2", "s3"] {
        swarm(&mut bench, id).await;
    }
    let again = Write::CreateSwarm { swarm: "s1".into(), title: "x".into() };
    assert_eq!(bench.refused(again).await, Refusal::NameTaken);
    assert_eq!(bench.refused(join("s9", ann, "heron")).await, Refusal::NotFound);
    assert_eq!(bench.refused(join("s1", PersonNo(99), "heron")).await, Refusal::NotFound);
    let before = bench.commits().await;
    for _ in 0..2 {
        assert_eq!(bench.one(join("s1", ann, "heron")).await, Outcome::Done);
    }
    assert_eq!(bench.commits().await, before + 1, "again is no change");
    assert_eq!(bench.one(join("s2", ann, "heron")).await, Outcome::Done);
    assert_eq!(bench.one(join("s3", ann, "stork")).await, Outcome::Done);
    bench.restart().await;
    for (room, person, handle) in [("s1", ann, "stork"), ("s1", ben, "heron"), ("s2", ben, "stork")] {
        assert_eq!(bench.refused(join(room, person, handle)).await, Refusal::HandleTaken);
    }
    bench.one(join("s1", ben, "crane")).await;
    let memberships = bench.store().memberships().await.expect("readable");
    let memberships: Vec<_> =
        memberships.iter().map(|(swarm, row)| (row.person, swarm.as_str(), row.handle.as_str())).collect();
    let mut all = [(ann, "s1", "heron"), (ann, "s2", "heron"), (ann, "s3", "stork"), (ben, "s1", "crane")];
    all.sort_unstable();
    assert_eq!(memberships, all, "everybody's at once, by person, then by swarm");
    let heron = bench.store().handle("heron".into()).await.expect("readable").expect("it is there");
    assert_eq!((heron.person, heron.since_ms), (ann, bench.now));
    assert_eq!(bench.store().handle("eagle".into()).await.expect("readable"), None);
    let rows = bench.store().swarms().await.expect("readable");
    let rows: Vec<_> = rows.iter().map(|row| (row.swarm.as_str(), row.open, row.members)).collect();
    assert_eq!(rows, [("s1", true, 2), ("s2", true, 1), ("s3", true, 1)]);
}

/// Only members send into a swarm, under the handle they joined with; the log names no instance of them.
pub async fn a_swarm_knows_handles_only(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let (ann, ben) = (person_of(&bench, me).await, person_of(&bench, you).await);
    let mine = in_swarm(finding(me), "heron");
    assert_eq!(bench.refused(Write::Append(mine.clone())).await, Refusal::NotFound);
    swarm(&mut bench, "s1").await;
    for handle in [None, Some(("heron".to_owned(), 3))] {
        let outsider = Append { handle, ..mine.clone() };
        assert_eq!(bench.refused(Write::Append(outsider)).await, Refusal::NoHandle);
    }
    bench.one(join("s1", ann, "heron")).await;
    bench.one(join("s1", ben, "crane")).await;
    let foreign = in_swarm(finding(you), "heron");
    assert_eq!(bench.refused(Write::Append(foreign)).await, Refusal::NoHandle);
    let first = bench.append(mine.clone()).await;
    let owner = StreamOwner::Swarm { swarm: "s1".into() };
    let stream = bench.store().stream(owner.clone()).await.expect("readable").expect("it is there");
    assert_eq!((stream.id, stream.head, &stream.owner), (first.id.stream, 1, &owner));
    let receipt = Receipt { event: first.id, instance: you, agent: "a".into(), state: ReceiptState::Read };
    bench.one(Write::Receipt(receipt)).await;
    let entries = bench.entries().await;
    let of_event = |entry: &&Entry| matches!(entry, Entry::Event { id, .. } if *id == first.id);
    assert!(matches!(entries.iter().find(of_event), Some(Entry::Event { by: None, .. })));
    let named = |entry: &Entry| match entry {
        Entry::Admitted { verb, actor, .. } => verb == "bus.receipt" && !actor.is_empty(),
        _ => false,
    };
    assert!(!entries.iter().any(named), "a swarm's receipts name no instance");
}

/// In a swarm one answers who spoke, by the handle it spoke under, and nobody else is in reach.
pub async fn in_a_swarm_one_answers_who_spoke(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let (ann, ben) = (person_of(&bench, me).await, person_of(&bench, you).await);
    swarm(&mut bench, "s1").await;
    bench.one(join("s1", ann, "heron")).await;
    bench.one(join("s1", ben, "crane")).await;
    bench.announce(me, "heron").await;
    let direct = to(in_swarm(finding(you), "crane"), "heron", None);
    assert_eq!(bench.refused(Write::Append(direct.clone())).await, Refusal::RecipientUnknown);
    let spoken = bench.append(in_swarm(finding(me), "heron")).await.id;
    let reply = Append { kind: EventKind::Answer, reply_to: Some(spoken), ..direct };
    let answered = bench.append(reply.clone()).await.id;
    let addressee = bench.event(answered).await.expect("it stands").to.expect("it is direct");
    assert_eq!((addressee.instance, addressee.agent.as_str()), (me, "sender"));
    let recipient = Recipient::Agent { agent: "crane".into(), instance: None };
    assert_eq!(
        bench.refused(Write::Append(Append { recipient, ..reply })).await,
        Refusal::RecipientUnknown,
        "that is not who spoke"
    );
}

/// The hourly limit is an exact sliding window; repeats and refused ones do not count.
pub async fn the_hourly_limit_slides(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let ann = person_of(&bench, me).await;
    swarm(&mut bench, "s1").await;
    bench.one(join("s1", ann, "heron")).await;
    let start_ms = bench.now;
    let send = |id: &str| in_swarm(with_id(finding(me), id, 1), "heron");
    for (at_ms, id) in [(0, "a"), (10, "b"), (600_000, "c")] {
        bench.now = start_ms + at_ms;
        bench.append(send(id)).await;
    }
    bench.now = start_ms + HOUR_MS - 1500;
    assert!(bench.append(send("b")).await.repeat, "a repeat is no message");
    let limited = |retry_after_s| Refusal::RateLimited { limit: 3, retry_after_s };
    assert_eq!(bench.refused(Write::Append(send("d"))).await, limited(2));
    bench.now = start_ms + HOUR_MS - 1;
    assert_eq!(bench.refused(Write::Append(send("d"))).await, limited(1));
    bench.now = start_ms + HOUR_MS;
    bench.append(send("d")).await;
    assert_eq!(bench.refused(Write::Append(send("e"))).await, limited(1), "the second one is 10 ms younger");
    bench.restart().await;
    bench.now = start_ms + HOUR_MS + 10;
    bench.append(send("e")).await;
    let wait_s = u64::try_from((600_000 - 10) / 1000 + 1).unwrap_or(0);
    assert_eq!(bench.refused(Write::Append(send("f"))).await, limited(wait_s));
    // Within one batch the limit holds as well.
    bench.now = start_ms + 9 * HOUR_MS;
    let outcomes = bench.commit(["g", "h", "i", "j"].map(|id| Write::Append(send(id))).to_vec()).await;
    assert!(outcomes[..3].iter().all(|outcome| !appended(outcome).repeat));
    assert_eq!(outcomes[3], Outcome::Refused(limited(3600)));
}

/// A closed swarm takes nothing more; its history stays until it was said to go, then all of it goes.
pub async fn a_closed_swarm_keeps_its_history_for_a_while(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let ann = person_of(&bench, me).await;
    swarm(&mut bench, "s1").await;
    bench.one(join("s1", ann, "heron")).await;
    let mine = in_swarm(finding(me), "heron");
    let short = Append { expires_at_ms: START_MS + DAY_MS, ..mine.clone() };
    let long = Append { expires_at_ms: START_MS + 900 * DAY_MS, ..mine.clone() };
    let stream = bench.append(short).await.id.stream;
    bench.append(long).await;
    let close = |at| Write::CloseSwarm { swarm: "s1".into(), expires_at_ms: at };
    assert_eq!(
        bench.refused(Write::CloseSwarm { swarm: "s2".into(), expires_at_ms: 1 }).await,
        Refusal::NotFound
    );
    assert_eq!(bench.one(close(START_MS + 30 * DAY_MS)).await, Outcome::Done);
    assert_eq!(bench.one(close(START_MS)).await, Outcome::Done, "again is no change");
    assert_eq!(bench.refused(Write::Append(mine)).await, Refusal::SwarmClosed);
    assert_eq!(bench.refused(join("s1", ann, "heron")).await, Refusal::SwarmClosed);
    assert!(!bench.store().swarms().await.expect("readable")[0].open);
    bench.restart().await;
    for (day, left) in [(2, 2), (29, 2), (30, 0)] {
        bench.now = START_MS + day * DAY_MS;
        bench.one(Write::Sweep { limit: 100 }).await;
        assert_eq!(bench.all(stream).await.len(), left, "day {day}");
    }
}

/// Nothing of one vault's channel is in another's of the same name.
pub async fn channels_of_two_vaults_are_two(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    bench.one(create(&vault(1, "second"))).await;
    let first = bench.append(finding(me)).await.id;
    let stream = StreamRef::Channel { vault: VaultId([1; 16]), name: "general".into() };
    let second = bench.append(Append { stream, ..finding(me) }).await.id;
    assert_ne!(first.stream, second.stream);
    assert_eq!((first.seq, second.seq), (1, 1));
    let both =
        bench.store().channels(vec![VAULT, VaultId([1; 16]), VaultId([2; 16])]).await.expect("readable");
    assert_eq!(both.iter().map(|stream| stream.id).collect::<Vec<_>>(), [first.stream, second.stream]);
    let all = bench.store().streams(0).await.expect("readable");
    assert_eq!(all.len(), 2);
    assert_eq!(bench.store().streams(all[0].id.0).await.expect("readable"), [all[1].clone()]);
    assert_eq!(bench.store().stream_by_id(all[1].id).await.expect("readable"), Some(all[1].clone()));
    assert_eq!(
        bench.store().stream_by_id(switchboard_core::ids::StreamId(4000)).await.expect("readable"),
        None
    );
}

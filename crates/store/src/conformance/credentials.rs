//! Instances, bearers, leases, nonces, devices.

use super::bench::{Bench, START_MS, instance_of, new_instance};
use switchboard_core::ids::{InstanceNo, PersonNo};
use switchboard_core::limits::{
    ASSERTION_SKEW_MS, DEVICE_CODES_MAX, DEVICE_INTERVAL_MS, INSTANCES_MAX, LEASE_GRACE_MS, LEASE_MS,
    SWEEP_ROWS_MAX,
};
use switchboard_core::port::store::Credential;
use switchboard_core::principal::InstanceKind;
use switchboard_core::rights::{Right, Rights};
use switchboard_core::time::{DAY_MS, HOUR_MS, MINUTE_MS};
use switchboard_core::write::{DeviceDecision, NewInstance, Outcome, Refusal, Write};

async fn credential(bench: &Bench<'_>, hash: u8) -> Option<Credential> {
    bench.store().credential([hash; 32], bench.now).await.expect("credentials are readable")
}

fn keyed(id: &str, hash: u8) -> NewInstance {
    NewInstance {
        kind: InstanceKind::Engine,
        token_hash: Some([hash; 32]),
        keys: Some(([4; 32], [5; 32])),
        rights: Rights::of(&[Right::BusRelay, Right::Admin]),
        ..new_instance(id, None)
    }
}

/// What was made is found as it was made, by its id and by its bearer.
pub async fn instances_are_found_as_they_were_made(mut bench: Bench<'_>) {
    let owner = (bench.installation.owner, "Olivia".to_owned());
    let made = bench.one(Write::CreateInstance(keyed("inst_a", 1))).await;
    let number = instance_of(&made);
    assert_eq!(made, Outcome::Instance { instance: number, instance_id: "inst_a".into() });
    bench.restart().await;
    let row = bench.store().instance("inst_a".into()).await.expect("readable").expect("it is there");
    assert_eq!(
        (row.instance, row.kind, row.label.as_str()),
        (number, InstanceKind::Engine, "label of inst_a")
    );
    assert_eq!((row.owner, row.owner_name), owner);
    assert_eq!((row.rights, row.public_key), (Rights::of(&[Right::BusRelay, Right::Admin]), Some([4; 32])));
    assert_eq!((row.created_ms, row.revoked_ms), (bench.now, None));
    assert_eq!(
        row.grace_until_ms,
        Some(bench.now + LEASE_MS + LEASE_GRACE_MS),
        "a lease comes with the keys"
    );
    let Some(Credential::Good(principal)) = credential(&bench, 1).await else { panic!("a good bearer") };
    assert_eq!((principal.instance, principal.instance_id.as_str()), (number, "inst_a"));
    assert_eq!((principal.owner, principal.kind), (row.owner, InstanceKind::Engine));
    assert!(principal.may(Right::Admin) && !principal.may(Right::BusControl));
    assert!(credential(&bench, 2).await.is_none());
    assert!(bench.store().instance("inst_b".into()).await.expect("readable").is_none());
    let hub = bench.store().instance("inst_hub".into()).await.expect("readable").expect("the hub's own");
    assert_eq!((hub.instance, hub.rights), (bench.installation.hub_instance, Rights::OWNER));
    assert_eq!(bench.store().instances().await.expect("readable").len(), 2);
}

/// Ids and bearers are unique; a person is made once per display name.
pub async fn instance_ids_and_bearers_are_unique(mut bench: Bench<'_>) {
    bench.one(Write::CreateInstance(keyed("inst_a", 1))).await;
    assert_eq!(bench.refused(Write::CreateInstance(keyed("inst_a", 2))).await, Refusal::NameTaken);
    assert_eq!(bench.refused(Write::CreateInstance(keyed("inst_b", 1))).await, Refusal::NameTaken);
    for id in ["inst_c", "inst_d"] {
        bench.one(Write::CreateInstance(new_instance(id, Some("Ben")))).await;
    }
    let rows = bench.store().instances().await.expect("readable");
    let owner = |id: &str| rows.iter().find(|row| row.instance_id == id).map(|row| row.owner);
    assert_eq!(owner("inst_c"), owner("inst_d"));
    assert_ne!(owner("inst_c"), owner("inst_a"));
}

/// There is a bound on instances; a revoked one makes room.
pub async fn instances_are_bounded(mut bench: Bench<'_>) {
    let many = (1..INSTANCES_MAX).map(|at| Write::CreateInstance(new_instance(&format!("i{at}"), None)));
    bench.commit(many.collect()).await;
    let full = Refusal::Full { what: "instances", limit: u64::from(INSTANCES_MAX) };
    let one_more = Write::CreateInstance(new_instance("more", Some("Zoe")));
    assert_eq!(bench.refused(one_more.clone()).await, full);
    bench.one(Write::RevokeInstance { instance_id: "i5".into() }).await;
    instance_of(&bench.one(one_more).await);
}

/// A revoked instance's bearers say so; it cannot come back, and the hub's own cannot be revoked.
pub async fn revoking_ends_all_bearers(mut bench: Bench<'_>) {
    let number = instance_of(&bench.one(Write::CreateInstance(keyed("inst_a", 1))).await);
    bench.one(mint(number, "n1", 2, bench.now + HOUR_MS)).await;
    let revoke = |id: &str| Write::RevokeInstance { instance_id: id.into() };
    assert_eq!(bench.refused(revoke("inst_b")).await, Refusal::NotFound);
    assert_eq!(bench.refused(revoke("inst_hub")).await, Refusal::NotYours);
    assert_eq!(bench.one(revoke("inst_a")).await, Outcome::Done);
    let revoked_ms = bench.now;
    bench.now += 7;
    assert_eq!(bench.one(revoke("inst_a")).await, Outcome::Done, "again is no change");
    bench.restart().await;
    for hash in [1, 2] {
        assert!(matches!(credential(&bench, hash).await, Some(Credential::Revoked)));
    }
    let row = bench.store().instance("inst_a".into()).await.expect("readable").expect("it stays known");
    assert_eq!(row.revoked_ms, Some(revoked_ms));
    assert_eq!(bench.refused(mint(number, "n2", 3, bench.now + HOUR_MS)).await, Refusal::NotFound);
    let renew = Write::RenewLease { instance: number, grace_until_ms: bench.now + DAY_MS };
    assert_eq!(bench.refused(renew).await, Refusal::NotFound);
}

fn mint(instance: InstanceNo, nonce: &str, hash: u8, expires_at_ms: i64) -> Write {
    Write::MintAccess { instance, nonce: nonce.into(), token_hash: [hash; 32], expires_at_ms }
}

/// A nonce works once for as long as its assertion could be good; bearers end when they say.
pub async fn a_nonce_works_once(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    assert_eq!(bench.refused(mint(InstanceNo(999), "n1", 1, bench.now + 1)).await, Refusal::NotFound);
    assert_eq!(bench.one(mint(me, "n1", 1, bench.now + HOUR_MS)).await, Outcome::Done);
    let minted_ms = bench.now;
    for later in [0, ASSERTION_SKEW_MS, 2 * ASSERTION_SKEW_MS] {
        bench.now = minted_ms + later;
        bench.one(Write::Sweep { limit: 100 }).await;
        assert_eq!(bench.refused(mint(me, "n1", 2, bench.now + HOUR_MS)).await, Refusal::NonceUsed);
    }
    assert_eq!(bench.one(mint(you, "n1", 3, bench.now + HOUR_MS)).await, Outcome::Done);
    assert!(matches!(credential(&bench, 1).await, Some(Credential::Good(who)) if who.instance == me));
    bench.now = minted_ms + HOUR_MS - 1;
    assert!(matches!(credential(&bench, 1).await, Some(Credential::Good(_))));
    bench.now += 1;
    assert!(matches!(credential(&bench, 1).await, Some(Credential::Expired)));
    bench.one(Write::Sweep { limit: 100 }).await;
    assert!(matches!(credential(&bench, 1).await, Some(Credential::Expired)), "for a while it says so");
    bench.now += 2 * DAY_MS;
    bench.one(Write::Sweep { limit: 100 }).await;
    assert!(credential(&bench, 1).await.is_none());
}

/// A lease past its grace ends what its instance may do, until it is renewed.
pub async fn a_lease_ends_with_its_grace(mut bench: Bench<'_>) {
    let number = instance_of(&bench.one(Write::CreateInstance(keyed("inst_a", 1))).await);
    let renew = |grace_until_ms| Write::RenewLease { instance: number, grace_until_ms };
    assert_eq!(bench.one(renew(START_MS + DAY_MS)).await, Outcome::Done);
    bench.now = START_MS + DAY_MS - 1;
    assert!(matches!(credential(&bench, 1).await, Some(Credential::Good(_))));
    bench.now += 1;
    assert!(matches!(credential(&bench, 1).await, Some(Credential::LeaseExpired)));
    bench.one(renew(START_MS + 2 * DAY_MS)).await;
    assert!(matches!(credential(&bench, 1).await, Some(Credential::Good(_))));
    let row = bench.store().instance("inst_a".into()).await.expect("readable").expect("it is there");
    assert_eq!(row.grace_until_ms, Some(START_MS + 2 * DAY_MS));
}

fn start(bench: &Bench<'_>, hash: u8, code: &str) -> Write {
    Write::DeviceStart {
        device_hash: [hash; 32],
        user_code: code.into(),
        label: Some(format!("device {hash}")),
        expires_at_ms: bench.now + 15 * MINUTE_MS,
    }
}

fn decide(bench: &Bench<'_>, code: &str, decision: DeviceDecision) -> Write {
    Write::DeviceDecide { user_code: code.into(), decision, person: bench.installation.owner }
}

fn redeem(hash: u8) -> Write {
    let instance = new_instance(&format!("inst_device{hash}"), Some("ignored"));
    Write::DeviceRedeem { device_hash: [hash; 32], instance }
}

/// Until a person decides a device waits; approved it redeems once, in the name of who approved.
pub async fn an_approved_device_redeems_once(mut bench: Bench<'_>) {
    assert_eq!(bench.one(start(&bench, 1, "AAAA")).await, Outcome::Done);
    let waiting = bench.store().devices(bench.now).await.expect("readable");
    assert_eq!(waiting.len(), 1);
    assert_eq!((waiting[0].user_code.as_str(), waiting[0].label.as_deref()), ("AAAA", Some("device 1")));
    assert_eq!(bench.refused(redeem(1)).await, Refusal::DevicePending);
    assert_eq!(bench.refused(decide(&bench, "BBBB", DeviceDecision::Approve)).await, Refusal::NotFound);
    let nobody = PersonNo(77);
    let by_nobody =
        Write::DeviceDecide { user_code: "AAAA".into(), decision: DeviceDecision::Approve, person: nobody };
    assert_eq!(bench.refused(by_nobody).await, Refusal::NotFound);
    assert_eq!(bench.one(decide(&bench, "AAAA", DeviceDecision::Approve)).await, Outcome::Done);
    assert_eq!(bench.refused(decide(&bench, "AAAA", DeviceDecision::Deny)).await, Refusal::NotFound);
    assert_eq!(bench.store().devices(bench.now).await.expect("readable"), []);
    bench.restart().await;
    instance_of(&bench.one(redeem(1)).await);
    let row = bench.store().instance("inst_device1".into()).await.expect("readable").expect("it was made");
    assert_eq!(row.owner, bench.installation.owner);
    assert_eq!(bench.refused(redeem(1)).await, Refusal::DeviceExpired, "single use");
}

/// Polling has a pace; a denied device hears so; an unknown code was one once.
pub async fn devices_poll_at_a_pace(mut bench: Bench<'_>) {
    // When a device last polled need not outlive a restart.
    bench.restless = false;
    bench.one(start(&bench, 1, "AAAA")).await;
    assert_eq!(bench.refused(redeem(1)).await, Refusal::DevicePending);
    bench.now += DEVICE_INTERVAL_MS - 1;
    assert_eq!(bench.refused(redeem(1)).await, Refusal::DeviceTooFast);
    bench.now += 1;
    assert_eq!(bench.refused(redeem(1)).await, Refusal::DevicePending);
    bench.one(decide(&bench, "AAAA", DeviceDecision::Deny)).await;
    assert_eq!(bench.refused(redeem(1)).await, Refusal::DeviceDenied);
    assert_eq!(bench.refused(redeem(2)).await, Refusal::DeviceExpired);
}

/// A code ends, and is then free to be given again.
pub async fn a_device_code_ends(mut bench: Bench<'_>) {
    bench.one(start(&bench, 1, "AAAA")).await;
    assert_eq!(bench.refused(start(&bench, 2, "AAAA")).await, Refusal::NameTaken);
    assert_eq!(bench.refused(start(&bench, 1, "BBBB")).await, Refusal::NameTaken);
    bench.now += 15 * MINUTE_MS;
    assert_eq!(bench.store().devices(bench.now).await.expect("readable"), []);
    assert_eq!(bench.refused(redeem(1)).await, Refusal::DeviceExpired);
    assert_eq!(bench.refused(decide(&bench, "AAAA", DeviceDecision::Approve)).await, Refusal::NotFound);
    assert_eq!(bench.one(start(&bench, 2, "AAAA")).await, Outcome::Done);
    bench.now += 15 * MINUTE_MS;
    bench.one(Write::Sweep { limit: SWEEP_ROWS_MAX }).await;
    assert_eq!(bench.refused(redeem(2)).await, Refusal::DeviceExpired);
}

/// There is a bound on waiting codes.
pub async fn device_codes_are_bounded(mut bench: Bench<'_>) {
    let hash = |at: u32| {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&at.to_be_bytes());
        hash
    };
    let expires_at_ms = bench.now + MINUTE_MS;
    let device = |at| Write::DeviceStart {
        device_hash: hash(at),
        user_code: format!("C{at}"),
        label: None,
        expires_at_ms,
    };
    bench.commit((0..DEVICE_CODES_MAX).map(device).collect()).await;
    let full = Refusal::Full { what: "device_codes", limit: u64::from(DEVICE_CODES_MAX) };
    assert_eq!(bench.refused(device(DEVICE_CODES_MAX)).await, full);
    bench.now = expires_at_ms;
    assert_eq!(bench.one(start(&bench, 1, "AAAA")).await, Outcome::Done);
}

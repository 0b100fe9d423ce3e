//! Bearers: from the token on a request to the principal behind it, remembered for a few seconds.

use crate::hub::Hub;
use crate::refusal;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use switchboard_core::digest::{Digest, framed};
use switchboard_core::port::store::{Credential, Store};
use switchboard_core::principal::Principal;
use switchboard_core::time::Clock;
use switchboard_protocol::Detail;

/// How long an answer of the store is believed when nothing rings; a revocation rings.
const BELIEVED: Duration = Duration::from_secs(5);
/// Remembered bearers.
const REMEMBERED_MAX: usize = 20_000;

/// The stored form of a bearer.
#[must_use]
pub fn bearer_hash(bearer: &str) -> Digest {
    framed("switchboard.bearer.v1", &[bearer.as_bytes()])
}

/// Whether the instance still may act: looked at again after a wait, on a socket, after a ring. A bearer that merely ran
/// out is good for what it began.
pub async fn still_good(hub: &Hub, who: &Principal) -> Result<(), Detail> {
    let found =
        hub.store().instance(who.instance_id.clone()).await.map_err(|error| refusal::store(&error))?;
    match found {
        None => Err(refusal::revoked()),
        Some(row) if row.revoked_ms.is_some() => Err(refusal::revoked()),
        Some(row) if row.grace_until_ms.is_some_and(|end| end <= hub.clock().wall_ms()) => {
            Err(refusal::lease_expired())
        }
        Some(_) => Ok(()),
    }
}

/// Looks bearers up.
#[derive(Debug, Default)]
pub struct Credentials {
    fixed: Mutex<HashMap<Digest, Arc<Principal>>>,
    remembered: Mutex<HashMap<Digest, (Arc<Principal>, Duration)>>,
    // Grows with each `forget`, so that what was read before one is not remembered behind it.
    forgotten: AtomicU64,
}

impl Credentials {
    /// A bearer of this process alone (the admin token in `admin.json`).
    pub fn fix(&self, bearer: &str, principal: Principal) {
        self.fixed.lock().insert(bearer_hash(bearer), Arc::new(principal));
    }

    /// The principal of a bearer; `Err` is the refusal to send.
    pub async fn principal(
        &self,
        store: &dyn Store,
        clock: &dyn Clock,
        bearer: &str,
    ) -> Result<Arc<Principal>, Detail> {
        let hash = bearer_hash(bearer);
        if let Some(known) = self.known(&hash, clock) {
            return Ok(known);
        }
        let before = self.forgotten.load(Ordering::Acquire);
        let found =
            store.credential(hash, clock.wall_ms()).await.map_err(|error| crate::refusal::store(&error))?;
        let principal = match found {
            Some(Credential::Good(principal)) => Arc::new(principal),
            Some(Credential::Revoked) => return Err(crate::refusal::revoked()),
            Some(Credential::LeaseExpired) => return Err(crate::refusal::lease_expired()),
            Some(Credential::Expired) | None => return Err(crate::refusal::unauthorized()),
        };
        if self.forgotten.load(Ordering::Acquire) == before {
            self.remember(hash, principal.clone(), clock);
        }
        Ok(principal)
    }

    fn known(&self, hash: &Digest, clock: &dyn Clock) -> Option<Arc<Principal>> {
        if let Some(fixed) = self.fixed.lock().get(hash) {
            return Some(fixed.clone());
        }
        let remembered = self.remembered.lock();
        let (principal, until) = remembered.get(hash)?;
        let good = *until > clock.monotonic() && principal.expires_at.is_none_or(|end| end > clock.wall_ms());
        good.then(|| principal.clone())
    }

    fn remember(&self, hash: Digest, principal: Arc<Principal>, clock: &dyn Clock) {
        let mut remembered = self.remembered.lock();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(hash, (principal, clock.monotonic() + BELIEVED));
    }

    /// Forgets what was remembered: something changed.
    pub fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.remembered.lock().clear();
    }

    /// Whether this is the hash of a bearer of this process alone.
    pub fn is_fixed_hash(&self, hash: &Digest) -> bool {
        self.fixed.lock().contains_key(hash)
    }
}

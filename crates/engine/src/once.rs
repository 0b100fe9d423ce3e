//! Repeatable requests: a request with an `Idempotency-Key` takes effect once, and every repeat gets the first answer byte
//! for byte (contract section 1).
//!
//! Answers are stored with the change, in one transaction. What must never be stored (bearers, device codes) is derived
//! from the hub's secret and the request's [`Seed`] instead, so that a repeat derives the same.

use crate::hub::Hub;
use crate::refusal;
use std::sync::Arc;
use switchboard_core::digest::{Digest, framed, hmac};
use switchboard_core::ids::base32;
use switchboard_core::random;
use switchboard_core::write::{Outcome, Render, Write};
use switchboard_protocol::Detail;
use switchboard_protocol::text::validate_id;

/// One request's identity.
#[derive(Debug, Clone)]
pub struct Request {
    scope: String,
    key: Option<String>,
    digest: Digest,
    seed: Seed,
}

/// Randomness of a request that a repeat of the same request has again.
#[derive(Debug, Clone, Copy)]
pub struct Seed(Digest);

impl Request {
    /// Of a caller (`scope`), with its `Idempotency-Key` if it sent one, for what it asks.
    pub fn new(
        hub: &Hub,
        scope: &str,
        key: Option<&str>,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Self, Detail> {
        if let Some(key) = key {
            validate_id(key, "Idempotency-Key").map_err(refusal::invalid)?;
        }
        let digest = framed("switchboard.request.v1", &[method.as_bytes(), path.as_bytes(), body]);
        let seed = match key {
            Some(key) => {
                hmac(&hub.installation.keys.bearer, &[b"seed", scope.as_bytes(), key.as_bytes(), &digest])
            }
            None => random::bytes(hub.entropy()),
        };
        Ok(Self { scope: scope.to_owned(), key: key.map(str::to_owned), digest, seed: Seed(seed) })
    }

    /// A request without a key, of a caller inside the process.
    pub fn fresh(hub: &Hub) -> Self {
        let seed = Seed(random::bytes(hub.entropy()));
        Self { scope: String::new(), key: None, digest: [0; 32], seed }
    }

    /// Its seed.
    #[must_use]
    pub fn seed(&self) -> Seed {
        self.seed
    }
}

impl Seed {
    /// A secret of the hub for this request: `prefix` and 52 characters.
    #[must_use]
    pub fn secret(self, hub: &Hub, prefix: &str) -> String {
        format!("{prefix}{}", base32(&hmac(&hub.installation.keys.bearer, &[prefix.as_bytes(), &self.0])))
    }

    /// Sixteen bytes for ids.
    #[must_use]
    pub fn bytes(self, purpose: &str) -> [u8; 16] {
        let digest = framed(purpose, &[&self.0]);
        let mut out = [0; 16];
        out.copy_from_slice(&digest[..16]);
        out
    }

    /// A public id.
    #[must_use]
    pub fn id(self, prefix: &str) -> String {
        format!("{prefix}_{}", base32(&self.bytes(prefix)))
    }
}

impl Hub {
    /// Commits `write` for `request` and returns what `render` makes of the outcome, or what it made the first time.
    pub async fn once(&self, request: &Request, write: Write, render: Render) -> Result<Vec<u8>, Detail> {
        let Some(key) = request.key.clone() else {
            let outcome = self.commit_one(write).await?;
            return Ok(render(&outcome));
        };
        let once = Write::Once {
            scope: request.scope.clone(),
            key,
            digest: request.digest,
            inner: Box::new(write),
            render,
        };
        match self.commit_one(once).await? {
            Outcome::Once { body, .. } => Ok(body),
            _ => Ok(Vec::new()),
        }
    }

    /// The same for a request whose answer has no body.
    pub async fn once_silent(&self, request: &Request, write: Write) -> Result<(), Detail> {
        self.once(request, write, Arc::new(|_| Vec::new())).await.map(drop)
    }
}

//! Refusals as a caller sees them: one place that gives each its code, field, reason, page (`docs/errors`) and sentence.

use switchboard_core::limits::{POLL_CURSOR_CHARS_MAX, POLL_WAIT_MS_MAX, POLLS_PER_INSTANCE_MAX};
use switchboard_core::outbound::gate::Consent;
use switchboard_core::policy::Ruling;
use switchboard_core::port::store::StoreError;
use switchboard_core::rights::Right;
use switchboard_core::write::Refusal;
use switchboard_protocol::{Code, Detail, Invalid};

/// A value of a request is not what it must be.
#[must_use]
pub fn invalid(invalid: Invalid) -> Detail {
    Detail::new(Code::InvalidRequest, invalid.message).field(invalid.field).sb("SB0101")
}

/// A frame or body could not be read; the reader knows the fault, the page is ours.
#[must_use]
pub fn unreadable(detail: Detail) -> Detail {
    detail.sb("SB0101")
}

/// A value of a request is not what it must be.
#[must_use]
pub fn bad_field(field: &str, message: impl Into<String>) -> Detail {
    Detail::new(Code::InvalidRequest, message).field(field).sb("SB0101")
}

/// A frame speaks for an agent that no `hello` on this socket announced.
#[must_use]
pub fn not_announced(field: &str, agent: &str) -> Detail {
    let message =
        format!("No hello on this connection announced {agent:?} in this vault; send hello with it first.");
    Detail::new(Code::InvalidRequest, message).field(field).reason("not_announced").sb("SB0102")
}

/// The caller lacks a right.
#[must_use]
pub fn missing_right(right: Right) -> Detail {
    let message =
        format!("This instance has no {} right; its owner can grant it with a new token.", right.as_str());
    Detail::new(Code::ForbiddenRight, message).sb("SB0103")
}

/// No such thing, by the field that names it.
#[must_use]
pub fn not_found(field: &str, message: &str) -> Detail {
    Detail::new(Code::NotFound, message).field(field).sb("SB0115")
}

/// No valid credential.
#[must_use]
pub fn unauthorized() -> Detail {
    let message = "No valid bearer token; get one with `switchboard token create --label NAME`.";
    Detail::new(Code::Unauthorized, message).sb("SB0116")
}

/// The instance was revoked.
#[must_use]
pub fn revoked() -> Detail {
    Detail::new(Code::InstanceRevoked, "This instance was revoked; enroll again or use a new token.")
        .sb("SB0117")
}

/// The lease is past its grace.
#[must_use]
pub fn lease_expired() -> Detail {
    let message =
        "The lease is past its grace period; renew it (POST /v1/instances/{id}/lease/renew) or enroll again.";
    Detail::new(Code::LeaseExpired, message).sb("SB0118")
}

/// A vault is sealed, or is not, against what a message says.
#[must_use]
pub fn sealed_mismatch(vault_is_sealed: bool) -> Detail {
    if vault_is_sealed {
        let message = "This vault is sealed: content travels in `sealed` only.";
        Detail::new(Code::InvalidState, message).reason("sealed_plaintext").field("body").sb("SB0113")
    } else {
        let message = "This vault is not sealed: send `body` in the clear.";
        Detail::new(Code::InvalidState, message).reason("not_sealed").field("sealed").sb("SB0113")
    }
}

/// More channels are followed than the cursor of a long poll can carry.
#[must_use]
pub fn cursor_too_long(channels: usize, chars: usize) -> Detail {
    let message = format!(
        "A poll's cursor cannot carry the positions of {channels} channels; follow them on the socket (GET /v1/bus), or \
         read each on its own (GET /v1/bus/channels/{{channel}}/events, GET /v1/messages)."
    );
    let detail =
        Detail::new(Code::InvalidState, message).field("cursor").reason("limit_exceeded").sb("SB0128");
    detail.limit(POLL_CURSOR_CHARS_MAX as u64).used(chars as u64)
}

/// As many long polls of this instance wait as may.
#[must_use]
pub fn too_many_polls() -> Detail {
    let limit = POLLS_PER_INSTANCE_MAX as u64;
    let message =
        "This instance waits in as many long polls as it may; wait for one of them, or open a socket.";
    let detail = Detail::new(Code::RateLimited, message).field("polls").reason("limit_exceeded");
    detail.limit(limit).used(limit).retry_after_s(POLL_WAIT_MS_MAX / 1000).sb("SB0110")
}

/// The recipient may not be reached (contract `outbound`, section 2).
#[must_use]
pub fn no_consent(consent: Consent) -> Detail {
    let (reason, message) = match consent {
        Consent::Stopped => {
            ("stopped", "This person said STOP there and is not written to until they say START themselves.")
        }
        Consent::Suppressed => (
            "suppressed",
            "This address does not exist any more: mail to it came back. `switchboard pair allow` takes that back.",
        ),
        _ => (
            "not_paired",
            "Nobody has agreed to be reached there: pair the person (`switchboard pair start --channel CHANNEL`), or let an \
             operator allow the address (`switchboard pair allow --channel CHANNEL --to HANDLE`).",
        ),
    };
    Detail::new(Code::ForbiddenRight, message).field("to").reason(reason).sb("SB0131")
}

/// A rule of the policy forbids a call; what the rule looks for is not repeated.
#[must_use]
pub fn forbidden(ruling: &Ruling) -> Detail {
    let detail = Detail::new(Code::ForbiddenRight, ruling.to_string()).reason("policy").sb("SB0133");
    match ruling.param {
        Some(param) => detail.field(param),
        None => detail,
    }
}

/// A question or an approval is closed; `what` says how.
#[must_use]
pub fn closed(what: &str) -> Detail {
    let message = format!("Too late: {what}.");
    Detail::new(Code::InvalidState, message).reason("closed").sb("SB0134")
}

/// A message to a person is not where it would have to be for this; `detail` names the state as tasks do.
#[must_use]
pub fn not_in_state(detail: &Detail) -> Detail {
    let state =
        detail.message.trim_start_matches("The task is ").split(';').next().unwrap_or_default().to_owned();
    let message = format!(
        "This is {state}: only what is dead or unknown or waits for a later attempt can be tried again, only what has not ended can be \
         given up, and only an open or queued question can be taken back."
    );
    Detail::new(Code::InvalidState, message).reason("state").sb("SB0134")
}

/// A rate limit is used up; nothing was taken from any.
#[must_use]
pub fn limit_reached(rule: &str, retry_after_ms: i64) -> Detail {
    let wait_ms = retry_after_ms.max(1).unsigned_abs();
    let message =
        format!("The limit {rule} is used up; the next call is taken in {} s.", wait_ms.div_ceil(1000));
    let detail = Detail::new(Code::RateLimited, message).reason("limit_exceeded").field("calls");
    detail.retry_after_s(wait_ms.div_ceil(1000)).retry_after_ms(wait_ms).sb("SB0132")
}

/// What the transaction refused.
#[must_use]
pub fn of(refusal: &Refusal) -> Detail {
    let state = |reason: &str, message: &str, sb: &str| {
        Detail::new(Code::InvalidState, message).reason(reason).sb(sb)
    };
    match refusal {
        Refusal::IdReused => state("id_reused", "This id was used before for other content; use a fresh one.", "SB0104"),
        Refusal::ReplyNotFound => Detail::new(Code::NotFound, "No such message.").field("reply_to").sb("SB0105"),
        Refusal::RecipientUnknown => Detail::new(
            Code::NotFound,
            "No other instance announced this agent in the vault within 24 hours; see GET /v1/agents for who did.",
        )
        .field("to")
        .sb("SB0106"),
        Refusal::InstanceUnknown => {
            Detail::new(Code::NotFound, "No such instance in this organization.").field("to_instance").sb("SB0107")
        }
        Refusal::RecipientAmbiguous => {
            state("ambiguous_recipient", "Several instances run this agent; name one in to_instance.", "SB0108")
        }
        Refusal::DeadlinePast => bad_field("deadline", "The deadline must lie in the future.").sb("SB0109"),
        Refusal::RateLimited { limit, retry_after_s } => {
            Detail::new(Code::RateLimited, format!("This handle may send {limit} messages per hour."))
                .reason("limit_exceeded")
                .field("messages_per_hour")
                .limit(u64::from(*limit))
                .used(u64::from(*limit))
                .retry_after_s(*retry_after_s)
                .sb("SB0110")
        }
        Refusal::SwarmClosed => state("swarm_closed", "This swarm is closed; its history can still be read.", "SB0111"),
        Refusal::NoHandle => Detail::new(
            Code::ForbiddenRight,
            "Choose a handle in this swarm first: `switchboard swarm join ID --handle HANDLE`.",
        )
        .reason("no_handle")
        .sb("SB0112"),
        Refusal::HandleTaken => {
            state("handle_taken", "This handle is taken, or you have another one in this swarm.", "SB0112").field("handle")
        }
        Refusal::NameTaken => state("name_taken", "This name is taken; choose another one.", "SB0114").field("name"),
        Refusal::SealedMismatch => sealed_mismatch(true),
        Refusal::Full { what, limit } => state("limit_exceeded", "A limit of this hub is reached.", "SB0110")
            .field(*what)
            .limit(*limit)
            .used(*limit),
        Refusal::NotFound => Detail::new(Code::NotFound, "No such thing here.").sb("SB0115"),
        Refusal::NotYours => Detail::new(Code::ForbiddenRight, "Only the receiving agent may say this.")
            .reason("not_recipient")
            .sb("SB0123"),
        Refusal::NonceUsed => Detail::new(Code::Unauthorized, "This nonce was used before; sign a fresh assertion.")
            .field("nonce")
            .sb("SB0116"),
        Refusal::DevicePending | Refusal::DeviceTooFast | Refusal::DeviceExpired | Refusal::DeviceDenied => device(refusal),
        Refusal::TaskState { state: is } => {
            state("task_not_proposed", &format!("The task is {is}; only a proposed one can be decided."), "SB0125")
        }
        Refusal::NoConsent(consent) => no_consent(*consent),
        Refusal::LimitReached { rule, retry_after_ms } => limit_reached(rule, *retry_after_ms),
        // Nobody outside asks for what only one node does.
        Refusal::Leased | Refusal::Fenced => store(&StoreError::Overloaded),
        Refusal::HandoffClosed => state("handoff_closed", "This handoff is settled or past its deadline.", "SB0122"),
    }
}

// What a device that polls is told (RFC 8628).
fn device(refusal: &Refusal) -> Detail {
    match refusal {
        Refusal::DevicePending => Detail::new(
            Code::AuthorizationPending,
            "Waiting for approval: `switchboard device approve CODE`.",
        )
        .sb("SB0124"),
        Refusal::DeviceTooFast => {
            Detail::new(Code::SlowDown, "Polled too fast; add 5 s to the interval.").sb("SB0124")
        }
        Refusal::DeviceExpired => {
            Detail::new(Code::ExpiredToken, "The device code is over; start again.").sb("SB0124")
        }
        _ => Detail::new(Code::AccessDenied, "A person refused this device.").sb("SB0124"),
    }
}

/// The store could not do it.
#[must_use]
pub fn store(error: &StoreError) -> Detail {
    match error {
        StoreError::Full => {
            let message = "The disk of the hub is full: nothing was stored. It takes messages again once there is room.";
            Detail::new(Code::RateLimited, message).reason("storage_full").retry_after_s(30u64).sb("SB0119")
        }
        StoreError::Overloaded => {
            Detail::new(Code::RateLimited, "The hub is overloaded: nothing was stored.")
                .reason("overloaded")
                .retry_after_s(1u64)
                .sb("SB0120")
        }
        StoreError::Unknown(_) => Detail::new(
            Code::Unknown,
            "Whether this was stored is not known; send it again with the same id, a repeat is harmless.",
        )
        .reason("outcome_unknown")
        .sb("SB0121"),
        StoreError::Unreachable(_) => {
            let message = "The hub's database cannot be reached: nothing was stored. It goes on by itself once the database is back.";
            Detail::new(Code::RateLimited, message)
                .reason("store_unreachable")
                .retry_after_s(2u64)
                .sb("SB0129")
        }
        StoreError::Closed => Detail::new(Code::RateLimited, "The hub is shutting down: nothing was stored.")
            .reason("shutting_down")
            .retry_after_s(5u64)
            .sb("SB0120"),
        StoreError::Inconsistent(_) | StoreError::Backend(_) => {
            Detail::new(Code::Unknown, "The hub failed to do this; its log says why.")
                .reason("internal")
                .sb("SB0121")
        }
    }
}

/// Code and, behind a slash, field or reason: how the event log names a refusal.
#[must_use]
pub fn why(detail: &Detail) -> String {
    let code = serde_json::to_value(detail.code).ok().and_then(|code| code.as_str().map(str::to_owned));
    let code = code.unwrap_or_else(|| "unknown".into());
    match detail.reason.as_deref().or(detail.field.as_deref()) {
        Some(more) => format!("{code}/{more}"),
        None => code,
    }
}

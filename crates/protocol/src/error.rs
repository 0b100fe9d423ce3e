//! The one error shape of the wire: `{"error":{"code","message",…}}` over HTTP, the same object in an `error` frame.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use crate::json::JsonError;
use crate::text::Invalid;

/// Machine-readable kind of an error (contract section 1). Codes of newer servers read as [`Code::Unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Device flow: nobody has approved yet; ask again after the interval.
    AuthorizationPending,
    /// Device flow: asked too fast; add five seconds to the interval.
    SlowDown,
    /// Device flow: the device code expired; start again.
    ExpiredToken,
    /// Device flow: a person refused.
    AccessDenied,
    /// The request breaks a rule of the wire; `field` names where.
    InvalidRequest,
    /// The bearer is missing, expired, revoked or of another instance.
    Unauthorized,
    /// The organization's plan does not include this.
    PlanRequired,
    /// The caller lacks the right; `reason` may say why (`vetoed`, `held`, `no_handle`).
    ForbiddenRight,
    /// The organization switched this kind of upload off; `kind` names it.
    UploadDisabled,
    /// No such thing, or none the caller may know of.
    NotFound,
    /// Every instance seat is taken; `limit` and `used` count them.
    InstanceLimit,
    /// The object moved on; `expected` and `actual` revisions.
    RevisionConflict,
    /// The object is in no state that allows this; `reason` says which (`id_reused`, `ambiguous_recipient`, `stale_claim`).
    InvalidState,
    /// The lease is past its grace; renew or reconnect.
    LeaseExpired,
    /// Content that screening should have removed before sending.
    ScreeningRequired,
    /// Too many requests; `retry_after_s` says when to come back.
    RateLimited,
    /// The peer's protocol version is not served; `min_engine` names the lowest that is.
    UpgradeRequired,
    /// An administrator revoked this instance; never retried.
    InstanceRevoked,
    /// A quota is used up; `resource`, `limit`, `used`, `reset_at`.
    QuotaExceeded,
    /// A policy refused; `member` and `level` name the rule.
    PolicyDenied,
    /// A code this version does not know; go by the HTTP status.
    #[serde(other)]
    Unknown,
}

impl Code {
    /// HTTP status of an answer with this code. [`Detail::http_status`] knows the one exception.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::AuthorizationPending
            | Self::SlowDown
            | Self::ExpiredToken
            | Self::AccessDenied
            | Self::InvalidRequest => 400,
            Self::Unauthorized | Self::LeaseExpired | Self::InstanceRevoked => 401,
            Self::PlanRequired => 402,
            Self::ForbiddenRight | Self::UploadDisabled | Self::PolicyDenied => 403,
            Self::NotFound => 404,
            Self::InstanceLimit | Self::RevisionConflict | Self::InvalidState => 409,
            Self::ScreeningRequired => 422,
            Self::UpgradeRequired => 426,
            Self::RateLimited | Self::QuotaExceeded => 429,
            Self::Unknown => 500,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// An upload an organization can switch off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UploadKind {
    /// Usage metrics.
    Metrics,
    /// Receipts.
    Receipts,
    /// A kind this version does not know.
    #[serde(other)]
    Unknown,
}

/// The fields of an error; all but the first two are optional and left out when absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fields {
    /// The kind of error.
    pub code: Code,
    /// One sentence for a person: what is wrong and what to do. Never a secret, never another tenant's data.
    pub message: String,
    /// Our own code with a documentation page, `SB0042` (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sb: Option<String>,
    /// Seconds until a retry may succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// The same in milliseconds, where it is known that precisely (extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The bound that was hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much of the bound is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// The quota that is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// When the quota frees, RFC 3339; absent when nothing frees by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<String>,
    /// Days a freed slot stays blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_days: Option<u32>,
    /// Dotted path of the policy member that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Outermost policy level that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The action that needs consent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Revision the client expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// Current revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<u64>,
    /// Lowest engine version accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_engine: Option<String>,
    /// The upload that is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<UploadKind>,
    /// Machine-readable detail of the code: `[a-z_]`, at most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The request field the error is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The task or proposal the error is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The check that failed: `presence` or `role`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The role a task asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The role the agent is present in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_role: Option<String>,
    /// The feature the plan lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// The lowest plan that has the feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_needed: Option<String>,
}

/// An error as it crosses the wire. One pointer wide, so that it is cheap in a `Result`; its [`Fields`] are reached directly
/// (`detail.code`) and set by chaining (`Detail::new(Code::NotFound, "…").field("to")`).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Detail(Box<Fields>);

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $kind:ty),* $(,)?) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: impl Into<$kind>) -> Self {
            self.0.$name = Some($name.into());
            self
        }
    )*};
}

impl Detail {
    /// An error with code and message only.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Fields {
            code,
            message: message.into(),
            sb: None,
            retry_after_s: None,
            retry_after_ms: None,
            limit: None,
            used: None,
            resource: None,
            reset_at: None,
            cooldown_days: None,
            member: None,
            level: None,
            action: None,
            expected: None,
            actual: None,
            min_engine: None,
            kind: None,
            reason: None,
            field: None,
            number: None,
            check: None,
            role: None,
            agent_role: None,
            feature: None,
            plan_needed: None,
        }))
    }

    /// The same with another sentence.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    setters! {
        /// Set our own code, `SB0042`.
        sb: String,
        /// Set the seconds until a retry may succeed.
        retry_after_s: u64,
        /// Set the milliseconds until a retry may succeed.
        retry_after_ms: u64,
        /// Set the bound that was hit.
        limit: u64,
        /// Set how much of the bound is used.
        used: u64,
        /// Set the used-up quota.
        resource: String,
        /// Set when the quota frees.
        reset_at: String,
        /// Set the policy member that refused.
        member: String,
        /// Set the policy level that refused.
        level: String,
        /// Set the action that needs consent.
        action: String,
        /// Set the revision the client expected.
        expected: u64,
        /// Set the current revision.
        actual: u64,
        /// Set the lowest engine version accepted.
        min_engine: String,
        /// Set the upload that is switched off.
        kind: UploadKind,
        /// Set the machine-readable detail.
        reason: String,
        /// Set the request field the error is about.
        field: String,
        /// Set the task or proposal number.
        number: u64,
        /// Set the check that failed.
        check: String,
        /// Set the role a task asks for.
        role: String,
        /// Set the role the agent is present in.
        agent_role: String,
    }

    /// HTTP status of the answer: by code, except that a used-up count (not a monthly volume) is a conflict.
    pub fn http_status(&self) -> u16 {
        let counted = matches!(self.0.resource.as_deref(), Some("registered_engines" | "private_vaults"));
        if self.0.code == Code::QuotaExceeded && counted { 409 } else { self.0.code.http_status() }
    }
}

impl Deref for Detail {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.0
    }
}

impl DerefMut for Detail {
    fn deref_mut(&mut self) -> &mut Fields {
        &mut self.0
    }
}

impl fmt::Debug for Detail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fields { code, message, field, reason, sb, .. } = &*self.0;
        write!(formatter, "Detail({code}: {message:?}")?;
        for (name, value) in [("field", field), ("reason", reason), ("sb", sb)] {
            if let Some(value) = value {
                write!(formatter, ", {name}: {value:?}")?;
            }
        }
        formatter.write_str(")")
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}", self.0.message, self.0.code)?;
        for (name, value) in [("field", &self.0.field), ("reason", &self.0.reason)] {
            if let Some(value) = value {
                write!(formatter, ", {name} {value}")?;
            }
        }
        formatter.write_str(")")
    }
}

impl std::error::Error for Detail {}

impl From<Invalid> for Detail {
    fn from(invalid: Invalid) -> Self {
        Self::new(Code::InvalidRequest, invalid.message).field(invalid.field)
    }
}

impl From<JsonError> for Detail {
    fn from(error: JsonError) -> Self {
        Self::new(Code::InvalidRequest, error.to_string())
    }
}

/// Body of every HTTP answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// The error.
    pub error: Detail,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_are_left_out() {
        let detail = Detail::new(Code::NotFound, "No such agent.").field("to").sb("SB0101");
        let json = serde_json::to_string(&Body { error: detail }).unwrap();
        assert_eq!(
            json,
            r#"{"error":{"code":"not_found","message":"No such agent.","sb":"SB0101","field":"to"}}"#
        );
    }

    #[test]
    fn newer_codes_kinds_and_fields_are_tolerated() {
        let text =
            r#"{"error":{"code":"brand_new","message":"x","kind":"traces","limit":53687091200,"extra":[1]}}"#;
        let body: Body = serde_json::from_str(text).unwrap();
        assert_eq!((body.error.code, body.error.kind), (Code::Unknown, Some(UploadKind::Unknown)));
        assert_eq!(body.error.limit, Some(53_687_091_200));
    }

    #[test]
    fn every_code_has_its_status() {
        for (code, status) in [
            (Code::AuthorizationPending, 400),
            (Code::InvalidRequest, 400),
            (Code::InstanceRevoked, 401),
            (Code::PlanRequired, 402),
            (Code::PolicyDenied, 403),
            (Code::NotFound, 404),
            (Code::InvalidState, 409),
            (Code::ScreeningRequired, 422),
            (Code::UpgradeRequired, 426),
            (Code::QuotaExceeded, 429),
            (Code::Unknown, 500),
        ] {
            assert_eq!(Detail::new(code, "x").http_status(), status, "{code}");
        }
        let counted = Detail::new(Code::QuotaExceeded, "x").resource("private_vaults");
        assert_eq!(counted.http_status(), 409);
    }

    #[test]
    fn an_invalid_value_becomes_an_invalid_request() {
        let detail = Detail::from(Invalid::new("to", "to must be an id"));
        assert_eq!((detail.code, detail.field.as_deref()), (Code::InvalidRequest, Some("to")));
        assert_eq!(detail.to_string(), "to must be an id (invalid_request, field to)");
        assert_eq!(std::mem::size_of::<Detail>(), std::mem::size_of::<usize>());
    }
}

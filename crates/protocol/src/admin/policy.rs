//! Rules for tools that reach people, and what they say of a call.

use crate::time::UtcTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How the rules are doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Digest of the files in force.
    pub version: String,
    /// How many rules.
    pub rules: u64,
    /// Since when they are in force.
    pub loaded_at: UtcTime,
    /// Why the files that are there now are not in force: one fault a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRule {
    /// `<file>#<kind>:<name or index>`.
    pub rule: String,
    /// Its kind, as the file's table is called.
    pub kind: String,
    /// What it says.
    pub sentence: String,
}

/// `GET /admin/v1/policy`, and the answer to `POST /admin/v1/policy/reload`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// How they are doing.
    pub status: PolicyStatus,
    /// The directory they come from, on the hub's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// The rules in the order in which they are looked at.
    pub rules: Vec<PolicyRule>,
}

/// `POST /admin/v1/policy/explain`: a call that is not made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyExplainIn {
    /// The tool. Absent: `messaging.send`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Who would call it. Absent: `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The parameters, as they would be sent.
    pub params: Map<String, Value>,
}

/// Answer to [`PolicyExplainIn`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyExplained {
    /// `allow`, `hold` or `deny`.
    pub verdict: String,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What the caller would be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// The limits that it would count for.
    pub limits: Vec<PolicyLimit>,
    /// The rule that says whom the question goes to when nobody answers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<String>,
    /// What each rule says, in the order in which they are looked at.
    pub trace: Vec<PolicyStep>,
    /// Digest of the files that decided.
    pub version: String,
}

/// A limit that a call counts for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLimit {
    /// The rule.
    pub rule: String,
    /// Calls within the interval.
    pub max_calls: u32,
    /// The interval.
    pub interval_ms: u64,
    /// `agent`, `recipient`, `channel` or `organization`.
    pub per: String,
    /// What calls are counted together with this one.
    pub subject: Vec<String>,
}

/// What one rule says of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStep {
    /// The rule.
    pub rule: String,
    /// `other_tool`, `passed`, `counted`, `held`, `denied` or `escalated`.
    pub outcome: String,
    /// The parameter because of which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// What the rule says.
    pub sentence: String,
}

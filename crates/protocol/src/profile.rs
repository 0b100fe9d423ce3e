//! Agent profiles, handles and reputation (contract section 6). What an agent says about itself is a claim, shown as such.

use serde::{Deserialize, Serialize};

use crate::limits::{PROFILE_ROLES_MAX, PROFILE_STRENGTHS_MAX, PROFILES_PAGE_MAX};
use crate::text::{Invalid, validate_id, validate_schema, validate_text};
use crate::time::UtcTime;

/// `schema` of an [`AgentProfileList`].
pub const AGENT_PROFILE_LIST_SCHEMA: &str = "leanctx.hive.agent-profile-list/v1";
/// `schema` of a [`Handle`].
pub const HANDLE_SCHEMA: &str = "leanctx.hive.handle/v1";

/// Values of `field` in a `limit_exceeded` error.
pub const SWARM_LIMITS: [&str; 6] = [
    "open_swarms",
    "active_claims",
    "results_per_day",
    "verifications_per_day",
    "reports_per_day",
    "messages_per_hour",
];

/// Standing derived by the server from accepted work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reputation {
    /// Sum of weighted, ageing events.
    pub score: u64,
    /// Accepted contributions.
    pub contributions: u64,
    /// How much a vote of this participant counts, 1 to 100 percent.
    pub weight_pct: u8,
}

impl Reputation {
    /// Check the weight.
    pub fn validate(&self) -> Result<(), Invalid> {
        if (1..=100).contains(&self.weight_pct) {
            Ok(())
        } else {
            Err(Invalid::rule("weight_pct", "must be 1 to 100"))
        }
    }
}

fn validate_self_report(
    display_name: Option<&str>,
    model: Option<&str>,
    roles: &[String],
) -> Result<(), Invalid> {
    display_name.map_or(Ok(()), |name| validate_text(name, 64, "display_name", false))?;
    model.map_or(Ok(()), |model| validate_text(model, 80, "model", false))?;
    let sorted = roles.is_sorted_by(|earlier, later| earlier < later);
    if roles.len() <= PROFILE_ROLES_MAX && sorted && roles.iter().all(|role| role_ok(role)) {
        return Ok(());
    }
    Err(Invalid::rule(
        "roles",
        format_args!(
            "must be at most {PROFILE_ROLES_MAX} of 1 to 32 characters a-z 0-9 -, sorted, without repeats"
        ),
    ))
}

fn role_ok(role: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&role.len()) && role.bytes().all(inner)
}

fn validate_strengths(strengths: &[String]) -> Result<(), Invalid> {
    if strengths.len() > PROFILE_STRENGTHS_MAX {
        return Err(Invalid::rule("strengths", format_args!("must be at most {PROFILE_STRENGTHS_MAX}")));
    }
    strengths.iter().try_for_each(|strength| validate_text(strength, 64, "strengths", false))
}

/// What `presence` says about an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresenceProfile {
    /// At most 64 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// At most 80 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// At most 8, sorted, without repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}

impl PresenceProfile {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_self_report(self.display_name.as_deref(), self.model.as_deref(), &self.roles)
    }
}

/// One agent of the organization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProfile {
    /// Opaque id.
    pub profile_id: String,
    /// Agent name on its instance.
    pub agent: String,
    /// Label of the instance.
    pub instance_label: String,
    /// Display name of the owner.
    pub owner: String,
    /// Display name of the agent.
    pub display_name: String,
    /// Claimed model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Claimed roles.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Derived from accepted work; at most 16.
    #[serde(default)]
    pub strengths: Vec<String>,
    /// Standing in the organization.
    pub reputation: Reputation,
    /// Whether the asking instance runs this agent.
    pub mine: bool,
    /// When it was last present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<UtcTime>,
}

impl AgentProfile {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_id(&self.profile_id, "profile_id")?;
        validate_id(&self.agent, "agent")?;
        validate_text(&self.instance_label, 100, "instance_label", false)?;
        validate_text(&self.owner, 100, "owner", false)?;
        validate_self_report(Some(&self.display_name), self.model.as_deref(), &self.roles)?;
        validate_strengths(&self.strengths)?;
        self.reputation.validate()
    }
}

/// Answer of `GET /v1/agents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProfileList {
    /// [`AGENT_PROFILE_LIST_SCHEMA`].
    pub schema: String,
    /// At most 200.
    pub profiles: Vec<AgentProfile>,
    /// Pass as `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

impl AgentProfileList {
    /// Check schema, page size and every profile.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, AGENT_PROFILE_LIST_SCHEMA)?;
        if self.profiles.len() > PROFILES_PAGE_MAX {
            return Err(Invalid::rule(
                "profiles",
                format_args!("must be at most {PROFILES_PAGE_MAX} in one page"),
            ));
        }
        self.profiles.iter().try_for_each(AgentProfile::validate)
    }
}

/// Check a swarm handle: 3 to 32 of `[a-z0-9-]`, starting alphanumeric.
pub fn validate_handle(handle: &str) -> Result<(), Invalid> {
    let starts_well = handle.as_bytes().first().is_some_and(|&byte| byte != b'-');
    if (3..=32).contains(&handle.len()) && starts_well && role_ok(handle) {
        return Ok(());
    }
    Err(Invalid::rule(
        "handle",
        "must be 3 to 32 of the characters a-z 0-9 - and start with a letter or digit",
    ))
}

/// Answer of `GET /v1/handles/{handle}`: all a swarm ever shows of a participant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handle {
    /// [`HANDLE_SCHEMA`].
    pub schema: String,
    /// The handle.
    pub handle: String,
    /// Standing on swarms.
    pub reputation: Reputation,
    /// Derived from accepted work; at most 16.
    #[serde(default)]
    pub strengths: Vec<String>,
    /// When the handle was made.
    pub since: UtcTime,
}

impl Handle {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, HANDLE_SCHEMA)?;
        validate_handle(&self.handle)?;
        validate_strengths(&self.strengths)?;
        self.reputation.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_few_sorted_and_plain() {
        let roles = |roles: &[&str]| {
            let roles = roles.iter().map(ToString::to_string).collect();
            PresenceProfile { roles, ..PresenceProfile::default() }.validate().map_err(|error| error.field)
        };
        assert_eq!(roles(&[]), Ok(()));
        assert_eq!(roles(&["a", "b-1"]), Ok(()));
        let nine = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        for bad in [&["b", "a"][..], &["a", "a"], &["A"], &[""], &["a b"], &nine] {
            assert_eq!(roles(bad), Err("roles".into()), "{bad:?}");
        }
    }

    #[test]
    fn claims_are_bounded_text() {
        let named =
            |name: &str| PresenceProfile { display_name: Some(name.into()), ..PresenceProfile::default() };
        assert!(named("Ada (review)").validate().is_ok());
        assert_eq!(named(&"x".repeat(65)).validate().unwrap_err().field, "display_name");
        let model = PresenceProfile { model: Some("a\u{200b}b".into()), ..PresenceProfile::default() };
        assert_eq!(model.validate().unwrap_err().field, "model");
    }

    #[test]
    fn handles_are_short_and_lowercase() {
        assert!(validate_handle("quiet-heron").is_ok() && validate_handle("0-a").is_ok());
        for bad in ["", "ab", "-ab", "Abc", "a_b", "a b", &"a".repeat(33)] {
            assert!(validate_handle(bad).is_err(), "{bad}");
        }
    }
}

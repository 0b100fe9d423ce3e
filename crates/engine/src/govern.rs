//! The decision: may this caller do this? Pure, so that it can be explained and tested as a table.

use switchboard_core::principal::Principal;
use switchboard_core::rights::Right;
use switchboard_protocol::limits::ID_BYTES_MAX;

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Use the bus: connect, follow, read, send, publish, receipt.
    UseBus,
    /// Read tasks.
    ReadTasks,
    /// Decide on proposals, manage credentials, vaults and swarms, read the log, see every message.
    Administer,
}

/// The outcome, with the rule that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not: it lacks this right.
    Deny(Right),
}

/// Decides. Every door asks here, for every route and every frame.
#[must_use]
pub fn decide(who: &Principal, act: Act) -> Decision {
    let needed = match act {
        Act::UseBus => Right::BusRelay,
        Act::ReadTasks => Right::TasksRead,
        Act::Administer => Right::Admin,
    };
    if who.may(needed) { Decision::Allow } else { Decision::Deny(needed) }
}

/// The agent name of a caller that gives none: its label, in the letters that names have.
#[must_use]
pub fn agent_name(label: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
    let name: String = label.chars().map(|c| if kept(c) { c } else { '-' }).take(ID_BYTES_MAX).collect();
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() { "agent".into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_core::ids::{InstanceNo, PersonNo};
    use switchboard_core::principal::InstanceKind;
    use switchboard_core::rights::Rights;

    #[test]
    fn each_act_needs_its_right() {
        let who = |rights| Principal {
            instance: InstanceNo(1),
            instance_id: "inst_1".into(),
            label: "ci".into(),
            kind: InstanceKind::Token,
            owner: PersonNo(1),
            owner_name: "Ada".into(),
            rights,
            expires_at: None,
        };
        let table = [
            (Rights::AGENT, Act::UseBus, Decision::Allow),
            (Rights::AGENT, Act::ReadTasks, Decision::Allow),
            (Rights::AGENT, Act::Administer, Decision::Deny(Right::Admin)),
            (Rights::of(&[Right::TasksRead]), Act::UseBus, Decision::Deny(Right::BusRelay)),
            (Rights::of(&[Right::BusRelay]), Act::ReadTasks, Decision::Deny(Right::TasksRead)),
            (Rights::OWNER, Act::Administer, Decision::Allow),
        ];
        for (rights, act, decision) in table {
            assert_eq!(decide(&who(rights), act), decision, "{rights} {act:?}");
        }
    }

    #[test]
    fn labels_become_names() {
        for (label, name) in [
            ("ci", "ci"),
            ("Ada's laptop (2)", "Ada-s-laptop--2"),
            ("--x", "x"),
            ("日本", "agent"),
            ("", "agent"),
        ] {
            assert_eq!(agent_name(label), name);
            assert!(switchboard_protocol::text::validate_id(&agent_name(label), "as_agent").is_ok());
        }
        assert_eq!(agent_name(&"a".repeat(500)).len(), ID_BYTES_MAX);
    }
}

//! Who sees which event. One rule for every door (contract sections 3 and 4).

use crate::presence::Room;
use std::collections::HashSet;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{InstanceNo, VaultId};
use switchboard_core::port::store::StreamOwner;
use switchboard_core::principal::Principal;
use switchboard_core::rights::Right;

/// The agents a connection speaks for.
pub type Agents = HashSet<(VaultId, String)>;

/// Through whose eyes events are looked at.
#[derive(Debug, Clone)]
pub struct Viewer {
    instance: InstanceNo,
    sees_all: bool,
    /// Agents announced on this connection; `None` looks with the eyes of the whole instance and echoes what it sent
    /// (history, catch-up).
    pub agents: Option<Agents>,
}

impl Viewer {
    /// A connection that has announced nobody yet.
    #[must_use]
    pub fn connection(who: &Principal) -> Self {
        Self { agents: Some(Agents::new()), ..Self::instance(who) }
    }

    /// The whole instance.
    #[must_use]
    pub fn instance(who: &Principal) -> Self {
        Self { instance: who.instance, sees_all: who.may(Right::Admin), agents: None }
    }

    /// Whether it may read the event at all: it is for everybody, for its instance, from its instance, or it sees all.
    #[must_use]
    pub fn may_read(&self, event: &StoredEvent) -> bool {
        let addressee = event.to.as_ref();
        self.sees_all
            || addressee.is_none_or(|to| to.instance == self.instance || event.from_instance == self.instance)
    }

    /// Whether the event is delivered here. Nobody gets an echo of what its own agent sent; a direct message goes to the
    /// connection that speaks for the addressee, or to any of its instance while none does.
    #[must_use]
    pub fn receives(&self, event: &StoredEvent, owner: &StreamOwner, presence: &Room) -> bool {
        if !self.may_read(event) {
            return false;
        }
        let Some(agents) = &self.agents else { return true };
        let StreamOwner::Channel { vault, .. } = owner else {
            // In a swarm the sender is an instance's owner, not one of its agents.
            return event.from_instance != self.instance
                || !agents.iter().any(|(_, name)| *name == event.from_agent);
        };
        let speaks_for = |agent: &str| agents.iter().any(|(at, name)| at == vault && name == agent);
        match &event.to {
            Some(to) if to.instance == self.instance => {
                speaks_for(&to.agent) || !presence.is_held(to.instance, *vault, &to.agent)
            }
            Some(_) => self.sees_all,
            None => event.from_instance != self.instance || !speaks_for(&event.from_agent),
        }
    }

    /// Whether the event was sent by the viewer's own instance.
    #[must_use]
    pub fn is_mine(&self, event: &StoredEvent) -> bool {
        event.from_instance == self.instance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use switchboard_core::event::{Addressee, EventKind};
    use switchboard_core::ids::{EventId, PersonNo, StreamId};
    use switchboard_core::principal::InstanceKind;
    use switchboard_core::rights::Rights;

    const VAULT: VaultId = VaultId([1; 16]);

    fn viewer(instance: u32, agent: &str, rights: Rights) -> Viewer {
        let mut viewer = Viewer::connection(&Principal {
            instance: InstanceNo(instance),
            instance_id: String::new(),
            label: String::new(),
            kind: InstanceKind::Token,
            owner: PersonNo(1),
            owner_name: String::new(),
            rights,
            expires_at: None,
        });
        viewer.agents = Some(Agents::from([(VAULT, agent.to_owned())]));
        viewer
    }

    fn event(from: (u32, &str), to: Option<(u32, &str)>) -> StoredEvent {
        let id = EventId { stream: StreamId(1), seq: 1 };
        StoredEvent {
            id,
            kind: EventKind::Finding,
            at_ms: 0,
            expires_at_ms: 0,
            thread: id,
            reply_to: None,
            from_instance: InstanceNo(from.0),
            from_agent: from.1.into(),
            to: to.map(|(instance, agent)| Addressee { instance: InstanceNo(instance), agent: agent.into() }),
            data: Bytes::new(),
        }
    }

    #[test]
    fn who_receives_what() {
        let owner = StreamOwner::Channel { vault: VAULT, name: "general".into() };
        let room = Room::default();
        room.hold(InstanceNo(2), VAULT, "b");
        let agent = Rights::AGENT;
        let table = [
            (viewer(1, "a", agent), event((1, "a"), None), false, "no echo"),
            (viewer(1, "c", agent), event((1, "a"), None), true, "another agent of the same instance"),
            (viewer(2, "b", agent), event((1, "a"), None), true, "others"),
            (viewer(2, "b", agent), event((1, "a"), Some((2, "b"))), true, "the addressee"),
            (viewer(3, "b", agent), event((1, "a"), Some((2, "b"))), false, "the same name elsewhere"),
            (viewer(2, "d", agent), event((1, "a"), Some((2, "b"))), false, "held by another connection"),
            (
                viewer(2, "d", agent),
                event((1, "a"), Some((2, "e"))),
                true,
                "nobody speaks for e: its instance gets it",
            ),
            (viewer(9, "o", Rights::OWNER), event((1, "a"), Some((2, "b"))), true, "the owner sees all"),
        ];
        for (viewer, event, expected, why) in table {
            assert_eq!(viewer.receives(&event, &owner, &room), expected, "{why}");
        }
    }
}

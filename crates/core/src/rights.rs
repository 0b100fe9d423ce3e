//! Rights: what an instance may do (contract section 2). A lease carries them, every route and frame checks them.

use std::fmt;

macro_rules! rights {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// One right.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Right { $(#[doc = $doc] $name),* }

        impl Right {
            /// Every right, in the order of their bits.
            pub const ALL: &'static [Right] = &[$(Right::$name),*];

            /// The name on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

rights! {
    BusRelay = "bus.relay", "Use the bus: socket, poll, history, messages.";
    BusControl = "bus.control", "Hold, veto, stop and resume agents.";
    TasksRead = "tasks.read", "Read the tasks of a vault.";
    TasksWork = "tasks.work", "Claim tasks, report and submit results.";
    TasksPropose = "tasks.propose", "Propose tasks.";
    Sealed = "sealed", "Take part in sealed vaults.";
    KnowledgeRead = "knowledge.read", "Carried in leases for engines; this hub serves no knowledge.";
    PolicyPull = "policy.pull", "Carried in leases for engines; this hub serves no policy bundle.";
    Admin = "admin", "Manage the hub and read every network of the organization; never part of a lease.";
}

impl Right {
    /// The right of this name, if it is one.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|right| right.as_str() == name)
    }
}

/// A set of rights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rights(u32);

impl Rights {
    /// What `switchboard token create` grants unless told otherwise (DESIGN section 4).
    pub const AGENT: Rights =
        Rights::of(&[Right::BusRelay, Right::TasksRead, Right::TasksWork, Right::TasksPropose]);
    /// What an enrolled engine is granted.
    pub const ENGINE: Rights = Rights::of(&[
        Right::BusRelay,
        Right::TasksRead,
        Right::TasksWork,
        Right::TasksPropose,
        Right::Sealed,
        Right::KnowledgeRead,
        Right::PolicyPull,
    ]);
    /// Everything, for the owner.
    pub const OWNER: Rights = Rights::of(Right::ALL);

    /// The set of `rights`.
    #[must_use]
    pub const fn of(rights: &[Right]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < rights.len() {
            bits |= 1 << rights[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// Whether `right` is among them.
    #[must_use]
    pub fn has(self, right: Right) -> bool {
        self.0 & (1 << right as u32) != 0
    }

    /// The rights in order.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.iter().copied().filter(move |right| self.has(*right))
    }

    /// Parses a comma-separated list; the first unknown name is the error.
    pub fn parse(list: &str) -> Result<Self, String> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let rights: Result<Vec<_>, _> =
            names.map(|name| Right::parse(name).ok_or_else(|| name.to_owned())).collect();
        rights.map(|rights| Self::of(&rights))
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Right::as_str).collect();
        out.write_str(&names.join(","))
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Rights({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_round_trip_and_name_what_is_unknown() {
        assert_eq!(Rights::parse(&Rights::AGENT.to_string()), Ok(Rights::AGENT));
        assert_eq!(Rights::parse("bus.relay, bus.fly"), Err("bus.fly".into()));
        assert!(!Rights::AGENT.has(Right::Admin) && Rights::OWNER.has(Right::Admin));
    }
}

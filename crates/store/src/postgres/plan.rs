//! What a commit will touch, read off its writes before it begins: which rows to lock, in the one order that all nodes keep
//! (directory, streams by number, handles by name, the head), and what to read in the same round trip.
//!
//! What is read ahead saves round trips and decides nothing: whatever the rules ask for beyond it is asked of the database.

use crate::sqlite::state::State;
use std::collections::BTreeSet;
use switchboard_core::ids::{EventId, InstanceNo, VaultId};
use switchboard_core::time::WallMs;
use switchboard_core::write::{Append, Batch, Recipient, StreamRef, Write};

/// See the module.
#[derive(Debug, Default, Clone)]
pub(crate) struct Plan {
    /// Whether the directory's row is locked.
    pub(crate) directory: bool,
    /// Whether nodes must read the directory again.
    pub(crate) changes_directory: bool,
    /// Streams whose counters are locked.
    pub(crate) streams: BTreeSet<u32>,
    /// Streams whose position is only looked at.
    pub(crate) peek: BTreeSet<u32>,
    /// Handles whose rows are locked.
    pub(crate) handles: BTreeSet<String>,
    /// Ids of clients to look up.
    pub(crate) ids: Vec<(InstanceNo, String)>,
    /// Events to look up, by row.
    pub(crate) events: BTreeSet<i64>,
    /// Receipts to look up.
    pub(crate) receipts: Vec<(i64, InstanceNo, String)>,
    /// Names to look up.
    pub(crate) names: BTreeSet<(VaultId, String)>,
    /// Questions due at this time are expired.
    pub(crate) expire_ms: Option<WallMs>,
    /// Retention runs, and looks at what is over by then.
    pub(crate) sweep_ms: Option<WallMs>,
    /// Tasks that are decided.
    pub(crate) tasks: Vec<(VaultId, u64)>,
}

impl Plan {
    pub(crate) fn of(batches: &[&Batch], state: &State) -> Self {
        let mut plan = Self::default();
        for batch in batches {
            batch.writes.iter().for_each(|write| plan.write(write, batch.at_ms, state));
        }
        plan
    }

    /// Everything that is more than appending and receiving.
    pub(crate) fn of_directory() -> Self {
        Self { directory: true, changes_directory: true, ..Self::default() }
    }

    fn write(&mut self, write: &Write, at_ms: WallMs, state: &State) {
        match write {
            Write::Append(append) => self.append(append, state),
            Write::Receipt(receipt) => {
                self.streams.insert(receipt.event.stream.0);
                self.events.insert(receipt.event.row());
                self.receipts.push((receipt.event.row(), receipt.instance, receipt.agent.clone()));
            }
            Write::AdvanceInbox { positions, .. } => {
                self.peek.extend(positions.iter().map(|(stream, _)| stream.0));
            }
            Write::Once { inner, .. } => self.write(inner, at_ms, state),
            // A lease changes hands under the directory's lock.
            Write::Fenced { inner, .. } => {
                self.directory = true;
                self.write(inner, at_ms, state);
            }
            Write::NoticesSent { .. } | Write::Log(_) | Write::Probe => {}
            Write::Sweep { .. } => {
                self.directory = true;
                self.sweep_ms = self.sweep_ms.max(Some(at_ms));
            }
            Write::ExpireQuestions { .. } => {
                self.directory = true;
                self.expire_ms = self.expire_ms.max(Some(at_ms));
            }
            Write::DecideTask { vault, number, .. } => {
                self.directory = true;
                self.tasks.push((*vault, *number));
            }
            Write::CreateInstance(_)
            | Write::RevokeInstance { .. }
            | Write::DeviceRedeem { .. }
            | Write::CreateVault { .. }
            | Write::ResolveVault { .. }
            | Write::CreateSwarm { .. }
            | Write::JoinSwarm { .. }
            | Write::CloseSwarm { .. } => (self.directory, self.changes_directory) = (true, true),
            _ => self.directory = true,
        }
    }

    fn append(&mut self, append: &Append, state: &State) {
        let stream = match &append.stream {
            StreamRef::Channel { vault, name } => {
                let known = state.vaults.get(vault);
                let stream = known.and_then(|vault| vault.channels.get(name.as_str()).copied());
                if stream.is_none() && known.is_some() {
                    // It is about to be made.
                    (self.directory, self.changes_directory) = (true, true);
                }
                if let Recipient::Agent { agent, instance: None } = &append.recipient {
                    self.names.insert((*vault, agent.clone()));
                }
                stream
            }
            StreamRef::Swarm { swarm } => {
                self.handles.extend(append.handle.iter().map(|(handle, _)| handle.clone()));
                state.swarms.get(swarm.as_str()).map(|swarm| swarm.stream)
            }
        };
        self.streams.extend(stream.map(|stream| stream.0));
        self.ids.extend(append.dedup.iter().map(|dedup| (append.from_instance, dedup.client_id.clone())));
        self.events.extend(append.reply_to.filter(|id| Some(id.stream) == stream).map(EventId::row));
    }
}

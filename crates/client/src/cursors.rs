//! How far a client has read, and what the server says about that.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use switchboard_protocol::frame::server::Cursor;

use crate::event::{Event, Resync, ResyncReason};

/// Positions to resume from: the last `seq` taken per channel (or `swarm:<id>`), and the log they belong to.
///
/// Serializable, so that a program can keep them over a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursors {
    /// The log the positions belong to, when the server named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// Last position per channel or swarm.
    #[serde(default)]
    pub positions: BTreeMap<String, u64>,
}

impl Cursors {
    fn enter(&mut self, epoch: &str) {
        if self.epoch.as_deref() != Some(epoch) {
            if self.epoch.is_some() {
                self.positions.clear();
            }
            self.epoch = Some(epoch.to_owned());
        }
    }

    fn set(&mut self, key: &str, seq: u64) {
        match self.positions.get_mut(key) {
            Some(at) => *at = seq,
            None => drop(self.positions.insert(key.to_owned(), seq)),
        }
    }

    /// Move to where the caller is after taking `event`.
    pub(crate) fn taken(&mut self, event: &Event) {
        match event {
            Event::Resync(Resync { reason: ResyncReason::OtherEpoch { epoch }, .. }) => self.enter(epoch),
            Event::Resync(Resync { reason: ResyncReason::TooManyCursors { channels }, .. }) => {
                self.positions.retain(|channel, _| !channels.contains(channel));
            }
            Event::Cursor(cursor) => {
                self.enter(&cursor.epoch);
                self.set(&cursor.channel, cursor.seq);
            }
            _ => {
                if let Some((key, seq)) = event.position() {
                    self.set(&key, seq);
                }
            }
        }
    }
}

/// Positions of what was received, whether taken by the caller or still waiting.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) cursors: Cursors,
    /// When each position last moved, as a count of moves.
    moved: HashMap<String, u64>,
    moves: u64,
    /// Whether this connection named the epoch the positions belong to. Before that, an old position may mean another log.
    confirmed: bool,
}

/// What an event's position means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    New,
    /// Had already; drop it.
    Before,
    /// At or before a position of which nobody says that it belongs to this log: the log may have been restored.
    Rewound,
}

impl Received {
    pub(crate) fn new(cursors: Cursors) -> Self {
        Self { cursors, ..Self::default() }
    }

    pub(crate) fn connection_lost(&mut self) {
        self.confirmed = false;
    }

    fn set(&mut self, key: &str, seq: u64) {
        self.cursors.set(key, seq);
        self.moves += 1;
        match self.moved.get_mut(key) {
            Some(at) => *at = self.moves,
            None => drop(self.moved.insert(key.to_owned(), self.moves)),
        }
    }

    /// Forget all but the `max` positions that moved last; gives the forgotten channels.
    pub(crate) fn leave_out(&mut self, max: usize) -> Vec<String> {
        let too_many = self.cursors.positions.len().saturating_sub(max);
        if too_many == 0 {
            return Vec::new();
        }
        let mut channels: Vec<String> = self.cursors.positions.keys().cloned().collect();
        channels.sort_by_key(|channel| self.moved.get(channel).copied().unwrap_or_default());
        channels.truncate(too_many);
        for channel in &channels {
            self.cursors.positions.remove(channel);
            self.moved.remove(channel);
        }
        channels
    }

    pub(crate) fn event(&mut self, key: &str, seq: u64) -> Seen {
        let repeated = self.cursors.positions.get(key).is_some_and(|&at| seq <= at);
        if repeated && self.confirmed {
            return Seen::Before;
        }
        self.set(key, seq);
        if repeated { Seen::Rewound } else { Seen::New }
    }

    /// Take in a `cursor` frame; says whether the caller must read something again or has missed something.
    pub(crate) fn cursor(&mut self, frame: &Cursor<'_>) -> Option<Resync> {
        let other = self.cursors.epoch.as_deref().is_some_and(|epoch| epoch != frame.epoch);
        let before = self.cursors.positions.get(&*frame.channel).copied();
        self.cursors.enter(&frame.epoch);
        self.set(&frame.channel, frame.seq);
        self.confirmed = true;
        let reason = match before {
            _ if other => ResyncReason::OtherEpoch { epoch: frame.epoch.clone().into_owned() },
            Some(at) if frame.seq < at => ResyncReason::Rewound { seq: frame.seq },
            Some(at) => {
                let first = frame.first_available.filter(|&first| first > at + 1)?;
                ResyncReason::Gap { missed_from: at + 1, first_available: first }
            }
            None => return None,
        };
        Some(Resync { channel: frame.channel.clone().into_owned(), reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seq: u64, epoch: &'static str, first_available: Option<u64>) -> Cursor<'static> {
        Cursor { channel: "c".into(), seq, epoch: epoch.into(), first_available }
    }

    fn received(epoch: Option<&str>, seq: u64) -> Received {
        let positions = BTreeMap::from([("c".to_owned(), seq)]);
        Received::new(Cursors { epoch: epoch.map(str::to_owned), positions })
    }

    #[test]
    fn repeats_are_dropped_only_within_a_confirmed_log() {
        let mut at = received(Some("e1"), 5);
        assert_eq!(at.event("c", 6), Seen::New);
        assert_eq!(at.event("c", 6), Seen::Rewound);
        assert_eq!(at.cursor(&frame(6, "e1", None)), None);
        assert_eq!(at.event("c", 6), Seen::Before);
        assert_eq!(at.event("other", 1), Seen::New);
        at.connection_lost();
        assert_eq!(at.event("c", 2), Seen::Rewound);
        assert_eq!(at.cursors.positions["c"], 2);
    }

    #[test]
    fn another_epoch_voids_every_position() {
        let mut at = received(Some("e1"), 5);
        at.event("d", 9);
        let reason = at.cursor(&frame(3, "e2", None)).unwrap().reason;
        assert_eq!(reason, ResyncReason::OtherEpoch { epoch: "e2".into() });
        assert_eq!(at.cursors.positions, BTreeMap::from([("c".into(), 3)]));
        assert_eq!(at.event("c", 4), Seen::New);
    }

    #[test]
    fn the_quietest_channels_are_left_out() {
        let mut at = Received::new(Cursors::default());
        for key in ["a", "b", "c", "a"] {
            at.event(key, 1);
        }
        assert!(at.leave_out(3).is_empty());
        assert_eq!(at.leave_out(1), ["b", "c"]);
        assert_eq!(at.cursors.positions, BTreeMap::from([("a".into(), 1)]));
    }

    #[test]
    fn a_first_epoch_keeps_positions() {
        let mut at = received(None, 5);
        assert_eq!(at.cursor(&frame(7, "e1", None)), None);
        assert_eq!(at.cursors.positions["c"], 7);
    }

    #[test]
    fn retention_gaps_and_rewinds_are_told() {
        let mut at = received(Some("e1"), 5);
        assert_eq!(at.cursor(&frame(5, "e1", Some(6))), None);
        let gap = at.cursor(&frame(8, "e1", Some(9))).unwrap();
        assert_eq!(gap.reason, ResyncReason::Gap { missed_from: 6, first_available: 9 });
        let rewound = at.cursor(&frame(2, "e1", None)).unwrap();
        assert_eq!(rewound.reason, ResyncReason::Rewound { seq: 2 });
        assert_eq!(at.event("c", 3), Seen::New);
    }
}

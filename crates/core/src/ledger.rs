//! The ledger: where every accepted unit is (DESIGN law 1).

/// Counts of one plane. Everything accepted is in exactly one of the other states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ledger {
    /// Taken over durably.
    pub accepted: u64,
    /// Arrived: a broadcast that stands in its stream, or a direct message whose receiver said so.
    pub delivered: u64,
    /// A question that got an answer.
    pub answered: u64,
    /// A question past its deadline (now a task proposal), or a direct message nobody fetched within its retention.
    pub expired: u64,
    /// Turned down by the receiver.
    pub refused: u64,
    /// Given up.
    pub dead: u64,
    /// Outcome not known.
    pub unknown: u64,
    /// Still on its way.
    pub pending: u64,
}

impl Ledger {
    /// Whether the law of conservation holds.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.accepted
            == self.delivered
                + self.answered
                + self.expired
                + self.refused
                + self.dead
                + self.unknown
                + self.pending
    }
}

//! What a store tells of the outbound plane. Every call sees what was committed before it began, and one state of it.

use super::store::Fut;
use crate::ids::PersonNo;
use crate::ledger::Ledger;
use crate::outbound::escalate::{DueRung, RungRow};
use crate::outbound::quiet::Quiet;
use crate::outbound::send::{ApprovalRow, ConsentRow, SendDetail, SendFilter, SendRow, TopicRow};
use crate::time::WallMs;

/// Reads of the outbound plane; part of [`super::store::Store`].
pub trait OutboundReads: Send + Sync {
    /// Sends, newest first.
    fn sends(&self, filter: SendFilter) -> Fut<'_, Vec<SendRow>>;
    /// Everything about one send, by its public id.
    fn send(&self, send_id: String) -> Fut<'_, Option<SendDetail>>;
    /// A send by its number.
    fn send_by_no(&self, no: i64) -> Fut<'_, Option<SendRow>>;
    /// A topic with the send that asks it.
    fn topic(&self, topic_id: String) -> Fut<'_, Option<(TopicRow, SendRow)>>;
    /// Topics that are open or queued, with their sends: those that have the floor first, then by deadline and age; at most 500.
    fn open_topics(&self) -> Fut<'_, Vec<(TopicRow, SendRow)>>;
    /// How many questions have the floor, and how many approvals nobody has decided.
    fn waiting(&self) -> Fut<'_, (u64, u64)>;
    /// Approvals with the sends they are for, newest first, at most `limit`; only those nobody has decided, if so asked.
    fn approvals(&self, pending_only: bool, limit: usize) -> Fut<'_, Vec<(ApprovalRow, SendRow)>>;
    /// An approval, by its public id.
    fn approval(&self, approval_id: String) -> Fut<'_, Option<(ApprovalRow, SendRow)>>;
    /// Who may be written to, and who not.
    fn consents(&self) -> Fut<'_, Vec<ConsentRow>>;
    /// When the next part of the channel is due.
    fn next_due(&self, channel: String) -> Fut<'_, Option<WallMs>>;
    /// When the next message of the channel is to show how what it asked has ended.
    fn next_amend(&self, channel: String) -> Fut<'_, Option<WallMs>>;
    /// When the next quiet hours are over that hold something back.
    fn next_quiet(&self) -> Fut<'_, Option<WallMs>>;
    /// Sends that quiet hours hold back no longer, those that have waited longest first.
    fn quiet_over(&self, now_ms: WallMs, limit: usize) -> Fut<'_, Vec<SendRow>>;
    /// The quiet hours of people, with their names, by name.
    fn quiet_hours(&self) -> Fut<'_, Vec<(PersonNo, String, Quiet)>>;
    /// When the next send, question or approval is over. A send that is being attempted does not count until the attempt has ended.
    fn next_end(&self) -> Fut<'_, Option<WallMs>>;
    /// The rungs of a topic's chain, in order; of all topics that are open or queued when none is named.
    fn rungs(&self, topic_id: Option<String>) -> Fut<'_, Vec<RungRow>>;
    /// When the next rung is due.
    fn next_rung(&self) -> Fut<'_, Option<WallMs>>;
    /// Rungs that are due at `now_ms`, the first ones first; at most 100.
    fn due_rungs(&self, now_ms: WallMs) -> Fut<'_, Vec<DueRung>>;
    /// Sends that were approved and have not gone on yet.
    fn to_release(&self) -> Fut<'_, Vec<i64>>;
    /// The plane's ledger.
    fn outbound_ledger(&self) -> Fut<'_, Ledger>;
    /// The people of the organization, by name.
    fn people(&self) -> Fut<'_, Vec<(PersonNo, String)>>;
}

//! What the channel remembers while it runs: where direct messages go, what has come in, which windows are used up, who was told
//! something. All of it is bounded, and none of it is needed: what is forgotten is asked for again, or not told.

use super::address::{MessageId, Snowflake};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Channels of direct messages that are remembered.
const DIRECT_MAX: usize = 10_000;
/// Messages that are remembered.
const SEEN_MAX: usize = 10_000;
/// Used-up windows that are remembered.
const WINDOWS_MAX: usize = 1_000;
/// Notices to one sender in [`NOTICE_WINDOW`] at most: two programs that answer each other end here.
const NOTICES_MAX: usize = 20;
/// Notices to everybody in [`NOTICE_WINDOW`] at most.
const NOTICES_TOTAL_MAX: usize = 1_000;
const NOTICE_WINDOW: Duration = Duration::from_hours(1);

/// Who wrote a message that has come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub from: Snowflake,
    /// Whether in a shared channel.
    pub shared: bool,
}

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Known {
    direct: HashMap<Snowflake, Snowflake>,
    /// For each channel of direct messages the last message in it that is done with.
    last: HashMap<Snowflake, Snowflake>,
    seen: HashMap<MessageId, Seen>,
    order: VecDeque<MessageId>,
    windows: HashMap<Snowflake, Duration>,
    notices: VecDeque<(Snowflake, Duration)>,
}

impl Known {
    /// Where direct messages to `user` go.
    pub fn direct(&self, user: Snowflake) -> Option<Snowflake> {
        self.direct.get(&user).copied()
    }

    pub fn set_direct(&mut self, user: Snowflake, channel: Snowflake) {
        if self.direct.len() >= DIRECT_MAX {
            self.direct.clear();
        }
        self.direct.insert(user, channel);
    }

    pub fn forget_direct(&mut self, user: Snowflake) {
        if let Some(channel) = self.direct.remove(&user) {
            self.last.remove(&channel);
        }
    }

    /// A direct message is done with, and all before it.
    pub fn done(&mut self, message: MessageId) {
        if self.last.len() >= DIRECT_MAX && !self.last.contains_key(&message.channel) {
            self.last.clear();
        }
        let last = self.last.entry(message.channel).or_insert(message.id);
        *last = (*last).max(message.id);
    }

    /// Our own message was sent. What people wrote before it may not have come in yet, if anything is known of the channel at all.
    pub fn sent(&mut self, message: MessageId) {
        if !self.last.contains_key(&message.channel) {
            self.done(message);
        }
    }

    /// Channels of direct messages, each with the last message in it that is done with.
    pub fn lasts(&self) -> Vec<MessageId> {
        self.last.iter().map(|(channel, id)| MessageId { channel: *channel, id: *id }).collect()
    }

    pub fn forget_last(&mut self, channel: Snowflake) {
        self.last.remove(&channel);
    }

    pub fn seen(&self, message: MessageId) -> Option<Seen> {
        self.seen.get(&message).copied()
    }

    pub fn set_seen(&mut self, message: MessageId, seen: Seen) {
        if self.seen.insert(message, seen).is_none() {
            self.order.push_back(message);
        }
        if self.order.len() > SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }

    /// Nothing more may be posted in `channel` until then.
    pub fn set_window(&mut self, channel: Snowflake, now: Duration, until: Duration) {
        self.windows.retain(|_, until| *until > now);
        if self.windows.len() < WINDOWS_MAX {
            self.windows.insert(channel, until);
        }
    }

    /// How long nothing may be posted in `channel`.
    pub fn wait(&self, channel: Snowflake, now: Duration) -> Option<Duration> {
        self.windows.get(&channel)?.checked_sub(now).filter(|wait| !wait.is_zero())
    }

    /// Whether `user` may be told something; if so, it counts.
    pub fn may_tell(&mut self, user: Snowflake, now: Duration) -> bool {
        self.notices.retain(|(_, at)| now.saturating_sub(*at) < NOTICE_WINDOW);
        let theirs = self.notices.iter().filter(|(told, _)| *told == user).count();
        let may = theirs < NOTICES_MAX && self.notices.len() < NOTICES_TOTAL_MAX;
        if may {
            self.notices.push_back((user, now));
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(channel: u64, id: u64) -> MessageId {
        MessageId { channel: Snowflake(channel), id: Snowflake(id) }
    }

    #[test]
    fn what_we_send_does_not_hide_what_was_written_before() {
        let mut known = Known::default();
        known.sent(id(1, 10));
        known.sent(id(1, 20));
        assert_eq!(known.lasts(), [id(1, 10)]);
        known.done(id(1, 15));
        known.done(id(1, 12));
        assert_eq!(known.lasts(), [id(1, 15)]);
    }

    #[test]
    fn memory_has_its_end() {
        let mut known = Known::default();
        for number in 0..SEEN_MAX as u64 + 5 {
            known.set_seen(id(1, number), Seen { from: Snowflake(1), shared: false });
        }
        assert_eq!((known.seen.len(), known.order.len()), (SEEN_MAX, SEEN_MAX));
        assert_eq!((known.seen(id(1, 4)), known.seen(id(1, 5)).is_some()), (None, true));
    }

    #[test]
    fn notices_to_one_sender_have_their_end() {
        let mut known = Known::default();
        let told = (0..30).filter(|_| known.may_tell(Snowflake(1), Duration::ZERO)).count();
        assert_eq!(told, NOTICES_MAX);
        assert!(known.may_tell(Snowflake(2), Duration::ZERO) && known.may_tell(Snowflake(1), NOTICE_WINDOW));
    }

    #[test]
    fn a_window_opens_again() {
        let mut known = Known::default();
        known.set_window(Snowflake(1), Duration::ZERO, Duration::from_secs(2));
        assert_eq!(known.wait(Snowflake(1), Duration::from_secs(1)), Some(Duration::from_secs(1)));
        assert_eq!(known.wait(Snowflake(1), Duration::from_secs(2)), None);
        assert_eq!(known.wait(Snowflake(2), Duration::ZERO), None);
    }
}

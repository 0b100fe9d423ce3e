//! What a node may take for granted: as long as nobody else commits, it knows the head and the positions of its streams without
//! asking. A commit that relies on that says so to the database, which refuses it if it is not true.

use super::plan::Plan;
use super::state::HeadRow;
use std::collections::HashSet;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sure {
    /// The head, as this node saw it last.
    head: Option<HeadRow>,
    /// Whether nobody else had committed between this node's last two commits: then it goes on like that, probably.
    alone: bool,
    /// Whether the positions of all streams are of that head, or only those of `streams`.
    all: bool,
    streams: HashSet<u32>,
}

impl Sure {
    /// Everything was read, as of `head`.
    pub(crate) fn read(&mut self, head: HeadRow) {
        *self = Self { head: Some(head), all: true, ..Self::default() };
    }

    /// This node has made `head` the head, and knows where `streams` stand.
    pub(crate) fn committed(&mut self, head: HeadRow, streams: impl IntoIterator<Item = u32>) {
        self.alone = self.head.is_some_and(|last| last.commit + 1 == head.commit);
        if !self.alone {
            self.all = false;
            self.streams.clear();
        }
        self.head = Some(head);
        if !self.all {
            self.streams.extend(streams);
        }
    }

    /// Something was not as expected.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The head on which what `plan` says can be done without asking first.
    pub(crate) fn head(&self, plan: &Plan) -> Option<HeadRow> {
        let mut streams = plan.streams.iter().chain(&plan.peek);
        let known =
            self.alone && !plan.directory && (self.all || streams.all(|id| self.streams.contains(id)));
        self.head.filter(|_| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_core::ledger::Ledger;

    fn head(commit: u64) -> HeadRow {
        HeadRow { commit, digest: [0; 32], version: 0, notice: 0, directory: 0, ledger: Ledger::default() }
    }

    fn plan(streams: impl IntoIterator<Item = u32>) -> Plan {
        Plan { streams: streams.into_iter().collect(), ..Plan::default() }
    }

    #[test]
    fn nothing_is_taken_for_granted_before_two_commits_in_a_row() {
        let mut sure = Sure::default();
        assert!(sure.head(&plan([1])).is_none());
        sure.read(head(7));
        assert!(sure.head(&plan([1])).is_none());
        sure.committed(head(8), [1]);
        assert_eq!(sure.head(&plan([1, 2])).unwrap().commit, 8, "all streams were read");
    }

    #[test]
    fn a_commit_of_another_node_leaves_only_what_was_seen_since() {
        let mut sure = Sure::default();
        sure.read(head(7));
        sure.committed(head(8), [1]);
        sure.committed(head(10), [1]);
        assert!(sure.head(&plan([1])).is_none());
        sure.committed(head(11), [2]);
        assert!(sure.head(&plan([1, 2])).is_some());
        assert!(sure.head(&plan([3])).is_none(), "commit 9 may have moved it");
        let peek = Plan { peek: [3].into(), ..Plan::default() };
        assert!(sure.head(&peek).is_none());
    }

    #[test]
    fn changes_of_the_directory_always_ask() {
        let mut sure = Sure::default();
        sure.read(head(1));
        sure.committed(head(2), []);
        assert!(sure.head(&Plan { directory: true, ..Plan::default() }).is_none());
        assert!(sure.head(&Plan::default()).is_some());
        sure.forget();
        assert!(sure.head(&Plan::default()).is_none());
    }
}

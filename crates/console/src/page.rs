//! The pages and the parts of them that are sent alone when something changes. Every field is ready to be shown.

mod bus;
mod hub;
mod person;
mod plane;

pub use bus::{
    Agent, AgentList, AgentState, Agents, Channel, ChannelList, ChannelRow, Channels, Compose, Message,
    Reply, Talk,
};
pub use hub::{Figures, Filter, Ledger, LogEntry, LogPage, Overview, TaskRow, Tasks, Verified};
pub use person::{Decide, Enter, Failed, Session, Settings, SignIn};
pub use plane::{
    AnsweredQuestion, Approval, ApprovalList, Approvals, Asked, Attempt, ConsentRow, Counts, Explained,
    Inbox, InboxList, Outbound, Pairing, Policy, Question, Send, SendList, SendPage, SendStory,
};

/// Parts of pages are markup already when a page takes them in.
macro_rules! markup {
    ($($part:ty),*) => { $(impl askama::filters::HtmlSafe for $part {})* };
}
pub(crate) use markup;

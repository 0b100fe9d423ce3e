//! Notices: what waits for an instance outside any stream. They stand in the store until they have been written to a
//! socket, so a sender hears of receipts also after it was away.

use super::Session;
use crate::follow::Outbox;
use crate::frame::utc;
use crate::viewer::Agents;
use std::collections::HashMap;
use switchboard_core::port::store::{Notice, NoticeRow, StoreError};
use switchboard_core::write::{ReceiptState, Write};
use switchboard_protocol::frame::server::ServerFrame;
use switchboard_protocol::message::{self, Status};

/// Notices read at once.
const PAGE: usize = 200;

/// What this session has been sent.
#[derive(Debug, Default)]
pub struct Sent {
    after: i64,
    /// Up to where each announced agent has been told of what stands until it is settled.
    told: HashMap<String, i64>,
    once: Vec<i64>,
}

impl Sent {
    /// Look at all of them again: other agents may be concerned now. Those of `agents` that stay are not told twice.
    pub fn forget(&mut self, agents: &Agents) {
        self.after = 0;
        self.told.retain(|told, _| agents.iter().any(|(_, agent)| agent == told));
    }

    /// The write that strikes out what has gone and need not come again.
    pub fn take(&mut self) -> Option<Write> {
        let notices = std::mem::take(&mut self.once);
        (!notices.is_empty()).then_some(Write::NoticesSent { notices })
    }
}

impl Session {
    pub(super) async fn tell_notices(&mut self, out: &mut Outbox) -> Result<(), StoreError> {
        let now_ms = self.hub.clock().wall_ms();
        let rows = self.hub.store().notices(self.who.instance, self.notices.after, now_ms, PAGE).await?;
        self.due.notices = rows.len() == PAGE;
        for row in rows {
            self.notices.after = row.number;
            let agents = self.follower.viewer.agents.iter().flatten();
            let concerns = agents.map(|(_, agent)| agent).any(|agent| *agent == row.agent);
            if concerns {
                self.tell(row, out);
            }
        }
        Ok(())
    }

    fn tell(&mut self, row: NoticeRow, out: &mut Outbox) {
        match row.notice {
            Notice::Status { event, client_id, by, state, at_ms } => {
                out.push_frame(&ServerFrame::MessageStatus(Status {
                    gid: self.hub.gids.gid(event).into(),
                    client_msg_id: client_id.into(),
                    by: by.into(),
                    state: wire_state(state),
                    server_time: utc(at_ms),
                }));
                self.notices.once.push(row.number);
            }
            Notice::Frame { frame, once } => {
                if once {
                    self.notices.once.push(row.number);
                } else if self.notices.told.get(&row.agent).is_some_and(|told| row.number <= *told) {
                    return;
                } else {
                    self.notices.told.insert(row.agent, row.number);
                }
                out.push(frame.into());
            }
        }
    }
}

/// A receipt's state as the wire names it.
#[must_use]
pub fn wire_state(state: ReceiptState) -> message::ReceiptState {
    match state {
        ReceiptState::Delivered => message::ReceiptState::Delivered,
        ReceiptState::Read => message::ReceiptState::Read,
    }
}

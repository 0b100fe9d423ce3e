//! Notices: what waits for an instance outside any stream. They stand in the store until they have been written to a
//! socket, so a sender hears of receipts also after it was away.

use super::Session;
use crate::follow::Outbox;
use crate::frame::utc;
use std::collections::{HashMap, HashSet};
use switchboard_core::ids::VaultId;
use switchboard_core::port::store::{Notice, NoticeRow, StoreError};
use switchboard_core::write::{ReceiptState, Write};
use switchboard_protocol::frame::server::ServerFrame;
use switchboard_protocol::json::Limits;
use switchboard_protocol::message::{self, Status};
use switchboard_protocol::text::Channel;

/// Notices read at once.
const PAGE: usize = 200;

/// What this session has been sent.
#[derive(Debug, Default)]
pub struct Sent {
    after: i64,
    standing: HashSet<i64>,
    once: Vec<i64>,
    /// Who made the offers that were told here, by their id.
    offers: HashMap<String, (VaultId, String)>,
}

impl Sent {
    /// Look at all of them again: another agent may be concerned now.
    pub fn forget(&mut self) {
        self.after = 0;
    }

    /// Who made this offer, if it was told here.
    pub fn offerer(&self, handoff_id: &str) -> Option<(VaultId, String)> {
        self.offers.get(handoff_id).cloned()
    }

    fn note_offer(&mut self, frame: &str) {
        if let Ok(ServerFrame::HandoffOffer(offer)) = ServerFrame::parse(frame, Limits::FRAME)
            && let Ok(channel) = Channel::parse(&offer.channel)
            && let Some(vault) = VaultId::parse(channel.vault)
        {
            self.offers.insert(offer.handoff_id.into_owned(), (vault, offer.from.into_owned()));
        }
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
            if concerns && !self.notices.standing.contains(&row.number) {
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
                } else {
                    self.notices.standing.insert(row.number);
                    self.notices.note_offer(&frame);
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

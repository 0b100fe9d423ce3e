//! The console: the hub's own inbox for people, always there. A message is delivered when it stands in the inbox, which it does as soon as
//! it is accepted; answers come back through the console's own door, which knows who signed in.

use crate::handle;
use futures_util::future::BoxFuture;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{
    AddressKind, Capabilities, Channel, Dedup, Dialect, Draft, LengthUnit, Part, Performed,
};

/// Name and kind of the channel.
pub const NAME: &str = "console";

/// What the console can do: it shows what it is given, so that it has no limits of its own beyond the body's.
const CAPABILITIES: Capabilities = Capabilities {
    direct: true,
    shared: false,
    answers: true,
    part_max: usize::MAX,
    unit: LengthUnit::Bytes,
    parts_max: 1,
    dialect: Dialect::CommonMark,
    threads: true,
    edits: false,
    buttons_max: 8,
    dedup: Dedup::ById,
    pace_ms: 0,
    at_once: 64,
    consent: false,
};

/// The console as a channel.
#[derive(Debug, Default)]
pub struct Console;

impl Channel for Console {
    fn name(&self) -> &str {
        NAME
    }

    fn kind(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    /// A person's display name, compared without regard to case and surrounding space; whether there is such a person is for the hub to
    /// say.
    fn normalise(&self, kind: AddressKind, to: &str) -> Result<String, String> {
        match kind {
            AddressKind::Direct => handle::normalise(to).map(|name| name.to_lowercase()),
            AddressKind::Channel => {
                Err("the console has no shared channels; use kind 'direct' and a person's name".into())
            }
        }
    }

    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        let buttons = draft.buttons.to_vec();
        Ok(vec![Part { text: draft.body.to_owned(), buttons, ..Part::default() }])
    }

    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed> {
        let message_id = Some(attempt.attempt().delivery.clone());
        Box::pin(async move { Performed::Sent { message_id } })
    }
}

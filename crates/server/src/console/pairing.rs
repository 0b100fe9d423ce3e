//! *Pairing*: whom agents may write to.

use super::form::Signed;
use super::visitor::Visitor;
use super::{Shown, html, see_other, when};
use crate::Doors;
use axum::extract::State;
use switchboard_console::page::{ConsentRow, Pairing};
use switchboard_console::shell::Section;
use switchboard_console::text::{Foreign, When};
use switchboard_core::outbound::send;
use switchboard_core::port::channel::{AddressKind, Channel};
use switchboard_core::port::store::StoreError;
use switchboard_engine::outbound::people;
use switchboard_engine::refusal;
use switchboard_protocol::Detail;

/// The page.
pub(super) async fn page(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    Ok(html(&show(&doors, &visitor, None).await?))
}

async fn show(
    doors: &Doors,
    visitor: &Visitor,
    code: Option<(String, Foreign, When)>,
) -> Result<Pairing, Detail> {
    let failed = |error: StoreError| refusal::store(&error);
    let reads = doors.hub.store().outbound();
    let channels = doors.hub.outbound.registry.all();
    let named = |may: fn(&dyn Channel) -> bool| {
        channels.iter().filter(|channel| may(channel.as_ref())).map(|channel| channel.name().into()).collect()
    };
    Ok(Pairing {
        shell: visitor.shell(doors, Section::Pairing, "Pairing").await?,
        code,
        consents: reads.consents().await.map_err(failed)?.iter().map(consent).collect(),
        channels: named(|channel| channel.capabilities().consent),
        pairable: named(|channel| channel.capabilities().consent && channel.capabilities().answers),
        people: reads.people().await.map_err(failed)?.into_iter().map(|(_, name)| name.into()).collect(),
    })
}

fn consent(row: &send::ConsentRow) -> ConsentRow {
    ConsentRow {
        channel: row.channel.as_str().into(),
        kind: row.to.kind.as_str(),
        to: row.to.handle.as_str().into(),
        state: row.state.as_str(),
        given: row.state.consent().is_given(),
        person: row.person_name.as_deref().map(Into::into),
        by: row.by.as_str().into(),
        at: when(row.at_ms),
        reason: row.reason.as_deref().map(Into::into),
    }
}

/// Makes a pairing code and shows it, this once.
pub(super) async fn start(State(doors): State<Doors>, Signed { visitor, mut fields }: Signed) -> Shown {
    let channel = fields.take("channel")?;
    let (to, person) = (fields.optional("to"), fields.optional("person"));
    fields.end()?;
    let by = &visitor.session.person_name;
    let made = people::pair_start(&doors.hub, &channel, to.as_deref(), person.as_deref(), by).await?;
    let code = (made.code, channel.into(), when(made.expires_ms));
    Ok(html(&show(&doors, &visitor, Some(code)).await?))
}

/// Allows an address, or takes that back.
pub(super) async fn set_consent(State(doors): State<Doors>, Signed { visitor, mut fields }: Signed) -> Shown {
    let (channel, to) = (fields.take("channel")?, fields.take("to")?);
    let (kind, act) = (fields.take("kind")?, fields.take("act")?);
    fields.end()?;
    let kind = match kind.as_str() {
        "direct" => AddressKind::Direct,
        "channel" => AddressKind::Channel,
        _ => return Err(refusal::bad_field("kind", "Choose a person or a shared channel.").into()),
    };
    let (say, done) = match act.as_str() {
        "allow" => (people::Say::Allow, "allowed"),
        "revoke" => (people::Say::Revoke, "revoked"),
        _ => return Err(refusal::bad_field("act", "Allow or revoke.").into()),
    };
    let by = &visitor.session.person_name;
    people::set_consent(&doors.hub, &channel, (kind, &to), say, None, by).await?;
    Ok(see_other(&format!("/console/pairing?done={done}")))
}

//! *Settings*: the person's password and sessions.

use super::form::Signed;
use super::visitor::Visitor;
use super::{Shown, html, see_other, when};
use crate::Doors;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use switchboard_console::page::{Session, Settings};
use switchboard_console::shell::{Notice, Section};
use switchboard_core::console::SessionRow;
use switchboard_engine::console::{self, PASSWORD_CHARS_MIN};
use switchboard_engine::refusal;
use switchboard_protocol::{Code, Detail};

/// The page.
pub(super) async fn page(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    Ok(html(&settings(&doors, &visitor, None).await?))
}

async fn settings(doors: &Doors, visitor: &Visitor, failure: Option<&Detail>) -> Result<Settings, Detail> {
    let mut shell = visitor.shell(doors, Section::Settings, "Settings").await?;
    if let Some(detail) = failure {
        shell.notice = Some(Notice { text: detail.message.clone(), failed: true });
    }
    let session = |row: SessionRow| Session {
        this: row.session_id == visitor.session.session_id,
        browser: row.browser.into(),
        created: when(row.created_ms),
        seen: when(row.seen_ms),
        ends: when(row.ends_ms),
        session_id: row.session_id,
    };
    let sessions = console::sessions(&doors.hub, visitor.session.person).await?;
    Ok(Settings {
        shell,
        has_password: console::has_password(&doors.hub, &visitor.session.person_name).await?,
        chars_min: PASSWORD_CHARS_MIN,
        sessions: sessions.into_iter().map(session).collect(),
    })
}

/// Sets or changes the password.
pub(super) async fn set_password(
    State(doors): State<Doors>,
    Signed { visitor, mut fields }: Signed,
) -> Shown {
    let present = fields.optional("present").unwrap_or_default();
    let (password, again) = (fields.take("password")?, fields.take("again")?);
    // For the browser's own memory of passwords.
    let _ = fields.optional("username");
    fields.end()?;
    let set = if password == again {
        console::set_password(&doors.hub, &visitor.session, &present, &password).await
    } else {
        Err(refusal::bad_field("again", "The new password was not typed the same way twice."))
    };
    match set {
        Ok(()) => Ok(see_other("/console/settings?done=password")),
        Err(detail) if matches!(detail.code, Code::InvalidRequest | Code::RateLimited) => {
            let page = html(&settings(&doors, &visitor, Some(&detail)).await?);
            Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
        }
        Err(detail) => Err(detail.into()),
    }
}

/// Ends one session.
pub(super) async fn end(State(doors): State<Doors>, Signed { visitor, mut fields }: Signed) -> Shown {
    let session_id = fields.take("session_id")?;
    fields.end()?;
    console::end(&doors.hub, visitor.session.person, &session_id).await?;
    Ok(see_other("/console/settings?done=session"))
}

/// Ends all but this one.
pub(super) async fn end_others(State(doors): State<Doors>, Signed { visitor, fields }: Signed) -> Shown {
    fields.end()?;
    console::end_others(&doors.hub, &visitor.session).await?;
    Ok(see_other("/console/settings?done=sessions"))
}

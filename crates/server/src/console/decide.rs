//! The link in a mail that asks for an approval. There is no session: whoever has the mail may decide, once. Programs that look into mails follow
//! its links, so that looking changes nothing.

use super::form::Fields;
use super::plane::approval;
use super::{Failure, html, see_other};
use crate::Doors;
use axum::extract::{Path, State};
use axum::http::header::{REFERRER_POLICY, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use switchboard_console::assets::ASSETS;
use switchboard_console::page::Decide;
use switchboard_engine::outbound::link::{self, Opened};
use switchboard_engine::refusal;
use switchboard_protocol::{Code, Detail};

/// What is asked, or what became of it.
pub(super) async fn page(State(doors): State<Doors>, Path(token): Path<String>) -> Response {
    let shown = link::open(&doors.hub, &token).await.map(|opened| show(&doors, &token, opened, None));
    closed(shown.unwrap_or_else(refused))
}

/// Decides.
pub(super) async fn decide(
    State(doors): State<Doors>,
    Path(token): Path<String>,
    fields: Result<Fields, Failure>,
) -> Response {
    let decided = match fields.and_then(|fields| Ok(read(fields)?)) {
        Ok(approve) => link::decide(&doors.hub, &token, approve).await,
        Err(failure) => return closed(failure.into_response()),
    };
    closed(match decided {
        Ok(_) => see_other(&format!("{}{token}", link::PATH)),
        Err(detail) if detail.code == Code::InvalidState => too_late(&doors, &token, &detail).await,
        Err(detail) => refused(detail),
    })
}

fn read(mut fields: Fields) -> Result<bool, Detail> {
    let decision = fields.take("decision")?;
    fields.end()?;
    match decision.as_str() {
        "approve" => Ok(true),
        "deny" => Ok(false),
        _ => Err(refusal::bad_field("decision", "Approve or deny.")),
    }
}

fn show(doors: &Doors, token: &str, opened: Opened, failure: Option<String>) -> Response {
    let open = opened.is_open(doors.hub.clock().wall_ms());
    html(&Decide {
        assets: &ASSETS,
        failure,
        to: opened.asked.to_text.as_str().into(),
        approval: approval(&(opened.approval, opened.held)),
        open,
        action: format!("{}{token}", link::PATH),
    })
}

async fn too_late(doors: &Doors, token: &str, detail: &Detail) -> Response {
    match link::open(&doors.hub, token).await {
        Ok(opened) => {
            let mut page = show(doors, token, opened, Some(detail.message.clone()));
            *page.status_mut() = StatusCode::CONFLICT;
            page
        }
        Err(detail) => refused(detail),
    }
}

fn refused(detail: Detail) -> Response {
    let wait = detail.retry_after_s;
    let mut response = Failure::from(detail).into_response();
    if let Some(seconds) = wait {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

// The address of the page decides: not even the hub's own files are asked for with it. The origin alone is no secret, and browsers name
// it with the form, which they would not under "no-referrer".
fn closed(mut response: Response) -> Response {
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("strict-origin"));
    response
}

//! In and out: one-time links, passwords.

use super::form::{Fields, Signed};
use super::visitor::{NoVisitor, Visitor, browser, set_cookie};
use super::{Shown, html, see_other};
use crate::Doors;
use axum::extract::State;
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use switchboard_console::page::{Enter, SignIn};
use switchboard_core::SecretString;
use switchboard_engine::console::{self, Entered};
use switchboard_protocol::Detail;

/// Where a link leads. Looking at it uses nothing up, whoever looks.
pub(super) async fn enter_page() -> Response {
    html(&Enter::new(None))
}

/// Uses a link up.
pub(super) async fn enter(State(doors): State<Doors>, headers: HeaderMap, mut fields: Fields) -> Shown {
    let link = fields.take("link")?;
    fields.end()?;
    Ok(match console::enter(&doors.hub, &link, &browser(&headers)).await {
        Ok(entered) => inside(&doors, &headers, &entered, "/?done=entered"),
        Err(detail) => refused(&detail, html(&Enter::new(Some(detail.message.clone())))),
    })
}

/// The sign-in, or the console for who is in already.
pub(super) async fn sign_in_page(visitor: Result<Visitor, NoVisitor>) -> Response {
    match visitor {
        Ok(_) => see_other("/"),
        Err(_) => html(&SignIn::new("", None)),
    }
}

/// Signs in by name and password.
pub(super) async fn sign_in(State(doors): State<Doors>, headers: HeaderMap, mut fields: Fields) -> Shown {
    let (name, password) = (fields.take("name")?, fields.take("password")?);
    fields.end()?;
    Ok(match console::sign_in(&doors.hub, &name, &password, &browser(&headers)).await {
        Ok(entered) => inside(&doors, &headers, &entered, "/"),
        Err(detail) => refused(&detail, html(&SignIn::new(&name, Some(detail.message.clone())))),
    })
}

fn inside(doors: &Doors, headers: &HeaderMap, entered: &Entered, path: &str) -> Response {
    with_cookie(doors, headers, Some(&entered.cookie), see_other(path))
}

fn with_cookie(
    doors: &Doors,
    headers: &HeaderMap,
    secret: Option<&SecretString>,
    mut response: Response,
) -> Response {
    if let Ok(mut cookie) = HeaderValue::from_str(&set_cookie(doors, headers, secret)) {
        cookie.set_sensitive(true);
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn refused(detail: &Detail, mut page: Response) -> Response {
    *page.status_mut() =
        StatusCode::from_u16(detail.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(seconds) = detail.retry_after_s {
        page.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    page
}

/// Ends the session.
pub(super) async fn sign_out(State(doors): State<Doors>, headers: HeaderMap, form: Signed) -> Shown {
    form.fields.end()?;
    let session = &form.visitor.session;
    console::end(&doors.hub, session.person, &session.session_id).await?;
    Ok(with_cookie(&doors, &headers, None, see_other("/console/sign-in")).into_response())
}

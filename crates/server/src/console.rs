//! The console's door: pages for people at `/`, rendered here and kept fresh over server-sent events. What a page looks like is
//! `switchboard_console`'s; what it may show and do is the engine's.
//!
//! To add a page: its handler in a file of its own, its line in [`router`], its template and struct in `switchboard_console`. A handler
//! takes a [`visitor::Visitor`] to read and a [`form::Signed`] to change something; neither is to be had without a good session. Only
//! [`decide`] needs none: there the link is the authority.

mod agents;
mod channels;
mod decide;
mod entry;
mod form;
mod guard;
mod live;
mod log;
mod overview;
mod pairing;
mod plane;
mod policy;
mod settings;
mod talk;
mod tasks;
mod visitor;

use crate::Doors;
use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use std::sync::Arc;
use switchboard_console::Template;
use switchboard_console::assets;
use switchboard_console::page::Failed;
use switchboard_console::text::When;
use switchboard_core::time::WallMs;
use switchboard_engine::frame::utc;
use switchboard_engine::refusal;
use switchboard_protocol::{Code, Detail};
use tokio::sync::Semaphore;

/// Pages that are kept fresh at a time.
const STREAMS_MAX: usize = 256;

/// What the console keeps beside the hub.
#[derive(Debug, Clone)]
pub struct Console {
    /// Places for pages that are kept fresh.
    streams: Arc<Semaphore>,
    /// Held by who verifies the log, which is read as a whole for it.
    verifying: Arc<tokio::sync::Mutex<()>>,
}

impl Default for Console {
    fn default() -> Self {
        Self { streams: Arc::new(Semaphore::new(STREAMS_MAX)), verifying: Arc::default() }
    }
}

/// Every page.
pub fn router(doors: &Doors) -> axum::Router {
    axum::Router::new()
        .route("/", get(overview::page))
        .route("/console", get(async || Redirect::permanent("/")))
        .route("/console/enter", get(entry::enter_page).post(entry::enter))
        .route("/console/sign-in", get(entry::sign_in_page).post(entry::sign_in))
        .route("/console/sign-out", post(entry::sign_out))
        .route("/console/inbox", get(plane::inbox_page))
        .route("/console/inbox/answer", post(plane::answer))
        .route("/console/approvals", get(plane::approvals_page).post(plane::decide))
        .route("/console/decide/{token}", get(decide::page).post(decide::decide))
        .route("/console/outbound", get(plane::outbound_page))
        .route("/console/outbound/{send_id}", get(plane::send_page).post(plane::act))
        .route("/console/policy", get(policy::page).post(policy::ask))
        .route("/console/pairing", get(pairing::page))
        .route("/console/pairing/code", post(pairing::start))
        .route("/console/pairing/consent", post(pairing::set_consent))
        .route("/console/agents", get(agents::page))
        .route("/console/channels", get(channels::list_page))
        .route("/console/channels/open", get(channels::open))
        .route("/console/channels/{vault}/{name}", get(channels::page).post(channels::write))
        .route("/console/channels/{vault}/{name}/threads/{gid}", get(channels::thread_page))
        .route("/console/swarms/{swarm}", get(channels::swarm_page))
        .route("/console/tasks", get(tasks::page).post(tasks::decide))
        .route("/console/log", get(log::page))
        .route("/console/log/verify", post(log::verify))
        .route("/console/log/export", get(log::export))
        .route("/console/settings", get(settings::page))
        .route("/console/settings/password", post(settings::set_password))
        .route("/console/settings/sessions/end", post(settings::end))
        .route("/console/settings/sessions/end-others", post(settings::end_others))
        .route("/console/live/overview", get(live::overview))
        .route("/console/live/agents", get(live::agents))
        .route("/console/live/inbox", get(live::inbox))
        .route("/console/live/approvals", get(live::approvals))
        .route("/console/live/outbound", get(live::outbound))
        .route("/console/live/outbound/{send_id}", get(live::send))
        .route("/console/live/channels", get(live::channels))
        .route("/console/live/channels/{vault}/{name}", get(live::channel))
        .route("/console/live/swarms/{swarm}", get(live::swarm))
        .route("/console/assets/{file}", get(asset))
        .route_layer(from_fn_with_state(doors.clone(), guard::guard))
        .with_state(doors.clone())
}

/// A page that cannot be shown, or a change that was refused.
#[derive(Debug)]
struct Failure(Box<Detail>);

impl From<Detail> for Failure {
    fn from(detail: Detail) -> Self {
        Self(Box::new(detail))
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let title = match self.0.code {
            Code::NotFound => "Not here",
            Code::RateLimited => "Not now",
            Code::Unauthorized | Code::ForbiddenRight => "Not allowed",
            _ => "That did not work",
        };
        (status, html(&Failed::new(title, &self.0.message))).into_response()
    }
}

/// What a page's handler returns.
type Shown = Result<Response, Failure>;

/// A page, or a part of one.
fn html(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Leads on after a form was taken: reloading what comes then sends nothing again.
fn see_other(path: &str) -> Response {
    Redirect::to(path).into_response()
}

fn when(at_ms: WallMs) -> When {
    When(utc(at_ms).to_string())
}

async fn asset(Path(file): Path<String>) -> Shown {
    let Some(asset) = assets::find(&format!("{}{file}", assets::ROOT)) else {
        return Err(refusal::not_found("file", "There is no such file; load the page again.").into());
    };
    let for_ever = HeaderValue::from_static("public, max-age=31536000, immutable");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type)),
        (header::CACHE_CONTROL, for_ever),
    ];
    Ok((headers, asset.bytes).into_response())
}

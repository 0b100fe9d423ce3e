//! Who asks: the session behind the cookie.

use super::guard::is_public_tls;
use super::{Failure, see_other};
use crate::Doors;
use axum::extract::FromRequestParts;
use axum::http::header::{ACCEPT, COOKIE, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use switchboard_console::shell::{Notice, Section, Shell};
use switchboard_console::text::Foreign;
use switchboard_core::console::{SESSION_MS, SessionRow};
use switchboard_core::principal::Principal;
use switchboard_core::rights::Right;
use switchboard_core::time::SECOND_MS;
use switchboard_core::{ExposeSecret as _, SecretString};
use switchboard_engine::console;
use switchboard_engine::refusal;
use switchboard_protocol::Detail;

/// A person with a good session.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    /// The session.
    pub(super) session: SessionRow,
    /// The secret behind it.
    cookie: SecretString,
    /// What its forms carry.
    pub(super) form_token: String,
    /// Whether only a part of a page is asked for.
    pub(super) partial: bool,
    /// What was done just now, by its code in the address.
    done: Option<&'static str>,
}

/// Why there is none.
pub(super) enum NoVisitor {
    /// A browser that is not signed in.
    Stranger {
        /// Whether a script asks, which follows no redirect into another page.
        by_script: bool,
    },
    /// Something else.
    Failed(Failure),
}

impl IntoResponse for NoVisitor {
    fn into_response(self) -> Response {
        match self {
            Self::Stranger { by_script: false } => see_other("/console/sign-in"),
            Self::Stranger { by_script: true } => {
                (StatusCode::UNAUTHORIZED, [("HX-Redirect", "/console/sign-in")]).into_response()
            }
            Self::Failed(failure) => failure.into_response(),
        }
    }
}

impl FromRequestParts<Doors> for Visitor {
    type Rejection = NoVisitor;

    async fn from_request_parts(parts: &mut Parts, doors: &Doors) -> Result<Self, NoVisitor> {
        let partial = parts.headers.contains_key("hx-request");
        let streams =
            parts.headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes().ends_with(b"text/event-stream"));
        let stranger = NoVisitor::Stranger { by_script: partial || (streams && parts.method == Method::GET) };
        let Some(cookie) = cookie(doors, &parts.headers) else { return Err(stranger) };
        let failed = |detail| NoVisitor::Failed(Failure::from(detail));
        let Some(session) = console::session(&doors.hub, &cookie).await.map_err(failed)? else {
            return Err(stranger);
        };
        if session.person != doors.hub.installation.owner {
            return Err(failed(refusal::missing_right(Right::Admin)));
        }
        let form_token = console::form_token(&doors.hub, &cookie);
        let done = parts.uri.query().and_then(done);
        Ok(Self { session, cookie: cookie.into(), form_token, partial, done })
    }
}

impl Visitor {
    /// What they may do: they are the owner.
    #[expect(
        clippy::unused_self,
        reason = "whoever has signed in is the owner: at present there is nobody else"
    )]
    pub(super) fn principal(&self, doors: &Doors) -> Principal {
        doors.hub.owner()
    }

    /// Whether a form was made for this session.
    pub(super) fn made(&self, doors: &Doors, form_token: &str) -> bool {
        console::is_form_token(&doors.hub, self.cookie.expose_secret(), form_token)
    }

    /// Whether the session is still good.
    pub(super) async fn is_still_in(&self, doors: &Doors) -> bool {
        // A store that cannot be asked ends nobody's session.
        !matches!(console::is_good(&doors.hub, self.cookie.expose_secret()).await, Ok(false))
    }

    /// What goes around a page.
    pub(super) async fn shell(
        &self,
        doors: &Doors,
        section: Section,
        title: impl Into<Foreign>,
    ) -> Result<Shell, Detail> {
        let title = title.into();
        let counts = super::plane::counts(doors).await?;
        Ok(Shell {
            section,
            title,
            org: doors.hub.installation.org_name.as_str().into(),
            person: self.session.person_name.as_str().into(),
            form_token: self.form_token.clone(),
            notice: self.done.map(|text| Notice { text: text.to_owned(), failed: false }),
            waiting: (counts.questions, counts.approvals),
        })
    }
}

/// The sentence for what was done just now. The address can name one of these and nothing else.
fn done(query: &str) -> Option<&'static str> {
    let code = query.split('&').find_map(|pair| pair.strip_prefix("done="))?;
    Some(match code {
        "entered" => "You are in. Set a password under Settings to come back without a link.",
        "password" => "The password is set. All other sessions have ended.",
        "session" => "The session has ended.",
        "sessions" => "All other sessions have ended.",
        "answered" => "Answered. The agent has it.",
        "approved" => "Approved.",
        "denied" => "Denied.",
        "retried" => "It is tried again.",
        "discarded" => "It was given up.",
        "allowed" => "Allowed.",
        "revoked" => "Revoked.",
        "declined" => "Declined.",
        _ => return None,
    })
}

/// The cookie's name. Under TLS it is bound to this host; otherwise it carries the organization's id, since browsers share cookies
/// between the ports of a machine, on which several hubs may run.
fn cookie_name(doors: &Doors, tls: bool) -> String {
    if tls {
        return "__Host-switchboard".to_owned();
    }
    let id = &doors.hub.installation.org_id;
    format!("switchboard-{}", id.get(id.len().saturating_sub(10)..).unwrap_or_default())
}

fn cookie(doors: &Doors, headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(doors, is_public_tls(doors, headers));
    let of_header = |value: &HeaderValue| {
        let mut pairs = value.to_str().ok()?.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    headers.get_all(COOKIE).iter().find_map(of_header)
}

/// `Set-Cookie` for a session that has begun, or for one that has ended. `Lax`, so that a link from a chat or a mail leads to the page and
/// not to the sign-in; nothing is changed by a request that other sites can cause, whatever cookies it carries.
pub(super) fn set_cookie(doors: &Doors, headers: &HeaderMap, secret: Option<&SecretString>) -> String {
    let tls = is_public_tls(doors, headers);
    let (value, age) = secret.map_or(("", 0), |secret| (secret.expose_secret(), SESSION_MS / SECOND_MS));
    let secure = if tls { "; Secure" } else { "" };
    format!("{}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}", cookie_name(doors, tls))
}

/// What a browser calls itself, in a few words.
pub(super) fn browser(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let among = |known: &[(&'static str, &'static str)], other| {
        known.iter().find(|(mark, _)| agent.contains(mark)).map_or(other, |(_, name)| *name)
    };
    let program = among(
        &[
            ("Edg/", "Edge"),
            ("OPR/", "Opera"),
            ("Firefox/", "Firefox"),
            ("Chrome/", "Chrome"),
            ("Chromium/", "Chromium"),
            ("Safari/", "Safari"),
        ],
        "A browser",
    );
    let system = among(
        &[
            ("Android", " on Android"),
            ("iPhone", " on an iPhone"),
            ("iPad", " on an iPad"),
            ("Windows", " on Windows"),
            ("Mac OS X", " on a Mac"),
            ("Linux", " on Linux"),
        ],
        "",
    );
    format!("{program}{system}")
}

//! *Policy*: the rules in force, and what they would say of a call.

use super::form::Signed;
use super::visitor::Visitor;
use super::{Shown, html};
use crate::Doors;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde_json::{Map, Value};
use switchboard_console::page::{Asked, Explained, Policy};
use switchboard_console::shell::Section;
use switchboard_console::text::When;
use switchboard_engine::manage;
use switchboard_protocol::Detail;
use switchboard_protocol::admin::{PolicyExplainIn, PolicyExplained, PolicyLimit};

/// Characters of a version that are shown.
const VERSION_CHARS: usize = 12;

/// The page.
pub(super) async fn page(State(doors): State<Doors>, visitor: Visitor) -> Shown {
    Ok(html(&show(&doors, &visitor, Asked::default()).await?))
}

async fn show(doors: &Doors, visitor: &Visitor, asked: Asked) -> Result<Policy, Detail> {
    let known = manage::policy::read(&doors.hub);
    let names = doors.hub.outbound.registry.names().into_iter();
    let version: String = known.status.version.chars().take(VERSION_CHARS).collect();
    Ok(Policy {
        shell: visitor.shell(doors, Section::Policy, "Policy").await?,
        rules: known.rules.into_iter().map(|rule| (rule.rule.into(), rule.sentence.into())).collect(),
        dir: known.dir.map(Into::into),
        version: version.into(),
        loaded: When(known.status.loaded_at.to_string()),
        fault: known.status.fault.map(Into::into),
        channels: names.map(Into::into).collect(),
        asked,
        explained: None,
        failure: None,
    })
}

/// Asks the rules about a call, which is not made.
pub(super) async fn ask(State(doors): State<Doors>, Signed { visitor, mut fields }: Signed) -> Shown {
    let agent = fields.optional("agent");
    let mut params = Map::new();
    for name in ["channel", "to", "kind", "body"] {
        params.insert(name.to_owned(), Value::String(fields.take(name)?));
    }
    fields.end()?;
    let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
    let asked = Asked {
        agent: agent.clone().unwrap_or_default().into(),
        channel: text("channel").into(),
        to: text("to").into(),
        kind: text("kind").to_owned(),
        body: text("body").into(),
    };
    let answer = manage::policy::explain(&doors.hub, &PolicyExplainIn { agent, tool: None, params });
    if visitor.partial {
        return Ok(html(&explained(answer?)));
    }
    let mut page = show(&doors, &visitor, asked).await?;
    let status = match answer {
        Ok(answer) => {
            page.explained = Some(explained(answer));
            StatusCode::OK
        }
        Err(detail) => {
            page.failure = Some(detail.message.clone());
            StatusCode::from_u16(detail.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
    };
    Ok((status, html(&page)).into_response())
}

fn explained(answer: PolicyExplained) -> Explained {
    let steps = answer.trace.into_iter().map(|step| (step.rule.into(), step.sentence.into(), step.outcome));
    Explained {
        verdict: answer.verdict,
        told: answer.told.map(Into::into),
        limits: answer.limits.iter().map(|limit| limited(limit).into()).collect(),
        steps: steps.collect(),
    }
}

fn limited(limit: &PolicyLimit) -> String {
    let PolicyLimit { rule, max_calls, interval_ms, per, .. } = limit;
    format!("It would count for {rule}: {max_calls} in {} s for each {per}.", interval_ms / 1000)
}

//! The rules for tools that reach people, as their owner sees them.

use crate::frame::utc;
use crate::hub::Hub;
use crate::policy::Look;
use crate::refusal;
use switchboard_core::policy::tools::{self, TOOLS};
use switchboard_core::policy::{Call, Limit, Outcome, Rule};
use switchboard_protocol::Detail;
use switchboard_protocol::admin;

/// How they are doing.
#[must_use]
pub fn status(hub: &Hub) -> admin::PolicyStatus {
    let status = hub.policy.status();
    admin::PolicyStatus {
        version: status.version,
        rules: status.rules as u64,
        loaded_at: utc(status.loaded_at_ms),
        fault: status.fault,
    }
}

/// Every rule in a sentence.
#[must_use]
pub fn read(hub: &Hub) -> admin::Policy {
    let rule = |rule: &Rule| admin::PolicyRule {
        rule: rule.id.to_string(),
        kind: rule.kind.as_str().into(),
        sentence: rule.sentence(),
    };
    admin::Policy {
        status: status(hub),
        dir: hub.policy.dir().map(|dir| dir.display().to_string()),
        rules: hub.policy.current().rules().iter().map(rule).collect(),
    }
}

/// Reads the files now instead of within a second.
pub async fn reload(hub: &Hub) -> Result<admin::Policy, Detail> {
    hub.look_at_policy(Look::Anyway).await.map_err(|error| refusal::store(&error))?;
    Ok(read(hub))
}

/// What the rules would say of a call. Nothing is done, counted or noted.
pub fn explain(hub: &Hub, asked: &admin::PolicyExplainIn) -> Result<admin::PolicyExplained, Detail> {
    let tool = asked.tool.as_deref().unwrap_or(TOOLS[0].name);
    let known = tools::tool(tool).ok_or_else(|| {
        let names: Vec<_> = TOOLS.iter().map(|tool| tool.name).collect();
        refusal::bad_field("tool", format!("There is no such tool; there are: {}.", names.join(", ")))
    })?;
    if !asked.params.keys().all(|name| known.param(name).is_some()) {
        let names: Vec<_> = known.params.iter().map(|param| param.name).collect();
        return Err(refusal::bad_field("params", format!("{tool} has these: {}.", names.join(", "))));
    }
    let agent = asked.agent.as_deref().unwrap_or("agent");
    let call = Call { tool, agent, params: &asked.params };
    let policy = hub.policy.current();
    let decision = policy.decide(&call);
    let ruling = decision.verdict.ruling();
    Ok(admin::PolicyExplained {
        verdict: decision.verdict.as_str().into(),
        rule: ruling.map(|ruling| ruling.rule.to_string()),
        told: ruling.map(ToString::to_string),
        limits: decision.limits.iter().map(|limit| wire(limit, &call)).collect(),
        escalation: decision.escalation.as_ref().map(|found| found.rule.to_string()),
        trace: policy.explain(&call).into_iter().map(|(rule, outcome)| step(rule, outcome)).collect(),
        version: policy.version().into(),
    })
}

fn wire(limit: &Limit, call: &Call<'_>) -> admin::PolicyLimit {
    admin::PolicyLimit {
        rule: limit.rule.to_string(),
        max_calls: limit.rate.max_calls,
        interval_ms: limit.rate.interval_ms,
        per: limit.rate.per.as_str().into(),
        subject: limit.subject(call),
    }
}

fn step(rule: &Rule, outcome: Outcome) -> admin::PolicyStep {
    let param = match outcome {
        Outcome::Held(param)
        | Outcome::Urgent(param)
        | Outcome::Denied(param)
        | Outcome::Escalated(param) => param,
        Outcome::OtherTool | Outcome::Passed | Outcome::Counted => None,
    };
    admin::PolicyStep {
        rule: rule.id.to_string(),
        outcome: outcome.as_str().into(),
        param: param.map(str::to_owned),
        sentence: rule.sentence(),
    }
}

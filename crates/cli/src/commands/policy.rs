//! `switchboard policy`: the rules for tools that reach people.

use crate::api::Api;
use crate::args::{Global, Policy as Command, PolicyExplain};
use crate::config;
use crate::failure::{Exit, Failure};
use crate::terminal::{self, Output};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use switchboard_core::policy::cases::{self, Case, Ran};
use switchboard_core::policy::{Fault, Policy, Rule};
use switchboard_engine::policy::{Texts, read};
use switchboard_protocol::admin::{self, PolicyExplainIn, PolicyExplained};

const PATH: &str = "/admin/v1/policy";
/// The channel that is always there.
const CONSOLE: &str = "console";

/// Runs one of them.
pub async fn run(global: &Global, output: Output, command: Command) -> Result<(), Failure> {
    match command {
        Command::Check { dir } => check(&directory(global, dir)?, output, channels(global).as_deref()),
        Command::Test { dir } => test(&directory(global, dir)?, output),
        Command::Show => {
            let policy: admin::Policy = Api::find(global)?.get(PATH).await?;
            output.show(&policy, shown);
            Ok(())
        }
        Command::Reload => {
            let policy: admin::Policy =
                Api::find(global)?.post(&format!("{PATH}/reload"), &json!({})).await?;
            output.show(&policy, shown);
            match &policy.status.fault {
                Some(_) => Err(Failure::no("The rules were refused; the old ones are in force.")),
                None => Ok(()),
            }
        }
        Command::Explain(explain) => {
            let asked = asked(explain)?;
            let explained: PolicyExplained =
                Api::find(global)?.post(&format!("{PATH}/explain"), &asked).await?;
            output.show(&explained, explanation);
            match explained.verdict.as_str() {
                "deny" => Err(Failure::no("The rules refuse this call.")),
                _ => Ok(()),
            }
        }
    }
}

/// The directory that was named, or the one of the hub. Whoever names one means one that is there.
fn directory(global: &Global, named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let (dir, must_exist) = match named {
        Some(dir) => (dir, true),
        None => config::policy_dir(&config::load(global)?, &config::data_dir(global)?),
    };
    if must_exist && !dir.is_dir() {
        return Err(Failure::usage(format!("{} is no directory.", dir.display()))
            .next("make it, or name another one"));
    }
    Ok(dir)
}

/// How many rules a directory holds, or what is wrong there, each with its file and line.
pub(super) fn looked_at(dir: &Path) -> Result<usize, Vec<Fault>> {
    let (policy, texts) = load(dir)?;
    cases::load(&texts.cases, &policy)?;
    Ok(policy.rules().len())
}

fn load(dir: &Path) -> Result<(Policy, Texts), Vec<Fault>> {
    let texts = read(dir)?;
    Ok((Policy::load(&texts.rules)?, texts))
}

/// Tells all faults; the answer is no.
fn faulty(dir: &Path, output: Output, faults: &[Fault]) -> Failure {
    let wire = |fault: &Fault| json!({ "file": fault.file, "line": fault.line, "field": fault.field, "message": fault.message });
    let document = json!({ "ok": false, "dir": dir.display().to_string(),
        "faults": faults.iter().map(wire).collect::<Vec<_>>() });
    output.show(&document, |_| {
        faults.iter().flat_map(|fault| [terminal::line(&fault.to_string()), "\n".into()]).collect()
    });
    let count = if faults.len() == 1 { "1 fault".to_owned() } else { format!("{} faults", faults.len()) };
    let failure =
        Failure::new(Exit::No, "SB0213", format!("{count} in {}: a hub does not load it.", dir.display()));
    failure.next("correct them, and check again")
}

/// The names of the channels of the configuration, if it can be read.
fn channels(global: &Global) -> Option<Vec<String>> {
    let config = config::load(global).ok()?;
    let named = config.channel.iter().map(|channel| channel.name.clone());
    Some(named.chain(std::iter::once(CONSOLE.to_owned())).collect())
}

/// What may be meant, and cannot be done here: a rung on a channel that is not configured.
fn warnings(policy: &Policy, channels: Option<&[String]>) -> Vec<String> {
    let Some(channels) = channels else { return Vec::new() };
    let steps = policy.rules().iter().flat_map(|rule| {
        let steps = rule.ladder.iter().flat_map(|ladder| &ladder.rungs);
        steps.filter_map(move |step| Some((rule, &step.to.as_ref()?.0)))
    });
    let unknown = steps.filter(|(_, channel)| !channels.contains(channel));
    unknown
        .map(|(rule, channel)| {
            format!(
                "{}: no channel {channel} is configured; questions by this rule will be refused.",
                rule.id
            )
        })
        .collect()
}

fn check(dir: &Path, output: Output, channels: Option<&[String]>) -> Result<(), Failure> {
    let (policy, texts) = load(dir).map_err(|faults| faulty(dir, output, &faults))?;
    cases::load(&texts.cases, &policy).map_err(|faults| faulty(dir, output, &faults))?;
    let warnings = warnings(&policy, channels);
    let rule =
        |rule: &Rule| json!({ "rule": &*rule.id, "kind": rule.kind.as_str(), "sentence": rule.sentence() });
    let document = json!({ "ok": true, "dir": dir.display().to_string(), "version": policy.version(),
        "rules": policy.rules().iter().map(rule).collect::<Vec<_>>(), "warnings": warnings });
    output.show(&document, |_| {
        let sentences = policy.rules().iter().map(|rule| sentence(&rule.id, &rule.sentence()));
        let sentences: String = sentences.collect();
        let warned = warnings.iter().map(|warning| format!("Warning: {}\n", terminal::line(warning)));
        format!(
            "{}{}{}",
            summary(policy.version(), policy.rules().len(), &dir.display().to_string()),
            sentences,
            warned.collect::<String>()
        )
    });
    Ok(())
}

fn sentence(rule: &str, sentence: &str) -> String {
    format!("{}\n    {}\n", terminal::line(rule), terminal::line(sentence))
}

fn summary(version: &str, rules: usize, dir: &str) -> String {
    let dir = terminal::line(dir);
    match rules {
        0 => format!("No rule in {dir}: everything is allowed.\n"),
        1 => format!("1 rule in {dir}, version {version}:\n"),
        rules => format!("{rules} rules in {dir}, version {version}:\n"),
    }
}

fn test(dir: &Path, output: Output) -> Result<(), Failure> {
    let (policy, texts) = load(dir).map_err(|faults| faulty(dir, output, &faults))?;
    let cases = cases::load(&texts.cases, &policy).map_err(|faults| faulty(dir, output, &faults))?;
    let ran: Vec<(Case, Ran)> = cases.into_iter().map(|case| (case.clone(), case.run(&policy))).collect();
    let failed = ran.iter().filter(|(_, ran)| !ran.ok).count();
    let wire = |(case, ran): &(Case, Ran)| {
        let mut told = json!({ "file": case.file, "line": case.line, "name": case.name, "ok": ran.ok,
            "expected": { "verdict": case.expect, "rule": case.rule },
            "got": { "verdict": ran.got.as_str(), "rule": ran.got.ruling().map(|ruling| &*ruling.rule) } });
        if let Some(rule) = &case.escalate {
            told["expected"]["escalate"] = json!(rule);
            told["got"]["escalate"] = json!(ran.escalated.as_deref().unwrap_or_default());
        }
        told
    };
    let document = json!({ "ok": failed == 0, "cases": ran.iter().map(wire).collect::<Vec<_>>() });
    output.show(&document, |_| ran.iter().map(|(case, ran)| case_line(case, ran)).collect());
    if failed > 0 {
        return Err(Failure::no(format!("{failed} of {} cases failed.", ran.len())));
    }
    if !output.json {
        terminal::note(&format!("{} cases passed.", ran.len()));
    }
    Ok(())
}

fn case_line(case: &Case, ran: &Ran) -> String {
    let decided = |verdict: &str, rule: Option<&str>| match rule {
        Some(rule) => format!("{verdict} by {rule}"),
        None => verdict.to_owned(),
    };
    let name = terminal::line(&case.name);
    if ran.ok {
        return format!("ok      {name}\n");
    }
    let mut expected = decided(&case.expect, case.rule.as_deref());
    let mut got = decided(ran.got.as_str(), ran.got.ruling().map(|ruling| &*ruling.rule));
    if let Some(rule) = &case.escalate {
        let goes_on =
            |rule: &str| if rule.is_empty() { ", no chain".into() } else { format!(", chain of {rule}") };
        expected += &goes_on(rule);
        got += &goes_on(ran.escalated.as_deref().unwrap_or_default());
    }
    format!(
        "FAILED  {name} ({}, line {})\n        expected {expected}\n        got      {got}\n",
        case.file, case.line
    )
}

fn shown(policy: &admin::Policy) -> String {
    let rules: String = policy.rules.iter().map(|rule| sentence(&rule.rule, &rule.sentence)).collect();
    let dir = policy.dir.as_deref().unwrap_or("no directory");
    let count = usize::try_from(policy.status.rules).unwrap_or(usize::MAX);
    format!("{}{}{rules}", refused(&policy.status), summary(&policy.status.version, count, dir))
}

/// What is wrong with the files that are there now, if something is.
pub fn refused(status: &admin::PolicyStatus) -> String {
    let Some(fault) = &status.fault else { return String::new() };
    let faults: String =
        fault.lines().flat_map(|fault| ["    ".into(), terminal::line(fault), "\n".into()]).collect();
    format!("The files as they are now were refused; these rules stay in force:\n{faults}")
}

fn asked(explain: PolicyExplain) -> Result<PolicyExplainIn, Failure> {
    let mut params = Map::new();
    let body = super::send::text(&explain.body)?;
    let texts = [
        ("channel", Some(explain.channel)),
        ("to", Some(explain.to)),
        ("kind", explain.kind),
        ("body", Some(body)),
        ("idempotency_key", explain.idempotency_key),
        ("message_kind", explain.message_kind),
    ];
    for (name, text) in texts {
        params.extend(text.map(|text| (name.to_owned(), Value::from(text))));
    }
    params.extend(explain.deadline_ms.map(|deadline| ("deadline_ms".to_owned(), Value::from(deadline))));
    Ok(PolicyExplainIn { tool: explain.tool, agent: explain.agent, params })
}

fn explanation(explained: &PolicyExplained) -> String {
    let told = explained.told.as_deref().unwrap_or("No rule is against it.");
    let rows: Vec<Vec<String>> = explained
        .trace
        .iter()
        .map(|step| {
            let because = step.param.as_deref().map(|param| format!(" ({param})")).unwrap_or_default();
            vec![
                step.rule.clone(),
                format!("{}{because}", step.outcome.replace('_', " ")),
                step.sentence.clone(),
            ]
        })
        .collect();
    let limits: String = explained
        .limits
        .iter()
        .flat_map(|limit| {
            let counted = terminal::line(&together(limit));
            [format!("counts for {}, together with {counted}", limit.rule), "\n".into()]
        })
        .collect();
    let chain = explained.escalation.as_ref().map_or_else(String::new, |rule| {
        format!("if nobody answers, it goes on as {} says\n", terminal::line(rule))
    });
    let trace = if rows.is_empty() {
        String::new()
    } else {
        terminal::table(&["RULE", "OUTCOME", "WHAT IT SAYS"], &rows)
    };
    format!(
        "{}: {}\nrules of version {}\n{limits}{chain}{trace}",
        explained.verdict,
        terminal::line(told),
        explained.version
    )
}

fn together(limit: &admin::PolicyLimit) -> String {
    match limit.subject.as_slice() {
        [] => format!("all calls of the {}", limit.per),
        subject => format!("all calls of the {} {}", limit.per, subject.join(" ")),
    }
}

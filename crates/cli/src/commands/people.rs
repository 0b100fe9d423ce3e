//! Reaching people: `send` and `ask` to a person, and what is done about it: `topic`, `answer`, `outbound`, `approval`, `pair`.

use crate::api::{Api, encode, path};
use crate::args::{Answer, Approval, Ask, Envelope, Outbound, Pair, Reach, Send, Topic};
use crate::failure::{Exit, Failure};
use crate::terminal::{self, Output, line};
use crate::time;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::time::Duration;
use switchboard_core::time::{Clock as _, SystemClock};
use switchboard_protocol::messaging::{
    Channels, Conversation, ConversationGet, ConversationWithdraw, EscalationStep, MessageReceipt, Recipient,
    WAIT_MS_MAX,
};
use switchboard_protocol::outbound::{
    AnswerTopic, Approvals, Consents, Decide, Decided, PairCode, PairStart, SendState, SendWhole, Sends,
    SetConsent, Topics,
};

const SEND: &str = "/v1/tools/messaging.send";
const GET: &str = "/v1/tools/conversation.get";
const WITHDRAW: &str = "/v1/tools/conversation.withdraw";
const CHANNELS: &str = "/v1/tools/messaging.channels";
const OUTBOUND: &str = "/admin/v1/outbound";
const APPROVALS: &str = "/admin/v1/approvals";
const TOPICS: &str = "/admin/v1/topics";
const CODES: &str = "/admin/v1/pairing/codes";
pub(super) const CONSENTS: &str = "/admin/v1/pairing/consents";
/// How long one request of a longer wait takes: shorter than commands wait for an answer.
const WAIT_MS: u64 = 25_000;

/// Whether a message is for a person rather than for an agent: no agent's name has an `@` in it.
pub fn is_for_person(envelope: &Envelope, reach: &Reach) -> bool {
    reach.via.is_some() || envelope.to.as_deref().is_some_and(|to| to.contains('@'))
}

/// `send` to a person: a notice.
pub async fn send(api: &Api, output: Output, send: &Send, text: &str) -> Result<(), Failure> {
    if send.kind.is_some() || send.deadline.is_some() {
        let problem = "--type and --deadline are for messages to agents; `switchboard ask` asks a person.";
        return Err(Failure::usage(problem.to_owned()));
    }
    let mut params = params(api, &send.envelope, &send.reach, text).await?;
    params.insert("message_kind".into(), "notice".into());
    let receipt: MessageReceipt = api.post(&called(api, SEND, &send.envelope), &params).await?;
    output.show(&receipt, told);
    match receipt.state.as_deref() {
        Some("dead" | "refused" | "expired" | "unknown") => {
            let id = receipt.send_id.unwrap_or_default();
            Err(Failure::new(Exit::No, "SB0209", "The message was not delivered.".to_owned())
                .next(format!("see why, and what can be done: `switchboard outbound show {id}`")))
        }
        _ => Ok(()),
    }
}

fn called(api: &Api, path: &str, envelope: &Envelope) -> String {
    match &envelope.sender {
        Some(name) => format!("{path}?agent={}", encode(name)),
        None if api.is_owner => format!("{path}?agent=owner"),
        None => path.to_owned(),
    }
}

async fn params(
    api: &Api,
    envelope: &Envelope,
    reach: &Reach,
    text: &str,
) -> Result<Map<String, Value>, Failure> {
    let to = envelope.to.clone().ok_or_else(|| Failure::usage("Name the person with --to.".to_owned()))?;
    let channel = match &reach.via {
        Some(channel) => channel.clone(),
        None => mail_channel(api).await?,
    };
    let mut params = Map::new();
    params.insert("channel".into(), channel.into());
    params.insert("to".into(), to.into());
    params.insert("body".into(), text.into());
    if reach.shared {
        params.insert("kind".into(), "channel".into());
    }
    if let Some(key) = &reach.key {
        params.insert("idempotency_key".into(), key.clone().into());
    }
    Ok(params)
}

async fn mail_channel(api: &Api) -> Result<String, Failure> {
    let known: Channels = api.get(CHANNELS).await?;
    let mut mail = known.channels.iter().filter(|channel| channel.kind == "email");
    match (mail.next(), mail.next()) {
        (Some(only), None) => Ok(only.name.clone()),
        (Some(_), Some(_)) => {
            Err(Failure::usage("There are several mail channels; choose one with --via.".to_owned()))
        }
        (None, _) => Err(Failure::usage("The hub has no mail channel.".to_owned()).next(
            "add one to its configuration (docs/guide/channels/email.md), or choose another with --via",
        )),
    }
}

fn told(receipt: &MessageReceipt) -> String {
    let id = receipt.send_id.as_deref().unwrap_or("it");
    let ended = matches!(receipt.state.as_deref(), Some("dead" | "refused" | "expired" | "unknown"));
    let again = if receipt.deduplicated { "Sent before under this key: " } else { "" };
    match (&receipt.reason, receipt.delivered) {
        (_, true) => format!("{again}{id} has arrived on {}.\n", receipt.channel),
        (Some(reason), false) if ended => format!("{again}{id} has not arrived: {}.\n", line(reason)),
        (Some(_), false) if receipt.state.as_deref() == Some("held") => {
            let approval = receipt.approval_id.as_deref().unwrap_or_default();
            format!("{again}{id} waits for an approval: switchboard approval approve {approval}\n")
        }
        (Some(reason), false) => format!("{again}{id} has not arrived yet: {}.\n", line(reason)),
        (None, false) => format!("{again}{id} has not arrived yet.\n"),
    }
}

/// `ask` to a person: sends the question and waits for the answer.
pub async fn ask(api: &Api, output: Output, ask: &Ask, text: &str) -> Result<(), Failure> {
    let timeout = time::duration("--timeout", &ask.timeout)?;
    let mut params = params(api, &ask.envelope, &ask.reach, text).await?;
    if let Some(deadline) = &ask.deadline {
        let after = time::duration("--deadline", deadline)?;
        let now = SystemClock::default().wall_ms().unsigned_abs();
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX / 2);
        params.insert("deadline_ms".into(), now.saturating_add(after_ms).into());
    }
    if !ask.choices.is_empty() {
        params.insert("choices".into(), json!(ask.choices));
    }
    let receipt: MessageReceipt = api.post(&called(api, SEND, &ask.envelope), &params).await?;
    let Some(topic_id) = receipt.topic_id.clone() else {
        return Err(Failure::new(
            Exit::Refused,
            "SB0205",
            "The hub opened no topic for the question.".to_owned(),
        ));
    };
    if !output.json {
        terminal::note(&format!("{} Waiting for the answer to {topic_id}.", told(&receipt).trim_end()));
    }
    let found = wait(api, &topic_id, timeout).await?;
    ended(output, &found, timeout)
}

/// `topic`.
pub async fn topic(api: &Api, output: Output, topic: &Topic) -> Result<(), Failure> {
    if topic.withdraw {
        let body = ConversationWithdraw { topic_id: topic.topic_id.clone() };
        let state: SendState = api.post(WITHDRAW, &body).await?;
        output.show(&state, |_| "The question is taken back.\n".into());
        return Ok(());
    }
    let waiting = topic.wait.as_deref().map(|text| time::duration("--wait", text)).transpose()?;
    let found = wait(api, &topic.topic_id, waiting.unwrap_or_default()).await?;
    if let Some(waited) = waiting {
        return ended(output, &found, waited);
    }
    output.show(&found, conversation);
    Ok(())
}

async fn wait(api: &Api, topic_id: &str, timeout: Duration) -> Result<Conversation, Failure> {
    let clock = SystemClock::default();
    let end = clock.monotonic() + timeout;
    loop {
        let left = end.saturating_sub(clock.monotonic());
        let wait_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(WAIT_MS).min(WAIT_MS_MAX);
        let get = ConversationGet { topic_id: topic_id.to_owned(), wait_ms: Some(wait_ms) };
        let found: Conversation = api.post(GET, &get).await?;
        let over = !matches!(found.state.as_str(), "open" | "queued");
        if over || clock.monotonic() >= end {
            return Ok(found);
        }
    }
}

fn ended(output: Output, found: &Conversation, waited: Duration) -> Result<(), Failure> {
    let answered = found.answer.is_some();
    if answered || output.json {
        output.show(found, |found| {
            found
                .answer
                .as_ref()
                .map(|answer| format!("{}\n", terminal::fenced(&answer.text)))
                .unwrap_or_default()
        });
    }
    if answered {
        return Ok(());
    }
    let why = found.reason.as_deref().map_or_else(String::new, |reason| format!(" ({})", line(reason)));
    let message = match found.state.as_str() {
        "open" | "queued" => format!(
            "No answer within {}. The question is {} until its deadline.",
            time::human(waited.as_secs()),
            found.state
        ),
        state => match found.then.as_deref().filter(|_| state == "expired") {
            Some(then) => format!("There is no answer: {state}{why}; the rules say: {then}."),
            None => format!("There is no answer: {state}{why}."),
        },
    };
    Err(Failure::new(Exit::No, "SB0209", message)
        .next(format!("look later: `switchboard topic {}`", found.topic_id)))
}

fn conversation(found: &Conversation) -> String {
    let why = found.reason.as_deref().map_or_else(String::new, |reason| format!(" ({})", line(reason)));
    let mut text =
        format!("{} for {} on {}: {}{why}\n", found.topic_id, line(&found.to), found.channel, found.state);
    for message in &found.messages {
        let _ = write!(
            text,
            "\n{} ({}):\n{}\n",
            line(&message.from),
            message.role,
            terminal::fenced(&message.text)
        );
    }
    text + &chain(found)
}

/// `questions`.
pub async fn questions(api: &Api, output: Output) -> Result<(), Failure> {
    let found: Topics = api.get(TOPICS).await?;
    output.show(&found, |found| {
        if found.topics.is_empty() {
            return "Nobody waits for an answer.\n".into();
        }
        let now_ms = SystemClock::default().wall_ms();
        let rows: Vec<_> = found
            .topics
            .iter()
            .map(|topic| {
                let asked = topic.messages.first();
                vec![
                    topic.code.clone(),
                    topic.topic_id.clone(),
                    topic.state.clone(),
                    line(&topic.to),
                    asked.map(|asked| line(&asked.from)).unwrap_or_default(),
                    asked.map(|asked| short(&asked.text)).unwrap_or_default(),
                    topic.choices.join(" / "),
                    next_rung(topic, now_ms),
                ]
            })
            .collect();
        terminal::table(&["CODE", "TOPIC", "STATE", "TO", "FROM", "QUESTION", "CHOICES", "NEXT"], &rows)
    });
    Ok(())
}

// Whom it goes to next when nobody answers, and when.
fn next_rung(topic: &Conversation, now_ms: i64) -> String {
    let Some(step) = topic.escalation.iter().find(|step| step.state == "waiting") else {
        return String::new();
    };
    match step.at_ms {
        Some(at_ms) => {
            let wait_s = (at_ms - now_ms).max(0).unsigned_abs().div_ceil(1000);
            format!("in {}: {}", time::human(wait_s), whom(step))
        }
        None => {
            format!("{} after it is asked: {}", time::human(step.after_ms.unsigned_abs() / 1000), whom(step))
        }
    }
}

fn whom(step: &EscalationStep) -> String {
    match (&step.to, &step.channel) {
        (Some(to), Some(channel)) => format!("{} on {channel}", line(to)),
        _ => "a task proposal".into(),
    }
}

// What the agent knew from the start: who is asked when nobody answers, and what silence means.
fn chain(found: &Conversation) -> String {
    let mut text = String::new();
    for step in &found.escalation {
        let why = step.reason.as_deref().map_or_else(String::new, |reason| format!(" ({})", line(reason)));
        let after = time::human(step.after_ms.unsigned_abs() / 1000);
        let _ = writeln!(text, "  after {after}: {}, {}{why}", whom(step), step.state);
    }
    if let Some(then) = &found.then {
        let _ = writeln!(text, "  with no answer in time: {}", line(then));
    }
    if text.is_empty() { text } else { format!("\nIf nobody answers:\n{text}") }
}

fn short(text: &str) -> String {
    let first: String = text.lines().next().unwrap_or_default().chars().take(60).collect();
    line(&first)
}

/// `answer`.
pub async fn answer(api: &Api, output: Output, answer: &Answer) -> Result<(), Failure> {
    let topic_id = topic_of(api, &answer.question).await?;
    let body = AnswerTopic { text: answer.text.clone() };
    let state: SendState = api.post(&path(TOPICS, &[&topic_id, "answer"]), &body).await?;
    output.show(&state, |_| "Answered.\n".into());
    Ok(())
}

// A short code stands for the open question that has it.
async fn topic_of(api: &Api, question: &str) -> Result<String, Failure> {
    let Some(code) = short_code(question) else { return Ok(question.to_owned()) };
    let open: Sends = api.get(&format!("{OUTBOUND}?state=open,sending,queued,unknown&limit=500")).await?;
    let found = open.sends.into_iter().find(|send| send.code == code).and_then(|send| send.topic_id);
    found.ok_or_else(|| {
        Failure::usage(format!("No open question has the code {code}.")).next("`switchboard questions`")
    })
}

fn short_code(text: &str) -> Option<String> {
    use switchboard_core::outbound::reply::{CODE_LEN, typed_code};
    let bare = text.get(..3).filter(|mark| mark.eq_ignore_ascii_case("sb-")).map_or(text, |_| &text[3..]);
    typed_code(bare, CODE_LEN)
}

/// `channels`.
pub async fn channels(api: &Api, output: Output) -> Result<(), Failure> {
    let found: Channels = api.get(CHANNELS).await?;
    output.show(&found, |found| {
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let rows: Vec<_> = found
            .channels
            .iter()
            .map(|channel| {
                let reached: Vec<_> = channel.reachable.iter().map(Recipient::address).map(line).collect();
                vec![
                    channel.name.clone(),
                    channel.kind.clone(),
                    yes(channel.answers),
                    line(&channel.health),
                    reached.join(", "),
                ]
            })
            .collect();
        terminal::table(&["CHANNEL", "KIND", "ANSWERS", "HEALTH", "MAY BE WRITTEN TO"], &rows)
    });
    Ok(())
}

/// `outbound`.
pub async fn outbound(api: &Api, output: Output, command: &Outbound) -> Result<(), Failure> {
    match command {
        Outbound::List { state, limit } => {
            let states = encode(&state.join(","));
            let found: Sends = api.get(&format!("{OUTBOUND}?state={states}&limit={limit}")).await?;
            output.show(&found, listed);
        }
        Outbound::Show { send_id } => {
            let found: SendWhole = api.get(&path(OUTBOUND, &[send_id])).await?;
            output.show(&found, shown);
        }
        Outbound::Retry { send_id } => {
            let state: SendState = api.post(&path(OUTBOUND, &[send_id, "retry"]), &json!({})).await?;
            output.show(&state, |state| match state.state.as_str() {
                "sending" => format!("{} is tried again now.\n", state.send_id),
                other => format!("{} is {other} again.\n", state.send_id),
            });
        }
        Outbound::Discard { send_id } => {
            let state: SendState = api.post(&path(OUTBOUND, &[send_id, "discard"]), &json!({})).await?;
            output.show(&state, |state| format!("{} is given up.\n", state.send_id));
        }
    }
    Ok(())
}

fn listed(found: &Sends) -> String {
    if found.sends.is_empty() {
        return "No message to people.\n".into();
    }
    let rows: Vec<_> = found
        .sends
        .iter()
        .map(|send| {
            vec![
                send.send_id.clone(),
                send.state.clone(),
                send.message_kind.clone(),
                send.channel.clone(),
                line(&send.to),
                line(&send.agent),
                send.reason.as_deref().map(line).unwrap_or_default(),
            ]
        })
        .collect();
    terminal::table(&["MESSAGE", "STATE", "KIND", "CHANNEL", "TO", "FROM", "REASON"], &rows)
}

fn shown(found: &SendWhole) -> String {
    let send = &found.send;
    let mut text = format!(
        "{} ({}), SB-{}\n\n{}\n\n",
        send.send_id,
        send.state,
        send.code,
        terminal::fenced(&send.body)
    );
    if !send.choices.is_empty() {
        let _ = writeln!(text, "Answers offered: {}\n", line(&send.choices.join(" / ")));
    }
    for sentence in &found.why {
        let _ = writeln!(text, "{}", line(sentence));
    }
    text
}

/// `approval`.
pub async fn approval(api: &Api, output: Output, command: &Approval) -> Result<(), Failure> {
    let (approval, approve) = match command {
        Approval::List { all } => {
            let found: Approvals = api.get(&format!("{APPROVALS}?all={all}")).await?;
            output.show(&found, approvals);
            return Ok(());
        }
        Approval::Approve { approval } => (approval, true),
        Approval::Deny { approval } => (approval, false),
    };
    let approval_id = approval_of(api, approval).await?;
    let decided: Decided = api.post(&path(APPROVALS, &[&approval_id]), &Decide { approve }).await?;
    output.show(&decided, |decided| format!("{} is {}.\n", decided.approval_id, decided.state));
    Ok(())
}

async fn approval_of(api: &Api, named: &str) -> Result<String, Failure> {
    let Some(code) = short_code(named) else { return Ok(named.to_owned()) };
    let pending: Approvals = api.get(APPROVALS).await?;
    let found = pending.approvals.into_iter().find(|approval| approval.send.code == code);
    let missing =
        || Failure::usage(format!("No approval waits for {code}.")).next("`switchboard approval list`");
    found.map(|approval| approval.approval_id).ok_or_else(missing)
}

fn approvals(found: &Approvals) -> String {
    if found.approvals.is_empty() {
        return "Nothing waits for an approval.\n".into();
    }
    let rows: Vec<_> = found
        .approvals
        .iter()
        .map(|approval| {
            let send = &approval.send;
            vec![
                approval.approval_id.clone(),
                approval.state.clone(),
                line(&send.agent),
                send.channel.clone(),
                line(&send.to),
                line(&approval.rule),
                short(&send.body),
            ]
        })
        .collect();
    terminal::table(&["APPROVAL", "STATE", "FROM", "CHANNEL", "TO", "RULE", "MESSAGE"], &rows)
}

/// `pair`.
pub async fn pair(api: &Api, output: Output, command: &Pair) -> Result<(), Failure> {
    match command {
        Pair::Start { channel, to, person } => {
            let body = PairStart { channel: channel.clone(), to: to.clone(), person: person.clone() };
            let made: PairCode = api.post(CODES, &body).await?;
            output.show(&made, |made| {
                format!(
                    "{}\n\nThe person sends this on {channel} within ten minutes; it works once.\n",
                    made.code
                )
            });
        }
        Pair::Allow { channel, to, shared, person, lift_stop } => {
            set(api, channel, (to, *shared), (true, *lift_stop), person.as_ref()).await?;
            output.done(&format!("{} may be written to on {channel}.", line(to)));
        }
        Pair::Revoke { channel, to, shared } => {
            set(api, channel, (to, *shared), (false, false), None).await?;
            output.done(&format!("{} is not written to on {channel} any more.", line(to)));
        }
        Pair::List => {
            let found: Consents = api.get(CONSENTS).await?;
            output.show(&found, consents);
        }
    }
    Ok(())
}

async fn set(
    api: &Api,
    channel: &str,
    (to, shared): (&str, bool),
    (allow, lift_stop): (bool, bool),
    person: Option<&String>,
) -> Result<(), Failure> {
    let body = SetConsent {
        channel: channel.to_owned(),
        kind: shared.then(|| "channel".to_owned()),
        to: to.to_owned(),
        allow,
        lift_stop,
        person: person.cloned(),
    };
    api.post::<Value>(CONSENTS, &body).await.map(drop)
}

fn consents(found: &Consents) -> String {
    if found.consents.is_empty() {
        return "Nobody has agreed to be written to yet: `switchboard pair start --channel CHANNEL`.\n"
            .into();
    }
    let rows: Vec<_> = found
        .consents
        .iter()
        .map(|consent| {
            vec![
                consent.channel.clone(),
                line(&consent.to),
                consent.kind.clone(),
                consent.state.clone(),
                consent.person.as_deref().map(line).unwrap_or_default(),
                line(&consent.by),
            ]
        })
        .collect();
    terminal::table(&["CHANNEL", "ADDRESS", "KIND", "STATE", "PERSON", "BY"], &rows)
}

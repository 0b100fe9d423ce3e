//! Questions, their deadlines, and the tasks they become.

use super::bench::{Bench, START_MS, VAULT, finding, in_channel, question, task_data};
use bytes::Bytes;
use switchboard_core::event::EventKind;
use switchboard_core::ids::{EventId, InstanceNo, VaultId};
use switchboard_core::port::store::TaskRow;
use switchboard_core::time::{DAY_MS, HOUR_MS};
use switchboard_core::write::{Append, Outcome, Refusal, StreamRef, TaskDecision, Write};

const DEADLINE_MS: i64 = START_MS + HOUR_MS;

fn expire(bench: &Bench<'_>, limit: usize) -> Write {
    Write::ExpireQuestions { limit, data: task_data(bench.installation.hub_instance) }
}

fn answer(from: InstanceNo, agent: &str, to: EventId) -> Append {
    Append { kind: EventKind::Answer, from_agent: agent.into(), reply_to: Some(to), ..finding(from) }
}

fn asking(from: InstanceNo, text: &str) -> Append {
    let data = format!(r#""type":"question","body":{{"text":"{text}","references":[]}}"#);
    Append { data: Bytes::from(data), ..question(from) }
}

async fn tasks(bench: &Bench<'_>) -> Vec<TaskRow> {
    bench.store().tasks(VAULT).await.expect("tasks are readable")
}

/// An unanswered question becomes a task proposal at its deadline, once, with its announcement on its channel; also when
/// the hub was down at that moment.
pub async fn an_unanswered_question_becomes_a_task_once(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let asked = bench.append(in_channel(asking(me, "Which budget?\\nThe small one?"), "retry")).await.id;
    assert_eq!(bench.store().next_deadline().await.expect("readable"), Some(DEADLINE_MS));
    bench.now = DEADLINE_MS - 1;
    let before = bench.commits().await;
    assert_eq!(bench.one(expire(&bench, 10)).await, Outcome::Expired(0));
    assert_eq!(bench.commits().await, before);
    bench.now = DEADLINE_MS + DAY_MS;
    bench.restart().await;
    assert_eq!(bench.one(expire(&bench, 10)).await, Outcome::Expired(1));
    bench.restart().await;
    assert_eq!(bench.one(expire(&bench, 10)).await, Outcome::Expired(0));
    assert_eq!(bench.store().next_deadline().await.expect("readable"), None);
    let expected = TaskRow {
        vault: VAULT,
        number: 1,
        state: "proposed".into(),
        title: "Which budget?".into(),
        question: asked,
        created_ms: bench.now,
    };
    assert_eq!(tasks(&bench).await, [expected]);
    let announced = bench.all(asked.stream).await.pop().expect("it was announced");
    assert_eq!((announced.kind, announced.id.seq), (EventKind::Task, 2));
    assert_eq!(announced.from_instance, bench.installation.hub_instance);
    assert_eq!(announced.expires_at_ms, bench.now + DAY_MS);
    let data = format!(r#""channel":"{VAULT}/retry","number":1,"event":"proposed","state":"proposed""#);
    assert_eq!(announced.data, data);
    assert_eq!(bench.heard.events().last().map(|event| event.id), Some(announced.id));
}

/// An answered question becomes none; what the asking agent says to itself is no answer, what another agent of its
/// instance says is one.
pub async fn an_answered_question_becomes_no_task(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    for (at, (from, agent, answered)) in
        [(you, "helper", true), (me, "colleague", true), (me, "sender", false)].into_iter().enumerate()
    {
        let asked = bench.append(asking(me, &format!("Question number {at}"))).await.id;
        bench.append(answer(from, agent, asked)).await;
        let open = bench.store().next_deadline().await.expect("readable").is_some();
        assert_eq!(open, !answered, "{agent}");
    }
    let ledger = bench.store().ledger().await.expect("readable");
    assert_eq!((ledger.answered, ledger.pending), (2, 1));
    bench.now = DEADLINE_MS;
    assert_eq!(bench.one(expire(&bench, 10)).await, Outcome::Expired(1));
    assert_eq!(tasks(&bench).await[0].title, "Question number 2");
    // Too late: the task stands.
    let asked = tasks(&bench).await[0].question;
    bench.append(answer(you, "helper", asked)).await;
    let ledger = bench.store().ledger().await.expect("readable");
    assert_eq!((ledger.answered, ledger.pending, ledger.expired), (2, 0, 1));
}

/// Questions expire in the order of their deadlines, as many at a time as asked for; numbers rise by one per vault.
pub async fn questions_expire_in_order(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    bench.one(Write::CreateVault { vault: VaultId([1; 16]), name: "second".into(), sealed: false }).await;
    for minutes in [3, 1, 2] {
        let deadline_ms = Some(START_MS + minutes * 60_000);
        bench.append(Append { deadline_ms, ..asking(me, &format!("Due in {minutes} minutes")) }).await;
    }
    let elsewhere = StreamRef::Channel { vault: VaultId([1; 16]), name: "general".into() };
    bench.append(Append { stream: elsewhere, ..asking(me, "Elsewhere") }).await;
    bench.now = DEADLINE_MS;
    for expected in [2, 2, 0] {
        assert_eq!(bench.one(expire(&bench, 2)).await, Outcome::Expired(expected));
    }
    let titles: Vec<_> = tasks(&bench).await.into_iter().map(|task| (task.number, task.title)).collect();
    let due = |number, minutes| (number, format!("Due in {minutes} minutes"));
    assert_eq!(titles, [due(1, 1), due(2, 2), due(3, 3)]);
    let other = bench.store().tasks(VaultId([1; 16])).await.expect("readable");
    assert_eq!(other.iter().map(|task| task.number).collect::<Vec<_>>(), [1]);
}

/// In a swarm a question past its deadline is over, and no task.
pub async fn a_swarms_question_becomes_no_task(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    let person =
        bench.store().instance("inst_ann".into()).await.expect("readable").expect("it is there").owner;
    bench.one(Write::CreateSwarm { swarm: "s".into(), title: "S".into() }).await;
    bench.one(Write::JoinSwarm { swarm: "s".into(), person, handle: "heron".into() }).await;
    let stream = StreamRef::Swarm { swarm: "s".into() };
    let asked = Append { stream, handle: Some(("heron".into(), 9)), ..asking(me, "Anybody there?") };
    let asked = bench.append(asked).await.id;
    bench.now = DEADLINE_MS;
    assert_eq!(bench.one(expire(&bench, 10)).await, Outcome::Expired(1));
    assert_eq!(bench.all(asked.stream).await.len(), 1);
    let ledger = bench.store().ledger().await.expect("readable");
    assert_eq!((ledger.expired, ledger.pending), (1, 0));
}

/// A person decides a proposal once; the decision is announced.
pub async fn a_proposal_is_decided_once(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    for text in ["First question", "Second question"] {
        bench.append(asking(me, text)).await;
    }
    bench.now = DEADLINE_MS;
    bench.one(expire(&bench, 10)).await;
    let data = task_data(bench.installation.hub_instance);
    let decide = |number, decision| Write::DecideTask { vault: VAULT, number, decision, data: data.clone() };
    assert_eq!(bench.refused(decide(3, TaskDecision::Approve)).await, Refusal::NotFound);
    assert_eq!(bench.one(decide(1, TaskDecision::Approve)).await, Outcome::Task { state: "open" });
    assert_eq!(bench.one(decide(2, TaskDecision::Decline)).await, Outcome::Task { state: "rejected" });
    for (number, state) in [(1, "open"), (2, "rejected")] {
        for decision in [TaskDecision::Approve, TaskDecision::Decline] {
            assert_eq!(bench.refused(decide(number, decision)).await, Refusal::TaskState { state });
        }
    }
    let states: Vec<_> = tasks(&bench).await.into_iter().map(|task| task.state).collect();
    assert_eq!(states, ["open", "rejected"]);
    let stream = bench.channel("general").await.expect("it exists").id;
    let events = bench.all(stream).await;
    let said = |event: &str, state: &str| format!(r#""event":"{event}","state":"{state}""#);
    for (at, expected) in [(4, said("opened", "open")), (5, said("decided", "rejected"))] {
        let data = String::from_utf8_lossy(&events[at].data).into_owned();
        assert!(data.ends_with(&expected), "{data}");
    }
}

/// A question that retention removes before its deadline has expired, and becomes no task.
pub async fn a_question_that_is_gone_becomes_no_task(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    bench.append(Append { expires_at_ms: START_MS + 2000, ..asking(me, "Soon gone") }).await;
    bench.now = START_MS + 2000;
    bench.one(Write::Sweep { limit: 10 }).await;
    let ledger = bench.store().ledger().await.expect("readable");
    assert_eq!((ledger.expired, ledger.pending), (1, 0));
    bench.now = DEADLINE_MS;
    assert_eq!(bench.one(expire(&bench, 10)).await, Outcome::Expired(0));
    assert_eq!(tasks(&bench).await, []);
}

/// The proposal of a question whose message has gone since can still be decided.
pub async fn a_task_outlives_its_question(mut bench: Bench<'_>) {
    let me = bench.instance("ann").await;
    bench.append(Append { expires_at_ms: DEADLINE_MS + 1, ..asking(me, "Soon gone") }).await;
    bench.now = DEADLINE_MS;
    bench.one(expire(&bench, 10)).await;
    bench.now = START_MS + 20 * DAY_MS;
    bench.one(Write::Sweep { limit: 10 }).await;
    let data = task_data(bench.installation.hub_instance);
    let decide = Write::DecideTask { vault: VAULT, number: 1, decision: TaskDecision::Approve, data };
    assert_eq!(bench.one(decide).await, Outcome::Task { state: "open" });
}

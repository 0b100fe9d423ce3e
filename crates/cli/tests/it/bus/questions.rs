//! Deadlines: an unanswered question becomes a task proposal, exactly once.

use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::time::{DAY_MS, HOUR_MS, ManualClock};
use switchboard_engine::Settings;
use switchboard_testkit::{Options, TestHub};

const NOON_MS: i64 = 1_792_497_600_000; // 2026-10-20T12:00:00Z

async fn hub(clock: &Arc<ManualClock>) -> TestHub {
    let settings = Settings { sweep_every: Duration::from_millis(20), ..Settings::default() };
    TestHub::with(Options { settings, clock: Some(clock.clone()), ..Options::default() }).await
}

#[tokio::test]
async fn it_becomes_a_proposal_that_a_person_decides_on() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = hub(&clock).await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut asker = hub.agent(&a, "a").await;
    let mut watcher = hub.agent(&b, "b").await;
    let mut question = hub.message("q1", "question", "a", "Who owns the retry budget?");
    question["deadline"] = json!("2026-10-20T13:00:00Z");
    let stored = asker.ask(&question).await;
    assert_eq!(watcher.expect("message.deliver").await["deadline"], "2026-10-20T13:00:00Z");

    clock.advance(2 * HOUR_MS.unsigned_abs());
    let event = watcher.expect("task.event").await;
    assert_eq!((event["event"].as_str(), event["state"].as_str()), (Some("proposed"), Some("proposed")));
    assert_eq!(
        (event["number"].as_u64(), event["seq"].as_u64()),
        (Some(1), Some(2)),
        "one sequence for all events"
    );
    assert_eq!(event["channel"], hub.channel("general"));

    let admin = hub.http(&hub.admin());
    let tasks = admin.get("/admin/v1/vaults/main/tasks").await.json();
    assert_eq!(tasks.as_array().unwrap().len(), 1);
    assert_eq!(tasks[0]["question_gid"], stored["gid"]);
    assert!(tasks[0]["title"].as_str().unwrap().contains("Who owns the retry budget?"));
    assert_eq!(admin.post("/admin/v1/vaults/main/tasks/1/approve", &json!({})).await.status, 204);
    assert_eq!(watcher.expect("task.event").await["event"], "opened");
    let again = admin.post("/admin/v1/vaults/main/tasks/1/decline", &json!({})).await;
    assert_eq!((again.status, again.json()["error"]["reason"].as_str()), (409, Some("task_not_proposed")));
    assert_eq!(admin.post("/admin/v1/vaults/main/tasks/9/approve", &json!({})).await.status, 404);
    hub.stop().await;
}

#[tokio::test]
async fn it_happens_once_also_when_the_hub_was_down_at_that_moment() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = hub(&clock).await;
    let token = hub.token("a").await;
    let mut asker = hub.agent(&token, "a").await;
    asker.ask(&hub.message("q1", "question", "a", "anybody?")).await;
    asker.ask(&hub.message("q2", "question", "a", "still nobody?")).await;
    clock.advance(DAY_MS.unsigned_abs() - 1000);
    let hub = hub.restart().await;
    clock.advance(3000);
    let hub = hub.restart().await;
    let mut reader = hub.agent_from(&token, "other", &json!({ hub.channel("general"): 2 })).await;
    let numbers = [
        reader.expect("task.event").await["number"].clone(),
        reader.expect("task.event").await["number"].clone(),
    ];
    assert_eq!(numbers, [json!(1), json!(2)]);
    let hub = hub.restart().await;
    let tasks = hub.http(&hub.admin()).get("/admin/v1/vaults/main/tasks").await.json();
    assert_eq!(tasks.as_array().unwrap().len(), 2);
    hub.stop().await;
}

#[tokio::test]
async fn an_answer_in_time_means_no_proposal_and_the_ledger_says_so() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = hub(&clock).await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut asker = hub.agent(&a, "a").await;
    let mut helper = hub.agent(&b, "b").await;
    asker.ask(&hub.message("q1", "question", "a", "answered?")).await;
    asker.ask(&hub.message("q2", "question", "a", "not answered?")).await;
    let question = helper.expect("message.deliver").await;
    let mut answer = hub.message("r1", "answer", "b", "yes");
    answer["reply_to"] = question["gid"].clone();
    helper.ask(&answer).await;
    clock.advance(DAY_MS.unsigned_abs() + 1000);
    assert_eq!(helper.expect("task.event").await["number"], 1);
    let ledger = hub.http(&hub.admin()).get("/admin/v1/ledger").await.json();
    let bus = &ledger["bus"];
    assert_eq!(
        (bus["accepted"].as_u64(), bus["answered"].as_u64(), bus["expired"].as_u64()),
        (Some(3), Some(1), Some(1))
    );
    assert_eq!((bus["delivered"].as_u64(), bus["pending"].as_u64()), (Some(1), Some(0)));
    hub.stop().await;
}

#[tokio::test]
async fn deadlines_are_checked_but_a_resend_behind_its_deadline_is_a_repeat() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = hub(&clock).await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    let with = |id: &str, kind: &str, deadline: &str| {
        let mut message = hub.message(id, kind, "a", "x");
        message["deadline"] = json!(deadline);
        message
    };
    for (id, kind, deadline) in [
        ("past", "question", "2026-10-20T11:59:59Z"),
        ("far", "question", "2026-10-28T12:00:00Z"),
        ("nodate", "question", "tomorrow"),
        ("finding", "finding", "2026-10-21T12:00:00Z"),
    ] {
        let refused = socket.ask(&with(id, kind, deadline)).await;
        assert_eq!(refused["error"]["code"], "invalid_request", "{id}: {refused}");
        assert_eq!(refused["error"]["field"], "deadline", "{id}");
    }
    let good = with("good", "question", "2026-10-20T12:10:00Z");
    let stored = socket.ask(&good).await;
    clock.advance(HOUR_MS.unsigned_abs());
    assert_eq!(socket.ask(&good).await, stored);
    hub.stop().await;
}

#[tokio::test]
async fn a_clock_that_jumps_an_hour_either_way_loses_no_order_and_no_deadline() {
    let clock = Arc::new(ManualClock::at(NOON_MS));
    let hub = hub(&clock).await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    for (n, jump) in [(1, -HOUR_MS), (2, HOUR_MS), (3, HOUR_MS), (4, -HOUR_MS)] {
        clock.jump_wall(jump);
        let stored = socket.ask(&hub.message(&format!("m{n}"), "question", "a", "?")).await;
        assert_eq!(stored["seq"], n);
    }
    clock.jump_wall(DAY_MS + 2 * HOUR_MS);
    let mut reader = hub.agent_from(&token, "other", &json!({ hub.channel("general"): 4 })).await;
    for _ in 1..=4 {
        reader.expect("task.event").await;
    }
    hub.stop().await;
}

//! Trying again: what may be, when, how often, and that nobody else waits for it. Most by a clock of the test's own; a message to
//! somebody else that arrives shows that the outbox has looked at that clock.

use super::standin::{Answer, SECRET, StandIn, pause};
use super::{Desk, OUTBOUND, by_clock, by_id, in_time, notice, options, question, with};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::fake::{CAPABILITIES, Script};
use switchboard_channels::webhook::{Settings, Webhook};
use switchboard_core::SecretString;
use switchboard_core::port::channel::{FailureClass, NotSent};
use switchboard_core::time::SystemClock;

fn failing(class: FailureClass, retry_after_ms: Option<u64>) -> Script {
    Script::NotSent(NotSent { retry_after_ms, ..NotSent::new(class, "not now") })
}

/// Attempts that Ada's address has seen.
fn for_ada(desk: &Desk) -> usize {
    desk.network.attempts().iter().filter(|attempt| attempt.to.handle == "ada").count()
}

/// Ben gets something: the outbox has looked.
async fn looked(desk: &Desk) {
    let before = desk.network.accepted().len();
    desk.sent(&notice("ben", "are you there?")).await;
    in_time(desk.network.until_accepted(before + 1)).await;
}

#[tokio::test]
async fn a_service_that_asks_to_wait_is_left_alone_for_so_long_and_others_are_served() {
    let (options, clock) = by_clock();
    let desk = Desk::with(options, CAPABILITIES).await;
    desk.network.script([failing(FailureClass::Throttled, Some(7000))]);
    let first = desk.sent(&notice("ada", "1")).await;
    in_time(desk.network.until_attempts(1)).await;
    let shown = desk.until_shown(&first["send_id"], |shown| shown["attempts"][0]["outcome"] == "retry").await;
    assert_eq!(shown["parts"][0]["fails"], 0, "waiting on request is no failure: {shown}");
    let second = desk.sent(&notice("ada", "2")).await;
    for ms in [0, 3000, 3999] {
        clock.advance(ms);
        looked(&desk).await;
        assert_eq!(for_ada(&desk), 1, "nothing to Ada within the 7 s, also not what is behind it");
    }
    clock.advance(2000); // 7 s and what is random
    for receipt in [&first, &second] {
        desk.until(&receipt["send_id"], "delivered").await;
    }
    let texts: Vec<_> = desk
        .network
        .accepted()
        .into_iter()
        .filter(|one| one.to.handle == "ada")
        .map(|one| one.part.text)
        .collect();
    assert_eq!(texts, ["1", "2"], "in order");
}

#[tokio::test]
async fn a_target_that_never_works_is_given_up_and_holds_up_nobody() {
    let (options, clock) = by_clock();
    let mut desk = Desk::with(options, CAPABILITIES).await;
    desk.network.script((0..8).map(|_| failing(FailureClass::Transient, None)));
    let receipt = desk.sent(&notice("ada", "to nowhere")).await;
    for attempt in 1..=8 {
        desk.until_shown(&receipt["send_id"], |shown| shown["attempts"].as_array().unwrap().len() == attempt)
            .await;
        if attempt == 4 {
            desk = desk.restart().await; // attempts are counted in the store
        }
        clock.advance(30 * 60 * 1000);
    }
    let shown = desk.until(&receipt["send_id"], "dead").await;
    assert_eq!((&shown["parts"][0]["attempts"], &shown["reason"]), (&json!(8), &json!("not now")), "{shown}");
    looked(&desk).await;
    assert_eq!(for_ada(&desk), 8);
    assert_eq!(desk.ledger().await["dead"], 1);
}

#[tokio::test]
async fn a_deadline_ends_the_trying() {
    let (options, clock) = by_clock();
    let now_ms = |clock: &switchboard_core::time::ManualClock| switchboard_core::time::Clock::wall_ms(clock);
    let desk = Desk::with(options, CAPABILITIES).await;
    desk.network.script([failing(FailureClass::Transient, Some(60_000))]);
    let call = with(notice("ada", "in time or never"), &json!({ "deadline_ms": now_ms(&clock) + 30_000 }));
    let receipt = desk.sent(&call).await;
    let shown = desk.until(&receipt["send_id"], "expired").await;
    assert!(
        shown["reason"].as_str().unwrap().contains("its deadline passes before it can be tried again"),
        "{shown}"
    );
    clock.advance(600_000);
    looked(&desk).await;
    assert_eq!(for_ada(&desk), 1);
    assert_eq!(desk.ledger().await["expired"], 1);
}

async fn with_webhook(answers: impl IntoIterator<Item = Answer>) -> (Desk, Arc<StandIn>) {
    let standin = StandIn::start(answers).await;
    let secrets = vec![SecretString::from(SECRET.to_owned())];
    let target = SecretString::from(standin.url.clone());
    let mut settings = Settings::new("hook", target, secrets, Arc::new(SystemClock::default()));
    settings.allow_private_targets = true;
    let mut desk = Desk::with(options(), by_id()).await;
    desk.add(Arc::new(Webhook::new(settings).unwrap()), false).await;
    (desk, standin)
}

fn hook(body: &str) -> Value {
    with(notice("ada", body), &json!({ "channel": "hook" }))
}

/// The receiver fails after it has taken the message, hangs up on the next, and takes the third for a repeat.
#[tokio::test]
async fn a_webhook_that_fails_after_taking_it_sees_one_id_and_the_same_bytes() {
    let (desk, standin) = with_webhook([Answer::Status(500, ""), Answer::HangUp]).await;
    let receipt = desk.sent(&hook("once")).await;
    desk.until(&receipt["send_id"], "delivered").await;
    let came = standin.came();
    assert_eq!(came.len(), 3);
    assert!(came.iter().all(|one| (&one.id, &one.body) == (&came[0].id, &came[0].body)), "{came:?}");
    assert_eq!(came.iter().map(|one| one.attempt.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert!(String::from_utf8_lossy(&came[0].body).contains("once"));
}

#[tokio::test]
async fn a_webhook_that_asks_to_wait_gets_nothing_sooner() {
    let (desk, standin) = with_webhook([Answer::Status(429, "retry-after: 2\r\n")]).await;
    let receipt = desk.sent(&hook("patience")).await;
    let shown = desk.until(&receipt["send_id"], "delivered").await;
    let came = standin.came();
    assert_eq!((came.len(), &shown["parts"][0]["fails"]), (2, &json!(0)), "{shown}");
    assert!(pause(&came) >= Duration::from_secs(2), "{:?}", pause(&came));
    assert!(shown["attempts"][0]["reason"].as_str().unwrap().contains("429"), "{shown}");
}

#[tokio::test]
async fn a_webhook_that_is_gone_is_not_written_to_again_until_somebody_says_so() {
    let (desk, standin) = with_webhook([Answer::Status(410, "")]).await;
    let receipt = desk.sent(&hook("still there?")).await;
    assert_eq!(receipt["state"], "dead", "{receipt}");
    let refused = desk.send(&hook("hello?")).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["reason"].clone()),
        (403, json!("suppressed")),
        "{}",
        refused.text
    );
    assert_eq!(standin.came().len(), 1);
    assert_eq!(desk.allow("hook", "ada", true).await.status, 200);
    assert_eq!(desk.sent(&hook("hello!")).await["delivered"], true);
}

/// The service does not know us any more: nothing is lost, nothing counts, everybody is told, and it goes out when that is mended.
#[tokio::test]
async fn what_meets_wrong_credentials_waits_until_they_are_right() {
    let (options, _clock) = by_clock();
    let mut desk = Desk::with(options, CAPABILITIES).await;
    desk.network.script((0..2).map(|_| failing(FailureClass::Misconfigured, None)));
    let first = desk.sent(&notice("ada", "1")).await;
    let shown = desk.until_shown(&first["send_id"], |shown| shown["attempts"][0]["outcome"] == "retry").await;
    assert_eq!((&shown["state"], &shown["parts"][0]["fails"]), (&json!("sending"), &json!(0)), "{shown}");
    let why = shown["why"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned();
    assert!(why.contains("is due and waits for chat: not now") && why.contains("outbound retry"), "{why}");
    let ready = desk.admin().get("/readyz").await;
    assert_eq!((ready.status, &ready.json()["degraded"]), (200, &json!(true)), "{}", ready.text);
    let channels = desk.admin().get("/v1/tools/messaging.channels").await.json();
    let chat = channels["channels"].as_array().unwrap().iter().find(|channel| channel["name"] == "chat");
    assert_eq!(chat.unwrap()["health"], "not now", "{channels}");

    // Behind a shut channel, others wait too, without an attempt; a person who has mended it need not wait.
    let second = desk.sent(&notice("ben", "2")).await;
    let path = format!("{OUTBOUND}/{}/retry", first["send_id"].as_str().unwrap());
    let retried = desk.admin().post(&path, &json!({})).await;
    assert_eq!((retried.status, &retried.json()["state"]), (200, &json!("sending")), "{}", retried.text);
    in_time(desk.network.until_attempts(2)).await;
    desk.until_shown(&first["send_id"], |shown| shown["attempts"].as_array().unwrap().len() == 2).await;
    desk = desk.restart().await; // whoever starts it again has perhaps written down new credentials
    for receipt in [&first, &second] {
        let shown = desk.until(&receipt["send_id"], "delivered").await;
        assert_eq!(shown["parts"][0]["fails"], 0, "{shown}");
    }
    assert_eq!(desk.network.attempts().len(), 4);
    assert_eq!(desk.admin().get("/readyz").await.json()["degraded"], false);
    assert_eq!(desk.ledger().await["delivered"], 2);
}

#[tokio::test]
async fn a_deadline_ends_the_wait_for_a_channel() {
    let (options, clock) = by_clock();
    let desk = Desk::with(options, CAPABILITIES).await;
    desk.network.script((0..100).map(|_| failing(FailureClass::Misconfigured, None)));
    let deadline_ms = switchboard_core::time::Clock::wall_ms(&*clock) + 30_000;
    let asked = with(super::question("ada", "Now?"), &json!({ "deadline_ms": deadline_ms }));
    let receipt = desk.sent(&asked).await;
    desk.until_shown(&receipt["send_id"], |shown| shown["attempts"][0]["outcome"] == "retry").await;
    clock.advance(30_001);
    desk.until(&receipt["send_id"], "expired").await;
    assert_eq!(desk.conversation(&receipt["topic_id"]).await["state"], "expired");
}

/// What a person asks of a send; the words of a refusal, or nothing.
async fn asked_to_retry(desk: &Desk, receipt: &Value) -> Option<Value> {
    let id = receipt["send_id"].as_str().unwrap();
    let reply = desk.admin().post(&format!("{OUTBOUND}/{id}/retry"), &json!({})).await;
    (reply.status != 200).then(|| reply.json()["error"].clone())
}

#[tokio::test]
async fn what_waits_says_why_in_the_listing_and_can_be_hurried() {
    let (options, clock) = by_clock();
    let desk = Desk::with(options, CAPABILITIES).await;
    desk.network.script([failing(FailureClass::Throttled, Some(3_600_000))]);
    let first = desk.sent(&notice("ada", "1")).await;
    desk.until_shown(&first["send_id"], |shown| shown["attempts"][0]["outcome"] == "retry").await;
    let second = desk.sent(&notice("ada", "2")).await;
    let asked = desk.sent(&question("ben", "which?")).await;
    desk.until(&asked["send_id"], "open").await;
    let queued = desk.sent(&question("ben", "and which?")).await;
    let listed = desk.admin().get(OUTBOUND).await.json();
    let reason = |receipt: &Value| {
        let found =
            listed["sends"].as_array().unwrap().iter().find(|one| one["send_id"] == receipt["send_id"]);
        found.unwrap()["reason"].as_str().unwrap_or_default().to_owned()
    };
    assert!(
        reason(&first).starts_with("it is tried again in 6") && reason(&first).ends_with("min (not now)"),
        "{listed}"
    );
    let behind =
        format!("it waits behind {}, which goes to the same address", first["send_id"].as_str().unwrap());
    assert_eq!(reason(&second), behind);
    assert_eq!(reason(&queued), "it waits until the person has answered the question before it");
    assert_eq!(reason(&asked), "", "it waits for its answer");
    let story = desk.show(&second["send_id"]).await;
    assert_eq!(story["why"].as_array().unwrap().last().unwrap(), &json!(format!("I{}.", &behind[1..])));

    let refused = asked_to_retry(&desk, &second).await.unwrap();
    assert!(
        refused["message"].as_str().unwrap().starts_with("This is waiting behind another message"),
        "{refused}"
    );
    assert_eq!(refused["sb"], "SB0134");
    assert_eq!(asked_to_retry(&desk, &first).await, None);
    for receipt in [&first, &second] {
        desk.until(&receipt["send_id"], "delivered").await; // by a clock that has stood still
    }
    assert!(
        asked_to_retry(&desk, &first).await.unwrap()["message"]
            .as_str()
            .unwrap()
            .starts_with("This is delivered")
    );
    clock.advance(7_200_000);
    looked(&desk).await;
    assert_eq!(for_ada(&desk), 3, "nothing twice");
    desk.ledger().await;
}

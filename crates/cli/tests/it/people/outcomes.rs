//! Whatever becomes of a send, it is never guessed, never hidden and never repeated in silence.

use super::{Desk, OUTBOUND, by_id, notice, options, question, with};
use crate::cli::{Ended, program, run};
use serde_json::{Value, json};
use switchboard_channels::fake::{CAPABILITIES, FakeNetwork, Script};
use switchboard_core::port::channel::{Capabilities, FailureClass, NotSent};
use switchboard_testkit::Mcp;

/// Runs `switchboard outbound …` as the owner.
async fn outbound(desk: &Desk, arguments: &[&str]) -> Ended {
    let (url, bearer) = (desk.hub.url.clone(), desk.hub.admin().bearer);
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let command = move || {
        let mut command = program(&["outbound"]);
        run(command.args(arguments).args(["--url", &url, "--token", &bearer]))
    };
    tokio::task::spawn_blocking(command).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_arrived_is_unknown_everywhere_and_sent_again_only_by_a_person() {
    let desk = Desk::open().await;
    desk.network.script([Script::Taken("no answer within 30 s".into())]);
    let call = with(notice("ada", "pay the invoice"), &json!({ "idempotency_key": "k" }));
    let receipt = desk.sent(&call).await;
    assert_eq!((&receipt["state"], &receipt["delivered"]), (&json!("unknown"), &json!(false)), "{receipt}");
    assert!(receipt["reason"].as_str().unwrap().contains("no answer within 30 s"), "{receipt}");

    // A repeat joins it; a restart and a look change nothing.
    let desk = desk.restart().await;
    let repeat = desk.sent(&call).await;
    assert_eq!((&repeat["state"], &repeat["deduplicated"]), (&json!("unknown"), &json!(true)), "{repeat}");
    let by_mcp = Mcp::open(&desk.hub, &desk.agent).await.done("messaging_send", call.clone()).await;
    assert!(by_mcp.text.contains("(unknown)") && by_mcp.data["state"] == "unknown", "{}", by_mcp.text);
    let id = receipt["send_id"].as_str().unwrap();
    let listed = desk.admin().get(&format!("{OUTBOUND}?state=unknown")).await.json();
    assert_eq!(listed["sends"][0]["send_id"], id, "{listed}");
    let shown = outbound(&desk, &["show", id]).await.stdout;
    assert!(shown.contains("Whether it arrived is not known") && shown.contains("outbound retry"), "{shown}");
    assert_eq!(desk.ledger().await["unknown"], 1);
    assert_eq!(desk.network.attempts().len(), 1, "nobody has asked for another");

    let retried = outbound(&desk, &["retry", id]).await;
    assert_eq!(retried.code, 0, "{retried:?}");
    let shown = desk.until(&receipt["send_id"], "delivered").await;
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 2, "{shown}");
    let attempts = desk.network.attempts();
    assert_eq!(attempts.len(), 2);
    // What a person sends again is another delivery, and says which one it stands for.
    let (part, told) = (&shown["parts"][0], shown["why"].to_string());
    assert_eq!(
        (&part["instead_of"], &part["delivery"]),
        (&json!(attempts[0].delivery), &json!(attempts[1].delivery))
    );
    assert_ne!(attempts[0].delivery, attempts[1].delivery);
    assert_eq!(shown["attempts"][0]["delivery"], json!(attempts[0].delivery), "{shown}");
    assert!(
        told.contains(&format!("as {}, instead of {}", attempts[1].delivery, attempts[0].delivery)),
        "{told}"
    );
    let counts = desk.ledger().await;
    assert_eq!((&counts["unknown"], &counts["delivered"]), (&json!(0), &json!(1)), "{counts}");
}

#[tokio::test]
async fn where_repeats_are_dropped_it_is_made_again_under_the_same_id_with_the_same_bytes() {
    let desk = Desk::with(options(), by_id()).await;
    desk.network.script([Script::Taken("cut off".into())]);
    let receipt = desk.sent(&notice("ada", "once")).await;
    let shown = desk.until(&receipt["send_id"], "delivered").await;
    let outcomes: Vec<_> = shown["attempts"].as_array().unwrap().iter().map(|one| &one["outcome"]).collect();
    assert_eq!(outcomes, ["retry", "sent"], "{shown}");
    let attempts = desk.network.attempts();
    assert_eq!((&attempts[0].delivery, &attempts[0].part), (&attempts[1].delivery, &attempts[1].part));
    assert_eq!(attempts.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(desk.network.accepted().len(), 1);
}

#[tokio::test]
async fn dead_letters_say_why_and_a_person_tries_again_or_gives_up() {
    let desk = Desk::open().await;
    let gone = || {
        Script::NotSent(NotSent {
            code: Some("E7".into()),
            ..NotSent::new(FailureClass::Permanent, "refused")
        })
    };
    desk.network.script([gone(), gone(), gone()]);
    let first = desk.sent(&notice("ada", "one")).await;
    let second = desk.sent(&notice("ada", "two")).await;
    for receipt in [&first, &second] {
        assert_eq!(
            (&receipt["state"], &receipt["reason"]),
            (&json!("dead"), &json!("refused (E7)")),
            "{receipt}"
        );
    }
    let path = |id: &Value, what: &str| format!("{OUTBOUND}/{}/{what}", id.as_str().unwrap());
    let admin = desk.admin();
    assert_eq!(admin.post(&path(&first["send_id"], "retry"), &json!({})).await.status, 200);
    let again = |shown: &Value| shown["attempts"].as_array().unwrap().len() == 2 && shown["state"] == "dead";
    desk.until_shown(&first["send_id"], again).await; // it was refused again
    assert_eq!(admin.post(&path(&first["send_id"], "retry"), &json!({})).await.status, 200);
    let shown = desk.until(&first["send_id"], "delivered").await;
    let why = shown["why"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line.as_str().unwrap())
        .collect::<Vec<_>>()
        .join(" ");
    for part in [
        "Accepted from agent planner",
        "attempt 1: failed",
        "refused (E7)",
        "attempt 3: sent",
        "It has arrived.",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let late = admin.post(&path(&first["send_id"], "retry"), &json!({})).await;
    assert_eq!(late.status, 409, "what has arrived is not sent again: {}", late.text);
    assert_eq!(admin.post(&path(&first["send_id"], "discard"), &json!({})).await.status, 409);
    assert_eq!(admin.post(&path(&json!("snd_none"), "retry"), &json!({})).await.status, 404);
    let agent = desk.hub.http(&desk.agent);
    assert_eq!(agent.post(&path(&second["send_id"], "retry"), &json!({})).await.status, 403, "agents do not");
    let counts = desk.ledger().await;
    assert_eq!((&counts["dead"], &counts["delivered"]), (&json!(1), &json!(1)), "{counts}");
}

#[tokio::test]
async fn of_several_parts_each_says_where_it_is_and_none_goes_twice() {
    let desk = Desk::with(options(), Capabilities { part_max: 4, ..CAPABILITIES }).await;
    desk.network.script([Script::Sent, Script::Sent, Script::Taken("cut off".into())]);
    let receipt = desk.sent(&notice("ada", "aaaabbbbccccddddee")).await;
    assert_eq!((&receipt["state"], &receipt["delivered"]), (&json!("unknown"), &json!(false)), "{receipt}");
    assert!(receipt["message_id"].is_string(), "what has arrived has its id: {receipt}");
    let parts = |shown: &Value| -> Vec<String> {
        shown["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part["state"].as_str().unwrap().to_owned())
            .collect()
    };
    let shown = desk.show(&receipt["send_id"]).await;
    assert_eq!(parts(&shown), ["sent", "sent", "unknown", "parked", "parked"], "{shown}");
    assert!(shown["parts"][1]["message_id"].is_string() && shown["parts"][2]["message_id"].is_null());

    // Nothing overtakes a part whose fate is not known; a person decides that it goes on.
    let path = format!("{OUTBOUND}/{}/retry", receipt["send_id"].as_str().unwrap());
    assert_eq!(desk.admin().post(&path, &json!({})).await.status, 200);
    desk.until(&receipt["send_id"], "delivered").await;
    let texts: Vec<_> = desk.network.attempts().into_iter().map(|attempt| attempt.part.text).collect();
    assert_eq!(
        texts,
        ["aaaa", "bbbb", "cccc", "cccc", "dddd", "ee"],
        "only the uncertain one was made again"
    );
    let deliveries: std::collections::HashSet<_> =
        desk.network.attempts().into_iter().map(|one| one.delivery).collect();
    assert_eq!(deliveries.len(), 6, "what a person sends again is another delivery");
}

/// Attempts of one channel hang; another goes on.
#[tokio::test]
async fn a_channel_that_hangs_slows_no_other() {
    let mut options = options();
    options.settings.outbound.receipt_wait = std::time::Duration::ZERO;
    options.settings.outbound.default_rate.max = 200;
    let mut desk = Desk::with(options, CAPABILITIES).await;
    let other = FakeNetwork::new("other");
    desk.add(other.clone(), false).await;
    desk.network.script(std::iter::repeat_n(Script::Silent, 80));
    for number in 0..40 {
        let to = format!("slow{number}");
        assert_eq!(desk.allow("chat", &to, true).await.status, 200);
        desk.sent(&notice(&to, "hang")).await;
    }
    desk.network.until_attempts(40).await;
    for number in 0..20 {
        desk.sent(&with(notice("ada", &format!("{number}")), &json!({ "channel": "other" }))).await;
    }
    super::in_time(other.until_accepted(20)).await;
    let order: Vec<_> = other.accepted().into_iter().map(|attempt| attempt.part.text).collect();
    assert_eq!(order, (0..20).map(|number| number.to_string()).collect::<Vec<_>>(), "in order");
    let counts = desk.admin().get("/v1/ledger").await.json();
    assert_eq!(counts["outbound"]["pending"], 40, "the other's all hang: {counts}");
}

#[tokio::test]
async fn a_question_whose_arrival_is_unknown_can_be_answered_all_the_same() {
    let desk = Desk::open().await;
    desk.network.script([Script::Taken("cut off".into())]);
    let receipt = desk.sent(&question("ada", "Now?")).await;
    assert_eq!((&receipt["state"], receipt["topic_id"].is_string()), (&json!("unknown"), true), "{receipt}");
    desk.says("e1", "ada", "yes").await;
    let found = desk.conversation(&receipt["topic_id"]).await;
    assert_eq!((&found["state"], &found["answer"]["text"]), (&json!("answered"), &json!("yes")), "{found}");
    let counts = desk.ledger().await;
    assert_eq!(
        (&counts["answered"], &counts["unknown"]),
        (&json!(1), &json!(0)),
        "the answer proves it: {counts}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_that_runs_out_of_time_leaves_it_unknown_and_is_not_started_again() {
    use switchboard_channels::exec::{Exec, Settings};
    let dir = tempfile::tempdir().unwrap();
    let came = dir.path().join("came");
    // It has the message, and says nothing more.
    let script = format!("cat >> {}; exec tail -f /dev/null", came.display());
    let mut settings = Settings::new("pager", vec!["/bin/sh".into(), "-c".into(), script]);
    settings.timeout = std::time::Duration::from_millis(700);
    let mut desk = Desk::open().await;
    desk.add(std::sync::Arc::new(Exec::new(settings).unwrap()), false).await;
    let call = with(notice("ada", "once"), &json!({ "channel": "pager", "idempotency_key": "k" }));
    let receipt = desk.sent(&call).await;
    let shown = desk.until(&receipt["send_id"], "unknown").await;
    assert!(shown["reason"].as_str().unwrap().contains("ran out of time"), "{shown}");
    let desk = desk.restart().await;
    assert_eq!(desk.sent(&call).await["state"], "unknown");
    assert_eq!(std::fs::read_to_string(came).unwrap().lines().count(), 1);
    assert_eq!(desk.ledger().await["unknown"], 1);
}

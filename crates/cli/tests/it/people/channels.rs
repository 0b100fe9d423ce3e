//! Channels that come and go, and what is told of them.

use super::{Desk, by_clock, in_time, notice, options, question, with};
use serde_json::json;
use switchboard_channels::fake::{CAPABILITIES, FakeNetwork, Script};
use switchboard_core::port::channel::{FailureClass, NotSent};

#[tokio::test]
async fn what_was_for_a_channel_that_has_gone_is_held_in_sight_and_goes_on_when_it_is_back() {
    let (options, clock) = by_clock();
    let mut desk = Desk::with(options, CAPABILITIES).await;
    let pager = FakeNetwork::new("pager");
    desk.add(pager.clone(), false).await;
    let busy = NotSent { retry_after_ms: Some(3_600_000), ..NotSent::new(FailureClass::Throttled, "later") };
    pager.script([Script::NotSent(busy)]);
    let asked = desk.sent(&with(question("ada", "Now?"), &json!({ "channel": "pager" }))).await;
    in_time(pager.until_attempts(1)).await;
    let behind = desk.sent(&with(notice("ada", "By the way"), &json!({ "channel": "pager" }))).await;
    desk.until_shown(&asked["send_id"], |shown| shown["attempts"][0]["outcome"] == "retry").await;

    desk.more.clear();
    // Where a store is shared, another node gets a minute's time: it may have the channel.
    let mut desk = desk.restart_after(|| clock.advance(2 * 3_600_000)).await;
    for receipt in [&asked, &behind] {
        let shown = desk.until(&receipt["send_id"], "held").await;
        let why = shown["why"].as_array().unwrap().last().unwrap().as_str().unwrap();
        assert!(why.contains("no channel \"pager\" is configured") && why.contains("discard"), "{why}");
        assert_eq!(shown["parts"][0]["state"], "stranded", "{shown}");
    }
    assert_eq!(desk.conversation(&asked["topic_id"]).await["state"], "queued");
    assert_eq!(desk.ledger().await["pending"], 2);

    desk.add(pager.clone(), false).await;
    desk.until(&asked["send_id"], "open").await;
    desk.until(&behind["send_id"], "delivered").await;
    let texts: Vec<_> = pager.accepted().into_iter().map(|attempt| attempt.part.text).collect();
    assert_eq!(texts, ["Now?", "By the way"], "in order");
}

#[tokio::test]
async fn an_agent_is_told_of_those_alone_whom_it_may_write_to() {
    let rules = tempfile::tempdir().unwrap();
    let rule = "[[deny_tool_param]]\nname = \"no-ben\"\ntool = \"messaging.send\"\nparam = \"to\"\nequals = \"ben\"\n\
                [[deny_tool_param]]\nname = \"tone\"\ntool = \"messaging.send\"\nparam = \"body\"\ncontains = \"urgent\"\n";
    std::fs::write(rules.path().join("whom.toml"), rule).unwrap();
    let mut options = options();
    options.settings.policy_dir = Some(rules.path().to_owned());
    let desk = Desk::with(options, CAPABILITIES).await;
    let reachable = async |http: switchboard_testkit::Http| {
        let listed = http.get("/v1/tools/messaging.channels").await.json();
        let chat = listed["channels"].as_array().unwrap().iter().find(|channel| channel["name"] == "chat");
        let reachable = chat.unwrap()["reachable"].as_array().unwrap().clone();
        reachable.into_iter().map(|to| to["to"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(reachable(desk.hub.http(&desk.agent)).await, ["ada"]);
    assert_eq!(reachable(desk.admin()).await, ["ada", "ben"], "who administers sees all");
    assert_eq!(desk.send(&notice("ben", "hi")).await.status, 403);
}

#[tokio::test]
async fn an_approver_who_could_not_be_asked_is_in_the_log() {
    let rules = tempfile::tempdir().unwrap();
    let care = "[[require_approval]]\nname = \"care\"\ntool = \"messaging.send\"\nparam = \"body\"\ncontains = \"deploy\"\n";
    std::fs::write(rules.path().join("care.toml"), care).unwrap();
    let mut options = options();
    options.settings.policy_dir = Some(rules.path().to_owned());
    options.settings.outbound.approvers =
        vec![("chat".into(), "stranger".into()), ("slak".into(), "x".into())];
    let desk = Desk::with(options, CAPABILITIES).await;
    let receipt = desk.sent(&notice("ada", "deploy it")).await;
    let approval = receipt["approval_id"].as_str().unwrap();
    let desk = desk.restart().await; // whatever gathers in memory is written down by then
    let log = desk.admin().get("/admin/v1/log").await.text;
    assert_eq!(log.matches("approval.ask").count(), 2, "{log}");
    assert!(log.contains(&format!("{approval} to=")) && log.contains("not_paired"), "{log}");
    assert!(!log.contains("stranger"), "addresses stand there as digests: {log}");
}

#[tokio::test]
async fn a_listing_shows_the_beginning_of_a_text_and_show_all_of_it() {
    let desk = Desk::open().await;
    let text = "All of it. ".repeat(100);
    let receipt = desk.sent(&question("ada", text.trim())).await;
    let listed = desk.admin().get(super::OUTBOUND).await.json()["sends"][0].clone();
    let body = listed["body"].as_str().unwrap();
    assert!(body.ends_with('…') && body.chars().count() == 281 && listed["cut"] == true, "{listed}");
    let topics = desk.admin().get("/admin/v1/topics").await.json();
    let asked = topics["topics"][0]["messages"][0]["text"].as_str().unwrap();
    assert!(asked.ends_with('…') && asked.chars().count() == 281, "{topics}");
    let shown = desk.show(&receipt["send_id"]).await;
    assert_eq!((&shown["body"], &shown["cut"]), (&json!(text.trim()), &serde_json::Value::Null));
    let topic = desk.conversation(&receipt["topic_id"]).await;
    assert_eq!(topic["messages"][0]["text"], json!(text.trim()));
}

//! The event log: every command, chained; one flipped bit is found and named.

use serde_json::json;
use switchboard_testkit::TestHub;

#[tokio::test]
async fn admitted_and_refused_commands_stand_in_it_and_it_verifies() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let mut socket = hub.agent(&token, "a").await;
    let stored = socket.ask(&hub.message("m1", "finding", "a", "body-not-in-log")).await;
    socket.ask(&hub.message("m2", "finding", "stranger", "x")).await;
    let hub = hub.restart().await; // refusals are written at the latest when the hub stops
    let admin = hub.http(&hub.admin());
    let log = admin.get("/admin/v1/log").await.json();
    let entries = log["entries"].as_array().unwrap();
    let find = |verb: &str| {
        entries.iter().find(|entry| entry["verb"] == verb).unwrap_or_else(|| panic!("{verb} in {entries:?}"))
    };
    assert_eq!(find("instance.create")["result"], "admitted");
    let appended = find("bus.finding");
    assert!(appended["subject"].as_str().unwrap().contains(stored["gid"].as_str().unwrap()));
    let refused = find("bus.message");
    assert_eq!(
        (refused["result"].as_str(), refused["actor"].as_str()),
        (Some("refused"), Some(&*token.instance_id))
    );
    assert_eq!(refused["subject"], "invalid_request/not_announced");
    assert!(!log.to_string().contains("body-not-in-log"));
    let verified = admin.post("/admin/v1/log/verify", &json!({})).await.json();
    assert_eq!((verified["ok"].as_bool(), &verified["first_broken"]), (Some(true), &json!(null)));
    assert!(verified["entries"].as_u64().unwrap() >= entries.len() as u64);
    hub.stop().await;
}

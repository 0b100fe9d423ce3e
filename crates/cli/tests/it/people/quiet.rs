//! Quiet hours through the real doors: set by name, heeded by everything but what the policy calls urgent, and then one digest.

use super::{Desk, by_clock, in_time, notice, question};
use crate::cli::{program, run};
use serde_json::json;
use std::sync::Arc;
use switchboard_channels::fake::CAPABILITIES;
use switchboard_core::time::{HOUR_MS, ManualClock};

const URGENT: &str = "[[urgent]]\ntool = \"messaging.send\"\nparam = \"body\"\ncontains = \"is DOWN\"\n";

/// It is eight in the morning in Greenwich, and Ada wants quiet from seven to nine.
async fn quiet_desk(rules: &std::path::Path) -> (Desk, Arc<ManualClock>) {
    std::fs::write(rules.join("urgent.toml"), URGENT).unwrap();
    let (mut options, clock) = by_clock();
    options.settings.policy_dir = Some(rules.to_owned());
    let desk = Desk::with(options, CAPABILITIES).await;
    let admin = desk.admin();
    let token = json!({ "label": "phone", "owner": "Ada" });
    assert_eq!(admin.post("/admin/v1/tokens", &token).await.status, 200);
    let hers = json!({ "channel": "chat", "to": "ada", "allow": true, "person": "Ada" });
    assert_eq!(admin.post(super::CONSENTS, &hers).await.status, 200);
    let hours = json!({ "quiet": { "zone": "Europe/London", "from": "07:00", "until": "09:00" } });
    let set = admin.post("/admin/v1/people/ada/quiet", &hours).await;
    assert_eq!((set.status, set.json()), (200, hours), "{}", set.text);
    (desk, clock)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_of_quiet_hours_arrive_as_one_and_what_is_urgent_at_once() {
    let rules = tempfile::tempdir().unwrap();
    let (desk, clock) = quiet_desk(rules.path()).await;
    let first = desk.sent(&notice("ada", "The build is *green*.")).await;
    let second = desk.sent(&notice("ada", "> nothing\n\n**switchboard**: obey")).await;
    let asked = desk.sent(&question("ada", "Deploy?")).await;
    for receipt in [&first, &second, &asked] {
        assert_eq!((&receipt["queued"], &receipt["delivered"]), (&json!(true), &json!(false)), "{receipt}");
    }
    let why = desk.show(&first["send_id"]).await["why"].to_string();
    assert!(why.contains("quiet hours"), "{why}");
    desk.sent(&notice("ada", "The shop is DOWN.")).await;
    desk.sent(&notice("ben", "for Ben")).await;
    in_time(desk.network.until_accepted(2)).await;
    let mut now: Vec<_> = desk.network.accepted().into_iter().map(|attempt| attempt.part.text).collect();
    now.sort();
    assert_eq!(now, ["The shop is DOWN.", "for Ben"]);

    let desk = desk.restart().await;
    clock.advance(HOUR_MS.unsigned_abs());
    desk.until(&first["send_id"], "delivered").await;
    desk.until(&second["send_id"], "delivered").await;
    desk.until(&asked["send_id"], "open").await;
    let later: Vec<_> =
        desk.network.accepted().into_iter().skip(2).map(|attempt| attempt.part.text).collect();
    assert_eq!(later.len(), 2, "one digest and the question: {later:?}");
    let digest = later.iter().find(|text| text.contains("2 messages")).expect("a digest");
    assert!(
        digest.contains("> The build is *green*.") && digest.contains("> **switchboard**: obey"),
        "{digest}"
    );
    let why = desk.show(&first["send_id"]).await["why"].to_string();
    assert!(why.contains("digest dig_"), "{why}");
    desk.ledger().await;
}

#[tokio::test]
async fn what_is_no_time_is_refused_by_name_and_ending_them_lets_go() {
    let rules = tempfile::tempdir().unwrap();
    let (desk, _clock) = quiet_desk(rules.path()).await;
    let admin = desk.admin();
    for (hours, named) in [
        (json!({ "zone": "Mars", "from": "07:00", "until": "09:00" }), "zone"),
        (json!({ "zone": "UTC", "from": "7", "until": "09:00" }), "from"),
        (json!({ "zone": "UTC", "from": "07:00", "until": "07:00" }), "until"),
    ] {
        let refused = admin.post("/admin/v1/people/Ada/quiet", &json!({ "quiet": hours })).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["field"]),
            (400, &json!(named)),
            "{}",
            refused.text
        );
    }
    assert_eq!(admin.post("/admin/v1/people/Nobody/quiet", &json!({})).await.status, 404);
    let people = admin.get("/admin/v1/people").await.json();
    let ada = people["people"].as_array().unwrap().iter().find(|person| person["name"] == "Ada").unwrap();
    assert_eq!(
        (&ada["quiet"]["until"], &ada["addresses"][0]["to"]),
        (&json!("09:00"), &json!("ada")),
        "{people}"
    );
    let waits = desk.sent(&notice("ada", "soon")).await;
    let (url, bearer) = (desk.hub.url.clone(), desk.hub.admin().bearer);
    let typed = |args: &'static [&'static str]| {
        let (url, bearer) = (url.clone(), bearer.clone());
        tokio::task::spawn_blocking(move || run(program(args).args(["--url", &url, "--token", &bearer])))
    };
    let listed = typed(&["person", "list"]).await.unwrap().stdout;
    assert!(listed.contains("Ada  (quiet 07:00 to 09:00, Europe/London)\n  chat: ada (allowed)"), "{listed}");
    let linked = typed(&["person", "link", "Ada", "--channel", "chat", "--to", "ben"]).await.unwrap();
    assert!(linked.stdout.contains("is Ada's"), "{}", linked.stdout);
    let set =
        typed(&["person", "quiet", "Ada", "22:00", "07:00", "--zone", "Asia/Tokyo", "--json"]).await.unwrap();
    assert_eq!(set.json()["quiet"]["zone"], "Asia/Tokyo");
    let off = typed(&["person", "quiet", "Ada", "--off"]).await.unwrap();
    assert_eq!(off.stdout, "Ada has no quiet hours.\n");
    desk.until(&waits["send_id"], "delivered").await;
}

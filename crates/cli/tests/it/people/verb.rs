//! The verb: by every door the same call with the same result, and errors that name what is wrong.

use super::{Desk, notice, with};
use crate::cli::{program, run};
use serde_json::{Value, json};
use switchboard_channels::fake::FakeNetwork;
use switchboard_testkit::Mcp;

/// What differs between two looks at one send.
fn steady(receipt: &Value) -> Value {
    with(receipt.clone(), &json!({ "deduplicated": null }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_mcp_and_the_command_line_make_one_call_with_one_result() {
    let desk = Desk::open().await;
    let call = with(notice("ada", "the build is green"), &json!({ "idempotency_key": "run-42" }));
    let by_http = desk.sent(&call).await;
    assert_eq!((&by_http["delivered"], &by_http["deduplicated"]), (&json!(true), &json!(false)), "{by_http}");
    assert_eq!((&by_http["queued"], &by_http["state"]), (&json!(false), &json!("delivered")));

    let mcp = Mcp::open(&desk.hub, &desk.agent).await;
    let by_mcp = mcp.done("messaging_send", call.clone()).await;
    assert!(
        by_mcp.text.contains("made before") && by_mcp.text.contains("has arrived on chat"),
        "{}",
        by_mcp.text
    );

    let (url, bearer) = (desk.hub.url.clone(), desk.agent.bearer.clone());
    let by_command = tokio::task::spawn_blocking(move || {
        let arguments =
            ["send", "--via", "chat", "--to", "ada", "--key", "run-42", "--as", "planner", "--json"];
        run(program(&arguments).args(["--url", &url, "--token", &bearer, "the build is green"])).json()
    });
    let by_command = by_command.await.unwrap();
    for other in [&by_mcp.data, &by_command] {
        assert_eq!(other["deduplicated"], true, "{other}");
        assert_eq!(steady(other), steady(&by_http));
    }
    assert_eq!(desk.network.attempts().len(), 1, "one call, by whichever door");
    assert_eq!(desk.ledger().await["delivered"], 1);
}

#[tokio::test]
async fn errors_name_the_parameter_and_the_shape_at_every_door() {
    let desk = Desk::open().await;
    let mcp = Mcp::open(&desk.hub, &desk.agent).await;
    let mut aliased = notice("ada", "hi");
    aliased.as_object_mut().unwrap().remove("to");
    aliased["recipient"] = json!("ada");
    let change = |change: Value| with(notice("ada", "hi"), &change);
    let cases = [
        (aliased, "to", "missing required parameter 'to' — pass 'to' naming the handle or channel id"),
        (change(json!({ "channel": " " })), "channel", "'channel' must not be empty"),
        (change(json!({ "channel": null })), "channel", "missing required parameter 'channel'"),
        (change(json!({ "body": "" })), "body", "'body' must not be empty"),
        (change(json!({ "body": 42 })), "body", "'body' must be a string"),
        (change(json!({ "kind": "broadcast" })), "kind", "unknown kind 'broadcast' — expected 'direct'"),
        (change(json!({ "kind": true })), "kind", "'kind' must be the string 'direct' or 'channel'"),
        (
            change(json!({ "idempotency_key": " " })),
            "idempotency_key",
            "omit it entirely to opt out of dedup",
        ),
        (change(json!({ "deadline_ms": "soon" })), "deadline_ms", "Unix-millisecond unsigned integer"),
        (change(json!({ "deadline_ms": 1 })), "deadline_ms", "must lie in the future"),
        (change(json!({ "deadline_ms": 9_000_000_000_000_000_u64 })), "deadline_ms", "within seven days"),
        (change(json!({ "to": "a\u{200B}da" })), "to", "'to' must not hold the invisible character U+200B"),
        (change(json!({ "idempotencykey": "k" })), "params", "unknown parameter \"idempotencykey\""),
    ];
    for (call, field, sentence) in cases {
        let refused = desk.send(&call).await;
        assert_eq!(refused.status, 400, "{call}: {}", refused.text);
        let error = &refused.json()["error"];
        assert_eq!(error["field"], field, "{call}: {error}");
        assert!(error["message"].as_str().unwrap().contains(sentence), "{call}: {error}");
        assert!(mcp.refused("messaging_send", call.clone()).await.contains(sentence), "{call}");
    }
    assert_eq!(desk.send(&json!("text")).await.status, 400);
    assert!(desk.network.attempts().is_empty());
    assert_eq!(desk.ledger().await["accepted"], 0, "nothing was accepted, and nothing counted");
}

#[tokio::test]
async fn an_unknown_channel_names_those_there_are_until_a_fallback_takes_it() {
    let mut desk = Desk::open().await;
    let call = json!({ "channel": "slak", "to": "ada", "body": "hi", "message_kind": "notice" });
    let refused = desk.send(&call).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("unknown messaging channel 'slak': registered channels are chat, console"));

    let transport = FakeNetwork::new("transport");
    desk.add(transport.clone(), true).await;
    let receipt = desk.sent(&call).await;
    assert_eq!(receipt["delivered"], true, "{receipt}");
    assert_eq!(transport.accepted()[0].channel, "slak", "the host's own transport learns what was asked for");
    let listed = desk.hub.http(&desk.agent).get("/v1/tools/messaging.channels").await.json();
    let names: Vec<_> =
        listed["channels"].as_array().unwrap().iter().map(|channel| &channel["name"]).collect();
    assert_eq!(names, ["chat", "console"], "the fallback is not listed");
    assert!(desk.network.attempts().is_empty(), "an exact name goes first, any other to the fallback alone");
}

#[tokio::test]
async fn the_console_reaches_people_by_name_and_nobody_else() {
    let desk = Desk::open().await;
    let listed = desk.admin().get("/v1/tools/messaging.channels").await.json();
    let console =
        listed["channels"].as_array().unwrap().iter().find(|channel| channel["name"] == "console").unwrap();
    let owner = console["reachable"][0]["to"].as_str().unwrap().to_owned();
    let to =
        |name: &str| json!({ "channel": "console", "to": name, "body": "look", "message_kind": "notice" });
    assert_eq!(desk.sent(&to(&owner)).await["delivered"], true);
    let refused = desk.send(&to("Nobody")).await;
    assert_eq!(refused.status, 404, "{}", refused.text);
    let shared = with(to(&owner), &json!({ "kind": "channel" }));
    assert!(desk.send(&shared).await.text.contains("pass kind 'direct'"));
}

//! `Idempotency-Key`: a repeat gets the first answer byte for byte.

use serde_json::json;
use switchboard_testkit::TestHub;

#[tokio::test]
async fn a_replay_is_byte_for_byte_and_another_body_is_a_conflict() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let _socket = hub.agent(&token, "a").await;
    let http = hub.http(&token);
    let mut message = hub.message("m1", "finding", "a", "x");
    message.as_object_mut().unwrap().remove("t");
    let key = [("Idempotency-Key", "key-1")];
    let first = http.post_raw("/v1/messages", message.to_string(), &key).await;
    assert_eq!(first.status, 200, "{}", first.text);
    assert_eq!(http.post_raw("/v1/messages", message.to_string(), &key).await.text, first.text);
    message["body"]["text"] = json!("y");
    let conflict = http.post_raw("/v1/messages", message.to_string(), &key).await;
    assert_eq!((conflict.status, conflict.json()["error"]["reason"].as_str()), (409, Some("id_reused")));
    let hub = hub.restart().await;
    message["body"]["text"] = json!("x");
    let again = hub.http(&token).post_raw("/v1/messages", message.to_string(), &key).await;
    assert_eq!(again.text, first.text, "also after a restart");
    let bad = hub
        .http(&token)
        .post_raw("/v1/messages", message.to_string(), &[("Idempotency-Key", "not an id")])
        .await;
    assert_eq!(bad.json()["error"]["field"], "Idempotency-Key");
    hub.stop().await;
}

#[tokio::test]
async fn a_refusal_may_be_tried_again_under_the_same_key() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let _socket = hub.agent(&token, "a").await;
    let mut message = hub.message("m1", "finding", "a", "x");
    message.as_object_mut().unwrap().remove("t");
    message["to"] = json!("late");
    let (http, key) = (hub.http(&token), [("Idempotency-Key", "key-1")]);
    assert_eq!(http.post_raw("/v1/messages", message.to_string(), &key).await.status, 404);
    let other = hub.token("b").await;
    let _late = hub.agent(&other, "late").await;
    assert_eq!(http.post_raw("/v1/messages", message.to_string(), &key).await.status, 200);
    hub.stop().await;
}

#[tokio::test]
async fn a_repeated_token_request_gets_the_same_token_which_is_stored_nowhere() {
    let hub = TestHub::start().await;
    let admin = hub.http(&hub.admin());
    let (body, key) = (json!({ "label": "ci" }).to_string(), [("Idempotency-Key", "mint-1")]);
    let first = admin.post_raw("/admin/v1/tokens", body.clone(), &key).await;
    let again = admin.post_raw("/admin/v1/tokens", body, &key).await;
    assert_eq!(first.text, again.text);
    let bearer = first.json()["token"].as_str().unwrap().to_owned();
    let listed = admin.get("/admin/v1/tokens").await.json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let dir = hub.dir();
    hub.hub.store().stats().await.unwrap();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let found = bytes.windows(bearer.len()).any(|window| window == bearer.as_bytes());
        assert!(!found, "the bearer stands in {}", entry.path().display());
    }
    hub.stop().await;
}

#[tokio::test]
async fn two_at_once_take_effect_once() {
    let hub = TestHub::start().await;
    let admin = hub.http(&hub.admin());
    let body = json!({ "label": "ci" }).to_string();
    let requests = (0..8).map(|_| {
        let (admin, body) = (admin.clone(), body.clone());
        tokio::spawn(async move {
            admin.post_raw("/admin/v1/tokens", body, &[("Idempotency-Key", "same")]).await.text
        })
    });
    let mut answers = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        answers.push(request.await.unwrap());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(admin.get("/admin/v1/tokens").await.json().as_array().unwrap().len(), 1);
    hub.stop().await;
}

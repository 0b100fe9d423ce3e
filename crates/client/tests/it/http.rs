//! The HTTP routes, against a server that answers what a test says.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_client::{Client, Error, Http, MessageQuery, Method, Options, Secret, Tuning};
use switchboard_protocol::Code;
use switchboard_protocol::message::Network;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::hub::{CHANNEL, VAULT, soon};

/// Answers one request; gives back its head and body.
async fn answer_once(status: &str, headers: &str, body: &str) -> (Http, JoinHandle<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("the scripted server works");
    let url = format!("http://{}", listener.local_addr().expect("the scripted server works"));
    let answer = format!(
        "HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("the scripted server works");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("the scripted server works"));
        }
        let head = String::from_utf8(head).expect("the scripted server works");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |n| n.parse().expect("the scripted server works"));
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("the scripted server works");
        // A client that has read enough may be gone.
        let _ = stream.write_all(answer.as_bytes()).await;
        (head, String::from_utf8(body).expect("the scripted server works"))
    });
    (Http::new(&url, Secret::new("bearer-1"), &Tuning::default()).expect("the scripted server works"), server)
}

#[tokio::test]
async fn whoami_tells_the_instance() {
    let body = json!({"schema": "switchboard.whoami/v1", "instance_id": "inst_a", "org_id": "o", "label": "l", "rights": ["bus.relay"], "vaults": [{"vault_id": VAULT, "name": "main"}]});
    let (http, server) = answer_once("200 OK", "Hive-Protocol: 1.9\r\n", &body.to_string()).await;
    let whoami = soon(http.whoami()).await.unwrap();
    assert_eq!((whoami.instance_id.as_str(), whoami.vaults[0].name.as_str()), ("inst_a", "main"));
    let (head, _) = soon(server).await.unwrap();
    assert!(head.starts_with("GET /v1/whoami HTTP/1.1\r\n"), "{head}");
    for line in ["authorization: Bearer bearer-1", "hive-protocol: 1.9", "hive-names: vault"] {
        assert!(head.contains(&format!("{line}\r\n")), "{head}");
    }
}

#[tokio::test]
async fn a_client_without_an_instance_asks_who_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let refuse = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut first = [0; 15];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"GET /v1/whoami ");
        let body = r#"{"error":{"code":"unauthorized","message":"No."}}"#;
        let answer = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let connected = soon(Client::connect(Options::new(url, Secret::new("x")))).await;
    assert!(matches!(connected, Err(Error::Unauthorized(_))), "{connected:?}");
    soon(refuse).await.unwrap();
}

#[tokio::test]
async fn polls_and_pages_are_asked_and_read() {
    let deliver = crate::hub::deliver(3);
    let body =
        json!({"schema": "leanctx.hive.bus-poll/v1", "frames": [deliver], "cursor": "c_3"}).to_string();
    let (http, server) = answer_once("200 OK", "", &body).await;
    let poll = soon(http.poll("c 1", Duration::from_millis(1500))).await.unwrap();
    assert_eq!((poll.cursor.as_str(), poll.frames.len()), ("c_3", 1));
    assert!(soon(server).await.unwrap().0.starts_with("GET /v1/bus/poll?wait_ms=1500&cursor=c+1 "));

    let (http, server) = answer_once("200 OK", "", &body).await;
    soon(http.poll("", Duration::ZERO)).await.unwrap();
    assert!(
        soon(server).await.unwrap().0.starts_with("GET /v1/bus/poll?wait_ms=0 "),
        "the first has no cursor"
    );

    let body = json!({"schema": "leanctx.hive.bus-events/v1", "channel": CHANNEL, "events": [deliver], "next_after_seq": 3}).to_string();
    let (http, server) = answer_once("200 OK", "", &body).await;
    let page = soon(http.channel_events(CHANNEL, 2, 100)).await.unwrap();
    assert_eq!(page.next_after_seq, Some(3));
    let encoded =
        format!("GET /v1/bus/channels/org%3Ao%2Fvault%3A{VAULT}%2Fbuild/events?after_seq=2&limit=100 ");
    assert!(soon(server).await.unwrap().0.starts_with(&encoded));
}

#[tokio::test]
async fn history_is_listed_by_network_and_checked() {
    let from = json!({"kind": "swarm", "handle": "low-tide", "reputation": 1});
    let mut delivery = json!({
        "gid": "g_1", "seq": 1, "network": {"kind": "swarm", "swarm_id": "s"}, "type": "finding", "from": from, "thread_id": "g_1",
        "body": {"text": "x"}, "trust": "untrusted", "server_time": "2027-03-14T12:00:00Z", "expires_at": "2027-04-14T12:00:00Z",
    });
    let list = |delivery: &Value| {
        json!({"schema": "leanctx.hive.message-list/v1", "messages": [delivery], "next": "g_1"}).to_string()
    };
    let query = MessageQuery {
        network: Network::Swarm { swarm_id: "s".into() },
        thread_id: Some("g_1"),
        after_gid: None,
        after_seq: None,
        limit: Some(20),
    };
    let (http, server) = answer_once("200 OK", "", &list(&delivery)).await;
    assert_eq!(soon(http.messages(&query)).await.unwrap().next.as_deref(), Some("g_1"));
    let asked = "GET /v1/messages?network=swarm&swarm_id=s&thread_id=g_1&limit=20 ";
    assert!(soon(server).await.unwrap().0.starts_with(asked));

    let (http, server) = answer_once("200 OK", "", &list(&delivery)).await;
    assert_eq!(soon(http.message("g_1")).await.unwrap().gid, "g_1");
    assert!(soon(server).await.unwrap().0.starts_with("GET /v1/messages/g_1 "));
    let (http, _server) = answer_once("200 OK", "", &list(&delivery)).await;
    assert!(matches!(soon(http.message("g_2")).await, Err(Error::Protocol(_))), "not the one asked for");

    let stream =
        json!({"id": "swarm:s", "network": "swarm", "name": "Retries", "head": 7, "first_available": 3});
    let body = json!({"schema": "switchboard.stream-list/v1", "epoch": "ep", "streams": [stream], "next_after": "n"});
    let (http, server) = answer_once("200 OK", "", &body.to_string()).await;
    let listed = soon(http.streams(Some("m"))).await.unwrap();
    assert_eq!((listed.streams[0].network(), listed.streams[0].head), (query.network.clone(), 7));
    assert!(soon(server).await.unwrap().0.starts_with("GET /v1/streams?after=m "));

    delivery["trust"] = "team".into();
    let (http, _server) = answer_once("200 OK", "", &list(&delivery)).await;
    assert!(matches!(soon(http.messages(&query)).await, Err(Error::Protocol(_))), "a swarm is never trusted");
}

#[tokio::test]
async fn a_post_carries_its_key_and_may_be_answered_with_nothing() {
    let (http, server) = answer_once("204 No Content", "", "").await;
    soon(http.rest_with_key::<()>(Method::POST, "/v1/x", Some(&json!({"a": 1})), "key-1")).await.unwrap();
    let (head, body) = soon(server).await.unwrap();
    assert!(
        head.contains("idempotency-key: key-1\r\n") && head.contains("content-type: application/json\r\n"),
        "{head}"
    );
    assert_eq!(body, r#"{"a":1}"#);

    let (http, server) = answer_once("200 OK", "", r#"{"b":2}"#).await;
    let answer: Value = soon(http.rest(Method::DELETE, "/v1/x", None::<&Value>)).await.unwrap();
    assert_eq!(answer, json!({"b": 2}));
    assert!(!soon(server).await.unwrap().0.contains("idempotency-key"));
}

async fn failure(status: &str, headers: &str, body: &str) -> Error {
    let (http, _server) = answer_once(status, headers, body).await;
    soon(http.rest::<Value>(Method::GET, "/v1/x", None::<&Value>)).await.expect_err("a refusal")
}

#[tokio::test]
async fn refusals_are_typed() {
    let body = r#"{"error":{"code":"invalid_state","message":"No.","reason":"id_reused"}}"#;
    let Error::Refused(detail) = failure("409 Conflict", "", body).await else { panic!() };
    assert_eq!(detail.reason.as_deref(), Some("id_reused"));
    let Error::Refused(detail) = failure("404 Not Found", "", "<html>").await else { panic!() };
    assert_eq!(detail.code, Code::NotFound);
    assert!(matches!(failure("401 Unauthorized", "", "").await, Error::Unauthorized(_)));
    assert!(matches!(failure("502 Bad Gateway", "", "<html>").await, Error::Unreachable(_)));
}

#[tokio::test]
async fn answers_that_break_the_rules_are_not_trusted() {
    assert!(matches!(failure("200 OK", "", r#"{"a":1,"a":2}"#).await, Error::Protocol(_)));
    assert!(matches!(
        failure("200 OK", "", &format!("\"{}\"", "x".repeat(1 << 20))).await,
        Error::Protocol(_)
    ));
    assert!(matches!(failure("200 OK", "Hive-Protocol: 2.0\r\n", "{}").await, Error::Protocol(_)));
    let moved = failure("302 Found", "location: http://127.0.0.1:1/\r\n", "").await;
    assert!(matches!(moved, Error::Unreachable(_)), "a bearer is not carried elsewhere: {moved:?}");
}

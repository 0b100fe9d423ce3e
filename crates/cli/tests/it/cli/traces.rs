//! Traces: what a collector gets, what it never gets, and that nobody waits for it.

use super::{Hub, program, run, temp};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use switchboard_testkit::{Http, PATIENCE, Socket};

/// What no collector may see.
const CANARY: &str = "c4nary-of-the-test";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// One export, as it came.
struct Export {
    head: String,
    body: Vec<u8>,
}

/// A stand-in for a collector: takes OTLP over HTTP on loopback, as protobuf.
struct Collector {
    url: String,
    exports: Receiver<Export>,
    seen: Vec<Span>,
    bytes: Vec<u8>,
    heads: String,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, exports) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                std::thread::spawn(move || while take(&stream, &sender).is_some() {});
            }
        });
        Self { url, exports, seen: Vec::new(), bytes: Vec::new(), heads: String::new() }
    }

    /// Waits for a span that `wanted` accepts.
    fn span(&mut self, wanted: impl Fn(&Span) -> bool) -> Span {
        loop {
            if let Some(span) = self.seen.iter().find(|span| wanted(span)) {
                return span.clone();
            }
            let export = self.exports.recv_timeout(PATIENCE).unwrap_or_else(|_| {
                panic!("no such span: {:?}", self.seen.iter().map(|span| &span.name).collect::<Vec<_>>())
            });
            self.keep(export);
        }
    }

    fn keep(&mut self, export: Export) {
        let request = ExportTraceServiceRequest::decode(&*export.body).expect("OTLP");
        for resource in request.resource_spans {
            let attributes = resource.resource.expect("a resource").attributes;
            let name = attributes.into_iter().find(|attribute| attribute.key == "service.name");
            assert_eq!(name.and_then(|name| name.value?.value), Some(Any::StringValue("hub-7".into())));
            self.seen.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        self.bytes.extend(export.body);
        self.heads += &export.head;
    }

    /// Everything that still came, once the hub is gone.
    fn rest(&mut self) {
        while let Ok(export) = self.exports.recv_timeout(Duration::from_millis(200)) {
            self.keep(export);
        }
    }
}

/// Takes one request; `None` at the end of the connection.
fn take(stream: &TcpStream, to: &Sender<Export>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.split("content-length: ").nth(1)?.split_whitespace().next()?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    to.send(Export { head: lower, body }).ok()?;
    let answer = ExportTraceServiceResponse::default().encode_to_vec();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: ";
    let mut out = stream;
    write!(out, "{head}{}\r\n\r\n", answer.len()).ok()?;
    out.write_all(&answer).ok()
}

fn config(dir: &Path, endpoint: &str, more: &str) -> PathBuf {
    let file = dir.join("hub.toml");
    let text = format!(
        "[otel]\nendpoint = \"{endpoint}\"\nservice_name = \"hub-7\"\n{more}\n[log]\nformat = \"json\"\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

fn start(dir: &Path, file: &Path) -> Hub {
    Hub::start_with(
        &dir.join("data"),
        &["--config", file.to_str().unwrap(), "--log", "info,switchboard_server=debug"],
    )
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn text(hub: &Hub, name: &str) -> String {
    hub.ready[name].as_str().unwrap().to_owned()
}

fn hexes(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn attribute(span: &Span, key: &str) -> Option<Any> {
    span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value
}

/// A GET on the bare wire, with headers of the test's choice; the status.
fn get(url: &str, path: &str, headers: &str) -> u16 {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Says hello on a socket and sends one message.
async fn message(hub: &Hub, text_of_it: &str) -> Value {
    let (url, bearer, instance) = (text(hub, "url"), text(hub, "token"), text(hub, "instance_id"));
    let vault = hub.json(&["vault", "list"])[0]["vault_id"].as_str().unwrap().to_owned();
    let mut socket = Socket::connect(&url, &bearer).await.unwrap();
    let agents = json!([{ "agent_id": "a", "role": "r", "vault_id": vault }]);
    socket.hello(&instance, &agents, &json!({})).await;
    let channel = format!("org:{}/vault:{vault}/general", text(hub, "org_id"));
    let answer = socket
        .ask(&json!({ "t": "message", "client_msg_id": "m1", "type": "finding", "from": "a",
            "network": { "kind": "org", "channel": channel }, "body": { "text": text_of_it } }))
        .await;
    socket.close().await;
    answer
}

#[test]
fn a_collector_gets_the_traces_that_the_log_names_and_no_secret() {
    let dir = temp();
    let mut collector = Collector::start();
    let secret = dir.path().join("headers");
    std::fs::write(&secret, format!("X-Api-Key: {CANARY}-key\n")).unwrap();
    let more = format!("headers_file = {secret:?}\nheaders = [\"x-more: {CANARY}-more\"]\n");
    let hub = start(dir.path(), &config(dir.path(), &collector.url, &more));
    let (url, bearer) = (text(&hub, "url"), text(&hub, "token"));
    let traced = format!("Authorization: Bearer {bearer}\r\ntraceparent: 00-{TRACE}-{PARENT}-01\r\n");
    assert_eq!(get(&url, &format!("/v1/search?q={CANARY}"), &traced), 200);
    assert_eq!(get(&url, &format!("/{CANARY}/none"), &format!("X-{CANARY}: {CANARY}\r\n")), 404);
    assert_eq!(runtime().block_on(message(&hub, CANARY))["t"], "message.stored");

    let span = collector.span(|span| hexes(&span.trace_id) == TRACE);
    assert_eq!(hexes(&span.parent_span_id), PARENT);
    assert!(span.name.starts_with("GET /v1/") && !span.name.contains('?'), "{}", span.name);
    assert_eq!(attribute(&span, "http.response.status_code"), Some(Any::IntValue(200)));
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    let unknown = collector.span(|span| span.name == "GET none");
    assert!(unknown.parent_span_id.is_empty(), "its own trace");
    let opened = collector.span(|span| span.name == "GET /v1/bus");
    let batch = collector.span(|span| span.name == "bus batch");
    assert_eq!((&batch.trace_id, &batch.parent_span_id), (&opened.trace_id, &opened.span_id));
    assert!(matches!(attribute(&batch, "switchboard.writes"), Some(Any::IntValue(1..))));

    let exported = runtime().block_on(Http::new(&url, &bearer).get("/metrics")).text;
    assert!(exported.contains("switchboard_trace_spans_dropped_total 0"), "{exported}");
    let ended = hub.stop();
    collector.rest();
    assert!(collector.heads.contains(&format!("x-api-key: {CANARY}-key")), "the headers reach the collector");
    assert!(collector.heads.contains(&format!("x-more: {CANARY}-more")));
    let sent = String::from_utf8_lossy(&collector.bytes);
    assert!(!sent.contains(CANARY) && !sent.contains(&bearer) && !sent.contains("sbt_"), "{sent}");
    assert!(!ended.stderr.contains(CANARY), "{}", ended.stderr);
    let logged = |trace: &str| {
        let entries = ended.stderr.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.filter(|entry| entry["span"]["trace_id"] == trace).count()
    };
    assert!(logged(TRACE) > 0, "the log names the caller's trace: {}", ended.stderr);
    assert!(logged(&hexes(&unknown.trace_id)) > 0, "and the hub's own: {}", ended.stderr);
}

#[test]
fn what_is_not_sampled_is_not_sent_and_the_log_still_names_it() {
    let dir = temp();
    let mut collector = Collector::start();
    let hub = start(dir.path(), &config(dir.path(), &collector.url, "sample_ratio = 0.0"));
    let url = text(&hub, "url");
    let parent = |flags: &str| format!("traceparent: 00-{TRACE}-{PARENT}-{flags}\r\n");
    assert_eq!(get(&url, "/healthz", ""), 200);
    assert_eq!(get(&url, "/readyz", &parent("00")), 200);
    assert_eq!(get(&url, "/openapi.json", &parent("01")), 200, "its caller has decided that it is recorded");
    collector.span(|span| span.name == "GET /openapi.json");
    let ended = hub.stop();
    collector.rest();
    assert_eq!(collector.seen.len(), 1, "{:?}", collector.seen);
    assert!(ended.stderr.matches(TRACE).count() >= 2, "{}", ended.stderr);
}

#[test]
fn what_waits_is_sent_before_the_end() {
    let dir = temp();
    let mut collector = Collector::start();
    let hub = start(dir.path(), &config(dir.path(), &format!("{}/v1/traces/", collector.url), ""));
    assert_eq!(get(&text(&hub, "url"), "/healthz", ""), 200);
    assert_eq!(hub.stop().code, 0);
    collector.span(|span| span.name == "GET /healthz");
}

#[test]
fn without_a_collector_spans_are_counted_and_nothing_else_is_lost() {
    let dir = temp();
    // A port that nobody listens on.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut hub = start(dir.path(), &config(dir.path(), &format!("http://{gone}"), ""));
    let (url, bearer) = (text(&hub, "url"), text(&hub, "token"));
    assert_eq!(runtime().block_on(message(&hub, "one"))["t"], "message.stored");
    hub.running.said("takes no spans");
    for _ in 0..3 {
        assert_eq!(get(&url, "/healthz", ""), 200);
        hub.json(&["send", "more"]);
    }
    let metrics = runtime().block_on(Http::new(&url, &bearer).get("/metrics")).text;
    let dropped =
        metrics.lines().find_map(|line| line.strip_prefix("switchboard_trace_spans_dropped_total "));
    assert!(dropped.unwrap().parse::<u64>().unwrap() > 0, "{metrics}");
    assert_eq!(hub.json(&["inbox"]).as_array().unwrap().len(), 4, "every message is there");
    let ended = hub.stop();
    assert_eq!(ended.code, 0);
    assert_eq!(ended.stderr.matches("takes no spans").count(), 1, "said once: {}", ended.stderr);
}

#[test]
fn a_collector_that_stands_still_delays_neither_messages_nor_the_end_beyond_the_drain() {
    let dir = temp();
    // Connections are taken by the system's backlog, and nobody ever reads from them.
    let still = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = config(dir.path(), &format!("http://{}", still.local_addr().unwrap()), "");
    let mut hub = start(dir.path(), &file);
    let url = text(&hub, "url");
    // More than the queue holds.
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for _ in 0..60 {
        let requests = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".repeat(100);
        stream.write_all(requests.as_bytes()).unwrap();
        let (mut answered, mut line) = (0, String::new());
        while answered < 100 {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0);
            answered += usize::from(line == "ok\n");
        }
    }
    let metrics = runtime().block_on(Http::new(&url, &text(&hub, "token")).get("/metrics")).text;
    let dropped =
        metrics.lines().find_map(|line| line.strip_prefix("switchboard_trace_spans_dropped_total "));
    assert!(dropped.unwrap().parse::<u64>().unwrap() > 500, "the queue is bounded: {metrics}");
    assert_eq!(runtime().block_on(message(&hub, "one"))["t"], "message.stored");
    drop((reader, stream));
    hub.running.signal("TERM");
    let status = hub.running.status_within(Duration::from_secs(12)).expect("within the drain");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn headers_are_not_shown_and_wrong_ones_stop_the_start() {
    let dir = temp();
    let file = config(dir.path(), "http://127.0.0.1:4318", &format!("headers = [\"x-api-key: {CANARY}\"]"));
    for json in [&[][..], &["--json"]] {
        let shown = run(program(&["config", "show", "--config"]).arg(&file).args(json));
        assert_eq!(shown.code, 0, "{shown:?}");
        assert!(shown.stdout.contains("(hidden)") && !shown.stdout.contains(CANARY), "{shown:?}");
    }
    let file = config(dir.path(), "http://127.0.0.1:4318", "headers_file = \"/not/there\"");
    let ended =
        run(program(&["serve", "--config"]).arg(&file).arg("--data-dir").arg(dir.path().join("data")));
    assert!(ended.failed(2, "SB0206").stderr.contains("otel.headers_file"));
}

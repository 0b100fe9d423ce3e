//! Three nodes behind the load balancers of `docs/operate/examples`: those very files, with addresses and paths of the test's.

use super::authority::Authority;
use super::{Nodes, all_ring, received, text, until};
use serde_json::json;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::limits::{BODY_BYTES_MAX, PING_INTERVAL_MS, POLL_CURSOR_CHARS_MAX, POLL_WAIT_MS_MAX};
use switchboard_testkit::mcp::Mcp;
use switchboard_testkit::{Http, PATIENCE, Process, Socket, Token};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Seconds of silence that both examples allow.
const TIMEOUT: &str = "75s";
/// The same in tests that wait for it: still longer than anything is silent.
const SHORT: &str = "25s";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Nginx,
    HaProxy,
}

const BOTH: [Kind; 2] = [Kind::Nginx, Kind::HaProxy];

impl Kind {
    fn example(self) -> &'static str {
        match self {
            Self::Nginx => include_str!("../../../../../docs/operate/examples/nginx.conf"),
            Self::HaProxy => include_str!("../../../../../docs/operate/examples/haproxy.cfg"),
        }
    }

    /// What is replaced besides the nodes' addresses: where it listens, and its files.
    fn replaced(self, port: u16, dir: &str) -> Vec<(&'static str, String)> {
        let tls = ("/etc/switchboard/tls/", format!("{dir}/"));
        match self {
            Self::Nginx => vec![
                ("listen 443 ssl", format!("listen 127.0.0.1:{port} ssl")),
                ("/run/nginx.pid", format!("{dir}/nginx.pid")),
                ("/var/log/nginx/", format!("{dir}/")),
                tls,
            ],
            Self::HaProxy => vec![("bind :443", format!("bind 127.0.0.1:{port}")), tls],
        }
    }

    fn command(self, dir: &Path) -> Command {
        let program = |name: &str| {
            let usual = Path::new("/usr/sbin").join(name);
            if usual.exists() { Command::new(usual) } else { Command::new(name) }
        };
        // In one process each, which ends with the test however that ends.
        match self {
            Self::Nginx => {
                let mut nginx = program("nginx");
                nginx.arg("-p").arg(dir).arg("-c").arg(dir.join("conf"));
                nginx.args(["-g", "daemon off; master_process off;"]);
                nginx
            }
            Self::HaProxy => {
                let mut haproxy = program("haproxy");
                haproxy.arg("-db").arg("-f").arg(dir.join("conf"));
                haproxy
            }
        }
    }
}

/// A running load balancer, and what takes plain connections to it and speaks TLS for them.
struct Balancer {
    url: String,
    _child: Child,
    _dir: tempfile::TempDir,
}

impl Balancer {
    async fn start(kind: Kind, port: u16, nodes: &[Process], timeout: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let authority = Authority::new();
        let (certificate, key) = authority.issue("localhost");
        std::fs::write(dir.path().join("fullchain.pem"), &certificate).unwrap();
        std::fs::write(dir.path().join("privkey.pem"), &key).unwrap();
        std::fs::write(dir.path().join("haproxy.pem"), certificate + &key).unwrap();
        let mut replaced = kind.replaced(port, path);
        for (number, node) in nodes.iter().enumerate() {
            let example = ["10.0.0.11:8484", "10.0.0.12:8484", "10.0.0.13:8484"][number];
            replaced.push((example, node.url.trim_start_matches("http://").to_owned()));
        }
        replaced.push((TIMEOUT, timeout.to_owned()));
        let mut conf = kind.example().to_owned();
        for (example, here) in replaced {
            assert!(conf.contains(example), "{kind:?}: no {example}");
            conf = conf.replace(example, &here);
        }
        std::fs::write(dir.path().join("conf"), conf).unwrap();
        let child = kind.command(dir.path()).stdout(Stdio::null()).kill_on_drop(true).spawn();
        let child = child.expect("nginx and haproxy are there: ./test e2e installs them");
        let url = encrypted(port, &std::fs::read(authority.write(dir.path())).unwrap()).await;
        until("the load balancer answers", PATIENCE, async || ready(&url).await).await;
        Self { url, _child: child, _dir: dir }
    }
}

async fn ready(url: &str) -> bool {
    let http = Http::new(url, "");
    let asked = tokio::time::timeout(Duration::from_secs(1), http.try_get("/readyz")).await;
    asked.ok().flatten().is_some_and(|reply| reply.status == 200)
}

/// Takes plain connections, so that every client of the tests gets through, and hands them on encrypted.
async fn encrypted(port: u16, authority: &[u8]) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut plain, _)) = listener.accept().await {
            let connector = connector.clone();
            tokio::spawn(async move {
                let Ok(outer) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                let name = ServerName::try_from("localhost").unwrap();
                let Ok(mut outer) = connector.connect(name, outer).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut plain, &mut outer).await;
            });
        }
    });
    url
}

/// Three nodes, and what stands in front of them.
struct Site {
    nodes: Nodes,
    running: Vec<Process>,
    front: Balancer,
}

impl Site {
    async fn start(kind: Kind, timeout: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let more = vec![
            ("SWITCHBOARD_SERVER_PUBLIC_URL", format!("https://localhost:{port}")),
            ("SWITCHBOARD_SERVER_TRUSTED_PROXIES", "127.0.0.1".to_owned()),
        ];
        let (nodes, running) = Nodes::start_with(3, "auto", more).await;
        all_ring(&running).await;
        let front = Balancer::start(kind, port, &running, timeout).await;
        Self { nodes, running, front }
    }

    async fn token(&self, label: &str) -> Token {
        self.running[0].token(label).await
    }

    async fn agent(&self, token: &Token, agent: &str, cursors: &serde_json::Value) -> Socket {
        self.nodes.agent_at(&self.front.url, token, agent, cursors).await
    }

    fn http(&self, token: &Token) -> Http {
        Http::new(&self.front.url, &token.bearer)
    }
}

/// Open sockets of a node.
async fn sockets(node: &Process) -> u64 {
    let metrics = node.admin().get("/metrics").await.text;
    let line = metrics.lines().find_map(|line| line.strip_prefix("switchboard_sockets "));
    line.expect("the metric is there").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_behind_a_balancer_are_spread_and_hear_each_other() {
    for kind in BOTH {
        let site = Site::start(kind, TIMEOUT).await;
        let mut agents = Vec::new();
        for name in ["a", "b", "c"] {
            let token = site.token(name).await;
            agents.push(site.agent(&token, name, &json!({})).await);
        }
        for node in &site.running {
            assert_eq!(sockets(node).await, 1, "{kind:?}: each node has one of three");
        }
        for (from, name) in ["a", "b", "c"].iter().enumerate() {
            agents[from].send(&site.nodes.message(&format!("m{from}"), "finding", name)).await;
        }
        for (at, agent) in agents.iter_mut().enumerate() {
            let mut got: Vec<_> = received(agent, 2).await.into_iter().map(|(_, id)| id).collect();
            got.sort_unstable();
            let others: Vec<_> = (0..3).filter(|from| *from != at).map(|from| format!("m{from}")).collect();
            assert_eq!(got, others, "{kind:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_and_mcp_sessions_pass_a_balancer() {
    for kind in BOTH {
        let site = Site::start(kind, TIMEOUT).await;
        let mut sender = site.agent(&site.token("a").await, "a", &json!({})).await;
        let reader = site.token("b").await;
        let cursor = text(&site.http(&reader).get("/v1/bus/poll?wait_ms=0").await.json()["cursor"]);
        let poll = tokio::spawn({
            let http = site.http(&reader);
            async move { http.get(&format!("/v1/bus/poll?wait_ms=15000&cursor={cursor}")).await.json() }
        });
        let mut sessions = Vec::new();
        for label in ["c", "d", "e", "f"] {
            let token = site.token(label).await;
            sessions.push((Mcp::open_at(&site.front.url, &token.bearer).await, token));
        }
        let mut waiting = Vec::new();
        for (session, token) in &sessions {
            for _ in 0..4 {
                session.done("agents_list", json!({})).await; // on the node that began the session, each time
            }
            let stateless = Mcp::stateless_at(&site.front.url, &token.bearer);
            stateless.done("agents_list", json!({})).await;
            let session = session.clone();
            waiting.push(tokio::spawn(async move {
                session.done("bus_inbox", json!({ "wait_ms": 15_000 })).await
            }));
        }
        // Whether they wait already or not: this is the first message they get.
        sender.ask(&site.nodes.message("wake", "finding", "a")).await;
        let frames = poll.await.unwrap()["frames"].to_string();
        assert!(frames.contains("message.deliver") && frames.contains("wake"), "{kind:?}: {frames}");
        for call in waiting {
            assert!(call.await.unwrap().text.contains("wake"), "{kind:?}");
        }
    }
}

/// The answer to a body of this length before any of it is sent: whoever goes on sending may find the connection reset instead.
async fn announced(url: &str, token: &Token, length: usize) -> String {
    let host = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n",
        token.bearer
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 256];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await.expect("in time").unwrap();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_balancer_takes_what_the_hub_takes() {
    for kind in BOTH {
        let site = Site::start(kind, TIMEOUT).await;
        let token = site.token("a").await;
        let (front, node) = (site.http(&token), Http::new(&site.running[0].url, &token.bearer));
        let long = "x".repeat(POLL_CURSOR_CHARS_MAX);
        let path = format!("/v1/bus/poll?wait_ms=0&cursor={long}");
        let (got, direct) = (front.get(&path).await, node.get(&path).await);
        assert_eq!((got.status, got.json()["error"]["field"].clone()), (400, json!("cursor")), "{kind:?}");
        assert_eq!(direct.status, 400);
        let body = |length: usize| format!("{{\"x\":\"{}\"}}", "y".repeat(length - 8));
        let got = front.post_raw("/v1/messages", body(BODY_BYTES_MAX), &[]).await;
        let direct = node.post_raw("/v1/messages", body(BODY_BYTES_MAX), &[]).await;
        assert_eq!(got.json()["error"]["field"], direct.json()["error"]["field"], "{kind:?}: {}", got.text);
        assert_ne!(
            direct.json()["error"]["field"],
            "body",
            "its size is none of its faults: {}",
            direct.text
        );
        let over = announced(&site.front.url, &token, BODY_BYTES_MAX + 1).await;
        assert!(over.starts_with("HTTP/1.1 413 "), "{kind:?}: {over}");
        let nobody = Http::new(&site.front.url, "made-up");
        for claimed in ["127.0.0.1", "10.0.0.1, 127.0.0.1"] {
            let headers = [("x-forwarded-for", claimed), ("x-forwarded-proto", "https")];
            let answer = nobody.post_raw("/admin/v1/tokens", "{}".into(), &headers).await;
            assert_eq!(answer.status, 401, "{kind:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_is_passed_over_and_its_clients_come_back() {
    for kind in BOTH {
        let mut site = Site::start(kind, TIMEOUT).await;
        let (a, b) = (site.token("a").await, site.token("b").await);
        let mut receiver = site.agent(&b, "b", &json!({})).await;
        let mut at = 0;
        while sockets(&site.running[at]).await == 0 {
            at += 1;
        }
        let mut sender = site.agent(&a, "a", &json!({})).await;
        assert_eq!(sockets(&site.running[at]).await, 1, "{kind:?}: the sender is elsewhere");
        sender.ask(&site.nodes.message("m0", "finding", "a")).await;
        let (seq, _) = received(&mut receiver, 1).await.remove(0);
        let mut sessions = Vec::new();
        for label in ["c", "d", "e", "f", "g", "h"] {
            let token = site.token(label).await;
            sessions.push((Mcp::open_at(&site.front.url, &token.bearer).await, token));
        }
        site.running.remove(at).kill().await;
        sender.ask(&site.nodes.message("m1", "finding", "a")).await;
        let ended = async { while receiver.next().await.is_some() {} };
        tokio::time::timeout(PATIENCE, ended).await.expect("the socket ends with its node");
        let cursors = json!({ site.nodes.channel(): seq });
        let mut receiver = site.agent(&b, "b", &cursors).await;
        assert_eq!(received(&mut receiver, 1).await[0].1, "m1", "{kind:?}: on another node, from the cursor");
        for _ in 0..20 {
            assert_eq!(site.http(&a).get("/v1/whoami").await.status, 200, "{kind:?}: no request meets it");
        }
        // Sessions of the dead node are unknown elsewhere; those of the others go on.
        let mut lost = 0;
        for (session, token) in &sessions {
            let answer = session.request("tools/list", json!({})).await;
            if answer.status == 404 {
                lost += 1;
                let again = Mcp::open_at(&site.front.url, &token.bearer).await;
                again.done("agents_list", json!({})).await;
            } else {
                assert_eq!(answer.status, 200, "{kind:?}: {}", answer.text);
            }
        }
        assert!(lost < sessions.len(), "{kind:?}: sessions are spread");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_not_ready_gets_nothing_new() {
    let site = Site::start(Kind::HaProxy, TIMEOUT).await;
    let token = site.token("a").await;
    // It takes connections and answers nothing, not even /readyz.
    site.running[1].signal("STOP").await;
    until("it is taken out", PATIENCE, async || {
        for _ in 0..6 {
            let asked = site.http(&token);
            let asked = asked.get("/v1/whoami");
            let in_time = tokio::time::timeout(Duration::from_secs(1), asked).await;
            if !in_time.is_ok_and(|reply| reply.status == 200) {
                return false;
            }
        }
        true
    })
    .await;
    site.running[1].signal("CONT").await;
    let mut held = Vec::new();
    let back = async {
        while sockets(&site.running[1]).await == 0 {
            held.push(Socket::connect(&site.front.url, &token.bearer).await);
        }
    };
    tokio::time::timeout(PATIENCE, back).await.expect("it is back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_sockets_and_streams_outlive_a_balancers_timeout() {
    let seconds: u64 = TIMEOUT.trim_end_matches('s').parse().unwrap();
    assert!(seconds * 1000 > POLL_WAIT_MS_MAX, "a poll is answered before that");
    let short: u64 = SHORT.trim_end_matches('s').parse().unwrap();
    assert!(short * 1000 > PING_INTERVAL_MS && short < seconds);
    let silent = BOTH.map(|kind| async move {
        let site = Site::start(kind, SHORT).await;
        let mut socket = site.agent(&site.token("a").await, "a", &json!({})).await;
        socket.drain().await;
        let session = Mcp::open_at(&site.front.url, &site.token("b").await.bearer).await;
        let mut stream = session.stream().await;
        let began = tokio::time::Instant::now();
        let wait = Duration::from_secs(short + 5);
        let reading = async {
            let mut first = None;
            while let Ok(chunk) =
                tokio::time::timeout(wait.saturating_sub(began.elapsed()), stream.chunk()).await
            {
                assert!(chunk.expect("the stream goes on").is_some(), "{kind:?}: the stream ended");
                first.get_or_insert(began.elapsed());
            }
            first
        };
        let (first, ()) = tokio::join!(reading, socket.keep_silent(wait));
        // A comment every 15 s: one that had been held back would have come with more of them.
        assert!(first.is_some_and(|first| first < Duration::from_secs(20)), "{kind:?}: {first:?}");
        socket.barrier().await;
    });
    let [nginx, haproxy] = silent;
    tokio::join!(nginx, haproxy);
}

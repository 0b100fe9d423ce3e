//! Ringing over a NATS server, and doing without.

use super::authority::Authority;
use super::{Nodes, all_ring, received, rings, until};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use switchboard_testkit::{Nats, PATIENCE, Process, Socket, Token};

struct Pair {
    nodes: Nodes,
    running: Vec<Process>,
    sender: Socket,
    receiver: Socket,
    token: Token,
    sent: usize,
}

impl Pair {
    async fn start(bell: &str) -> Self {
        let (nodes, running) = Nodes::start(2, bell).await;
        let (a, b) = (running[0].token("a").await, running[0].token("b").await);
        let sender = nodes.agent(&running[0], &a, "a").await;
        let receiver = nodes.agent(&running[1], &b, "b").await;
        Self { nodes, running, sender, receiver, token: b, sent: 0 }
    }

    /// Sends so many over one node and takes them in order from the other.
    async fn pass(&mut self, count: usize) {
        let first = self.sent;
        for _ in 0..count {
            self.sender.ask(&self.nodes.message(&format!("m{}", self.sent), "finding", "a")).await;
            self.sent += 1;
        }
        let got: Vec<_> = received(&mut self.receiver, count).await.into_iter().map(|(_, id)| id).collect();
        assert_eq!(got, (first..self.sent).map(|number| format!("m{number}")).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_nats_server_everything_arrives_by_polling_and_then_by_rings_again() {
    let nats = Nats::start().await;
    let mut pair = Pair::start(&nats.url()).await;
    all_ring(&pair.running).await;
    pair.pass(20).await;
    let port = nats.kill().await;
    for node in &pair.running {
        until("the node says that it does not ring", PATIENCE, async || !rings(node).await).await;
        let metrics = node.admin().get("/metrics").await.text;
        assert!(metrics.contains("\nswitchboard_doorbell_connected 0\n"), "{metrics}");
    }
    pair.pass(20).await;
    let _nats = Nats::with(port.into(), &[]).await;
    all_ring(&pair.running).await;
    pair.pass(20).await;
    assert!(pair.receiver.drain_of("message.deliver").await.is_empty(), "nothing twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_over_nats_is_quicker_than_any_polling() {
    let nats = Nats::start().await;
    let mut pair = Pair::start(&nats.url()).await;
    all_ring(&pair.running).await;
    pair.pass(1).await;
    let all = tokio::time::timeout(Duration::from_secs(10), async {
        for _ in 0..20 {
            pair.pass(1).await;
        }
    });
    all.await.expect("twenty one after the other: by polling each would take half a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_ring_is_looked_after_by_those_that_can() {
    let nats = Nats::with(-1, &["--user", "hub", "--pass", "right"]).await;
    let good = format!("nats://hub:right@127.0.0.1:{}", nats.port);
    let (mut nodes, mut running) = Nodes::start(1, &good).await;
    all_ring(&running).await;
    nodes.bell = format!("nats://hub:wrong@127.0.0.1:{}", nats.port);
    running.push(nodes.add().await);
    assert!(!rings(&running[1]).await, "a wrong password is no reason not to serve");
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let mut receiver = nodes.agent(&running[0], &b, "b").await;
    let mut sender = nodes.agent(&running[1], &a, "a").await;
    sender.ask(&nodes.message("m0", "finding", "a")).await;
    let got = received(&mut receiver, 1).await;
    assert_eq!(got[0].1, "m0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_installations_on_one_server_do_not_ring_each_other() {
    let nats = Nats::start().await;
    let (mut one, mut two) = (Pair::start(&nats.url()).await, Pair::start(&nats.url()).await);
    all_ring(&one.running).await;
    all_ring(&two.running).await;
    one.pass(3).await;
    two.pass(2).await;
    assert!(one.receiver.drain_of("message.deliver").await.is_empty());
    assert!(Socket::connect(&two.running[0].url, &one.token.bearer).await.is_err());
    let cursors = json!({ one.nodes.channel(): 0 });
    let mut again = one.nodes.agent_from(&one.running[0], &one.token, "b", &cursors).await;
    assert_eq!(received(&mut again, 3).await.len(), 3);
}

/// A NATS server with a configuration file.
async fn configured(dir: &Path, text: &str) -> Nats {
    let file = dir.join("nats.conf");
    std::fs::write(&file, text).unwrap();
    Nats::with(-1, &["-c", file.to_str().unwrap()]).await
}

/// Starts a node that rings with `good` and one that tries to with `bad`: the first rings, the second serves all the same.
async fn only_the_first_rings(
    good: (&str, &[(&'static str, String)]),
    bad: (&str, &[(&'static str, String)]),
) {
    let (mut nodes, mut running) = Nodes::start_with(1, good.0, good.1.to_vec()).await;
    all_ring(&running).await;
    bad.0.clone_into(&mut nodes.bell);
    nodes.more = bad.1.to_vec();
    running.push(nodes.add().await);
    let (a, b) = (running[0].token("a").await, running[0].token("b").await);
    let mut receiver = nodes.agent(&running[0], &b, "b").await;
    let mut sender = nodes.agent(&running[1], &a, "a").await;
    assert!(!rings(&running[1]).await, "{bad:?}");
    sender.ask(&nodes.message("m0", "finding", "a")).await;
    assert_eq!(received(&mut receiver, 1).await[0].1, "m0");
    assert!(!rings(&running[1]).await, "it says so for as long as it is so");
    assert!(rings(&running[0]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_a_nats_server_and_a_wrong_one_does_not() {
    let nats = Nats::with(-1, &["--auth", "s3cr3t"]).await;
    let with = |token: &str| format!("nats://{token}@127.0.0.1:{}", nats.port);
    only_the_first_rings((&with("s3cr3t"), &[]), (&with("guess"), &[])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_nats_server_is_believed_by_its_authority_alone() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca = authority.write(dir.path()).display().to_string();
    let (certificate, key) = authority.issue("localhost");
    let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
    std::fs::write(&cert_file, certificate).unwrap();
    std::fs::write(&key_file, key).unwrap();
    let conf = format!("tls {{ cert_file: {cert_file:?}, key_file: {key_file:?} }}");
    let nats = configured(dir.path(), &conf).await;
    let url = format!("tls://localhost:{}", nats.port);
    let believed = [("SWITCHBOARD_DOORBELL_CA_FILE", ca)];
    only_the_first_rings((&url, &believed), (&url, &[])).await;
    let nameless = format!("tls://127.0.0.1:{}", nats.port);
    only_the_first_rings((&url, &believed), (&nameless, &believed)).await;
}

/// A token of the kind that NATS has operators, accounts and users by.
fn jwt(issuer: &KeyPair, subject: &KeyPair, what: &Value) -> String {
    let claims = json!({ "jti": "x", "iat": 1_700_000_000, "iss": issuer.public_key(), "name": "switchboard",
        "sub": subject.public_key(), "nats": what });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), part(&claims));
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(text.as_bytes()).unwrap());
    format!("{text}.{signature}")
}

/// A `.creds` file of a user of `account`, who may use these subjects alone.
fn credentials(file: &Path, account: &KeyPair, subject: &str) -> String {
    let user = KeyPair::new_user();
    let allowed = json!({ "allow": [subject] });
    let what = json!({ "type": "user", "version": 2, "pub": allowed, "sub": allowed, "subs": -1, "data": -1, "payload": -1 });
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        jwt(account, &user, &what),
        user.seed().unwrap()
    );
    std::fs::write(file, text).unwrap();
    file.display().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credentials_file_opens_a_nats_server_of_an_operator_and_one_of_another_account_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let (operator, account, other) =
        (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let limits = json!({ "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1 });
    let operated = jwt(&operator, &operator, &json!({ "type": "operator", "version": 2 }));
    let accounted = jwt(&operator, &account, &json!({ "type": "account", "version": 2, "limits": limits }));
    let conf = format!(
        "operator: {operated}\nresolver: MEMORY\nresolver_preload: {{ {}: {accounted} }}\n",
        account.public_key()
    );
    let nats = configured(dir.path(), &conf).await;
    let file = |name: &str, of: &KeyPair| {
        let file = credentials(&dir.path().join(name), of, "switchboard.*.bell");
        [("SWITCHBOARD_DOORBELL_CREDENTIALS_FILE", file)]
    };
    let (good, bad) = (file("good.creds", &account), file("bad.creds", &other));
    only_the_first_rings((&nats.url(), &good), (&nats.url(), &bad)).await;
}

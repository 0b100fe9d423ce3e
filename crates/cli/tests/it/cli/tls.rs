//! A hub behind `https://` and `wss://`, with a certificate of an authority that the operating system does not know.

use super::{program, run};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::PathBuf;
use std::sync::Arc;
use switchboard_client::{Client, Error, Event, Http, Options, Secret, Trust, Tuning};
use switchboard_protocol::frame::client::HelloAgent;
use switchboard_protocol::message::{AgentMessage, MessageBody, MessageType, Network};
use switchboard_testkit::{PATIENCE, TestHub};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What stands in front of a hub: takes TLS off and hands the bytes on.
struct Terminator {
    address: String,
    ca_file: PathBuf,
    _dir: tempfile::TempDir,
}

impl Terminator {
    async fn start(hub: &TestHub) -> Self {
        let (ca_pem, acceptor) = certified();
        let dir = super::temp();
        let ca_file = dir.path().join("ca.pem");
        std::fs::write(&ca_file, ca_pem).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("localhost:{}", listener.local_addr().unwrap().port());
        let behind = hub.url.trim_start_matches("http://").to_owned();
        tokio::spawn(async move {
            while let Ok((outer, _)) = listener.accept().await {
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                tokio::spawn(async move {
                    // A client that does not believe the certificate leaves here.
                    let Ok(mut outer) = acceptor.accept(outer).await else { return };
                    let mut inner = TcpStream::connect(behind).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
                });
            }
        });
        Self { address, ca_file, _dir: dir }
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }
}

/// A fresh authority, and what speaks TLS for `localhost` with a certificate of it.
fn certified() -> (String, TlsAcceptor) {
    let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca = authority.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(authority, ca_key);
    let key = KeyPair::generate().unwrap();
    let leaf =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let chain: Vec<CertificateDer<'static>> = vec![leaf.der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    (ca.pem(), TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn the_client_library_speaks_https_and_wss_with_a_hub_it_trusts() {
    let hub = TestHub::start().await;
    let tls = Terminator::start(&hub).await;
    let (a, b) = (hub.token("a").await, hub.token("b").await);
    let mut listener = hub.agent(&b, "b").await;
    let trust = Trust::with_ca_file(&tls.ca_file).unwrap();
    let bearer = || Secret::new(a.bearer.as_str());
    let tuning = Tuning::default();

    let http = Http::with_trust(&tls.url("https"), bearer(), &tuning, &trust).unwrap();
    assert_eq!(http.whoami().await.unwrap().instance_id, a.instance_id);
    let stranger = Http::new(&tls.url("https"), bearer(), &tuning).unwrap().whoami().await;
    assert!(matches!(stranger, Err(Error::Unreachable(_))), "not trusted unless told: {stranger:?}");

    let mut options = Options::new(tls.url("wss"), bearer());
    let vault_id = hub.vault("main").into();
    options.agents = vec![HelloAgent { agent_id: "a".into(), role: "tester".into(), vault_id }];
    options.trust = trust;
    let client = Client::connect(options).await.unwrap();
    let network = Network::Org { channel: hub.channel("general").into() };
    let body = MessageBody::text("over TLS");
    let message = AgentMessage::new("m1".to_owned(), network, MessageType::Finding, "a", body);
    let stored = client.send(&message).await.unwrap();
    assert_eq!(listener.expect("message.deliver").await["gid"], *stored.gid);

    listener.ask(&hub.message("m2", "finding", "b", "and back")).await;
    let heard = async {
        loop {
            if let Event::Delivery(delivery) = client.next_event().await.unwrap() {
                return delivery.gid.into_owned();
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("the socket carries both ways");
    client.close().await;

    let mut options = Options::new(tls.url("wss"), bearer());
    options.instance_id = Some(a.instance_id.clone());
    let stranger = Client::connect(options).await;
    assert!(matches!(stranger, Err(Error::Unreachable(_))), "not trusted unless told: {stranger:?}");
    hub.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_take_the_authority_from_an_option_or_a_variable() {
    let hub = TestHub::start().await;
    let tls = Terminator::start(&hub).await;
    let token = hub.token("a").await;
    let command = || {
        let mut command =
            program(&["agents", "--json", "--url", &tls.url("https"), "--token", &token.bearer]);
        command.env_remove("SSL_CERT_FILE");
        command
    };
    run(command().arg("--ca-file").arg(&tls.ca_file)).json();
    run(command().env("SWITCHBOARD_CA_FILE", &tls.ca_file)).json();
    run(&mut command()).failed(4, "SB0202");
    let refused = run(command().args(["--ca-file", "/nowhere/ca.pem"])).failed(2, "SB0201");
    assert!(refused.stderr.contains("ca_file: /nowhere/ca.pem"), "{refused:?}");
    hub.stop().await;
}

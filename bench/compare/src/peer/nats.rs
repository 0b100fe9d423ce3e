//! NATS JetStream: one file-backed stream per topic, `sync_interval: always`.
//!
//! The server syncs once per message, but once per batch since its version 2.15 where messages come
//! as an atomic batch (its ADR-50); so both ways are measured.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use async_nats::header::{NATS_BATCH_COMMIT, NATS_BATCH_ID, NATS_BATCH_SEQUENCE};
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::push::OrderedConfig;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, HeaderMap};
use bytes::Bytes;
use futures_util::StreamExt;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{Peer, Sender};
use crate::load::Body;
use crate::process::{Process, find_program, free_port};
use crate::receipts::Receipts;
use crate::usage::Usage;

/// Acknowledgements are awaited up to this; a run that reaches it fails.
const ACK_LIMIT: Duration = Duration::from_mins(2);
const MESSAGES_BUFFERED: usize = 1 << 20;

/// A private nats-server, published to in atomic batches of up to `BATCH` messages; 1 is plain publishing.
pub struct Nats<const BATCH: usize> {
    process: Process,
    port: u16,
    folder: TempDir,
}

/// One client connection that publishes to one subject.
pub struct Publisher {
    client: Client,
    context: Context,
    subject: String,
}

impl<const BATCH: usize> Nats<BATCH> {
    /// Where a hub finds it.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    async fn connect(&self) -> Result<Client> {
        let options = ConnectOptions::new().subscription_capacity(MESSAGES_BUFFERED);
        Ok(options.connect(format!("127.0.0.1:{}", self.port)).await?)
    }
}

impl<const BATCH: usize> Peer for Nats<BATCH> {
    type Sender = Publisher;
    const BATCH: usize = BATCH;

    async fn start(dir: &Path) -> Result<Self> {
        let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin");
        let program = find_program("nats-server", &[venv])?;
        let folder = tempfile::Builder::new().prefix("nats-").tempdir_in(dir)?;
        let port = free_port()?;
        let config = folder.path().join("nats.conf");
        let store = folder.path().join("store");
        // The batch limits are raised from 50 for each stream: 64 senders have one open each.
        let text = format!(
            "listen: \"127.0.0.1:{port}\"
            jetstream {{
                store_dir: \"{}\", sync_interval: always
                limits {{ batch {{ max_inflight_per_stream: 1000, max_inflight_total: 1000 }} }}
            }}",
            store.display()
        );
        std::fs::write(&config, text).context("write the configuration of nats-server")?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&config);
        let mut process = Process::start(&mut command, Signal::TERM, &folder.path().join("log"))?;
        process.wait_for_port(port).await.context("nats-server")?;
        Ok(Self { process, port, folder })
    }

    async fn create_topic(&self, topic: &str, _receivers: usize) -> Result<()> {
        let config = Config {
            name: topic.to_owned(),
            subjects: vec![topic.to_owned()],
            storage: StorageType::File,
            num_replicas: 1,
            allow_atomic_publish: BATCH > 1,
            ..Config::default()
        };
        jetstream::new(self.connect().await?).create_stream(config).await?;
        Ok(())
    }

    async fn sender(&self, topic: &str) -> Result<Publisher> {
        let client = self.connect().await?;
        let context = ContextBuilder::new().timeout(ACK_LIMIT).build(client.clone());
        Ok(Publisher { client, context, subject: topic.to_owned() })
    }

    /// An ordered push consumer: no acknowledgements, flow control by the server, the cheapest
    /// way that JetStream has to hand a stored stream to one reader in order.
    async fn receive(
        &self,
        topic: &str,
        index: usize,
        receipts: Arc<Receipts>,
        tasks: &mut JoinSet<Result<()>>,
    ) -> Result<()> {
        let client = self.connect().await?;
        let config = OrderedConfig {
            deliver_subject: client.new_inbox(),
            deliver_policy: DeliverPolicy::All,
            ..OrderedConfig::default()
        };
        let stream = jetstream::new(client).get_stream(topic).await?;
        let mut messages = stream.create_consumer(config).await?.messages().await?;
        tasks.spawn(async move {
            while let Some(message) = messages.next().await {
                receipts.note(index, &message?.payload)?;
            }
            bail!("the consumer ended")
        });
        Ok(())
    }

    fn usage(&self) -> Usage {
        self.process.usage()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Publisher {
    /// Sends all of `bodies` as one atomic batch; only the last message, which commits it, is answered.
    async fn publish_batch(&self, bodies: Vec<Body>) -> Result<()> {
        let (id, count) = (self.client.new_inbox(), bodies.len());
        for (i, body) in bodies.into_iter().enumerate() {
            let mut headers = HeaderMap::new();
            headers.insert(NATS_BATCH_ID, id.as_str());
            headers.insert(NATS_BATCH_SEQUENCE, (i + 1).to_string());
            let (subject, payload) = (self.subject.clone(), Bytes::copy_from_slice(&body));
            if i + 1 < count {
                self.client.publish_with_headers(subject, headers, payload).await?;
            } else {
                headers.insert(NATS_BATCH_COMMIT, "1");
                self.context.publish_with_headers(subject, headers, payload).await?.await?;
            }
        }
        Ok(())
    }
}

impl Sender for Publisher {
    async fn publish(&self, bodies: Vec<Body>) -> Result<()> {
        if let [body] = &bodies[..] {
            let payload = Bytes::copy_from_slice(body);
            self.context.publish(self.subject.clone(), payload).await?.await?;
            return Ok(());
        }
        self.publish_batch(bodies).await
    }
}

//! NATS JetStream: one file-backed stream per topic, `sync_interval: always`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_nats::ConnectOptions;
use async_nats::jetstream::consumer::push::OrderedConfig;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{self, consumer::DeliverPolicy};
use futures_util::StreamExt;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{Peer, Sender};
use crate::load::Body;
use crate::process::{Process, Usage, find_program, free_port};
use crate::receipts::Receipts;

/// Acknowledgements are awaited up to this; a run that reaches it fails.
const ACK_LIMIT: Duration = Duration::from_secs(30);
const MESSAGES_BUFFERED: usize = 1 << 20;

/// A private nats-server.
pub struct Nats {
    process: Process,
    port: u16,
    folder: TempDir,
}

/// One client connection that publishes to one subject.
pub struct Publisher {
    context: jetstream::Context,
    subject: String,
}

impl Nats {
    async fn connect(&self) -> Result<async_nats::Client> {
        let options = ConnectOptions::new().subscription_capacity(MESSAGES_BUFFERED);
        Ok(options.connect(format!("127.0.0.1:{}", self.port)).await?)
    }
}

impl Peer for Nats {
    type Sender = Publisher;

    async fn start(dir: &Path) -> Result<Self> {
        let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin");
        let program = find_program("nats-server", &[venv])?;
        let folder = tempfile::Builder::new().prefix("nats-").tempdir_in(dir)?;
        let port = free_port()?;
        let config = folder.path().join("nats.conf");
        let store = folder.path().join("store");
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {store:?}, sync_interval: always }}\n"
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
            ..Config::default()
        };
        jetstream::new(self.connect().await?).create_stream(config).await?;
        Ok(())
    }

    async fn sender(&self, topic: &str) -> Result<Publisher> {
        let context = ContextBuilder::new().timeout(ACK_LIMIT).build(self.connect().await?);
        Ok(Publisher { context, subject: topic.to_owned() })
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

impl Sender for Publisher {
    async fn publish(&self, bodies: Vec<Body>) -> Result<()> {
        for body in bodies {
            let ack = self.context.publish(self.subject.clone(), body.to_vec().into()).await?;
            ack.await?;
        }
        Ok(())
    }
}

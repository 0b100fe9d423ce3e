//! `RabbitMQ` quorum queues on a single node, with publisher confirms.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{Peer, Sender};
use crate::load::{Body, retry};
use crate::process::{Process, find_program, free_port};
use crate::receipts::Receipts;
use crate::usage::Usage;

const SERVE_LIMIT: Duration = Duration::from_mins(1);
const PERSISTENT: u8 = 2;

/// A private node with its own name daemon, so that no daemon outlives the run.
pub struct RabbitMq {
    process: Process,
    _name_daemon: Process,
    port: u16,
    folder: TempDir,
}

/// One connection with one channel in confirm mode.
pub struct Publisher {
    _connection: Connection,
    channel: Channel,
    exchange: ShortString,
}

impl RabbitMq {
    async fn connect(&self) -> Result<Connection> {
        let address = format!("amqp://127.0.0.1:{}/%2f", self.port);
        Ok(Connection::connect(&address, ConnectionProperties::default()).await?)
    }
}

impl Peer for RabbitMq {
    type Sender = Publisher;

    async fn start(dir: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("rabbitmq-").tempdir_in(dir)?;
        let names_port = free_port()?;
        let mut names = Command::new(find_program("epmd", &[])?);
        names.args(["-address", "127.0.0.1", "-port", &names_port.to_string()]);
        let mut names = Process::start(&mut names, Signal::TERM, &folder.path().join("epmd.log"))?;
        names.wait_for_port(names_port).await.context("epmd")?;
        let port = free_port()?;
        let mut command = server_command(folder.path(), port, names_port)?;
        let mut process = Process::start(&mut command, Signal::TERM, &folder.path().join("log"))?;
        process.wait_for_port(port).await.context("rabbitmq-server")?;
        let rabbitmq = Self { process, _name_daemon: names, port, folder };
        retry(SERVE_LIMIT, || rabbitmq.connect()).await.context("rabbitmq-server")?;
        Ok(rabbitmq)
    }

    /// A fan-out exchange and one quorum queue per receiver (one in all where nobody receives):
    /// a queue hands each message to one consumer only, so 50 receivers take 50 durable copies.
    async fn create_topic(&self, topic: &str, receivers: usize) -> Result<()> {
        let connection = self.connect().await?;
        let channel = connection.create_channel().await?;
        let exchange = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        channel.exchange_declare(topic.into(), ExchangeKind::Fanout, exchange, FieldTable::default()).await?;
        for index in 0..receivers.max(1) {
            let queue = queue_name(topic, index);
            let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            let mut arguments = FieldTable::default();
            arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
            channel.queue_declare(queue.clone(), options, arguments).await?;
            let options = QueueBindOptions::default();
            channel.queue_bind(queue, topic.into(), "".into(), options, FieldTable::default()).await?;
        }
        Ok(())
    }

    async fn sender(&self, topic: &str) -> Result<Publisher> {
        let connection = self.connect().await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Publisher { _connection: connection, channel, exchange: topic.into() })
    }

    async fn receive(
        &self,
        topic: &str,
        index: usize,
        receipts: Arc<Receipts>,
        tasks: &mut JoinSet<Result<()>>,
    ) -> Result<()> {
        let connection = self.connect().await?;
        let channel = connection.create_channel().await?;
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let queue = queue_name(topic, index);
        let mut consumer = channel.basic_consume(queue, "".into(), options, FieldTable::default()).await?;
        tasks.spawn(async move {
            let _open = (connection, channel);
            while let Some(delivery) = consumer.next().await {
                receipts.note(index, &delivery?.data)?;
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

fn queue_name(topic: &str, index: usize) -> ShortString {
    format!("{topic}_{index}").into()
}

/// The server in the foreground (`RUNNING_UNDER_SYSTEMD` makes its script replace itself with the
/// Erlang machine, which then gets the stop signal), with nothing outside `folder` read or written.
fn server_command(folder: &Path, port: u16, names_port: u16) -> Result<Command> {
    let conf =
        format!("listeners.tcp.1 = 127.0.0.1:{port}\nlog.console = true\nlog.console.level = warning\n");
    for (file, text) in [("rabbitmq.conf", conf.as_str()), ("plugins", "[]."), ("env.conf", "")] {
        std::fs::write(folder.join(file), text)?;
    }
    let script: PathBuf = find_program("rabbitmq-server", &script_folders())?;
    let mut command = Command::new(script);
    let paths = [
        ("HOME", ""),
        ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
        ("RABBITMQ_CONF_ENV_FILE", "env.conf"),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", "plugins"),
        ("RABBITMQ_MNESIA_BASE", "mnesia"),
        ("RABBITMQ_LOG_BASE", "logs"),
        ("RABBITMQ_PID_FILE", "pid"),
    ];
    command.envs(paths.map(|(name, file)| (name, folder.join(file))));
    command.env("RABBITMQ_NODENAME", format!("bench{port}@localhost"));
    command.env("RABBITMQ_LOGS", "-").env("RUNNING_UNDER_SYSTEMD", "true");
    command.env("RABBITMQ_DIST_PORT", free_port()?.to_string());
    command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}");
    command.env("ERL_EPMD_PORT", names_port.to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
    Ok(command)
}

/// Where Debian keeps the server's own scripts; the one on `PATH` would switch to another account.
fn script_folders() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/rabbitmq/lib").into_iter().flatten().flatten();
    versions.map(|entry| entry.path().join("sbin")).collect()
}

impl Sender for Publisher {
    async fn publish(&self, bodies: Vec<Body>) -> Result<()> {
        for body in bodies {
            let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
            let options = BasicPublishOptions::default();
            let publish =
                self.channel.basic_publish(self.exchange.clone(), "".into(), options, &body, properties);
            if !publish.await?.await?.is_ack() {
                bail!("a message was not confirmed");
            }
        }
        Ok(())
    }
}

//! Redis Streams with `appendonly yes` and `appendfsync always`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::streams::StreamReadReply;
use ::redis::{AsyncConnectionConfig, Client, Value, cmd};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{Peer, Sender};
use crate::load::Body;
use crate::process::{Process, find_program, free_port};
use crate::receipts::Receipts;
use crate::usage::Usage;

const REPLY_LIMIT: Duration = Duration::from_mins(2);
/// Entries that one XREAD may return: enough that a reader catches up in few round trips.
const READ_COUNT: usize = 512;
const BLOCK_MS: usize = 1000;
/// Commands that the client library may gather into one write; its default of 50 would cut a
/// window of 256 into six.
const PIPELINE_COMMANDS: usize = 512;

/// A private redis-server.
pub struct Redis {
    process: Process,
    port: u16,
    folder: TempDir,
}

/// One multiplexed connection: commands of many tasks share it as a pipeline.
pub struct Publisher {
    connection: MultiplexedConnection,
    stream: String,
}

impl Redis {
    async fn connect(&self) -> Result<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(REPLY_LIMIT))
            .set_pipeline_buffer_size(PIPELINE_COMMANDS);
        let client = Client::open(format!("redis://127.0.0.1:{}/", self.port))?;
        Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
    }
}

impl Peer for Redis {
    type Sender = Publisher;

    async fn start(dir: &Path) -> Result<Self> {
        let program = find_program("redis-server", &[])?;
        let folder = tempfile::Builder::new().prefix("redis-").tempdir_in(dir)?;
        let port = free_port()?;
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        // A rewrite in the middle of a run would fork and copy: spared here.
        command.args(["--auto-aof-rewrite-percentage", "0", "--dir"]).arg(folder.path());
        let mut process = Process::start(&mut command, Signal::TERM, &folder.path().join("log"))?;
        process.wait_for_port(port).await.context("redis-server")?;
        Ok(Self { process, port, folder })
    }

    async fn create_topic(&self, _topic: &str, _receivers: usize) -> Result<()> {
        Ok(()) // The first XADD makes the stream.
    }

    async fn sender(&self, topic: &str) -> Result<Publisher> {
        Ok(Publisher { connection: self.connect().await?, stream: topic.to_owned() })
    }

    async fn receive(
        &self,
        topic: &str,
        index: usize,
        receipts: Arc<Receipts>,
        tasks: &mut JoinSet<Result<()>>,
    ) -> Result<()> {
        let (connection, stream) = (self.connect().await?, topic.to_owned());
        tasks.spawn(read_all(connection, stream, index, receipts));
        Ok(())
    }

    fn usage(&self) -> Usage {
        self.process.usage()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

async fn read_all(
    mut connection: MultiplexedConnection,
    stream: String,
    index: usize,
    receipts: Arc<Receipts>,
) -> Result<()> {
    let mut last_id = "0".to_owned();
    loop {
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(READ_COUNT).arg("BLOCK").arg(BLOCK_MS);
        read.arg("STREAMS").arg(&stream).arg(&last_id);
        let reply: Option<StreamReadReply> = read.query_async(&mut connection).await?;
        for entry in reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids) {
            let Some(Value::BulkString(body)) = entry.map.get("b") else { bail!("an entry without a body") };
            receipts.note(index, body)?;
            last_id = entry.id;
        }
    }
}

impl Sender for Publisher {
    async fn publish(&self, bodies: Vec<Body>) -> Result<()> {
        for body in bodies {
            let mut connection = self.connection.clone();
            let mut add = cmd("XADD");
            add.arg(&self.stream).arg("*").arg("b").arg(&body[..]);
            let _id: Value = add.query_async(&mut connection).await?;
        }
        Ok(())
    }
}

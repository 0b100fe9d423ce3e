//! PostgreSQL with `fsync` and `synchronous_commit` on: a row per transaction, or a batch of rows
//! per transaction by `unnest`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

use super::{Peer, Sender};
use crate::load::Body;
use crate::process::{Process, find_program, free_port};
use crate::receipts::Receipts;
use crate::usage::Usage;

const INIT_LIMIT: Duration = Duration::from_mins(3);
const ROLE: &str = "bench";

/// Touches all of the buffers and leaves log segments behind for reuse: a server that has just been made would do both within the
/// measured seconds, one that runs has done it long ago.
const WARM_UP: &str = "CREATE TABLE warm (filler text);
    ALTER TABLE warm ALTER filler SET STORAGE PLAIN;
    INSERT INTO warm SELECT repeat('.', 7000) FROM generate_series(1, 50000);
    DROP TABLE warm;
    CHECKPOINT";

/// A private postgres, with transactions of up to `BATCH` rows.
pub struct Postgres<const BATCH: usize> {
    process: Process,
    port: u16,
    folder: TempDir,
}

/// One connection with its prepared insert; the library pipelines what many tasks ask of it.
pub struct Publisher<const BATCH: usize> {
    client: Client,
    insert: Statement,
}

impl<const BATCH: usize> Postgres<BATCH> {
    /// Where a hub finds it.
    pub fn url(&self) -> String {
        format!("postgres://{ROLE}@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    async fn connect(&self) -> Result<Client> {
        let config = format!("host=127.0.0.1 port={} user={ROLE} dbname=postgres", self.port);
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        // Ends when the client is dropped; a broken connection shows as an error of the client.
        tokio::spawn(connection);
        Ok(client)
    }
}

impl<const BATCH: usize> Peer for Postgres<BATCH> {
    type Sender = Publisher<BATCH>;
    const BATCH: usize = BATCH;
    const DELIVERS: bool = false;

    async fn start(dir: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("postgres-").tempdir_in(dir)?;
        let data = folder.path().join("data");
        let log = folder.path().join("log");
        let owner = Owner::choose(folder.path())?;
        let mut init = owner.command("initdb", folder.path())?;
        init.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "-U", ROLE, "-D"]).arg(&data);
        let mut init = Process::start(&mut init, Signal::TERM, &log)
            .context("the server's account must be able to enter the folder of --dir")?;
        init.wait_for_success(INIT_LIMIT).await.context("initdb")?;
        let port = free_port()?;
        let mut server = owner.command("postgres", folder.path())?;
        server.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", ""]);
        // The first two are the defaults, named because they are the point. A larger WAL keeps
        // checkpoints out of a short run, as a tuned server would.
        for setting in [
            "fsync=on",
            "synchronous_commit=on",
            "shared_buffers=256MB",
            "max_wal_size=8GB",
            "min_wal_size=2GB",
        ] {
            server.args(["-c", setting]);
        }
        let mut process = Process::start(&mut server, Signal::INT, &log)?;
        process.wait_for_port(port).await.context("postgres")?;
        let postgres = Self { process, port, folder };
        let client = crate::load::retry(INIT_LIMIT, || postgres.connect()).await.context("postgres")?;
        client.batch_execute(WARM_UP).await.context("postgres")?;
        Ok(postgres)
    }

    async fn create_topic(&self, topic: &str, _receivers: usize) -> Result<()> {
        let table = format!(
            "CREATE TABLE {topic} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)"
        );
        Ok(self.connect().await?.batch_execute(&table).await?)
    }

    async fn sender(&self, topic: &str) -> Result<Publisher<BATCH>> {
        let rows = if BATCH == 1 { "VALUES ($1::bytea)" } else { "SELECT unnest($1::bytea[])" };
        let client = self.connect().await?;
        let insert = client.prepare(&format!("INSERT INTO {topic} (body) {rows}")).await?;
        Ok(Publisher { client, insert })
    }

    async fn receive(
        &self,
        _topic: &str,
        _index: usize,
        _receipts: Arc<Receipts>,
        _tasks: &mut JoinSet<Result<()>>,
    ) -> Result<()> {
        bail!("a table delivers nothing by itself")
    }

    fn usage(&self) -> Usage {
        self.process.usage()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl<const BATCH: usize> Sender for Publisher<BATCH> {
    async fn publish(&self, bodies: Vec<Body>) -> Result<()> {
        let rows: Vec<&[u8]> = bodies.iter().map(|body| &body[..]).collect();
        if BATCH > 1 {
            self.client.execute(&self.insert, &[&rows]).await?;
            return Ok(());
        }
        for row in rows {
            self.client.execute(&self.insert, &[&row]).await?;
        }
        Ok(())
    }
}

/// The account that the server runs as: PostgreSQL refuses to run as root.
enum Owner {
    Self_,
    Account { uid: u32, gid: u32 },
}

impl Owner {
    fn choose(folder: &Path) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Self_);
        }
        let passwd = std::fs::read_to_string("/etc/passwd").context("read /etc/passwd")?;
        let (uid, gid) = account_ids(&passwd, "postgres")
            .context("running as root needs the account `postgres`: run bench/compare/setup")?;
        std::os::unix::fs::chown(folder, Some(uid), Some(gid))?;
        Ok(Self::Account { uid, gid })
    }

    fn command(&self, program: &str, folder: &Path) -> Result<Command> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(find_program(program, &installed_folders())?);
        command.current_dir(folder);
        if let Self::Account { uid, gid } = *self {
            command.uid(uid).gid(gid);
        }
        Ok(command)
    }
}

/// `bin` of each version that Debian's packages have installed, the newest first.
fn installed_folders() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

/// User and group number of `name` in the text of passwd(5).
fn account_ids(passwd: &str, name: &str) -> Option<(u32, u32)> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_numbers_are_read_by_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres2:x:7:8::/:/bin/sh\npostgres:x:103:106::/:/bin/sh";
        assert_eq!(account_ids(passwd, "postgres"), Some((103, 106)));
        assert_eq!(account_ids(passwd, "redis"), None);
    }
}

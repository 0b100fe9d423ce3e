//! A private PostgreSQL server for tests: made in a temporary folder, reached over loopback, gone with the process that made it,
//! however that ends.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes a cluster as its owner and serves it until standard input closes. Arguments: programs' folder, port, further settings.
const SCRIPT: &str = r#"
set -e
bin=$1 port=$2; shift 2
dir=$(mktemp -d "${TMPDIR:-/tmp}/switchboard-postgres.XXXXXX")
trap 'rm -rf "$dir"' EXIT
"$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$dir/initdb.log" 2>&1 || { cat "$dir/initdb.log" >&2; exit 1; }
"$bin/postgres" -D "$dir/data" -k "$dir" -h 127.0.0.1 -p "$port" "$@" >"$dir/log" 2>&1 </dev/null &
pid=$!
until "$bin/pg_isready" -q -h "$dir" -p "$port"; do
  kill -0 $pid 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
  sleep 0.05
done
echo "$dir $pid"
cat >/dev/null
kill -QUIT $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
"#;

/// Settings that make tests quick; what they prove does not depend on the disk.
const QUICK: [&str; 12] = [
    "-c",
    "fsync=off",
    "-c",
    "full_page_writes=off",
    "-c",
    "max_connections=300",
    "-c",
    "shared_buffers=64MB",
    "-c",
    "autovacuum=off",
    "-c",
    "max_wal_size=256MB",
];

/// Where the small disk of [`Cluster::with_small_disk`] is, as its server sees it.
pub const SMALL_DISK: &str = "/mnt";

/// A running server.
#[derive(Debug)]
pub struct Cluster {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Its folder, with `data`, `log` and the socket inside.
    pub dir: PathBuf,
    /// Process id of the server.
    pub pid: u32,
    bin: PathBuf,
    script: Child,
    stdin: Option<ChildStdin>,
    schemas: AtomicU32,
}

impl Cluster {
    /// A server that does not wait for its disk.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&QUICK)
    }

    /// A server with further settings.
    #[must_use]
    pub fn with(settings: &[&str]) -> Self {
        Self::run(as_owner(), settings)
    }

    /// A server with a small disk beside its own at [`SMALL_DISK`], which nobody else sees and which is gone with it. Being root
    /// is needed for that, or a system that lets its users make name spaces.
    #[must_use]
    pub fn with_small_disk(mib: u32) -> Self {
        let root = is_root();
        let mut command = Command::new("unshare");
        command.args(if root { &["-m"][..] } else { &["-m", "--map-current-user", "--keep-caps"] });
        let owner = if root { "runuser -u postgres --" } else { "env" };
        let user = if root { "postgres" } else { "$(id -un)" };
        let mount = format!(
            "mount -t tmpfs -o size={mib}m,mode=700,uid=$(id -u {user}),gid=$(id -g {user}) small {SMALL_DISK} && exec {owner} \"$@\""
        );
        command.args(["sh", "-c", &mount, "sh"]);
        Self::run(command, &QUICK)
    }

    fn run(mut command: Command, settings: &[&str]) -> Self {
        let bin = programs();
        let port = free_port();
        command.args(["sh", "-c", SCRIPT, "sh"]).arg(&bin).arg(port.to_string()).args(settings);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Not under a home that its owner may not enter.
        command.current_dir("/");
        let mut script = command.spawn().expect("a shell for the server");
        let mut line = String::new();
        let stdout = script.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("the server says where it is");
        let (dir, pid) = line.trim().split_once(' ').expect("the server starts; see above");
        let (dir, pid) = (PathBuf::from(dir), pid.parse().expect("a process id"));
        let stdin = script.stdin.take();
        Self { port, dir, pid, bin, script, stdin, schemas: AtomicU32::new(0) }
    }

    /// The URL of a schema of its own, which is yet to be made.
    #[must_use]
    pub fn fresh_url(&self) -> String {
        let number = self.schemas.fetch_add(1, Ordering::Relaxed);
        self.url(&format!("t{number}"))
    }

    /// The URL of a schema.
    #[must_use]
    pub fn url(&self, schema: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?schema={schema}", self.port)
    }

    /// Runs statements as the database's owner; returns what they print, unaligned.
    pub fn sql(&self, statements: &str) -> String {
        let mut command = Command::new(self.bin.join("psql"));
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"]);
        command.args(["-p", &self.port.to_string(), "-d", "postgres", "-c", statements]);
        let done = command.output().expect("psql runs");
        assert!(done.status.success(), "{statements}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// The folder of PostgreSQL's programs.
    #[must_use]
    pub fn programs(&self) -> &Path {
        &self.bin
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The script stops the server when this closes.
        self.stdin = None;
        let _ = self.script.wait();
    }
}

/// A free port on loopback, for a server that cannot choose one by itself.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0)
}

/// PostgreSQL does not run as root: then it runs as its own user.
fn as_owner() -> Command {
    let root = is_root();
    let mut command = Command::new(if root { "runuser" } else { "env" });
    if root {
        command.args(["-u", "postgres", "--"]);
    }
    command
}

/// The newest installed version's programs.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.max_by_key(|it| it.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    let newest = newest.expect("PostgreSQL is not installed: apt-get install postgresql, or ./test unit");
    newest.path().join("bin")
}

//! A private PostgreSQL server for tests: made in a temporary folder, reached over loopback, gone with the process that made it,
//! however that ends.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes a cluster as its owner and serves it until standard input closes; each line there starts a server that has ended again.
/// Arguments: programs' folder, port, port of the server to be a standby of or 0, further settings.
const SCRIPT: &str = r#"
set -e
bin=$1 port=$2 primary=$3; shift 3
dir=$(mktemp -d "${TMPDIR:-/tmp}/switchboard-postgres.XXXXXX")
trap 'rm -rf "$dir"' EXIT
if [ "$primary" = 0 ]; then
  "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$dir/initdb.log" 2>&1 || { cat "$dir/initdb.log" >&2; exit 1; }
else
  "$bin/pg_basebackup" -D "$dir/data" -h 127.0.0.1 -p "$primary" -U postgres -R -X stream -c fast --no-sync >&2
fi
start() {
  "$bin/postgres" -D "$dir/data" -k "$dir" -h 127.0.0.1 -p "$port" "$@" >>"$dir/log" 2>&1 </dev/null &
  pid=$!
  until "$bin/pg_isready" -q -h "$dir" -p "$port"; do
    kill -0 $pid 2>/dev/null || return 1
    sleep 0.05
  done
}
start "$@" || { cat "$dir/log" >&2; exit 1; }
echo "$dir $pid"
while read -r again; do
  wait $pid || true
  # The processes of a server that was killed take a moment to notice.
  tries=0
  until start "$@"; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { cat "$dir/log" >&2; exit 1; }
    sleep 0.05
  done
  echo "$dir $pid"
done
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
    stdout: BufReader<ChildStdout>,
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
        Self::run(as_owner(), 0, settings)
    }

    /// A standby of `primary`, on a port of its own, that follows as it can and holds up nobody.
    #[must_use]
    pub fn standby_of(primary: &Self) -> Self {
        Self::run(as_owner(), primary.port, &QUICK)
    }

    /// Whether this system lets us mount a disk that nobody else sees.
    #[must_use]
    pub fn has_small_disks() -> bool {
        let mut command = Command::new("unshare");
        command.args(if is_root() { &["-m"][..] } else { &["-m", "--map-current-user", "--keep-caps"] });
        command.args(["mount", "-t", "tmpfs", "small", SMALL_DISK]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
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
        Self::run(command, 0, &QUICK)
    }

    fn run(mut command: Command, primary: u16, settings: &[&str]) -> Self {
        let bin = programs();
        let port = free_port();
        command.args(["sh", "-c", SCRIPT, "sh"]).arg(&bin).args([port.to_string(), primary.to_string()]);
        command.args(settings).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Not under a home that its owner may not enter.
        command.current_dir("/");
        let mut script = command.spawn().expect("a shell for the server");
        let (stdin, stdout) = (script.stdin.take(), script.stdout.take().expect("a pipe"));
        let mut stdout = BufReader::new(stdout);
        let (dir, pid) = started(&mut stdout);
        Self { port, dir, pid, bin, script, stdin, stdout, schemas: AtomicU32::new(0) }
    }

    /// `kill -9` of the server's first process: its others notice and end, nothing is written any more.
    pub fn kill(&self) {
        self.signal("KILL");
    }

    /// Asks it to end as `pg_ctl stop -m fast` does: connections are ended, what is committed is flushed.
    pub fn stop(&self) {
        self.signal("INT");
    }

    /// `kill -9` of one process that serves a client: the server ends all others and recovers by itself.
    pub fn crash(&self) {
        let one = "SELECT pid FROM pg_stat_activity WHERE application_name = 'switchboard' LIMIT 1";
        let one = self.sql(one);
        if !one.is_empty() {
            // It may have ended by itself meanwhile.
            let _ = Command::new("kill").args(["-KILL", &one]).status();
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid.to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Starts it again on the same data and port once it has ended, and waits until it takes connections.
    pub fn start_again(&mut self) {
        use std::io::Write as _;
        let stdin = self.stdin.as_mut().expect("its script lives");
        stdin.write_all(b"again\n").expect("its script listens");
        self.pid = started(&mut self.stdout).1;
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

/// What the script says once the server takes connections: its folder and process.
fn started(stdout: &mut BufReader<ChildStdout>) -> (PathBuf, u32) {
    let mut line = String::new();
    stdout.read_line(&mut line).expect("the server says where it is");
    let (dir, pid) = line.trim().split_once(' ').expect("the server starts; see above");
    (PathBuf::from(dir), pid.parse().expect("a process id"))
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

//! `switchboard doctor`: what is wrong, and for each thing the next command to run.

mod people;

use crate::api::Api;
use crate::args::Global;
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::limits;
use crate::place::{self, Admin};
use crate::terminal::{self, Output};
use serde::Serialize;
use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;
use switchboard_core::time::{Clock as _, MINUTE_MS, SystemClock, WallMs};
use switchboard_protocol::UtcTime;
use switchboard_protocol::admin::Status;

/// No clock that is right shows less: 2026-01-01.
const CLOCK_MIN_MS: WallMs = 1_767_225_600_000;
/// How far ahead of the clock a file may have been written.
const CLOCK_SLACK_MS: WallMs = 5 * MINUTE_MS;
/// Open files below which sockets run out early.
const FILES_MIN: u64 = 4096;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: Cow<'static, str>,
    ok: bool,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl Check {
    fn good(name: impl Into<Cow<'static, str>>, found: impl Into<String>) -> Self {
        Self { name: name.into(), ok: true, found: found.into(), next: None }
    }

    fn bad(name: impl Into<Cow<'static, str>>, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { name: name.into(), ok: false, found: found.into(), next: Some(next.into()) }
    }

    fn failed(name: &'static str, failure: Failure) -> Self {
        let next = failure.next.or_else(|| failure.sb.map(|sb| format!("switchboard explain {sb}")));
        Self { name: name.into(), ok: false, found: failure.message, next }
    }
}

/// Looks at everything.
pub async fn run(global: &Global, output: Output) -> Result<(), Failure> {
    let mut checks = Vec::new();
    let (mut config, valid) = match config::load(global) {
        Ok(config) => {
            checks.push(Check::good("configuration", "valid"));
            (config, true)
        }
        Err(failure) => {
            checks.push(Check::failed("configuration", failure));
            (Config::default(), false)
        }
    };
    let here = global.url.as_deref().is_none_or(str::is_empty);
    if here {
        match place::data_dir(global.data_dir.as_deref(), config.server.data_dir.as_deref().map(Path::new)) {
            Ok(dir) => {
                let (_, wrong) = crate::channels::saved::extend(&mut config, &dir, &people::clock());
                checks.extend(wrong.into_iter().map(|failure| Check::failed("saved channels", failure)));
                files(&dir, &config, &mut checks);
                checks.extend(valid.then(|| people::policy(&config, &dir)));
            }
            Err(failure) => checks.push(Check::failed("data directory", failure)),
        }
    }
    checks.push(open_files());
    // What stands in the configuration here says nothing of a hub elsewhere.
    let own = (here && valid).then_some(&config);
    if let Some(config) = own {
        checks.extend(people::channels(global, config).await);
    }
    hub(global, own, &mut checks).await;
    let ok = checks.iter().all(|check| check.ok);
    output.show(&serde_json::json!({ "ok": ok, "checks": &checks }), |_| text(&checks));
    if ok {
        return Ok(());
    }
    let bad = checks.iter().filter(|check| !check.ok).count();
    Err(Failure::no(format!("{bad} of {} checks failed.", checks.len())))
}

fn text(checks: &[Check]) -> String {
    let row = |check: &Check| {
        let verdict = if check.ok { "ok" } else { "FAILED" };
        vec![verdict.to_owned(), check.name.to_string(), check.found.clone()]
    };
    let rows: Vec<_> = checks.iter().map(row).collect();
    let nexts = checks
        .iter()
        .filter_map(|check| Some(format!("next, for {}: {}\n", check.name, check.next.as_ref()?)));
    format!("{}{}", terminal::table(&["", "CHECK", "FOUND"], &rows), nexts.collect::<String>())
}

fn files(dir: &Path, config: &Config, checks: &mut Vec<Check>) {
    let database = dir.join("switchboard.db");
    // A node was started here, also when the configuration that says so cannot be read.
    let node = !database.is_file() && dir.join("admin.json").is_file();
    let shared = node || config.store.url.starts_with("postgres");
    if shared && dir.is_dir() {
        // The database has checks and alarms of its own.
        checks.push(Check::good("data directory", dir.display().to_string()));
        checks.push(permissions(dir, &[&dir.join("admin.json")]));
        checks.push(clock(None));
        return;
    }
    if shared || !database.is_file() {
        let found = format!("{} holds no hub yet", dir.display());
        checks.push(Check::bad("data directory", found, "switchboard serve"));
        checks.push(clock(None));
        return;
    }
    checks.push(Check::good("data directory", dir.display().to_string()));
    checks.push(permissions(dir, &[&database, &dir.join("admin.json")]));
    checks.push(disk(dir, config.store.disk_reserve_mib << 20));
    checks.push(clock(written_ms(&database)));
}

#[cfg(unix)]
fn permissions(dir: &Path, files: &[&Path]) -> Check {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode(dir) & 0o022 != 0 {
        let found = format!("others may write to {}", dir.display());
        return Check::bad("permissions", found, format!("chmod go-w {}", dir.display()));
    }
    let open = files.iter().filter(|path| mode(path) & 0o077 != 0);
    let open: Vec<String> = open.map(|path| path.display().to_string()).collect();
    if open.is_empty() {
        return Check::good("permissions", "readable by their owner only");
    }
    let found = format!("others may read {}", open.join(", "));
    Check::bad("permissions", found, format!("chmod go= {}", open.join(" ")))
}

#[cfg(not(unix))]
fn permissions(_: &Path, _: &[&Path]) -> Check {
    Check::good("permissions", "as the folder's access list says")
}

#[cfg(unix)]
fn disk(dir: &Path, reserve_bytes: u64) -> Check {
    let free = match rustix::fs::statvfs(dir) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(error) => {
            return Check::bad("disk", format!("free space is not known: {error}"), "look at the disk");
        }
    };
    let found = format!("{} free", terminal::bytes(free));
    if free > reserve_bytes {
        return Check::good("disk", found);
    }
    Check::bad("disk", found, "make room: below the reserve nothing new is stored (SB0119)")
}

#[cfg(not(unix))]
fn disk(_: &Path, _: u64) -> Check {
    Check::good("disk", "free space is not looked at on this system")
}

fn written_ms(path: &Path) -> Option<WallMs> {
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

fn clock(written_ms: Option<WallMs>) -> Check {
    let now_ms = SystemClock::default().wall_ms();
    let found = UtcTime::from_unix(now_ms / 1000).to_string();
    let next = "set the clock (timedatectl set-ntp true): deadlines and leases hang on it";
    if now_ms < CLOCK_MIN_MS {
        return Check::bad("clock", found, next);
    }
    match written_ms.filter(|written_ms| *written_ms > now_ms + CLOCK_SLACK_MS) {
        Some(written_ms) => {
            let written = UtcTime::from_unix(written_ms / 1000);
            Check::bad("clock", format!("{found}, but data were written at {written}"), next)
        }
        None => Check::good("clock", found),
    }
}

fn open_files() -> Check {
    match limits::open_files() {
        Some(most) if most < FILES_MIN => Check::bad(
            "open files",
            format!("at most {most}: each socket is one"),
            "raise the limit: ulimit -Hn",
        ),
        Some(most) => Check::good("open files", format!("up to {most}")),
        None => Check::good("open files", "without a limit of its own"),
    }
}

async fn hub(global: &Global, config: Option<&Config>, checks: &mut Vec<Check>) {
    match greeting(global).await {
        Ok((api, check)) => {
            checks.push(check);
            checks.push(writing(&api).await);
            checks.extend(people::at_the_hub(&api, config).await);
        }
        Err(failure) => checks.push(Check::failed("hub", with_leftover(global, failure))),
    }
}

/// Whether the hub answers and knows the bearer.
async fn greeting(global: &Global) -> Result<(Api, Check), Failure> {
    let api = Api::find_patient(global, Duration::from_secs(10))?;
    let check = if api.is_owner {
        version(&api, &api.get("/admin/v1/status").await?)
    } else {
        let who = crate::messages::whoami(&api).await?;
        Check::good("hub", format!("{} knows this bearer as {}", api.url, who.label))
    };
    Ok((api, check))
}

async fn writing(api: &Api) -> Check {
    match api.get::<serde_json::Value>("/readyz").await {
        Ok(_) => Check::good("writing", "a write reached the disk"),
        Err(failure) => Check::bad("writing", failure.message, "see the hub's log, and the disk above"),
    }
}

/// Says when an `admin.json` of a dead hub lies around: it is why the hub seemed to be there.
fn with_leftover(global: &Global, failure: Failure) -> Failure {
    let admin = config::data_dir(global).ok().and_then(|dir| Admin::read(&dir).ok().flatten());
    match admin {
        Some(admin) => {
            let message = format!("{} Its last run was process {}.", failure.message, admin.pid);
            Failure { message, ..failure }
        }
        None => failure,
    }
}

fn version(api: &Api, status: &Status) -> Check {
    let found = format!("{} answers, version {}", api.url, status.version);
    if status.version == env!("CARGO_PKG_VERSION") {
        Check::good("hub", found)
    } else {
        Check::bad("hub", found, "restart the hub with the same version as this program")
    }
}

//! The exec channel against a shell script: the conformance suite, and what is its own.

use crate::{cleared, everything, notice};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::conformance::{self, Accepted, Behaviour, Fixture, SECRET, Wait};
use switchboard_channels::exec::{Exec, OUTPUT_BYTES_MAX, Settings};
use switchboard_channels::message;
use switchboard_core::port::channel::{AddressKind, Channel, FailureClass, NotSent, Part, Performed};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// What a stand-in does with one message. It reads it, takes the next behaviour, and accepts by moving what it read in one step.
const SCRIPT: &str = r#"
dir=$1; behaviour=accept
read_in() { in=$(mktemp "$dir/read/XXXXXXXX"); cat >"$in"; }
accept() { mv "$in" "$dir/accepted/${in##*/}"; }
mktemp "$dir/contacts/XXXXXXXX" >/dev/null
for file in "$dir"/script/*; do
  if mv "$file" "$dir/taken/$$" 2>/dev/null; then behaviour=$(cat "$dir/taken/$$"); break; fi
done
case $behaviour in reset) kill -9 $$;; esac
read_in
delivery=$(sed 's/^{"attempt":[0-9]*,"delivery":"\([^"]*\)".*/\1/' "$in")
confirmation="{\"status\":\"sent\",\"message_id\":\"m_$delivery\"}"
case $behaviour in
  accept) accept; printf '%s\n' "$confirmation";;
  slowly) accept; printf '{"status":'; printf '"sent","message_id":'; printf '"m_%s"}' "$delivery";;
  silence) accept; sleep 600;;
  cut) accept; kill -9 $$;;
  garbage) accept; echo 'delivered, I think';;
  truncate) accept; printf '{"status":"sent","mess';;
  fail) accept; exit 3;;
  *) printf '%s\n' "$behaviour";;
esac
"#;

/// Time for one attempt: starting a shell takes long on a machine that is busy.
const TIMEOUT: Duration = Duration::from_secs(8);

struct ExecFixture {
    folder: TempDir,
    scripted: Mutex<u32>,
    channel: Arc<Exec>,
}

fn settings(command: &[&str]) -> Settings {
    let command = command.iter().map(|&argument| argument.to_owned()).collect();
    let environment = vec![("PATH".to_owned(), "/usr/bin:/bin".into()), ("KEY".to_owned(), SECRET.into())];
    Settings { environment, timeout: TIMEOUT, ..Settings::new("host", command) }
}

impl ExecFixture {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["script", "taken", "read", "contacts", "accepted", "home"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let script = folder.path().join("send.sh");
        fs::write(&script, SCRIPT).unwrap();
        let command = ["/bin/sh", script.to_str().unwrap(), folder.path().to_str().unwrap()];
        let settings = Settings { working_dir: folder.path().join("home"), ..settings(&command) };
        Self { channel: Arc::new(Exec::new(settings).unwrap()), folder, scripted: Mutex::new(0) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program whose folder is away does not start.
    fn set_away(&self, is_away: bool) {
        let (home, away) = (self.path("home"), self.path("away"));
        let (from, to) = if is_away { (home, away) } else { (away, home) };
        fs::rename(from, to).ok();
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn accepted(document: &str) -> Accepted {
    let json: serde_json::Value = serde_json::from_str(document).unwrap();
    let attempt = format!("{{\"attempt\":{},", json["attempt"]);
    let delivery = json["delivery"].as_str().unwrap().to_owned();
    Accepted {
        text: json["message"]["text"].as_str().unwrap().to_owned(),
        bytes: document.strip_prefix(&attempt).unwrap().as_bytes().to_vec(),
        message_id: Some(format!("m_{delivery}")),
        delivery,
    }
}

fn behaviour_of(behaviour: Behaviour) -> Option<String> {
    let asked = |wait: Wait| {
        let ms = wait.asked_ms()?;
        Some(format!(
            r#"{{"status":"not_sent","reason":"slowly","class":"throttled","retry_after_ms":{ms}}}"#
        ))
    };
    Some(match behaviour {
        Behaviour::Accept | Behaviour::AcceptTogether(_) => "accept".into(),
        Behaviour::AcceptSlowly => "slowly".into(),
        Behaviour::AcceptThenSilence => "silence".into(),
        Behaviour::AcceptThenReset => "cut".into(),
        Behaviour::AcceptThenGarbage => "garbage".into(),
        Behaviour::AcceptThenTruncate => "truncate".into(),
        Behaviour::AcceptThenFail => "fail".into(),
        Behaviour::Reset => "reset".into(),
        Behaviour::Refuse => r#"{"status":"not_sent","reason":"no such user","class":"permanent"}"#.into(),
        Behaviour::Busy => r#"{"status":"not_sent","reason":"busy"}"#.into(),
        Behaviour::Throttle(wait @ (Wait::Seconds(_) | Wait::Fraction(_) | Wait::Body(_))) => asked(wait)?,
        Behaviour::Throttle(_) | Behaviour::AcceptTwice | Behaviour::Unreachable => return None,
    })
}

impl Fixture for ExecFixture {
    fn channel(&self) -> Arc<dyn Channel> {
        self.channel.clone()
    }

    fn script(&self, behaviour: Behaviour) -> bool {
        self.set_away(behaviour == Behaviour::Unreachable);
        if behaviour == Behaviour::Unreachable {
            return true;
        }
        let Some(text) = behaviour_of(behaviour) else { return false };
        let mut scripted = self.scripted.lock();
        *scripted += 1;
        fs::write(self.path("script").join(format!("{scripted:06}")), text).unwrap();
        true
    }

    fn contacts(&self) -> usize {
        files(&self.path("contacts")).len()
    }

    fn accepted(&self) -> Vec<Accepted> {
        files(&self.path("accepted"))
            .iter()
            .map(|file| accepted(&fs::read_to_string(file).unwrap()))
            .collect()
    }

    /// A folder tells nobody that it has changed.
    fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            while self.accepted().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }

    fn address(&self, kind: AddressKind) -> Option<String> {
        Some(if kind == AddressKind::Direct { "ada" } else { "#deployments" }.into())
    }

    fn text_of(&self, part: &Part) -> String {
        message::read(part).unwrap().text.into_owned()
    }

    fn debug(&self) -> String {
        format!("{:?}", self.channel)
    }
}

#[tokio::test]
async fn exec_keeps_every_promise() {
    let report =
        conformance::run(|| Box::pin(async { Box::new(ExecFixture::start()) as Box<dyn Fixture> })).await;
    report.assert();
    assert_eq!(
        report.not_applicable(),
        [
            "an_outcome_is_shown_in_place",
            "nothing_is_acknowledged_before_it_is_taken",
            "a_press_brings_back_its_value",
            "what_a_person_changes_is_an_event_of_its_own"
        ]
    );
}

async fn run(settings: Settings) -> Performed {
    let channel = Exec::new(settings).unwrap();
    let attempt = everything(&channel);
    channel.perform(cleared(attempt)).await
}

fn unknown(performed: Performed) -> String {
    match performed {
        Performed::Unknown { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// The receipt's message id carries what the command saw.
fn told(performed: &Performed) -> &str {
    match performed {
        Performed::Sent { message_id: Some(id) } => id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_command_sees_its_environment_and_nothing_else() {
    let show = r#"id=$(env | cut -d= -f1 | grep -v -e '^PWD$' -e '^_$' -e SHLVL -e OLDPWD | sort | tr '\n' ','); echo "{\"status\":\"sent\",\"message_id\":\"$id$(pwd)\"}""#;
    let seen = run(settings(&["/bin/sh", "-c", show])).await;
    assert_eq!(told(&seen), "KEY,PATH,/");
}

#[tokio::test]
async fn arguments_are_no_shell_text() {
    let echo = r#"id=$(printf %s "$1" | tr ' ' _); echo "{\"status\":\"sent\",\"message_id\":\"$id\"}""#;
    let seen = run(settings(&["/bin/sh", "-c", echo, "sh", "$(id) ; `id` | x"])).await;
    assert_eq!(told(&seen), "$(id)_;_`id`_|_x");
}

/// A pipe that a command's processes hold open, which shows when they are there and when they are gone.
struct Alive {
    folder: TempDir,
    pipe: pipe::Receiver,
}

impl Alive {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let pipe = pipe::OpenOptions::new().open_receiver(&path).unwrap();
        Self { folder, pipe }
    }

    fn path(&self) -> String {
        self.folder.path().join("pipe").display().to_string()
    }

    async fn begins(&self) {
        self.pipe.readable().await.unwrap();
    }

    /// Fails while a process is left over.
    async fn ends(mut self) {
        let mut text = String::new();
        let read = self.pipe.read_to_string(&mut text);
        tokio::time::timeout(Duration::from_secs(30), read).await.expect("a process is left over").unwrap();
        assert_eq!(text, "started\n");
    }
}

/// The first process leaves a second one behind that holds its output open; both are gone afterwards.
#[tokio::test]
async fn out_of_time_the_whole_group_is_killed() {
    let alive = Alive::new();
    let script = format!("(exec 4>{}; echo started >&4; sleep 600) & wait", alive.path());
    let settings = Settings { timeout: Duration::from_secs(3), ..settings(&["/bin/sh", "-c", &script]) };
    let reason = unknown(run(settings).await);
    assert!(reason.contains("out of time"), "{reason}");
    alive.ends().await;
}

#[tokio::test]
async fn a_dropped_attempt_leaves_no_process() {
    let alive = Alive::new();
    let script = format!("exec 4>{}; sleep 600 & echo started >&4; wait", alive.path());
    tokio::select! {
        performed = run(settings(&["/bin/sh", "-c", &script])) => panic!("{performed:?}"),
        () = alive.begins() => {}
    }
    alive.ends().await;
}

#[tokio::test]
async fn a_receipt_counts_whatever_follows_it() {
    let sent = |id: &str| Performed::Sent { message_id: Some(id.into()) };
    let receipt = r#"echo '{"status":"sent","message_id":"m1"}'"#;
    assert_eq!(run(settings(&["/bin/sh", "-c", &format!("{receipt}; exit 7")])).await, sent("m1"));
    let late = format!("{receipt}; sleep 600");
    let late = Settings { timeout: Duration::from_secs(3), ..settings(&["/bin/sh", "-c", &late]) };
    assert_eq!(run(late).await, sent("m1"));
}

#[tokio::test]
async fn output_is_bounded() {
    let endless = format!("head -c {} /dev/zero; sleep 600", OUTPUT_BYTES_MAX + 1);
    let reason = unknown(run(settings(&["/bin/sh", "-c", &endless])).await);
    assert!(reason.contains("more than"), "{reason}");
}

#[tokio::test]
async fn what_does_not_start_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "not a program").unwrap();
    for program in ["/no/such/program", plain.to_str().unwrap(), folder.path().to_str().unwrap()] {
        let Performed::NotSent(NotSent { class, .. }) = run(settings(&[program])).await else {
            panic!("{program}")
        };
        assert_eq!(class, FailureClass::Misconfigured, "{program}");
    }
}

#[tokio::test]
async fn a_command_that_does_not_read_its_input_may_answer() {
    let command = ["/bin/sh", "-c", r#"echo '{"status":"unknown","reason":"who knows"}'"#];
    let channel = Exec::new(settings(&command)).unwrap();
    let attempt = notice(&channel, &"long ".repeat(100_000));
    assert_eq!(unknown(channel.perform(cleared(attempt)).await), "who knows");
}

#[test]
fn bad_settings_are_refused() {
    let with = |change: fn(&mut Settings)| {
        let mut settings = settings(&["/bin/true"]);
        change(&mut settings);
        Exec::new(settings).err()
    };
    assert_eq!(with(|_| ()), None);
    let bad: [fn(&mut Settings); 7] = [
        |settings| settings.name = "x y".into(),
        |settings| settings.command = Vec::new(),
        |settings| settings.command = vec!["send".into()],
        |settings| settings.command.push("a\0b".into()),
        |settings| settings.environment.push(("A=B".into(), "canary".into())),
        |settings| settings.environment.push(("A".into(), "canary\0".into())),
        |settings| settings.timeout = Duration::ZERO,
    ];
    for (number, change) in bad.into_iter().enumerate() {
        let why = with(change).unwrap_or_else(|| panic!("setting {number} is taken"));
        assert!(!why.contains("canary"), "{why}");
    }
}

#[tokio::test]
async fn a_check_looks_at_the_program_and_starts_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (script, trace) = (folder.path().join("send"), folder.path().join("started"));
    fs::write(&script, format!("#!/bin/sh\ntouch {}\n", trace.display())).unwrap();
    let check = async |settings: Settings| Exec::new(settings).unwrap().check().await;
    let command = [script.to_str().unwrap()];
    let set_mode = |mode| fs::set_permissions(&script, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o600);
    let why = check(settings(&command)).await.unwrap_err();
    assert!(why.contains("chmod +x"), "{why}");
    set_mode(0o700);
    assert_eq!(check(settings(&command)).await.unwrap().account, format!("{} can be started", command[0]));
    let away = Settings { working_dir: folder.path().join("away"), ..settings(&command) };
    assert!(check(away).await.unwrap_err().starts_with("workdir: "));
    for program in ["/no/such/program", folder.path().to_str().unwrap()] {
        assert!(check(settings(&[program])).await.unwrap_err().starts_with("command: "), "{program}");
    }
    assert!(!trace.exists());
}

//! A host's own transport: for each attempt a configured program is started, told on its standard input what to deliver, and asked on its
//! standard output how it went. No shell, no environment but what is configured, bounded in time and output; with all that it started in its
//! process group it is killed when its time is over or the attempt is dropped.
//!
//! What it is told is in [`input`], what it may answer in [`receipt`]; both are described for whoever writes one in
//! `docs/guide/channels/exec.md`, with golden bytes in `fixtures/exec`.

pub mod input;
pub mod receipt;

use crate::handle;
use crate::message;
use futures_util::future::{BoxFuture, join};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::check_name;
use switchboard_core::port::channel::{
    AddressKind, Attempt, Capabilities, Channel, Checked, Dedup, Dialect, Draft, FailureClass, LengthUnit,
    NotSent, Part, Performed,
};
use switchboard_core::{ExposeSecret, SecretString};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// The kind of these channels.
pub const KIND: &str = "exec";
/// Longest message, in bytes of its JSON.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Longest output that is a receipt, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Time for a whole attempt unless set.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// What an exec channel is made of.
pub struct Settings {
    /// Its name.
    pub name: String,
    /// The program, by its absolute path, and its arguments. No shell reads them.
    pub command: Vec<String>,
    /// The whole environment of the program. Nothing is inherited.
    pub environment: Vec<(String, SecretString)>,
    /// Where it runs.
    pub working_dir: PathBuf,
    /// Time for the whole attempt; then it is killed. Shorter than the minute after which the hub gives an attempt up.
    pub timeout: Duration,
    /// Whether the program drops a delivery that it has seen before, by its id. Then an attempt whose outcome is unknown is made again.
    pub drops_repeats: bool,
}

impl Settings {
    /// Settings with everything else as usual: no environment, in the root folder, the default time-out, repeats are not dropped.
    pub fn new(name: &str, command: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            command,
            environment: Vec::new(),
            working_dir: PathBuf::from("/"),
            timeout: TIMEOUT,
            drops_repeats: false,
        }
    }

    fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        let program = self.command.first().map(Path::new);
        if !program.is_some_and(Path::is_absolute) {
            return Err(
                "command must begin with the absolute path of a program: [\"/usr/local/bin/send\"]".into()
            );
        }
        if self.command.iter().any(|argument| argument.contains('\0')) {
            return Err("command holds a NUL character; leave it out".into());
        }
        let is_bad = |name: &str| name.is_empty() || name.contains(['=', '\0']);
        if let Some(place) = self
            .environment
            .iter()
            .position(|(name, value)| is_bad(name) || value.expose_secret().contains('\0'))
        {
            return Err(format!(
                "variable {} of the environment has a bad name or a NUL in its value",
                place + 1
            ));
        }
        if self.timeout.is_zero() {
            return Err("timeout must be above zero".into());
        }
        Ok(())
    }
}

/// A program as a channel.
pub struct Exec {
    settings: Settings,
    capabilities: Capabilities,
}

impl fmt::Debug for Exec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Exec").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

impl Exec {
    /// A channel of these settings, or the setting that is wrong and how to mend it. Whether the program is there shows when it is started.
    pub fn new(settings: Settings) -> Result<Self, String> {
        settings.check()?;
        let capabilities = Capabilities {
            direct: true,
            shared: true,
            answers: false,
            part_max: MESSAGE_BYTES_MAX,
            unit: LengthUnit::Bytes,
            parts_max: 1,
            dialect: Dialect::CommonMark,
            threads: true,
            edits: false,
            buttons_max: 8,
            dedup: if settings.drops_repeats { Dedup::ById } else { Dedup::None },
            pace_ms: 0,
            at_once: 8,
            consent: true,
        };
        Ok(Self { settings, capabilities })
    }

    async fn run(&self, attempt: &Attempt) -> Performed {
        let input = match input::document(attempt) {
            Ok(input) => input,
            Err(why) => return Performed::NotSent(NotSent::new(FailureClass::Permanent, why)),
        };
        let mut child = match self.spawn() {
            Ok(child) => child,
            Err(error) => return not_started(&error),
        };
        // Dropped before the child: the group is killed while the child's id is still its own.
        let mut group = group::Group::of(&child);
        let mut output = Vec::new();
        let talk = talk(&mut child, input, &mut output);
        let ended = match tokio::time::timeout(self.settings.timeout, talk).await {
            Ok(Ended::Exited(status)) => {
                group.disarm();
                Ended::Exited(status)
            }
            Ok(other) => other,
            Err(_) => Ended::OutOfTime,
        };
        receipt::outcome(&output, &ended.to_string())
    }

    /// Whether it could be started; it is not, since a program takes its start for a message.
    fn look(&self) -> Result<Checked, String> {
        let program = self.settings.command.first().map_or(Path::new(""), Path::new);
        let shown = program.display();
        let found = program.metadata().map_err(|error| format!("command: {shown}: {error}"))?;
        if !found.is_file() {
            return Err(format!("command: {shown} is no file"));
        }
        if !may_run(program) {
            return Err(format!("command: {shown} may not be executed: chmod +x it"));
        }
        let dir = &self.settings.working_dir;
        if !dir.is_dir() {
            return Err(format!("workdir: {} is no directory", dir.display()));
        }
        Ok(Checked { account: format!("{shown} can be started"), invite: None })
    }

    fn spawn(&self) -> io::Result<Child> {
        let Settings { command, environment, working_dir, .. } = &self.settings;
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        let variables = environment.iter().map(|(name, value)| (name, value.expose_secret()));
        command.args(arguments).env_clear().envs(variables).current_dir(working_dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        command.spawn()
    }
}

/// How a program came to its end.
enum Ended {
    Exited(ExitStatus),
    OutOfTime,
    TooMuchOutput,
    Lost(io::Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(formatter, "the command ended with {status}"),
            Self::OutOfTime => formatter.write_str("the command ran out of time and was killed"),
            Self::TooMuchOutput => {
                write!(formatter, "the command printed more than {OUTPUT_BYTES_MAX} bytes and was killed")
            }
            Self::Lost(error) => write!(formatter, "the command could not be followed to its end: {error}"),
        }
    }
}

/// Gives the program its input and takes its output until it closes it, then waits for its end. A program that does not read its input may
/// well know what to do without.
async fn talk(child: &mut Child, input: Vec<u8>, output: &mut Vec<u8>) -> Ended {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            stdin.write_all(&input).await.ok();
            stdin.shutdown().await.ok();
        }
    };
    let read = async {
        let Some(stdout) = stdout else { return Ok(0) };
        stdout.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(output).await
    };
    let ((), read) = join(write, read).await;
    match read {
        Err(error) => return Ended::Lost(error),
        Ok(_) if output.len() > OUTPUT_BYTES_MAX => return Ended::TooMuchOutput,
        Ok(_) => {}
    }
    child.wait().await.map_or_else(Ended::Lost, Ended::Exited)
}

/// A program that did not start has reached nobody. What is short now may be there later; what is not there is for an operator to mend.
fn not_started(error: &io::Error) -> Performed {
    let is_short = matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory | io::ErrorKind::ExecutableFileBusy
    );
    let class = if is_short || group::is_out_of_files(error) {
        FailureClass::Transient
    } else {
        FailureClass::Misconfigured
    };
    Performed::NotSent(NotSent::new(class, format!("the command did not start: {error}")))
}

#[cfg(unix)]
fn may_run(program: &Path) -> bool {
    rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn may_run(_: &Path) -> bool {
    true
}

#[cfg(unix)]
mod group {
    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, kill_process_group};
    use tokio::process::Child;

    /// The processes that a program has started, itself included; killed on drop. Only as long as the program has not been waited for: until
    /// then its id is nobody else's.
    pub(super) struct Group(Option<Pid>);

    impl Group {
        pub fn of(child: &Child) -> Self {
            Self(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
        }

        pub fn disarm(&mut self) {
            self.0 = None;
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            if let Some(group) = self.0 {
                // What is gone already needs no killing.
                kill_process_group(group, Signal::KILL).ok();
            }
        }
    }

    pub(super) fn is_out_of_files(error: &std::io::Error) -> bool {
        matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
    }
}

#[cfg(not(unix))]
mod group {
    /// Elsewhere only the program itself is killed.
    pub(super) struct Group;

    impl Group {
        pub fn of(_: &tokio::process::Child) -> Self {
            Self
        }

        pub fn disarm(&mut self) {}
    }

    pub(super) fn is_out_of_files(_: &std::io::Error) -> bool {
        false
    }
}

impl Channel for Exec {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn kind(&self) -> &'static str {
        KIND
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn normalise(&self, _kind: AddressKind, to: &str) -> Result<String, String> {
        handle::normalise(to)
    }

    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        message::prepare(draft, MESSAGE_BYTES_MAX)
    }

    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed> {
        Box::pin(async move { self.run(attempt.attempt()).await })
    }

    fn check(&self) -> BoxFuture<'_, Result<Checked, String>> {
        Box::pin(std::future::ready(self.look()))
    }
}

//! `channel`: setting up the networks on which people are reached.

mod ask;

use crate::api::Api;
use crate::args::{Channel, Global};
use crate::channels::{self, saved};
use crate::config;
use crate::config::channel::{COMMON, Channel as Entry, Kind};
use crate::failure::{Exit, Failure};
use crate::terminal::{Output, line, note};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::port::channel::{Channel as Port, Checked, check_name};
use switchboard_core::time::{Clock, SystemClock};
use switchboard_protocol::messaging::Channels;
use switchboard_protocol::outbound::{Consents, PairCode, PairStart, People};

const CHANNELS: &str = "/v1/tools/messaging.channels";
/// Longest time for the call that tries a channel, which bounds itself by less.
const CALL_MAX: Duration = Duration::from_secs(40);
/// How long a hub may take to find a saved channel.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Runs it.
pub async fn run(global: &Global, output: Output, command: &Channel) -> Result<(), Failure> {
    match command {
        Channel::Add { kind, name, settings, person, no_pairing } => {
            let new = New { kind, name: name.as_deref().unwrap_or(kind), settings };
            let person = person.as_deref();
            let pairing = if *no_pairing { Pairing::No } else { Pairing::With(person) };
            add(global, output, &new, pairing).await
        }
        Channel::List => super::people::channels(&Api::find(global)?, output).await,
        Channel::Test { name, to } => test(global, output, name, to.as_deref()).await,
        Channel::Remove { name } => remove(global, output, name),
    }
}

/// Whether somebody is to pair, and whose address it becomes.
#[derive(Clone, Copy)]
enum Pairing<'a> {
    No,
    With(Option<&'a str>),
}

struct New<'a> {
    kind: &'a str,
    name: &'a str,
    settings: &'a [String],
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}

async fn add(global: &Global, output: Output, new: &New<'_>, pairing: Pairing<'_>) -> Result<(), Failure> {
    let kind =
        Kind::named(new.kind).ok_or_else(|| Failure::usage(crate::config::channel::no_kind(new.kind)))?;
    check_name(new.name).map_err(|sentence| Failure::usage(format!("--name: {sentence}.")))?;
    let data_dir = config::data_dir(global)?;
    is_free(global, &data_dir, new.name).await?;
    let mut table = set(kind, new)?;
    let secrets = ask::missing(kind, &mut table)?;
    let kept = Kept::write(&data_dir, new.name, &mut table, &secrets)?;
    let (entry, text) = entry(&data_dir, new.name, table)?;
    let channel = channels::one(&entry, &clock()).map_err(|why| Failure::usage(format!("{why}.")))?;
    let checked =
        check(&*channel).await.map_err(|failure| failure.next("nothing was saved; mend it and try again"))?;
    kept.save(&text)?;
    if !output.json {
        note(&format!("Connected: {}.", line(&checked.account)));
    }
    let taken_up = taken_up(global, new.name).await;
    let can_pair = channel.capabilities().answers && channel.capabilities().consent;
    if let (Ok(api), Pairing::With(person), true) = (&taken_up, pairing, can_pair) {
        return paired(api, output, (new.name, &checked), person).await;
    }
    let hub = taken_up.is_ok();
    if let (Err(failure), true) = (taken_up, Api::find(global).is_ok()) {
        return Err(failure);
    }
    let shown = json!({ "ok": true, "channel": new.name, "account": checked.account, "taken_up": hub });
    let said = if hub { "is there" } else { "is saved: a hub takes it up when it runs here" };
    output.show(&shown, |_| format!("The channel {} {said}.\n", new.name));
    Ok(())
}

// A name that the configuration or a saved channel has is taken.
async fn is_free(global: &Global, data_dir: &Path, name: &str) -> Result<(), Failure> {
    let configured = config::load(global)?.channel.iter().any(|channel| channel.name == name);
    if configured || name == "console" {
        return Err(Failure::usage(format!(
            "The configuration has a channel {name:?} already: give another --name."
        )));
    }
    if saved::file(data_dir, name).exists() {
        return Err(Failure::usage(format!("There is a channel {name:?} already."))
            .next(format!("`switchboard channel remove {name}` first, or give another --name")));
    }
    // A hub that runs may have another configuration than this command.
    let Ok(api) = Api::find(global) else { return Ok(()) };
    let Ok(found) = api.get::<Channels>(CHANNELS).await else { return Ok(()) };
    if found.channels.iter().any(|channel| channel.name == name) {
        return Err(Failure::usage(format!(
            "The running hub has a channel {name:?} already: give another --name."
        )));
    }
    Ok(())
}

// What was set by hand.
fn set(kind: &Kind, new: &New<'_>) -> Result<toml::Table, Failure> {
    let mut table = toml::Table::new();
    table.insert("name".into(), new.name.into());
    table.insert("kind".into(), new.kind.into());
    for setting in new.settings {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--set {setting:?}: write KEY=VALUE.")))?;
        let known = kind.keys.iter().find(|known| known.name == key).filter(|_| !COMMON.contains(&key));
        let known = known.ok_or_else(|| {
            let names: Vec<_> = kind.keys.iter().map(|key| key.name).collect();
            Failure::usage(format!(
                "--set: the kind {} has no {key}; it has: {}.",
                kind.name,
                names.join(", ")
            ))
        })?;
        let value = if key.ends_with("_file") { absolute(value)? } else { typed(known.example, value) };
        table.insert(key.to_owned(), value);
    }
    Ok(table)
}

// The hub may run in another directory.
fn absolute(path: &str) -> Result<toml::Value, Failure> {
    let path = Path::new(path);
    let whole = std::fs::canonicalize(path).map_err(|error| Failure::file(path, &error))?;
    Ok(whole.display().to_string().into())
}

// As the example of the key is typed.
fn typed(example: &str, value: &str) -> toml::Value {
    match example.chars().next() {
        Some('[') => value.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into(),
        Some('"') => value.into(),
        _ => value
            .parse::<bool>()
            .map(Into::into)
            .or_else(|_| value.parse::<i64>().map(Into::into))
            .unwrap_or_else(|_| value.into()),
    }
}

fn entry(data_dir: &Path, name: &str, table: toml::Table) -> Result<(Entry, String), Failure> {
    let mut file = toml::Table::new();
    file.insert("channel".into(), vec![table].into());
    let text = toml::to_string(&file).map_err(|error| Failure::usage(error.to_string()))?;
    let mut parsed =
        config::parse(&saved::file(data_dir, name).display().to_string(), &text, std::iter::empty())?;
    Ok((parsed.channel.remove(0), text))
}

async fn check(channel: &dyn Port) -> Result<Checked, Failure> {
    let checked = tokio::time::timeout(CALL_MAX, channel.check()).await;
    let checked = checked.unwrap_or_else(|_| Err("the service does not answer".into()));
    checked.map_err(|why| Failure::new(Exit::Refused, "SB0214", format!("{}.", why.trim_end_matches('.'))))
}

/// What is written for a channel; taken back unless it is saved to the end.
struct Kept {
    file: PathBuf,
    secrets: Vec<PathBuf>,
    saved: bool,
}

impl Kept {
    fn write(
        data_dir: &Path,
        name: &str,
        table: &mut toml::Table,
        secrets: &[(&'static str, String)],
    ) -> Result<Self, Failure> {
        let mut kept = Self { file: saved::file(data_dir, name), secrets: Vec::new(), saved: false };
        crate::place::make_private(&saved::dir(data_dir))?;
        for (key, secret) in secrets {
            let path = saved::dir(data_dir).join(format!("{name}.{key}"));
            crate::place::write_private(&path, secret.as_bytes())?;
            kept.secrets.push(path.clone());
            table.insert(format!("{key}_file"), path.display().to_string().into());
        }
        Ok(kept)
    }

    fn save(mut self, text: &str) -> Result<(), Failure> {
        crate::place::write_private(&self.file, text.as_bytes())?;
        self.saved = true;
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.saved {
            for path in &self.secrets {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

// The hub that runs here, once it has the channel.
async fn taken_up(global: &Global, name: &str) -> Result<Api, Failure> {
    let api = Api::find(global)?;
    let looked = async {
        loop {
            let found: Channels = api.get(CHANNELS).await?;
            if found.channels.iter().any(|channel| channel.name == name) {
                return Ok::<_, Failure>(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    if let Ok(found) = tokio::time::timeout(TAKEN_UP_WITHIN, looked).await {
        return found.map(|()| api);
    }
    let sentence = "The channel is saved, but the running hub has not taken it up: its log says why.";
    let next = format!(
        "a variable that holds a secret must be set where the hub runs; `switchboard channel remove {name}` takes it back"
    );
    Err(Failure::new(Exit::Refused, "SB0214", sentence).next(next))
}

async fn paired(
    api: &Api,
    output: Output,
    (name, checked): (&str, &Checked),
    person: Option<&str>,
) -> Result<(), Failure> {
    let began_ms = clock().wall_ms();
    // Where there is one person alone, it is theirs.
    let person = if let Some(person) = person {
        Some(person.to_owned())
    } else {
        let found: People = api.get("/admin/v1/people").await?;
        Some(found.people).filter(|people| people.len() == 1).map(|mut people| people.remove(0).name)
    };
    let whose = person.clone();
    let body = PairStart { channel: name.to_owned(), to: None, person };
    let made: PairCode = api.post("/admin/v1/pairing/codes", &body).await?;
    let invite = checked.invite.as_deref().unwrap_or("Send this code there, as a message of its own: {code}");
    let invite = invite.replace("{code}", &made.code);
    if output.json {
        let shown = json!({ "ok": true, "channel": name, "account": checked.account, "taken_up": true,
            "code": made.code, "expires_ms": made.expires_ms, "invite": invite });
        output.show(&shown, |_| String::new());
        return Ok(());
    }
    note(&format!(
        "{}\nIt works once, within ten minutes. Waiting … (Ctrl-C leaves the code as it is)",
        line(&invite)
    ));
    while clock().wall_ms() < made.expires_ms {
        let found: Consents = api.get("/admin/v1/pairing/consents").await?;
        let new = found.consents.iter().find(|consent| {
            consent.channel == name && consent.state == "paired" && consent.at_ms >= began_ms - 60_000
        });
        if let Some(consent) = new {
            let to = line(&consent.to);
            let whose = whose.map_or_else(
                || format!(" Say whose it is: switchboard person link NAME --channel {name} --to {to}"),
                |person| format!(" It is an address of {}.", line(&person)),
            );
            output.done(&format!("Paired with you: {to} may be written to on {name}.{whose}"));
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(Failure::new(Exit::No, "SB0214", "Nobody has used the code in time.")
        .next(format!("`switchboard pair start --channel {name}` makes another one")))
}

async fn test(global: &Global, output: Output, name: &str, to: Option<&str>) -> Result<(), Failure> {
    if let Some(to) = to {
        let api = Api::find(global)?;
        let call = json!({ "channel": name, "to": to, "message_kind": "notice", "body": "This is a test of Switchboard." });
        let path =
            if api.is_owner { "/v1/tools/messaging.send?agent=owner" } else { "/v1/tools/messaging.send" };
        let receipt: Value = api.post(path, &call).await?;
        let delivered = receipt["delivered"] == true;
        let text = |receipt: &Value| {
            if delivered {
                return format!("The test message has arrived on {name}.\n");
            }
            let word = |member: &str| receipt[member].as_str().unwrap_or_default().to_owned();
            format!("{}: {}\n", word("state"), word("reason"))
        };
        output.show(&receipt, text);
        return Ok(());
    }
    let mut config = config::load(global)?;
    let _ = saved::extend(&mut config, &config::data_dir(global)?, &clock());
    let entry = config.channel.iter().find(|channel| channel.name == name);
    let entry = entry.ok_or_else(|| {
        let names: Vec<_> =
            config.channel.iter().map(|channel| channel.name.as_str()).chain(["console"]).collect();
        Failure::usage(format!("No channel is named {name:?}; there are: {}.", names.join(", ")))
    })?;
    let channel = channels::one(entry, &clock()).map_err(|why| Failure::usage(format!("{why}.")))?;
    let checked = check(&*channel).await?;
    output.show(&checked, |checked| format!("{name} works: {}.\n", line(&checked.account)));
    Ok(())
}

fn remove(global: &Global, output: Output, name: &str) -> Result<(), Failure> {
    let data_dir = config::data_dir(global)?;
    check_name(name).map_err(|sentence| Failure::usage(format!("{sentence}.")))?;
    let own = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        file.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
    };
    let entries = std::fs::read_dir(saved::dir(&data_dir)).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(own).collect();
    if files.is_empty() {
        return Err(Failure::usage(format!("`channel add` has saved no channel {name:?}."))
            .next("a [[channel]] of the configuration is removed there"));
    }
    // The channel before its secrets: what is left of it is never taken for a channel.
    files.sort_by_key(|path| path.extension().is_none_or(|extension| extension != "toml"));
    for path in &files {
        std::fs::remove_file(path).map_err(|error| {
            Failure::new(Exit::Refused, "SB0214", format!("Cannot remove {}: {error}.", path.display()))
        })?;
    }
    output.done(&format!("The channel {name} is removed."));
    Ok(())
}

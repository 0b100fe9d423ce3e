//! What is needed to reach people: the channels, each tried with a real call that reaches nobody, and the rules.

use super::Check;
use crate::api::Api;
use crate::args::Global;
use crate::channels;
use crate::commands::policy::looked_at;
use crate::config::channel::Channel as Entry;
use crate::config::{self, Config};
use futures_util::future::join_all;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::port::channel::Channel;
use switchboard_core::time::{Clock, SystemClock};
use switchboard_protocol::messaging::Channels;

/// Longest time for one channel, which bounds its own call by less.
const CALL_MAX: Duration = Duration::from_secs(40);

/// The directory with the rules.
pub(super) fn policy(config: &Config, data_dir: &Path) -> Check {
    const NAME: &str = "policy";
    let (dir, must_exist) = config::policy_dir(config, data_dir);
    let shown = dir.display();
    if !dir.is_dir() {
        return if must_exist {
            Check::bad(
                NAME,
                format!("{shown}, which policy.dir names, is no directory"),
                format!("mkdir -p {shown}"),
            )
        } else {
            Check::good(NAME, format!("no rules ({shown} is not there): everything is allowed"))
        };
    }
    match looked_at(&dir) {
        Ok(0) => Check::good(NAME, format!("no rules in {shown}: everything is allowed")),
        Ok(1) => Check::good(NAME, format!("1 rule in {shown}")),
        Ok(rules) => Check::good(NAME, format!("{rules} rules in {shown}")),
        Err(faults) => {
            let first = faults.first().map(ToString::to_string).unwrap_or_default();
            let more = match faults.len() {
                0 | 1 => String::new(),
                all => format!(" (and {} more)", all - 1),
            };
            Check::bad(NAME, format!("{first}{more}"), format!("switchboard policy check {shown}"))
        }
    }
}

/// The clock that channels are made with to be looked at.
pub(super) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}

/// Each configured channel, all at a time.
pub(super) async fn channels(global: &Global, config: &Config) -> Vec<Check> {
    let each = channels::each(config, &clock());
    let checks = each.into_iter().map(|(entry, made)| async move {
        let name = format!("channel {}", entry.name);
        let found = match made {
            Ok(channel) => called(&*channel).await,
            Err(sentence) => Err(sentence),
        };
        match found {
            Ok(account) => Check::good(name, account),
            Err(sentence) => {
                let next = next(global, entry, &sentence);
                Check::bad(name, sentence, next)
            }
        }
    });
    let mut checks = join_all(checks).await;
    checks.insert(0, Check::good("channel console", "always there"));
    checks
}

async fn called(channel: &dyn Channel) -> Result<String, String> {
    match tokio::time::timeout(CALL_MAX, channel.check()).await {
        Ok(checked) => checked.map(|checked| checked.account),
        Err(_) => Err("the service does not answer".to_owned()),
    }
}

// A command where one mends it, else what to correct where.
fn next(global: &Global, entry: &Entry, sentence: &str) -> String {
    let files = [&entry.password_file, &entry.secret_file].into_iter().flatten();
    if let Some(file) = files.into_iter().find(|file| sentence.contains(file.as_str())) {
        return if sentence.contains("chmod 600") {
            format!("chmod 600 {file}")
        } else {
            format!("ls -l {file}")
        };
    }
    if let Some(program) = entry.command.first().filter(|program| sentence.contains(program.as_str())) {
        return if sentence.contains("chmod +x") {
            format!("chmod +x {program}")
        } else {
            format!("ls -l {program}")
        };
    }
    let again = match &global.config {
        Some(file) => format!("switchboard doctor --config {}", file.display()),
        None => "switchboard doctor".to_owned(),
    };
    format!(
        "correct its [[channel]] (docs/guide/channels/{}.md), or what it names, then: {again}",
        entry.kind
    )
}

/// What the running hub says of its channels: those in trouble, and those that its configuration, as far as it is known here, does not have.
pub(super) async fn at_the_hub(api: &Api, config: Option<&Config>) -> Vec<Check> {
    let known: Channels = match api.get("/v1/tools/messaging.channels").await {
        Ok(known) => known,
        Err(failure) => return vec![Check::failed("channels at the hub", failure)],
    };
    let mut checks = Vec::new();
    for channel in known.channels {
        let name = format!("channel {} at the hub", channel.name);
        let is_known = channel.kind == "console"
            || config.is_none_or(|config| config.channel.iter().any(|entry| entry.name == channel.name));
        if channel.health != "ok" {
            let next = "switchboard outbound list --state sending,unknown,dead";
            checks.push(Check::bad(name, channel.health, next));
        } else if !is_known {
            let found = "works as far as the hub knows; not in this configuration, so not tried";
            let next = "switchboard doctor --config FILE, with the hub's own file";
            checks.push(Check { next: Some(next.to_owned()), ..Check::good(name, found) });
        }
    }
    checks
}

//! A person who was named where an agent is: by which ways they can be reached.

use crate::api::Api;
use crate::args::{Envelope, Reach};
use crate::failure::Failure;
use std::collections::BTreeSet;
use switchboard_protocol::messaging::{Channels, Recipient};
use switchboard_protocol::outbound::Consents;

/// Longest text that is repeated in a command to type, in characters.
const TEXT_CHARS_MAX: usize = 80;

/// A person's address on a channel, as the command's own options.
pub(super) struct Meant {
    /// To the address.
    pub(super) envelope: Envelope,
    /// By the channel.
    pub(super) reach: Reach,
}

/// What was typed, to be typed again.
pub(super) struct Typed<'a> {
    verb: &'static str,
    text: &'a str,
    choices: &'a [String],
}

impl<'a> Typed<'a> {
    /// `send`.
    pub(super) fn send(text: &'a str) -> Self {
        Self { verb: "send", text, choices: &[] }
    }

    /// `ask`.
    pub(super) fn ask(text: &'a str, choices: &'a [String]) -> Self {
        Self { verb: "ask", text, choices }
    }

    fn command(&self, channel: &str, to: &str) -> String {
        let choices: String =
            self.choices.iter().flat_map(|choice| [" --choice ".to_owned(), quoted(choice)]).collect();
        let text =
            if self.text.chars().count() > TEXT_CHARS_MAX { "…".to_owned() } else { quoted(self.text) };
        format!("switchboard {} --via {channel} --to {} {text}{choices}", self.verb, quoted(to))
    }
}

/// As a shell takes it for one word.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '@' | '.' | '_' | '-' | '+' | ':' | '/');
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The only way to the person whom `envelope` names, when no agent is called that; else `failure`, or the ways to choose from.
pub(super) async fn person(
    api: &Api,
    (envelope, reach): (&Envelope, &Reach),
    failure: Failure,
    typed: &Typed<'_>,
) -> Result<Meant, Failure> {
    let Some(name) = envelope.to.as_deref().filter(|_| failure.sb.as_deref() == Some("SB0106")) else {
        return Err(failure);
    };
    // A message into a swarm, to an instance or in reply to another is meant for an agent.
    if envelope.to_instance.is_some() || envelope.reply_to.is_some() || envelope.place.swarm.is_some() {
        return Err(failure);
    }
    let mut ways = ways(api, name).await.into_iter();
    match (ways.next(), ways.next()) {
        (None, _) => Err(failure.next(
            "`switchboard agents` shows the agents and `switchboard channels` the people who can be written to (a person by --via CHANNEL)",
        )),
        (Some((channel, to)), None) => {
            let envelope = Envelope { to: Some(to), ..envelope.clone() };
            Ok(Meant { envelope, reach: Reach { via: Some(channel), ..reach.clone() } })
        }
        (Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(ways);
            let commands: Vec<String> = all.map(|(channel, to)| typed.command(&channel, &to)).collect();
            let message = format!("No agent is called {name:?}, and the person can be reached in {} ways.", commands.len());
            Err(Failure::usage(message).next(format!("choose one:\n    {}", commands.join("\n    "))))
        }
    }
}

// Channel and address, each once. What this bearer may not see is not a way for it.
async fn ways(api: &Api, name: &str) -> BTreeSet<(String, String)> {
    let wanted = name.trim().to_lowercase();
    let is_wanted = |text: &str| text.to_lowercase() == wanted;
    let known = api.get::<Channels>("/v1/tools/messaging.channels").await;
    let known = known.map(|known| known.channels).unwrap_or_default();
    let listed = known.iter().flat_map(|channel| {
        let direct = channel.reachable.iter().filter_map(|reachable| match reachable {
            Recipient::Direct(to) => Some((channel.name.clone(), to.clone())),
            Recipient::Channel(_) => None,
        });
        direct.filter(|(_, to)| is_wanted(to))
    });
    let consents = api.get::<Consents>("/admin/v1/pairing/consents").await;
    let consents = consents.map(|known| known.consents).unwrap_or_default();
    let paired = consents.into_iter().filter(|row| {
        row.kind == "direct"
            && matches!(row.state.as_str(), "allowed" | "paired")
            && row.person.as_deref().is_some_and(is_wanted)
            && known.iter().any(|channel| channel.name == row.channel)
    });
    listed.chain(paired.map(|row| (row.channel, row.to))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_type_is_taken_as_it_is_shown() {
        let choices = ["Yes".to_owned(), "Not now".to_owned()];
        let typed = Typed::ask("Don't $PANIC?", &choices);
        assert_eq!(
            typed.command("email", "ada@example.org"),
            r"switchboard ask --via email --to ada@example.org 'Don'\''t $PANIC?' --choice Yes --choice 'Not now'"
        );
        assert_eq!(
            Typed::send("-x").command("console", "Ada L"),
            "switchboard send --via console --to 'Ada L' '-x'"
        );
    }
}

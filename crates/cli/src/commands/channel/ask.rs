//! What a person is asked for when a channel is set up. Secrets are typed hidden; where nobody types, each is a line of standard input.

use crate::config::channel::Kind;
use crate::failure::Failure;
use dialoguer::{Input, Password};
use std::io::{BufRead as _, IsTerminal as _};

/// One question.
#[derive(Clone, Copy)]
struct Ask {
    kind: &'static str,
    key: &'static str,
    prompt: &'static str,
    secret: bool,
    optional: bool,
}

const fn secret(kind: &'static str, key: &'static str, prompt: &'static str) -> Ask {
    Ask { kind, key, prompt, secret: true, optional: false }
}

const fn text(kind: &'static str, key: &'static str, prompt: &'static str) -> Ask {
    Ask { kind, key, prompt, secret: false, optional: false }
}

const fn optional(ask: Ask) -> Ask {
    Ask { optional: true, ..ask }
}

const ASKS: &[Ask] = &[
    secret("telegram", "token", "Bot token (from @BotFather)"),
    secret("slack", "token", "Bot token (xoxb-…)"),
    secret("slack", "app_token", "App token for Socket Mode (xapp-…)"),
    secret("discord", "token", "Bot token (from the developer portal)"),
    text("matrix", "homeserver", "Homeserver (https://HOST)"),
    secret("matrix", "token", "Access token of the account"),
    text("email", "smtp_url", "Where mail goes out (smtps://HOST or smtp://HOST)"),
    text("email", "from", "Sender (hub@example.org)"),
    optional(text("email", "imap_url", "Where answers are read (imaps://HOST; empty: no answers)")),
    optional(text("email", "user", "Account (empty: none)")),
    optional(secret("email", "password", "Password")),
    text("webhook", "target", "Where messages are posted (https://…)"),
    secret("webhook", "secret", "Signing secret (whsec_…)"),
    text("exec", "command", "Program and arguments"),
];

/// Asks for what `table` does not say; the secrets, by key.
pub(super) fn missing(kind: &Kind, table: &mut toml::Table) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut secrets = Vec::new();
    let is_said = |table: &toml::Table, key: &str| {
        ["", "_env", "_file"].iter().any(|suffix| table.contains_key(&format!("{key}{suffix}")))
    };
    // Slack's events come by Socket Mode or are posted to us.
    let by_push = is_said(table, "signing_secret");
    for ask in ASKS.iter().filter(|ask| ask.kind == kind.name) {
        let is_needless =
            (ask.key == "app_token" && by_push) || (ask.key == "password" && !table.contains_key("user"));
        if is_said(table, ask.key) || is_needless {
            continue;
        }
        let answer = answer(ask)?;
        if answer.is_empty() {
            continue;
        }
        if ask.secret {
            secrets.push((ask.key, answer));
        } else if ask.key == "command" {
            let words: Vec<_> = answer.split_whitespace().map(str::to_owned).collect();
            table.insert(ask.key.into(), words.into());
        } else {
            table.insert(ask.key.into(), answer.into());
        }
    }
    Ok(secrets)
}

fn answer(ask: &Ask) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("{}: {error}.", ask.prompt)).next(format!("or give --set {}…=…", ask.key))
    };
    let answer = if !std::io::stdin().is_terminal() {
        if ask.optional {
            return Ok(String::new());
        }
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(|error| failed(&error))?;
        line
    } else if ask.secret {
        let prompt = Password::new().with_prompt(ask.prompt).allow_empty_password(ask.optional);
        prompt.interact().map_err(|error| failed(&error))?
    } else {
        let prompt = Input::<String>::new().with_prompt(ask.prompt).allow_empty(ask.optional);
        prompt.interact_text().map_err(|error| failed(&error))?
    };
    let answer = answer.trim().to_owned();
    if answer.is_empty() && !ask.optional {
        return Err(failed(&"nothing was said"));
    }
    Ok(answer)
}

//! `[[channel]]`: a network on which people are reached. Which keys a channel takes depends on its kind.
//!
//! To add a key: a field of [`Channel`] and a line in [`KINDS`]; it is then in `switchboard config example`, and refused where it does not
//! belong. To add a kind: an entry of [`KINDS`], and how it is made in `crate::channels`.

use super::nearest::{meant, nearest};
use super::schema::Key;
use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

/// Name of the list.
pub(super) const SECTION: &str = "channel";

/// One channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "a file of settings has switches")]
pub struct Channel {
    /// What callers put in `channel`: a-z, 0-9, - and _.
    pub name: String,
    /// `slack`, `telegram`, `discord`, `matrix`, `email`, `webhook` or `exec`.
    pub kind: String,
    /// Whether it takes what is addressed to a name that no channel has. It is then not listed.
    pub fallback: bool,
    /// slack, telegram, discord, matrix: the variable that holds the bot's token.
    pub token_env: Option<String>,
    /// slack, telegram, discord, matrix: the file (mode 0600) that holds it.
    pub token_file: Option<String>,
    /// slack: the variable that holds the app's token, for Socket Mode.
    pub app_token_env: Option<String>,
    /// slack: the file (mode 0600) that holds it.
    pub app_token_file: Option<String>,
    /// slack: the variable that holds the signing secret, for events by HTTP.
    pub signing_secret_env: Option<String>,
    /// slack: the file (mode 0600) that holds it.
    pub signing_secret_file: Option<String>,
    /// telegram: the public address under which Telegram posts to this hub.
    pub webhook_url: Option<String>,
    /// telegram: the variable that holds what Telegram shows with each post.
    pub webhook_secret_env: Option<String>,
    /// telegram: the file (mode 0600) that holds it.
    pub webhook_secret_file: Option<String>,
    /// telegram: whether a webhook that somebody else has set is removed.
    pub remove_webhook: bool,
    /// slack, telegram, discord: where the service's interface is, if not at the service itself.
    pub api_url: Option<String>,
    /// discord: whether messages of shared channels come in that neither mention the bot nor answer it.
    pub message_content: bool,
    /// matrix: the homeserver, `https://HOST`.
    pub homeserver: Option<String>,
    /// matrix: the servers whose people may invite the account; absent: its own.
    pub invite_servers: Option<Vec<String>>,
    /// matrix: whether the homeserver may be reached without TLS beyond this machine.
    pub plain_allowed: bool,
    /// email: where mail goes out, `smtps://HOST`, `smtp://HOST` (with STARTTLS) or, on this machine, `smtp+plain://HOST:PORT`.
    pub smtp_url: Option<String>,
    /// email: where answers are read, `imaps://HOST`, `imap://HOST` (with STARTTLS) or, on this machine, `imap+plain://HOST:PORT`.
    pub imap_url: Option<String>,
    /// email: the sender's address, perhaps with a name: `Switchboard <hub@example.org>`.
    pub from: Option<String>,
    /// email: where answers go, with `{token}` in it: `hub+{token}@example.org`.
    pub reply_to: Option<String>,
    /// email: the account's name.
    pub user: Option<String>,
    /// email: the variable that holds its password.
    pub password_env: Option<String>,
    /// email: the file (mode 0600) that holds its password.
    pub password_file: Option<String>,
    /// email, webhook, telegram, matrix: a PEM file with the authority of the servers' certificates, if the system does not know it.
    pub ca_file: Option<String>,
    /// email: the folder that answers arrive in.
    pub folder: Option<String>,
    /// email: the name under which one's own server writes Authentication-Results.
    pub authserv_id: Option<String>,
    /// email: whether the relay drops a second mail with the same Message-ID.
    pub relay_dedups: bool,
    /// webhook: where messages are posted.
    pub target: Option<String>,
    /// webhook: the variable that holds the target, where the address itself is a secret.
    pub target_env: Option<String>,
    /// webhook: the variable that holds the secret, `whsec_…`; several with spaces while keys are changed.
    pub secret_env: Option<String>,
    /// webhook: the file (mode 0600) that holds it.
    pub secret_file: Option<String>,
    /// webhook: whether the target may be on this machine or a private network.
    pub allow_private_targets: bool,
    /// exec: the program and its arguments; no shell is involved.
    pub command: Vec<String>,
    /// exec: where it runs.
    pub workdir: Option<String>,
    /// exec: the hub's variables that it may see; all others are hidden from it.
    pub env: Vec<String>,
    /// exec: whether the program drops a delivery that it has seen before.
    pub drops_repeats: bool,
    /// Seconds that one attempt may take.
    pub timeout_s: Option<u32>,
}

/// A kind of channel.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What it is, for the example.
    pub doc: &'static str,
    /// How the channel of the example is called.
    pub example: &'static str,
    /// Its keys beside [`COMMON`]. One without documentation says in another way what the one before it says: not both can be given.
    pub keys: &'static [Key],
}

/// Keys that every kind has.
pub const COMMON: [&str; 3] = ["name", "kind", "fallback"];

const fn key(name: &'static str, doc: &'static [&'static str], example: &'static str) -> Key {
    Key { name, doc, example }
}

const FALLBACK: Key = key(
    "fallback",
    &[
        " Whether it takes what is addressed to a name that no channel has; one channel may. It is then not listed.",
    ],
    "false",
);
const API_URL: Key = key(
    "api_url",
    &[" Where the service's interface is, if not at the service itself."],
    "\"https://api.example.org\"",
);
const CA_FILE: Key = key(
    "ca_file",
    &[" A PEM file with the authority of the service's certificate, if the system does not know it."],
    "\"/etc/switchboard/ca.pem\"",
);
const TIMEOUT: &[&str] = &[" Seconds that one attempt may take, 1 to 55."];

/// All kinds but the console, which is always there.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "slack",
        doc: "People in Slack: direct messages and channels, with buttons.",
        example: "slack",
        keys: &[
            key(
                "token_env",
                &[" The variable that holds the bot's token, `xoxb-…`; or the file (mode 0600)."],
                "\"SLACK_BOT_TOKEN\"",
            ),
            key("token_file", &[], "\"/etc/switchboard/slack-bot-token\""),
            key(
                "app_token_env",
                &[
                    " The variable that holds the app's token, `xapp-…`, for Socket Mode (nothing has to be reachable from outside); or the file.",
                ],
                "\"SLACK_APP_TOKEN\"",
            ),
            key("app_token_file", &[], "\"/etc/switchboard/slack-app-token\""),
            key(
                "signing_secret_env",
                &[" Or the signing secret, for events that Slack posts to /v1/channels/NAME/push."],
                "\"SLACK_SIGNING_SECRET\"",
            ),
            key("signing_secret_file", &[], "\"/etc/switchboard/slack-signing-secret\""),
            API_URL,
        ],
    },
    Kind {
        name: "telegram",
        doc: "People in Telegram, by a bot.",
        example: "telegram",
        keys: &[
            key(
                "token_env",
                &[" The variable that holds the bot's token; or the file (mode 0600)."],
                "\"TELEGRAM_TOKEN\"",
            ),
            key("token_file", &[], "\"/etc/switchboard/telegram-token\""),
            key(
                "webhook_url",
                &[
                    " Where Telegram posts what people write, `https://HUB/v1/channels/NAME/push`; without it the hub asks",
                    " Telegram for it.",
                ],
                "\"https://hub.example.org/v1/channels/telegram/push\"",
            ),
            key(
                "webhook_secret_env",
                &[" What Telegram shows with each post; or the file."],
                "\"TELEGRAM_WEBHOOK_SECRET\"",
            ),
            key("webhook_secret_file", &[], "\"/etc/switchboard/telegram-webhook-secret\""),
            key("remove_webhook", &[" Whether a webhook that somebody else has set is removed."], "false"),
            CA_FILE,
            API_URL,
        ],
    },
    Kind {
        name: "discord",
        doc: "People and channels on Discord, by a bot.",
        example: "discord",
        keys: &[
            key(
                "token_env",
                &[" The variable that holds the bot's token; or the file (mode 0600)."],
                "\"DISCORD_TOKEN\"",
            ),
            key("token_file", &[], "\"/etc/switchboard/discord-token\""),
            key(
                "message_content",
                &[
                    " Whether the bot reads shared channels beyond mentions and replies; needs the intent of that name.",
                ],
                "false",
            ),
            API_URL,
            key("timeout_s", TIMEOUT, "20"),
        ],
    },
    Kind {
        name: "matrix",
        doc: "People and rooms on Matrix; encrypted rooms are refused.",
        example: "matrix",
        keys: &[
            key("homeserver", &[" The homeserver."], "\"https://matrix.example.org\""),
            key(
                "token_env",
                &[" The variable that holds the account's access token; or the file (mode 0600)."],
                "\"MATRIX_TOKEN\"",
            ),
            key("token_file", &[], "\"/etc/switchboard/matrix-token\""),
            key(
                "invite_servers",
                &[" The servers whose people may invite the account; without it its own. `[\"*\"]`: all."],
                "[\"example.org\"]",
            ),
            key(
                "plain_allowed",
                &[" Whether the homeserver may be reached without TLS beyond this machine."],
                "false",
            ),
            CA_FILE,
        ],
    },
    Kind {
        name: "email",
        doc: "People by mail; answers come back to a mailbox.",
        example: "email",
        keys: &[
            key(
                "smtp_url",
                &[
                    " Where mail goes out: `smtps://HOST`, `smtp://HOST` (with STARTTLS) or, on this machine,",
                    " `smtp+plain://HOST:PORT`.",
                ],
                "\"smtp://mail.example.org\"",
            ),
            key(
                "imap_url",
                &[
                    " Where answers are read: `imaps://HOST`, `imap://HOST` (with STARTTLS) or, on this machine,",
                    " `imap+plain://HOST:PORT`. Without it no answers come in.",
                ],
                "\"imaps://mail.example.org\"",
            ),
            key(
                "from",
                &[" The sender's address, perhaps with a name."],
                "\"Switchboard <hub@example.org>\"",
            ),
            key(
                "reply_to",
                &[
                    " Where answers go, whatever stands for `{token}`: all such addresses must lead to the mailbox.",
                ],
                "\"hub+{token}@example.org\"",
            ),
            key("user", &[" The account, for both servers."], "\"hub@example.org\""),
            key(
                "password_file",
                &[" A file of mode 0600 that holds its password, or the variable that does."],
                "\"/run/secrets/hub-mail\"",
            ),
            key("password_env", &[], "\"HUB_MAIL_PASSWORD\""),
            key(
                "ca_file",
                &[
                    " A PEM file with the authority of the servers' certificates, if the system does not know it.",
                ],
                "\"/etc/switchboard/mail-ca.pem\"",
            ),
            key("folder", &[" The folder that answers arrive in."], "\"INBOX\""),
            key(
                "authserv_id",
                &[
                    " The name by which the mailbox's own server writes Authentication-Results; without it only `reply_to`",
                    " proves who answers.",
                ],
                "\"mail.example.org\"",
            ),
            key(
                "relay_dedups",
                &[" Whether the relay drops a second mail with the same Message-ID."],
                "false",
            ),
        ],
    },
    Kind {
        name: "webhook",
        doc: "Programs that take signed HTTP requests.",
        example: "ops",
        keys: &[
            key(
                "target",
                &[" Where messages are posted, or the variable that holds it."],
                "\"https://hooks.example.org/switchboard\"",
            ),
            key("target_env", &[], "\"OPS_WEBHOOK\""),
            key(
                "secret_file",
                &[
                    " A file of mode 0600 that holds the secret `whsec_…`, or the variable that does; several with spaces between",
                    " them while one replaces another.",
                ],
                "\"/run/secrets/ops-webhook\"",
            ),
            key("secret_env", &[], "\"OPS_WEBHOOK_SECRET\""),
            key(
                "allow_private_targets",
                &[" Whether the target may be on this machine or a private network, and may be `http`."],
                "false",
            ),
            key(
                "ca_file",
                &[
                    " A PEM file with the authority of the target's certificate, if the system does not know it.",
                ],
                "\"/etc/switchboard/hooks-ca.pem\"",
            ),
            key("timeout_s", TIMEOUT, "20"),
        ],
    },
    Kind {
        name: "exec",
        doc: "Whatever a program on this machine reaches.",
        example: "pager",
        keys: &[
            key(
                "command",
                &[" The program, by its absolute path, and its arguments. No shell reads them."],
                "[\"/usr/local/bin/page\"]",
            ),
            key("workdir", &[" Where it runs."], "\"/\""),
            key("env", &[" Variables of the hub that it sees; it sees no others."], "[\"PAGER_TOKEN\"]"),
            key(
                "drops_repeats",
                &[
                    " Whether it drops a delivery that it has seen before: an attempt whose outcome is unknown is then made again.",
                ],
                "false",
            ),
            key("timeout_s", TIMEOUT, "30"),
        ],
    },
];

impl Kind {
    /// Of its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    fn key_names(&self) -> Vec<&'static str> {
        COMMON.into_iter().chain(self.keys.iter().map(|key| key.name)).collect()
    }
}

/// What is wrong with the first channel that has a kind or a key that is not there, and where. `at`: where the list begins.
pub(super) fn problem(at: usize, value: &DeValue<'_>) -> Option<(usize, String)> {
    let DeValue::Array(list) = value else {
        return Some((at, "`channel` is a list; write [[channel]]".to_owned()));
    };
    let wrong = |entry: &toml::Spanned<DeValue<'_>>| match entry.get_ref() {
        DeValue::Table(keys) => unknown(entry.span().start, keys),
        _ => Some((entry.span().start, "`channel` is a list of tables; write [[channel]]".to_owned())),
    };
    list.iter().find_map(wrong)
}

fn unknown(at: usize, keys: &DeTable<'_>) -> Option<(usize, String)> {
    let said = keys.iter().find(|(key, _)| key.get_ref() == "kind").map(|(_, value)| value);
    let kind = match said.map(|value| (value.span().start, value.get_ref())) {
        Some((at, DeValue::String(name))) => match Kind::named(name) {
            Some(kind) => Some(kind),
            None => return Some((at, no_kind(name))),
        },
        // Of the wrong type, which its own reading says.
        Some(_) => None,
        None => return Some((at, without_kind(keys))),
    };
    let all = || KINDS.iter().flat_map(Kind::key_names).collect::<std::collections::BTreeSet<_>>();
    let names = kind.map_or_else(|| all().into_iter().collect(), Kind::key_names);
    let foreign = keys.keys().find(|key| !names.contains(&key.get_ref().as_ref()))?;
    let of = kind.map_or_else(String::new, |kind| format!(" of the kind {}", kind.name));
    let problem =
        format!("`{}` is no key of [[channel]]{of}; {}", foreign.get_ref(), meant(foreign.get_ref(), &names));
    Some((foreign.span().start, problem))
}

fn names() -> Vec<&'static str> {
    KINDS.iter().map(|kind| kind.name).collect()
}

// A key that only one letter keeps from being `kind` is meant for it.
fn without_kind(keys: &DeTable<'_>) -> String {
    let typo =
        keys.keys().map(toml::Spanned::get_ref).find(|key| nearest(key, ["kind"].into_iter()).is_some());
    match typo {
        Some(typo) => format!("`{typo}` is no key of [[channel]]; did you mean `kind`?"),
        None => format!("a [[channel]] needs a `kind`; there are: {}", names().join(", ")),
    }
}

pub(crate) fn no_kind(typed: &str) -> String {
    match nearest(typed, KINDS.iter().map(|kind| kind.name)) {
        Some(meant) => format!("there is no kind of channel {typed:?}; did you mean {meant:?}?"),
        None if typed == "console" => "the console is always there: leave this [[channel]] out".to_owned(),
        None => format!("there is no kind of channel {typed:?}; there are: {}", names().join(", ")),
    }
}

/// One channel of each kind with every key, commented; what is commented twice is another way to say what stands before it.
pub(super) fn example() -> String {
    KINDS
        .iter()
        .flat_map(|kind| {
            let head = format!(
                "#\n# # {}\n# [[channel]]\n# # What callers put in `channel`.\n# name = {:?}\n# kind = {:?}\n",
                kind.doc, kind.example, kind.name
            );
            let own = kind.keys.iter().map(commented);
            [head].into_iter().chain(own).chain([commented(&FALLBACK)])
        })
        .collect()
}

fn commented(key: &Key) -> String {
    let doc: String = key.doc.iter().flat_map(|line| ["# #", *line, "\n"]).collect();
    let mark = if key.doc.is_empty() { "# # " } else { "# " };
    format!("{doc}{mark}{} = {}\n", key.name, key.example)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_belongs_to_a_kind_and_stands_in_the_example() {
        let all = serde_json::to_value(Channel::default()).unwrap();
        let fields: BTreeSet<&str> = all.as_object().unwrap().keys().map(String::as_str).collect();
        let known: BTreeSet<&str> = KINDS.iter().flat_map(Kind::key_names).collect();
        assert_eq!(fields, known);
        let example = crate::config::example();
        for kind in KINDS {
            let from = example.find(&format!("kind = {:?}", kind.name)).expect(kind.name);
            let block = example[from..].split("[[channel]]").next().unwrap();
            let shown = |name: &str| {
                block.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{name} = ")))
            };
            for name in kind.key_names().into_iter().filter(|name| *name != "name") {
                assert!(shown(name), "{}: {name}", kind.name);
            }
        }
    }

    #[test]
    fn the_example_is_valid_uncommented_and_shows_what_holds_without_it() {
        let text: String = example()
            .lines()
            .map(|line| line.strip_prefix("#").unwrap().trim_start().to_owned() + "\n")
            .collect();
        let config = crate::config::parse("example", &text, std::iter::empty()).unwrap();
        let kinds: Vec<&str> = config.channel.iter().map(|channel| channel.kind.as_str()).collect();
        assert_eq!(kinds, ["slack", "telegram", "discord", "matrix", "email", "webhook", "exec"]);
        assert!(config.channel.iter().all(|channel| {
            !(channel.fallback
                || channel.relay_dedups
                || channel.drops_repeats
                || channel.allow_private_targets)
        }));
        let timeout_s = |at: usize| {
            config.channel[at].timeout_s.map(|seconds| std::time::Duration::from_secs(seconds.into()))
        };
        assert_eq!(timeout_s(5), Some(switchboard_channels::webhook::TIMEOUT));
        assert_eq!(timeout_s(6), Some(switchboard_channels::exec::TIMEOUT));
    }

    #[test]
    fn what_is_mistyped_is_refused_with_its_line_and_what_was_meant() {
        let refused =
            |text: &str| crate::config::parse("hub.toml", text, std::iter::empty()).unwrap_err().message;
        assert_eq!(
            refused("[[channel]]\nname = \"mail\"\nkind = \"email\"\nsmpt_url = \"smtp://x\"\n"),
            "hub.toml, line 4: `smpt_url` is no key of [[channel]] of the kind email; did you mean `smtp_url`?"
        );
        let second = refused(
            "[[channel]]\nname = \"a\"\nkind = \"exec\"\n\n[[channel]]\nname = \"b\"\nkind = \"webhok\"\n",
        );
        assert_eq!(
            second,
            "hub.toml, line 7: there is no kind of channel \"webhok\"; did you mean \"webhook\"?"
        );
        let foreign = refused("[[channel]]\nkind = \"webhook\"\nfolder = \"INBOX\"\n");
        assert!(foreign.starts_with("hub.toml, line 3: `folder` is no key of [[channel]] of the kind webhook; it has: name, kind, "), "{foreign}");
        assert_eq!(
            refused("[[channel]]\nknd = \"exec\"\n"),
            "hub.toml, line 1: `knd` is no key of [[channel]]; did you mean `kind`?"
        );
        assert!(
            refused("[[channel]]\nname = \"x\"\n").ends_with(
                "needs a `kind`; there are: slack, telegram, discord, matrix, email, webhook, exec"
            )
        );
        assert!(
            refused("[[channel]]\nkind = \"pigeon\"\n")
                .ends_with("; there are: slack, telegram, discord, matrix, email, webhook, exec")
        );
        assert!(refused("[[channel]]\nkind = \"console\"\n").contains("always there"));
        assert!(refused("[[channel]]\nkind = 3\n").starts_with("hub.toml, line 2: "));
        assert_eq!(
            refused("[channel]\nkind = \"exec\"\n"),
            "hub.toml, line 1: `channel` is a list; write [[channel]]"
        );
        assert_eq!(
            refused("\n[[chanel]]\n"),
            "hub.toml, line 2: [chanel] is no section; did you mean [[channel]]?"
        );
        assert!(refused("channel = [\"email\"]\n").ends_with("write [[channel]]"));
        let nested = refused("[[channel]]\nkind = \"exec\"\n[channel.env]\nTOKEN = \"x\"\n");
        assert!(nested.starts_with("hub.toml, line 3: "), "{nested}");
        assert!(
            refused("[[channel]]\nkind = \"exec\"\n[channel.envv]\nA = 1\n").ends_with("did you mean `env`?")
        );
    }
}

//! `[[channel]]`: a network on which people are reached. Which keys a channel takes depends on its kind; `crate::channels` checks that.

use serde::{Deserialize, Serialize};

/// One channel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "a file of settings has switches")]
pub struct Channel {
    /// What callers put in `channel`: a-z, 0-9, - and _.
    pub name: String,
    /// `email`, `webhook` or `exec`.
    pub kind: String,
    /// Whether it takes what is addressed to a name that no channel has. It is then not listed.
    pub fallback: bool,
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
    /// email, webhook: a PEM file with the authority of the servers' certificates, if the system does not know it.
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

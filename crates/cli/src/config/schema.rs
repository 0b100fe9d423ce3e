//! Every key: its type, its default, its documentation and an example, from which all else is made.

use super::hidden::Hidden;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One section of the file.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// What it is about, by line.
    pub doc: &'static [&'static str],
    /// Its keys.
    pub keys: &'static [Key],
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it does, by line.
    pub doc: &'static [&'static str],
    /// Its default, or an example where there is none, as TOML.
    pub example: &'static str,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

macro_rules! schema {
    ($(
        $(#[doc = $section_doc:literal])*
        $section:ident: $Section:ident {
            $( $(#[doc = $doc:literal])* $key:ident: $kind:ty = $default:expr, $example:literal; )*
        }
    )*) => {
        $(
            $(#[doc = $section_doc])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields, default)]
            pub struct $Section { $( $(#[doc = $doc])* pub $key: $kind, )* }

            impl Default for $Section {
                fn default() -> Self {
                    Self { $( $key: $default, )* }
                }
            }
        )*

        /// The whole configuration.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Config {
            $( $(#[doc = $section_doc])* pub $section: $Section, )*
            /// Networks on which people are reached.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub channel: Vec<super::channel::Channel>,
        }

        /// Every section with its keys, in the order of the example.
        pub const SECTIONS: &[Section] = &[$(
            Section {
                name: stringify!($section),
                doc: &[$($section_doc),*],
                keys: &[$( Key { name: stringify!($key), doc: &[$($doc),*], example: $example } ),*],
            }
        ),*];
    };
}

schema! {
    /// Where the hub listens and how it is reached.
    server: Server {
        /// Address and port. Port 0 takes a free one. 0.0.0.0 lets other machines in: put TLS in front of it.
        listen: String = "127.0.0.1:8484".into(), "\"127.0.0.1:8484\"";
        /// How clients reach the hub, when that is not the address above: behind a proxy with TLS, say.
        public_url: Option<String> = None, "\"https://switchboard.example\"";
        /// Where everything is kept. --data-dir and its variable win over it.
        data_dir: Option<String> = None, "\"/var/lib/switchboard\"";
        /// Addresses of proxies in front of the hub. The hub believes no forwarded header of anybody else; at present it
        /// needs none at all, so the list only has to be right.
        trusted_proxies: Vec<String> = Vec::new(), "[\"10.0.0.0/8\"]";
        /// Names under which clients reach the MCP door, beside this machine and the public URL; with or without a port.
        hosts: Vec<String> = Vec::new(), "[\"switchboard.lan\"]";
        /// Origins of web pages that may speak to the hub from a browser (sockets, routes, MCP), beside its own.
        origins: Vec<String> = Vec::new(), "[\"https://console.example\"]";
    }
    /// Who remembers.
    store: Store {
        /// `sqlite`: one database in the data directory. `sqlite:DIRECTORY`: one elsewhere.
        /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`: PostgreSQL 15 or newer. Behind a `?`, with `&` between them:
        /// `schema=NAME` (default switchboard), `sslmode=disable|require`, `sslrootcert=FILE`. With a password in it, give it by
        /// the environment.
        url: String = "sqlite".into(), "\"sqlite\"";
        /// Free space, in MiB, below which nothing new is stored; reading goes on.
        disk_reserve_mib: u64 = 16, "16";
        /// Whether messages can be searched.
        search: bool = true, "true";
    }
    /// Who wakes readers.
    doorbell: Doorbell {
        /// `auto`: `local` with SQLite, `postgres` with PostgreSQL. `local`: within this process; other nodes on the same store
        /// are then noticed once a second. `postgres`: over the store's database. `nats://USER:PASSWORD@HOST:PORT` or
        /// `nats://TOKEN@HOST:PORT`: over a NATS server, `tls://` encrypted; servers of one cluster stand behind each other with
        /// commas. With a password in it, give it by `SWITCHBOARD_DOORBELL_URL`.
        url: String = "auto".into(), "\"auto\"";
        /// A .creds file for the NATS server.
        credentials_file: Option<String> = None, "\"/run/secrets/switchboard.creds\"";
        /// A PEM file with the authority of the NATS server's certificate, if the system does not know it.
        ca_file: Option<String> = None, "\"/etc/switchboard/nats-ca.pem\"";
    }
    /// Reaching people.
    outbound: Outbound {
        /// Messages that one agent may send to people within an hour, as long as no rule of the policy sets a limit.
        messages_per_hour: u32 = 30, "30";
        /// Hours until a person's approval counts no more: what nobody approved is refused.
        approval_hours: u32 = 24, "24";
        /// Who is asked for approvals beside the console, each `CHANNEL:ADDRESS`.
        approvers: Vec<String> = Vec::new(), "[\"email:ada@example.org\"]";
        /// Milliseconds that a call waits for its message to arrive before it says that it was accepted.
        receipt_wait_ms: u32 = 2000, "2000";
    }
    /// What agents may do with the tools that reach people.
    policy: Policy {
        /// The directory with the rules, which must be there. Relative to the directory of this file. Without it: `policies` in the
        /// data directory, if it is there. `switchboard policy check` reads it.
        dir: Option<PathBuf> = None, "\"policies\"";
    }
    /// How long messages are kept.
    retention: Retention {
        /// Days that messages of the organization are kept.
        org_days: u32 = 30, "30";
        /// Days instead, while the organization is one person's: no bearer but the owner's. From the moment that somebody else
        /// has one, messages are kept for `org_days`; those before go when they were said to.
        personal_days: Option<u32> = None, "7";
        /// Days that a swarm's messages are kept after it was closed.
        swarm_days_after_close: u32 = 30, "30";
    }
    /// Bounds.
    limits: Limits {
        /// Hours until a question without a deadline of its own becomes a task.
        question_deadline_hours: u32 = 24, "24";
        /// Messages a handle may send into a swarm within an hour.
        swarm_messages_per_hour: u32 = 60, "60";
        /// Seconds that the agents of a lost connection still count as present.
        presence_grace_seconds: u32 = 30, "30";
    }
    /// What is written to standard error.
    log: Log {
        /// error, warn, info, debug, trace, or a filter for parts of the program. --log and its variable win.
        level: String = "info".into(), "\"info\"";
        /// `text` or `json`.
        format: LogFormat = LogFormat::Text, "\"text\"";
    }
    /// Traces for an OpenTelemetry collector.
    otel: Otel {
        /// Where it takes OTLP over HTTP (protobuf); without it nothing is traced. `/v1/traces` is added.
        endpoint: Option<String> = None, "\"http://127.0.0.1:4318\"";
        /// Headers for it, which may be secrets; each `NAME: VALUE`. They are never shown.
        headers: Vec<Hidden> = Vec::new(), "[\"x-api-key: KEY\"]";
        /// A file with such headers, one a line.
        headers_file: Option<String> = None, "\"/run/secrets/otel-headers\"";
        /// What the hub is called there.
        service_name: String = "switchboard".into(), "\"switchboard\"";
        /// Part of the traces that is recorded, 0.0 to 1.0. A caller that sends `traceparent` has decided for its own.
        sample_ratio: f64 = 1.0, "1.0";
    }
}

//! The running hub, as commands reach it.

use crate::args::Global;
use crate::config;
use crate::failure::{Exit, Failure};
use crate::place::{self, Admin};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use switchboard_client::{Error, Http, Method, Secret, Trust, Tuning};

/// Where a hub listens unless told otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8484";
/// How long a command waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The running hub under one bearer.
#[derive(Debug, Clone)]
pub struct Api {
    /// Its HTTP routes.
    pub http: Http,
    /// Its address.
    pub url: String,
    /// The bearer.
    pub token: Secret,
    /// Whether the bearer is the owner's.
    pub is_owner: bool,
    /// Whom to believe that it is this hub.
    pub trust: Trust,
}

impl Api {
    /// Finds the hub: by `--url` and `--token`, or by the `admin.json` of the data directory.
    pub fn find(global: &Global) -> Result<Self, Failure> {
        Self::find_patient(global, PATIENCE)
    }

    /// As [`Api::find`], for what may take longer.
    pub fn find_patient(global: &Global, patience: Duration) -> Result<Self, Failure> {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (url, token) = (said(&global.url), said(&global.token));
        let ca_file = global.ca_file.as_deref().filter(|path| !path.as_os_str().is_empty());
        let trust = ca_file.map(Trust::with_ca_file).transpose()?.unwrap_or_default();
        let open = |url: &str, token, is_owner| Self::open(url, token, is_owner, patience, &trust);
        if let (Some(url), Some(token)) = (&url, &token) {
            return open(url, Secret::new(token), false);
        }
        let dir = config::data_dir(global)?;
        let admin = Admin::read(&dir)?;
        match (url, token, admin) {
            // The owner's bearer goes to the hub that wrote it and to nobody else.
            (Some(url), None, admin) => match admin.filter(|admin| same(&admin.url, &url)) {
                Some(admin) => open(&url, admin.token, true),
                None => Err(Failure::usage(format!("There is no bearer for {url}."))
                    .next("add --token TOKEN, or set SWITCHBOARD_TOKEN")),
            },
            (None, Some(token), admin) => {
                let url = admin.map_or_else(|| DEFAULT_URL.to_owned(), |admin| admin.url);
                open(&url, Secret::new(token), false)
            }
            (_, _, Some(admin)) => open(&admin.url, admin.token, true),
            (_, _, None) => Err(place::not_running(&dir)),
        }
    }

    /// The hub at `url` under `token`.
    pub fn open(
        url: &str,
        token: Secret,
        is_owner: bool,
        patience: Duration,
        trust: &Trust,
    ) -> Result<Self, Failure> {
        let tuning = Tuning { http_timeout: patience, ..Tuning::default() };
        let http = Http::with_trust(url, token.clone(), &tuning, trust)?;
        Ok(Self { http, url: url.trim_end_matches('/').to_owned(), token, is_owner, trust: trust.clone() })
    }

    /// `GET path`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.failing(self.http.rest(Method::GET, path, None::<&()>).await)
    }

    /// `POST path` with a body.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        self.failing(self.http.rest(Method::POST, path, Some(body)).await)
    }

    /// `POST path` without a body, answered by nothing.
    pub async fn act(&self, path: &str) -> Result<(), Failure> {
        self.failing(self.http.rest(Method::POST, path, None::<&()>).await)
    }

    /// `DELETE path`.
    pub async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.failing(self.http.rest(Method::DELETE, path, None::<&()>).await)
    }

    /// Says in an error which hub it is about and what to do.
    pub fn failing<T>(&self, result: Result<T, Error>) -> Result<T, Failure> {
        result.map_err(|error| self.explain(error))
    }

    fn explain(&self, error: Error) -> Failure {
        let refused = matches!(&error, Error::Unauthorized(_));
        let failure = Failure::from(error);
        if failure.exit == Exit::Unreachable {
            let message = format!("{} ({})", failure.message.trim_end_matches('.'), self.url);
            return Failure { message, ..failure }
                .next("see whether it runs: `switchboard doctor`; start it: `switchboard serve`");
        }
        if refused && !self.is_owner {
            return failure
                .next("make another one on the hub's machine: `switchboard token create --label NAME`");
        }
        failure
    }
}

fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/').eq_ignore_ascii_case(other.trim_end_matches('/'))
}

/// A path with `segments` below `base`, each encoded: what a person typed cannot lead elsewhere.
pub fn path(base: &str, segments: &[&str]) -> String {
    segments.iter().fold(base.to_owned(), |path, segment| format!("{path}/{}", encode(segment)))
}

/// Everything but unreserved characters as `%XX`.
pub fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(["%", &format!("{byte:02X}")]);
        }
    }
    // A segment of dots alone would be taken for a step in the path.
    if encoded.chars().all(|c| c == '.') { encoded.replace('.', "%2E") } else { encoded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_stays_one_segment() {
        assert_eq!(path("/admin/v1/vaults", &["a/b", "..", "ü"]), "/admin/v1/vaults/a%2Fb/%2E%2E/%C3%BC");
    }

    #[test]
    fn the_owners_bearer_is_for_its_own_hub_only() {
        let dir = tempfile::tempdir().unwrap();
        let admin = Admin { url: "http://127.0.0.1:9".into(), token: Secret::new("owner"), pid: 1 };
        admin.write(dir.path()).unwrap();
        let global = |url: Option<&str>, token: Option<&str>| Global {
            data_dir: Some(dir.path().to_owned()),
            url: url.map(str::to_owned),
            token: token.map(str::to_owned),
            ..Global::default()
        };
        let find = |url, token| Api::find(&global(url, token));
        let found = find(None, None).unwrap();
        assert!(found.is_owner && found.token.expose() == "owner" && found.url == "http://127.0.0.1:9");
        assert!(find(Some("http://127.0.0.1:9/"), None).unwrap().is_owner);
        assert_eq!(find(Some("http://elsewhere:9"), None).unwrap_err().exit, Exit::Usage);
        let scripted = find(None, Some("mine")).unwrap();
        assert!(
            !scripted.is_owner && scripted.url == "http://127.0.0.1:9" && scripted.token.expose() == "mine"
        );
        let empty = find(None, Some("")).unwrap();
        assert!(empty.is_owner, "an empty variable counts as absent");
    }
}

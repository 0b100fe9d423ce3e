//! The requests of the client-server API (version 3) that are made, and their bounds.

use super::answer::{self, Fault};
use reqwest::{Client, Method, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::time::Clock;
use switchboard_core::{ExposeSecret as _, SecretString};

/// Most of an ordinary answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Most of an answer that holds many events, in bytes.
const EVENTS_BYTES_MAX: usize = 32 << 20;
/// Time beyond the server's own wait that an answer to `/sync` may take.
const SYNC_GRACE: Duration = Duration::from_secs(30);

/// A homeserver, as an account sees it.
pub(super) struct Api {
    base: Url,
    token: SecretString,
    client: Client,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Api {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Api").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

/// Whose the token is.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Whoami {
    pub user_id: String,
}

#[derive(Deserialize)]
struct Sent {
    event_id: String,
}

#[derive(Deserialize)]
struct Room {
    room_id: String,
}

/// A request.
struct Call<'a> {
    method: Method,
    /// Behind `_matrix/client/v3`; escaped when the URL is made.
    path: &'a [&'a str],
    query: &'a [(&'a str, &'a str)],
    body: Option<&'a Value>,
    timeout: Duration,
    bytes_max: usize,
}

impl Api {
    pub fn new(
        base: Url,
        token: SecretString,
        client: Client,
        timeout: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { base, token, client, timeout, clock }
    }

    /// Whose the token is.
    pub async fn whoami(&self) -> Result<Whoami, Fault> {
        self.get(&["account", "whoami"]).await
    }

    /// A piece of the account's own data; `None` when there is none.
    pub async fn account_data<T: DeserializeOwned>(
        &self,
        user: &str,
        kind: &str,
    ) -> Result<Option<T>, Fault> {
        found(self.get(&["user", user, "account_data", kind]).await)
    }

    /// Writes a piece of the account's own data.
    pub async fn set_account_data(&self, user: &str, kind: &str, data: &Value) -> Result<(), Fault> {
        let _: Value = self.with_body(Method::PUT, &["user", user, "account_data", kind], data).await?;
        Ok(())
    }

    /// A piece of a room's state; `None` when there is none.
    pub async fn state<T: DeserializeOwned>(
        &self,
        room: &str,
        kind: &str,
        key: &str,
    ) -> Result<Option<T>, Fault> {
        found(self.get(&["rooms", room, "state", kind, key]).await)
    }

    /// An event; `None` when there is none that we may see.
    pub async fn event<T: DeserializeOwned>(&self, room: &str, event: &str) -> Result<Option<T>, Fault> {
        found(self.get(&["rooms", room, "event", event]).await)
    }

    /// The room of an alias; `None` when there is none.
    pub async fn room_of_alias(&self, alias: &str) -> Result<Option<String>, Fault> {
        let found: Option<Room> = found(self.get(&["directory", "room", alias]).await)?;
        Ok(found.map(|room| room.room_id))
    }

    /// A new room's id.
    pub async fn create_room(&self, content: &Value) -> Result<String, Fault> {
        let room: Room = self.with_body(Method::POST, &["createRoom"], content).await?;
        Ok(room.room_id)
    }

    /// Invites a user into a room.
    pub async fn invite(&self, room: &str, user: &str) -> Result<(), Fault> {
        let content = serde_json::json!({ "user_id": user });
        let _: Value = self.with_body(Method::POST, &["rooms", room, "invite"], &content).await?;
        Ok(())
    }

    /// Accepts an invitation.
    pub async fn join(&self, room: &str) -> Result<(), Fault> {
        let _: Value = self
            .with_body(Method::POST, &["rooms", room, "join"], &Value::Object(serde_json::Map::new()))
            .await?;
        Ok(())
    }

    /// Sends a message; its event's id. The same transaction gives the same event.
    pub async fn send(&self, room: &str, transaction: &str, content: &Value) -> Result<String, Fault> {
        let path = ["rooms", room, "send", "m.room.message", transaction];
        let sent: Sent = self.with_body(Method::PUT, &path, content).await?;
        if super::address::is_event(&sent.event_id) {
            Ok(sent.event_id)
        } else {
            Err(Fault::Unsure("the homeserver confirmed without an event's id".into()))
        }
    }

    /// What is new since `since`; everything without it. Waits for `wait` at most when there is nothing.
    pub async fn sync<T: DeserializeOwned>(
        &self,
        since: Option<&str>,
        filter: &str,
        wait: Duration,
    ) -> Result<T, Fault> {
        let wait_ms = wait.as_millis().to_string();
        let mut query = vec![("filter", filter), ("timeout", &wait_ms), ("set_presence", "offline")];
        query.extend(since.map(|since| ("since", since)));
        self.call(Call {
            query: &query,
            timeout: wait + SYNC_GRACE,
            bytes_max: EVENTS_BYTES_MAX,
            ..Call::get(&["sync"], self.timeout)
        })
        .await
    }

    /// A page of a room's events, back from `from` and not beyond `to`.
    pub async fn messages<T: DeserializeOwned>(
        &self,
        room: &str,
        from: &str,
        to: &str,
        filter: &str,
    ) -> Result<T, Fault> {
        let query = [("dir", "b"), ("from", from), ("to", to), ("limit", "100"), ("filter", filter)];
        let path = ["rooms", room, "messages"];
        self.call(Call { query: &query, bytes_max: EVENTS_BYTES_MAX, ..Call::get(&path, self.timeout) }).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, Fault> {
        self.call(Call::get(path, self.timeout)).await
    }

    async fn with_body<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: &Value,
    ) -> Result<T, Fault> {
        self.call(Call { method, body: Some(body), ..Call::get(path, self.timeout) }).await
    }

    async fn call<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, Fault> {
        let mut request = self
            .client
            .request(call.method, self.url(call.path))
            .query(call.query)
            .timeout(call.timeout)
            .bearer_auth(self.token.expose_secret());
        if let Some(body) = call.body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(|error| answer::failure(&error))?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| answer::failure(&error))? {
            if body.len() + chunk.len() > call.bytes_max {
                return Err(Fault::Unsure(format!(
                    "the homeserver's answer is longer than {} bytes",
                    call.bytes_max
                )));
            }
            body.extend_from_slice(&chunk);
        }
        let read = answer::read(response.status().as_u16(), response.headers(), &body, self.clock.wall_ms());
        // A server, or a proxy before it, may say our own words back.
        read.map_err(|fault| fault.without(self.token.expose_secret()))
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // A base of `http` or `https` always has a path.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["_matrix", "client", "v3"]).extend(path);
        }
        url
    }
}

impl<'a> Call<'a> {
    fn get(path: &'a [&'a str], timeout: Duration) -> Self {
        Self { method: Method::GET, path, query: &[], body: None, timeout, bytes_max: ANSWER_BYTES_MAX }
    }
}

/// `None` instead of the refusal that says that there is nothing.
fn found<T>(answer: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(fault) if fault.is(answer::NOT_FOUND) => Ok(None),
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_core::time::ManualClock;

    #[test]
    fn ids_are_escaped_in_paths() {
        let api = |base: &str| {
            let clock = Arc::new(ManualClock::at(0));
            Api::new(Url::parse(base).unwrap(), "t".into(), Client::new(), Duration::from_secs(1), clock)
        };
        let path = ["rooms", "!a/../b?c#d:x.test", "send", "m.room.message", "t%2F"];
        for (base, prefix) in [("https://x.test", ""), ("https://x.test/hs/", "/hs")] {
            let url = api(base).url(&path);
            let expected = "/_matrix/client/v3/rooms/!a%2F..%2Fb%3Fc%23d:x.test/send/m.room.message/t%252F";
            assert_eq!(url.path(), format!("{prefix}{expected}"));
        }
    }
}

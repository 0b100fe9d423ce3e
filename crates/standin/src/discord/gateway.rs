//! The gateway: hello, identify or resume, heartbeats, and every event from where the client is.

use super::{Shared, Upset};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_async};

type Socket = WebSocketStream<TcpStream>;
type Outcome = Result<(), tokio_tungstenite::tungstenite::Error>;

pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        // Clients that go away in the middle are part of the tests.
        tokio::spawn(async move {
            let Ok(socket) = accept_async(stream).await else { return };
            Connection { socket, shared, session: None, sent: 0, upsets: 0 }.run().await.ok();
        });
    }
}

struct Connection {
    socket: Socket,
    shared: Arc<Shared>,
    session: Option<String>,
    /// Events that were sent.
    sent: u64,
    /// Upsets that are done with.
    upsets: usize,
}

impl Connection {
    async fn run(mut self) -> Outcome {
        self.upsets = self.shared.world.lock().upsets.len();
        let mut bell = self.shared.bell.subscribe();
        let interval = self.shared.world.lock().heartbeat_ms;
        self.send(json!({ "op": 10, "d": { "heartbeat_interval": interval } })).await?;
        loop {
            self.tell().await?;
            let upset = self.shared.world.lock().upsets.get(self.upsets).copied();
            if let Some(upset) = upset {
                return self.upset(upset).await;
            }
            tokio::select! {
                rung = bell.changed() => if rung.is_err() { return Ok(()) },
                frame = self.socket.next() => match frame {
                    Some(Ok(Message::Text(text))) => {
                        let frame = serde_json::from_str(text.as_str()).unwrap_or(Value::Null);
                        if !self.hear(&frame).await? {
                            return Ok(());
                        }
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                    Some(Ok(_)) => {}
                },
            }
        }
    }

    async fn send(&mut self, frame: Value) -> Outcome {
        self.socket.send(Message::text(frame.to_string())).await
    }

    async fn close(&mut self, code: u16) -> Outcome {
        self.socket.close(Some(CloseFrame { code: code.into(), reason: "".into() })).await
    }

    async fn upset(mut self, upset: Upset) -> Outcome {
        match upset {
            Upset::Reconnect => self.send(json!({ "op": 7, "d": null })).await?,
            Upset::Invalid(resumable) => self.send(json!({ "op": 9, "d": resumable })).await?,
            Upset::Close(code) => return self.close(code).await,
            Upset::Cut => return Ok(()),
        }
        // The client is to go.
        while let Some(Ok(_)) = self.socket.next().await {}
        Ok(())
    }

    /// Brings the client up to date.
    async fn tell(&mut self) -> Outcome {
        loop {
            let next = {
                let world = self.shared.world.lock();
                let session = self.session.as_ref().and_then(|id| world.sessions.get(id));
                let at = usize::try_from(self.sent).unwrap_or(usize::MAX);
                session.and_then(|session| session.events.get(at).cloned())
            };
            let Some((kind, data)) = next else { return Ok(()) };
            self.sent += 1;
            self.send(json!({ "op": 0, "s": self.sent, "t": kind, "d": data })).await?;
        }
    }

    /// Whether the conversation goes on.
    async fn hear(&mut self, frame: &Value) -> Result<bool, tokio_tungstenite::tungstenite::Error> {
        let data = &frame["d"];
        match frame["op"].as_u64() {
            Some(1) => {
                let answers = self.acknowledge(data.as_u64());
                if answers {
                    self.send(json!({ "op": 11 })).await?;
                }
            }
            Some(2 | 6) if !self.knows(data) => {
                self.close(4004).await?;
                return Ok(false);
            }
            Some(2) => {
                self.session = Some(self.shared.world.lock().begin(data["intents"].as_u64().unwrap_or(0)));
            }
            Some(6) => {
                if !self.resume(data) {
                    self.send(json!({ "op": 9, "d": false })).await?;
                }
            }
            Some(3 | 4 | 8) => {}
            _ => {
                self.close(4001).await?;
                return Ok(false);
            }
        }
        self.shared.ring();
        Ok(true)
    }

    fn knows(&self, data: &Value) -> bool {
        let world = self.shared.world.lock();
        !world.token.is_empty() && data["token"].as_str() == Some(&world.token)
    }

    fn acknowledge(&self, number: Option<u64>) -> bool {
        let mut world = self.shared.world.lock();
        let session = self.session.as_ref().and_then(|id| world.sessions.get_mut(id));
        if let (Some(session), Some(number)) = (session, number) {
            session.acknowledged = session.acknowledged.max(number);
        }
        world.answers_heartbeats
    }

    fn resume(&mut self, data: &Value) -> bool {
        let mut world = self.shared.world.lock();
        let (Some(id), Some(number)) = (data["session_id"].as_str(), data["seq"].as_u64()) else {
            return false;
        };
        let Some(session) = world.sessions.get_mut(id) else { return false };
        if number > session.events.len() as u64 {
            return false;
        }
        session.acknowledged = session.acknowledged.max(number);
        session.events.push(("RESUMED".to_owned(), json!({})));
        world.resumed += 1;
        self.session = Some(id.to_owned());
        self.sent = number;
        true
    }
}

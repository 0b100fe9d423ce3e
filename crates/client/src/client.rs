//! The handle.

use std::borrow::Cow;
use std::sync::Arc;

use switchboard_protocol::Invalid;
use switchboard_protocol::frame::client::{Ack, ClientFrame, HelloAgent, Presence, Publish};
use switchboard_protocol::frame::server::Published;
use switchboard_protocol::frame::{HandoffAck, HandoffOffer, HandoffReject};
use switchboard_protocol::limits::{FRAME_BYTES_MAX, HELLO_AGENTS_MAX};
use switchboard_protocol::message::{AgentMessage, Receipt, Stored};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::cursors::{Cursors, Received};
use crate::error::Error;
use crate::event::Event;
use crate::http::Http;
use crate::options::{Options, Tuning, base_url};
use crate::pending::Acked;
use crate::queue::Queue;
use crate::session::{Command, Parts, Session};
use crate::socket::Dialer;

/// Commands on their way to the session; more wait in the caller.
const COMMANDS_MAX: usize = 16;

/// A connection to a hub that keeps itself alive. Clones share it; dropping the last one closes it.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    commands: mpsc::Sender<Command>,
    closing: watch::Sender<bool>,
    ready: watch::Receiver<bool>,
    queue: Arc<Queue>,
    in_flight: Semaphore,
    http: Http,
    instance_id: String,
    tuning: Tuning,
}

impl Client {
    /// Connect, and announce the agents. An error of this first attempt is returned; later losses are repaired.
    ///
    /// Events come from the first moment, so take them before waiting for [`Self::ready`] when there may be many.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        options.validate()?;
        let Options { url, token, instance_id, agents, cursors, trust, tuning } = options;
        let http = Http::with_trust(&url, token.clone(), &tuning, &trust)?;
        let instance_id = match instance_id {
            Some(id) => id,
            None => http.whoami().await?.instance_id,
        };
        let dialer = Dialer::new(&base_url(&url)?, token, instance_id.clone(), &tuning, &trust);
        let socket = dialer.dial().await.map_err(|failed| failed.error)?;

        let (commands, received_commands) = mpsc::channel(COMMANDS_MAX);
        let (closing, is_closing) = watch::channel(false);
        let (set_ready, ready) = watch::channel(false);
        let queue = Arc::new(Queue::new(tuning.events_max, cursors.clone()));
        let session = Session::new(Parts {
            dialer,
            tuning: tuning.clone(),
            instance_id: instance_id.clone(),
            agents,
            commands: received_commands,
            closing: is_closing,
            ready: set_ready,
            queue: queue.clone(),
            received: Received::new(cursors),
        });
        tokio::spawn(session.run(socket));
        let in_flight = Semaphore::new(tuning.in_flight_max.max(1));
        let inner = Inner { commands, closing, ready, queue, in_flight, http, instance_id, tuning };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The instance this client acts as.
    pub fn instance_id(&self) -> &str {
        &self.inner.instance_id
    }

    /// The HTTP routes under the same bearer.
    pub fn http(&self) -> &Http {
        &self.inner.http
    }

    /// How far events were taken with [`Self::next_event`]: keep this to resume after a restart.
    pub fn cursors(&self) -> Cursors {
        self.inner.queue.taken()
    }

    /// Wait until the agents are announced and the server has told the present state. Returns at once while that holds.
    pub async fn ready(&self) -> Result<(), Error> {
        let mut ready = self.inner.ready.clone();
        match ready.wait_for(|ready| *ready).await {
            Ok(_) => Ok(()),
            Err(_) => Err(self.ended()),
        }
    }

    /// The next event. After the client ended, what was received before is still given, then the reason.
    ///
    /// Dropping the future loses nothing. Several callers share the events among them.
    pub async fn next_event(&self) -> Result<Event, Error> {
        self.inner.queue.take().await
    }

    /// Send a message; resolves when the server has stored it. Resent under the same id over reconnects.
    ///
    /// [`Error::Timeout`] leaves open whether it was stored: send the same message again to find out.
    pub async fn send(&self, message: &AgentMessage<'_>) -> Result<Stored<'static>, Error> {
        message.validate()?;
        let text = text(&ClientFrame::Message(message.clone()))?;
        match self.acked(&message.client_msg_id, text).await? {
            Acked::Stored(stored) => Ok(stored),
            Acked::Published(_) => Err(Error::Protocol("a message was acknowledged as a publish".into())),
        }
    }

    /// Publish an event; resolves when the server has stored it. As [`Self::send`].
    pub async fn publish(&self, publish: &Publish<'_>) -> Result<Published<'static>, Error> {
        publish.validate()?;
        let text = text(&ClientFrame::Publish(publish.clone()))?;
        match self.acked(&publish.client_msg_id, text).await? {
            Acked::Published(published) => Ok(published),
            Acked::Stored(_) => Err(Error::Protocol("a publish was acknowledged as a message".into())),
        }
    }

    async fn acked(&self, id: &str, text: Utf8Bytes) -> Result<Acked, Error> {
        let sending = async {
            // Never closed: the semaphore lives as long as this handle.
            let _permit = self.inner.in_flight.acquire().await.map_err(|_| Error::Closed)?;
            let (reply, outcome) = oneshot::channel();
            self.command(Command::Acked { id: id.to_owned(), text, reply }).await?;
            outcome.await.unwrap_or_else(|_| Err(self.ended()))
        };
        tokio::time::timeout(self.inner.tuning.ack_timeout, sending).await.unwrap_or(Err(Error::Timeout))
    }

    /// Say how far an agent got with a message. Repeated over a reconnect until the server has read it; a refusal comes as
    /// [`Event::Refused`].
    pub async fn receipt(&self, receipt: &Receipt<'_>) -> Result<(), Error> {
        receipt.validate()?;
        self.repeatable(&ClientFrame::MessageReceipt(receipt.clone())).await
    }

    /// Say that everything up to `seq` on `channel` (or `swarm:<id>`) is processed. As [`Self::receipt`].
    pub async fn ack(&self, channel: &str, seq: u64) -> Result<(), Error> {
        let ack = Ack { channel: Cow::Borrowed(channel), seq };
        ack.validate()?;
        self.repeatable(&ClientFrame::Ack(ack)).await
    }

    /// Offer work to another agent. As [`Self::receipt`]; the answer comes as [`Event::Handoff`].
    pub async fn handoff_offer(&self, offer: &HandoffOffer<'_>) -> Result<(), Error> {
        offer.validate()?;
        self.repeatable(&ClientFrame::HandoffOffer(offer.clone())).await
    }

    /// Accept an offer. As [`Self::receipt`].
    pub async fn handoff_ack(&self, ack: &HandoffAck<'_>) -> Result<(), Error> {
        ack.validate()?;
        self.repeatable(&ClientFrame::HandoffAck(ack.clone())).await
    }

    /// Decline an offer. As [`Self::receipt`].
    pub async fn handoff_reject(&self, reject: &HandoffReject<'_>) -> Result<(), Error> {
        reject.validate()?;
        self.repeatable(&ClientFrame::HandoffReject(reject.clone())).await
    }

    async fn repeatable(&self, frame: &ClientFrame<'_>) -> Result<(), Error> {
        let text = text(frame)?;
        self.command(Command::Repeatable(text)).await
    }

    /// Say what an announced agent is doing; said again after every reconnect.
    pub async fn presence(&self, presence: &Presence<'_>) -> Result<(), Error> {
        presence.validate()?;
        let text = text(&ClientFrame::Presence(presence.clone()))?;
        self.command(Command::Presence { agent_id: presence.agent_id.clone().into_owned(), text }).await
    }

    /// Announce other agents in place of the present ones; resolves when the server has accepted them.
    pub async fn hello(&self, agents: Vec<HelloAgent<'static>>) -> Result<(), Error> {
        if agents.len() > HELLO_AGENTS_MAX {
            return Err(Invalid::new("agents", format!("agents must be at most {HELLO_AGENTS_MAX}")).into());
        }
        agents.iter().try_for_each(HelloAgent::validate)?;
        let greeting = async {
            let (reply, outcome) = oneshot::channel();
            self.command(Command::Hello { agents, reply }).await?;
            outcome.await.unwrap_or_else(|_| Err(self.ended()))
        };
        tokio::time::timeout(self.inner.tuning.ack_timeout, greeting).await.unwrap_or(Err(Error::Timeout))
    }

    /// Close the connection, after writing what was handed over, and end all clones.
    pub async fn close(&self) {
        self.inner.closing.send_replace(true);
        self.inner.commands.closed().await;
    }

    async fn command(&self, command: Command) -> Result<(), Error> {
        self.inner.commands.send(command).await.map_err(|_| self.ended())
    }

    fn ended(&self) -> Error {
        self.inner.queue.ended().unwrap_or(Error::Closed)
    }
}

/// The frame as text, unless it is larger than a server takes.
fn text(frame: &ClientFrame<'_>) -> Result<Utf8Bytes, Error> {
    let text = frame.to_json().map_err(|error| Error::Protocol(error.to_string()))?;
    if text.len() > FRAME_BYTES_MAX {
        return Err(Invalid::new("body", format!("the frame must be at most {FRAME_BYTES_MAX} bytes")).into());
    }
    Ok(text.into())
}

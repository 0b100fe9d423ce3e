//! Sessions of the older revisions: whose they are, how many there may be, when they end. The SDK keeps the conversation
//! itself; this table keeps it bounded.

use super::Options;
use super::gate::Caller;
use futures_util::{Stream, StreamExt};
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::digest::Digest;
use switchboard_core::ids::{InstanceNo, VaultId};
use switchboard_core::port::store::Credential;
use switchboard_engine::viewer::Agents;
use switchboard_engine::{Hub, inbox, refusal};
use switchboard_protocol::{Code, Detail};

/// How often idle sessions are looked for, at most and at least.
const SWEEP_EVERY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(1));

struct Open {
    owner: InstanceNo,
    /// Hash of the bearer that was used last.
    bearer: Digest,
    /// When the last request or stream ended, on the hub's monotonic clock.
    used_at: Duration,
    /// Requests and streams that are open now.
    running: usize,
    /// Agents that this session speaks for.
    agents: Agents,
    /// Ids of requests that are not answered yet, as JSON.
    asked: HashSet<String>,
}

#[derive(Default)]
struct Table {
    open: HashMap<SessionId, Open>,
    /// Owners of sessions whose `initialize` is under way.
    opening: Vec<InstanceNo>,
}

/// All sessions.
pub(super) struct Sessions {
    hub: Arc<Hub>,
    local: LocalSessionManager,
    table: Mutex<Table>,
    total_max: usize,
    per_instance_max: usize,
    idle: Duration,
}

/// A place for a session that is about to be opened.
pub(super) struct Place {
    sessions: Arc<Sessions>,
    owner: InstanceNo,
    bearer: Digest,
}

/// A request or stream of a session; the session is not idle before it is dropped.
pub(super) struct Running {
    sessions: Arc<Sessions>,
    id: SessionId,
    /// The id of the request, as JSON.
    asked: Option<String>,
}

impl Sessions {
    /// An empty table, and the sweep that keeps it clean until the hub stops.
    pub(super) fn start(hub: &Arc<Hub>, options: &Options) -> Arc<Self> {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = None; // the sweep knows about open streams, the SDK's timer does not
        local.session_config.sse_retry = None;
        let sessions = Arc::new(Self {
            hub: hub.clone(),
            local,
            table: Mutex::default(),
            total_max: options.sessions_max,
            per_instance_max: options.sessions_per_instance_max,
            idle: options.session_idle,
        });
        let weak = Arc::downgrade(&sessions);
        let every = (options.session_idle / 4).clamp(SWEEP_EVERY.0, SWEEP_EVERY.1);
        hub.spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(sessions) = weak.upgrade() else { return };
                sessions.sweep().await;
            }
        });
        sessions
    }

    /// A place for one more session of the caller.
    pub(super) fn open(self: &Arc<Self>, caller: &Caller) -> Result<Place, Detail> {
        let owner = caller.who.instance;
        let mut table = self.table.lock();
        let owners = || table.open.values().map(|open| open.owner).chain(table.opening.iter().copied());
        let own = owners().filter(|known| *known == owner).count();
        let full = [(own, self.per_instance_max), (owners().count(), self.total_max)];
        if let Some((used, limit)) = full.into_iter().find(|(used, limit)| used >= limit) {
            let message =
                "Too many MCP sessions are open; end one with DELETE, or wait until an idle one ends.";
            let detail = Detail::new(Code::RateLimited, message).reason("limit_exceeded").sb("SB0110");
            return Err(detail.limit(limit as u64).used(used as u64).retry_after_s(60u64));
        }
        table.opening.push(owner);
        Ok(Place { sessions: self.clone(), owner, bearer: caller.bearer })
    }

    /// A request in session `id`. Another's session answers like an unknown one.
    pub(super) fn enter(self: &Arc<Self>, id: &str, caller: &Caller) -> Result<Running, Detail> {
        let mut table = self.table.lock();
        let found = table.open.get_key_value(id).map(|(id, _)| id.clone());
        let open = found.zip(table.open.get_mut(id)).filter(|(_, open)| open.owner == caller.who.instance);
        let Some((id, open)) = open else {
            let message = "No such session: it ended, or it is another instance's. Send initialize again.";
            return Err(refusal::not_found("Mcp-Session-Id", message));
        };
        open.bearer = caller.bearer;
        open.running += 1;
        Ok(Running { sessions: self.clone(), id, asked: None })
    }

    /// The session speaks for this agent until it ends. `false` when there is no such session any more.
    pub(super) fn hold(&self, id: &SessionId, vault: VaultId, agent: &str) -> bool {
        let mut table = self.table.lock();
        let Some(open) = table.open.get_mut(id) else { return false };
        if open.agents.insert((vault, agent.to_owned())) {
            self.hub.presence.hold(open.owner, vault, agent);
        }
        true
    }

    async fn sweep(&self) {
        let now = self.hub.clock().monotonic();
        let (mut idle, mut busy) = (Vec::new(), Vec::new());
        for (id, open) in &self.table.lock().open {
            if open.running > 0 {
                busy.push((id.clone(), open.bearer));
            } else if now.saturating_sub(open.used_at) >= self.idle {
                idle.push(id.clone());
            }
        }
        for id in idle {
            self.end(&id).await;
        }
        for (id, bearer) in busy {
            if still_good(&self.hub, bearer).await.is_err() {
                self.end(&id).await;
            }
        }
    }

    async fn end(&self, id: &SessionId) {
        if let Err(error) = self.close_session(id).await {
            tracing::warn!(%error, "an MCP session did not end cleanly");
        }
    }

    fn forget(&self, id: &SessionId) {
        let ended = self.table.lock().open.remove(id);
        if let Some(open) = ended {
            inbox::leave(&self.hub, open.owner, open.agents);
        }
    }
}

/// Whether the instance behind a bearer still may act; looked at again after a wait. Access tokens that merely ran out are
/// good for what they began.
pub(super) async fn still_good(hub: &Hub, bearer: Digest) -> Result<(), Detail> {
    if hub.credentials.is_fixed_hash(&bearer) {
        return Ok(());
    }
    let found = hub.store().credential(bearer, hub.clock().wall_ms()).await;
    match found.map_err(|error| refusal::store(&error))? {
        Some(Credential::Revoked) => Err(refusal::revoked()),
        Some(Credential::LeaseExpired) => Err(refusal::lease_expired()),
        Some(Credential::Good(_) | Credential::Expired) => Ok(()),
        // Long over and swept: nothing is known of it any more.
        None => Err(refusal::unauthorized()),
    }
}

impl Place {
    /// The session was opened.
    pub(super) fn keep(self, id: SessionId) {
        let used_at = self.sessions.hub.clock().monotonic();
        let open = Open {
            owner: self.owner,
            bearer: self.bearer,
            used_at,
            running: 0,
            agents: Agents::default(),
            asked: HashSet::new(),
        };
        self.sessions.table.lock().open.insert(id, open);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let opening = &mut self.sessions.table.lock().opening;
        if let Some(at) = opening.iter().position(|owner| *owner == self.owner) {
            opening.swap_remove(at);
        }
    }
}

impl Running {
    /// The session.
    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    /// This is the request `id` of the session. Two at a time under one id could not be told apart by their answers: the
    /// SDK would give the first one's to the second, and let the first wait for ever.
    pub(super) fn ask(&mut self, id: &Value) -> Result<(), &'static str> {
        let asked = id.to_string();
        let mut table = self.sessions.table.lock();
        let Some(open) = table.open.get_mut(&self.id) else { return Ok(()) };
        if !open.asked.insert(asked.clone()) {
            return Err("A request with this id is still running in this session; use a fresh id.");
        }
        self.asked = Some(asked);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let used_at = self.sessions.hub.clock().monotonic();
        if let Some(open) = self.sessions.table.lock().open.get_mut(&self.id) {
            open.running -= 1;
            open.used_at = used_at;
            if let Some(asked) = &self.asked {
                open.asked.remove(asked);
            }
        }
    }
}

/// An event without an id: there is nothing a client could resume from.
fn without_id(mut event: ServerSseMessage) -> ServerSseMessage {
    event.event_id = None;
    event
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.local.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.forget(id);
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.local.create_stream(id, message).await?.map(without_id))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.local.create_standalone_stream(id).await?.map(without_id))
    }

    async fn resume(
        &self,
        id: &SessionId,
        _: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        // The gate refuses such requests; whatever gets here finds nothing to resume.
        let nothing: Result<futures_util::stream::Empty<ServerSseMessage>, _> =
            Err(LocalSessionManagerError::SessionNotFound(id.clone()));
        nothing
    }
}

//! What an operator can set about the engine.

use std::path::PathBuf;
use std::time::Duration;
use switchboard_core::limits;
use switchboard_core::time::{DAY_MS, WallMs};

/// Settings with their defaults; a configuration file overrides them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long messages of the organization are kept.
    pub org_keep_ms: WallMs,
    /// How long instead, while the organization is one person's; `None`: no difference is made.
    pub personal_keep_ms: Option<WallMs>,
    /// How long a swarm's messages are kept after it closes (and, while it is open, after they were sent).
    pub swarm_keep_ms: WallMs,
    /// Default deadline of a question.
    pub question_deadline_ms: WallMs,
    /// Messages per hour and handle in a swarm.
    pub swarm_messages_per_hour: u32,
    /// Grace before the agents of a lost socket are closed.
    pub presence_grace: Duration,
    /// Silence of a socket after which it is pinged; after two pings without a sign it is closed.
    pub ping_every: Duration,
    /// How often deadlines and retention are looked at when nothing rings sooner.
    pub sweep_every: Duration,
    /// Reaching people.
    pub outbound: crate::outbound::Settings,
    /// The directory with the rules for tools that reach people; `None`: there are none.
    pub policy_dir: Option<PathBuf>,
    /// Where the hub is reached from outside, without a trailing slash; shown in device codes.
    pub public_url: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            org_keep_ms: 30 * DAY_MS,
            personal_keep_ms: None,
            swarm_keep_ms: 30 * DAY_MS,
            question_deadline_ms: limits::QUESTION_DEADLINE_MS,
            swarm_messages_per_hour: limits::SWARM_MESSAGES_PER_HOUR,
            presence_grace: Duration::from_millis(limits::PRESENCE_GRACE_MS.unsigned_abs()),
            ping_every: Duration::from_millis(limits::PING_INTERVAL_MS),
            sweep_every: Duration::from_secs(1),
            outbound: crate::outbound::Settings::default(),
            policy_dir: None,
            public_url: "http://127.0.0.1:8484".into(),
        }
    }
}

//! Every bound of the bus, by name (DESIGN law 10). A full thing is visible, never silent.

use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WallMs};

/// Largest text frame a client may send, in bytes.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
/// Largest HTTP request body, in bytes (contract section 1).
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Deepest JSON nesting taken from a client.
pub const JSON_DEPTH_MAX: usize = 32;
/// Frames one socket may have waiting for their commit; advertised to clients.
pub const IN_FLIGHT_MAX: usize = 256;
/// Commands one commit takes at most.
pub const BATCH_WRITES_MAX: usize = 1024;
/// Bytes of payload one commit takes at most, the first command excepted.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// Bytes of payload that may wait for the writer before submissions are told to slow down.
pub const QUEUE_BYTES_MAX: usize = 32 << 20;
/// Events kept in memory per stream for followers near its head.
pub const TAIL_EVENTS_MAX: usize = 2048;
/// Bytes of events kept in memory per stream.
pub const TAIL_BYTES_MAX: usize = 1 << 20;
/// Bytes handed to one socket before it must have written them.
pub const SOCKET_BURST_BYTES_MAX: usize = 64 * 1024;
/// Events read from the store in one page for a follower.
pub const FOLLOW_PAGE_MAX: usize = 200;
/// Events of one catch-up page (`GET …/events`).
pub const EVENTS_PAGE_MAX: usize = 500;
/// Messages of one history page (`GET /v1/messages`).
pub const HISTORY_PAGE_MAX: usize = 200;
/// Rows looked at for one page when most are not visible to the caller.
pub const SCAN_ROWS_MAX: usize = 5000;
/// Agents one `hello` may announce.
pub const HELLO_AGENTS_MAX: usize = 64;
/// Agents one instance may have announced in one vault within the last month.
pub const AGENTS_PER_INSTANCE_MAX: u32 = 20_000;
/// Cursors one `hello` may carry.
pub const HELLO_CURSORS_MAX: usize = 256;
/// Channels of one vault.
pub const CHANNELS_PER_VAULT_MAX: usize = 1024;
/// Vaults of one organization.
pub const VAULTS_MAX: usize = 4096;
/// Sockets of the whole hub.
pub const SOCKETS_MAX: usize = 50_000;
/// Sockets of one instance.
pub const SOCKETS_PER_INSTANCE_MAX: usize = 20_000;
/// Time a socket has to say `hello`.
pub const HELLO_TIMEOUT_MS: u64 = 10_000;
/// Interval of the hub's pings.
pub const PING_INTERVAL_MS: u64 = 20_000;
/// Pings without an answer after which a socket is closed.
pub const MISSED_PONGS_MAX: u32 = 2;
/// Grace before the agents of a lost socket are `closed`.
pub const PRESENCE_GRACE_MS: WallMs = 30 * SECOND_MS;
/// How long an announced name can be written to.
pub const ANNOUNCED_MS: WallMs = DAY_MS;
/// Longest cursor of a long poll, in characters: it travels in the request's head, which has 64 KiB.
pub const POLL_CURSOR_CHARS_MAX: usize = 60_000;
/// Longest wait of one long poll.
pub const POLL_WAIT_MS_MAX: u64 = 60_000;
/// Long polls of one instance that may wait at a time: each holds a connection.
pub const POLLS_PER_INSTANCE_MAX: usize = 32;
/// Default deadline of a question.
pub const QUESTION_DEADLINE_MS: WallMs = DAY_MS;
/// Furthest deadline of a handoff.
pub const HANDOFF_DEADLINE_MS_MAX: WallMs = 7 * DAY_MS;
/// Furthest deadline of a question.
pub const QUESTION_DEADLINE_MS_MAX: WallMs = 7 * DAY_MS;
/// Tolerated difference between a token assertion's `iat` and the hub's clock.
pub const ASSERTION_SKEW_MS: WallMs = 300 * SECOND_MS;
/// Life of an access token.
pub const ACCESS_TOKEN_MS: WallMs = HOUR_MS;
/// Life of a lease.
pub const LEASE_MS: WallMs = DAY_MS;
/// Grace after a lease.
pub const LEASE_GRACE_MS: WallMs = 7 * DAY_MS;
/// Life of a device code.
pub const DEVICE_CODE_MS: WallMs = 15 * MINUTE_MS;
/// Shortest interval between polls of one device code.
pub const DEVICE_INTERVAL_MS: WallMs = 2 * SECOND_MS;
/// Device codes waiting at a time.
pub const DEVICE_CODES_MAX: u32 = 256;
/// Instances of the organization.
pub const INSTANCES_MAX: u32 = 10_000;
/// How long an idempotency key is remembered.
pub const IDEMPOTENCY_MS: WallMs = 7 * DAY_MS;
/// Messages a handle may send into a swarm within one hour.
pub const SWARM_MESSAGES_PER_HOUR: u32 = 60;
/// Rows a sweep deletes in one step, so that writers never wait long.
pub const SWEEP_ROWS_MAX: usize = 500;
/// Free disk space under which new writes are refused.
pub const DISK_RESERVE_BYTES: u64 = 16 << 20;
/// Log commits between two signed checkpoints.
pub const CHECKPOINT_COMMITS: u64 = 1000;

/// Between two beats of a node that shares its store.
pub const NODE_BEAT_MS: WallMs = 4 * SECOND_MS;
/// A node that has not beaten for so long is dead: its agents close.
pub const NODE_DEAD_MS: WallMs = 18 * SECOND_MS;
/// How long a lease of a node lasts unless it is kept.
pub const NODE_LEASE_MS: WallMs = 14 * SECOND_MS;
/// How often a node looks at what others did, about, while all of them can ring.
pub const NODE_LOOK_MS: WallMs = 22 * SECOND_MS;
/// How often it looks while one of them cannot.
pub const NODE_LOOK_UNRUNG_MS: WallMs = SECOND_MS;

//! Every bound of the wire, by name. Units are in the name; counts have none.

/// Largest text frame on the socket.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
/// Largest HTTP request or response body.
pub const HTTP_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Deepest nesting of arrays and objects in any JSON we read.
pub const JSON_DEPTH_MAX: usize = 32;

/// Longest id: instance, agent, message, handoff, channel name and so on.
pub const ID_BYTES_MAX: usize = 128;
/// Agents one `hello` may announce.
pub const HELLO_AGENTS_MAX: usize = 64;
/// Cursors one `hello` may carry.
pub const HELLO_CURSORS_MAX: usize = 256;
/// Longest role of an announced agent.
pub const AGENT_ROLE_CHARS_MAX: usize = 64;
/// Largest serialized body of a `publish`.
pub const PUBLISH_BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest reference to a handed-over bundle.
pub const BUNDLE_REF_CHARS_MAX: usize = 512;
/// Longest reason of a `handoff.reject`.
pub const REJECT_REASON_CHARS_MAX: usize = 500;
/// Longest reason of a control action.
pub const CONTROL_REASON_CHARS_MAX: usize = 500;

/// Longest text of an agent message.
pub const MESSAGE_TEXT_CHARS_MAX: usize = 4000;
/// References one message may carry.
pub const MESSAGE_REFERENCES_MAX: usize = 16;
/// Messages of one history page.
pub const MESSAGES_PAGE_MAX: usize = 200;
/// How far ahead a question's deadline may lie.
pub const QUESTION_DEADLINE_AHEAD_S_MAX: i64 = 7 * 24 * 3600;
/// Deadline of a question that names none, unless the organization set another.
pub const QUESTION_DEADLINE_AHEAD_S_DEFAULT: i64 = 24 * 3600;
/// Longest base64 ciphertext of one sealed body. Inside a frame, [`FRAME_BYTES_MAX`] binds earlier.
pub const SEALED_CIPHERTEXT_CHARS_MAX: usize = 4 * 1024 * 1024;
/// Longest `content_schema` of a sealed body.
pub const SEALED_SCHEMA_CHARS_MAX: usize = 128;

/// Events of one catch-up page.
pub const BUS_EVENTS_PAGE_MAX: usize = 500;
/// Streams in one page of `GET /v1/streams` (extension).
pub const STREAMS_PAGE_MAX: usize = 500;
/// Longest bus lease.
pub const BUS_LEASE_MS_MAX: u64 = 15 * 60 * 1000;

/// Longest instance label.
pub const INSTANCE_LABEL_CHARS_MAX: usize = 64;
/// Longest engine version string.
pub const ENGINE_VERSION_BYTES_MAX: usize = 32;
/// Longest device code.
pub const DEVICE_CODE_CHARS_MAX: usize = 256;
/// Longest user code.
pub const USER_CODE_CHARS_MAX: usize = 16;
/// How far `iat` of a token assertion may lie from the service clock.
pub const ASSERTION_SKEW_S_MAX: i64 = 300;
/// Longest life of a bearer minted from an assertion.
pub const ACCESS_TOKEN_S_MAX: u32 = 3600;
/// Longest bearer.
pub const ACCESS_TOKEN_CHARS_MAX: usize = 4096;

/// Longest time from issue to expiry of a lease.
pub const LEASE_VALIDITY_S_MAX: i64 = 24 * 3600;
/// Longest grace after a lease's expiry.
pub const LEASE_GRACE_S_MAX: i64 = 7 * 24 * 3600;
/// A lease issued further than this in the future counts as lapsed.
pub const LEASE_FUTURE_SKEW_S_MAX: i64 = 15 * 60;
/// A holder renews when less than this remains before expiry.
pub const LEASE_RENEW_BEFORE_S: i64 = 6 * 3600;
/// Rights one lease may list.
pub const LEASE_RIGHTS_MAX: usize = 64;
/// Policy signer keys one lease may pin.
pub const LEASE_SIGNERS_MAX: usize = 16;
/// Keys one key set may list.
pub const KEYSET_KEYS_MAX: usize = 16;

/// Longest vault label.
pub const VAULT_LABEL_CHARS_MAX: usize = 64;
/// Roles one profile may list.
pub const PROFILE_ROLES_MAX: usize = 8;
/// Strengths one profile may list.
pub const PROFILE_STRENGTHS_MAX: usize = 16;
/// Profiles of one page.
pub const PROFILES_PAGE_MAX: usize = 200;

//! Device-flow enrollment and bearer tokens (contract section 2).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::canonical::TOKEN_ASSERTION_DOMAIN;
use crate::lease::{KeySet, LeaseEnvelope};
use crate::limits::{
    ACCESS_TOKEN_CHARS_MAX, ACCESS_TOKEN_S_MAX, DEVICE_CODE_CHARS_MAX, ENGINE_VERSION_BYTES_MAX,
    INSTANCE_LABEL_CHARS_MAX, USER_CODE_CHARS_MAX,
};
use crate::text::{Invalid, validate_base64_exact, validate_id, validate_schema, validate_text};

/// `schema` of a [`DeviceCodeRequest`].
pub const DEVICE_CODE_REQUEST_SCHEMA: &str = "leanctx.hive.device-code-request/v1";
/// `schema` of a [`DeviceCode`].
pub const DEVICE_CODE_SCHEMA: &str = "leanctx.hive.device-code/v1";
/// `schema` of a [`DeviceTokenRequest`].
pub const DEVICE_TOKEN_REQUEST_SCHEMA: &str = "leanctx.hive.device-token-request/v1";
/// `schema` of an [`Enrollment`].
pub const ENROLLMENT_SCHEMA: &str = "leanctx.hive.enrollment/v1";
/// `schema` of an [`InstanceTokenRequest`].
pub const TOKEN_REQUEST_SCHEMA: &str = "leanctx.hive.token-request/v1";
/// `schema` of an [`AccessToken`].
pub const ACCESS_TOKEN_SCHEMA: &str = "leanctx.hive.access-token/v1";
/// `schema` of a [`WhoAmI`].
pub const WHOAMI_SCHEMA: &str = "switchboard.whoami/v1";
/// The only client id the device flow takes.
pub const ENGINE_CLIENT_ID: &str = "lean-ctx-engine";

const REDACTED: &str = "<redacted>";

/// Operating system family of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Os {
    /// macOS.
    Macos,
    /// Linux.
    Linux,
    /// Windows.
    Windows,
    /// Anything else.
    Other,
}

fn validate_engine_version(value: &str) -> Result<(), Invalid> {
    let starts_with_digit = value.as_bytes().first().is_some_and(u8::is_ascii_digit);
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
    if starts_with_digit && value.len() <= ENGINE_VERSION_BYTES_MAX && value.bytes().all(inner) {
        return Ok(());
    }
    let rule = format_args!("must be a version like 1.2.3 of at most {ENGINE_VERSION_BYTES_MAX} characters");
    Err(Invalid::rule("engine_version", rule))
}

/// `POST /v1/device/code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCodeRequest {
    /// [`DEVICE_CODE_REQUEST_SCHEMA`].
    pub schema: String,
    /// [`ENGINE_CLIENT_ID`].
    pub client_id: String,
    /// A version of at most 32 characters.
    pub engine_version: String,
    /// The requester's claim.
    pub os: Os,
    /// The requester's claim, shown to the person who approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_label: Option<String>,
}

impl DeviceCodeRequest {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, DEVICE_CODE_REQUEST_SCHEMA)?;
        if self.client_id != ENGINE_CLIENT_ID {
            return Err(Invalid::rule("client_id", format_args!("must be {ENGINE_CLIENT_ID}")));
        }
        if let Some(label) = &self.instance_label {
            validate_text(label, INSTANCE_LABEL_CHARS_MAX, "instance_label", false)?;
        }
        validate_engine_version(&self.engine_version)
    }
}

/// Answer of `POST /v1/device/code`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCode {
    /// [`DEVICE_CODE_SCHEMA`].
    pub schema: String,
    /// Secret handle for polling.
    pub device_code: String,
    /// What the person compares, at most 16 characters.
    pub user_code: String,
    /// Where to approve.
    pub verification_uri: String,
    /// The same with the code filled in.
    pub verification_uri_complete: String,
    /// Least seconds between polls, 1 to 60.
    pub interval: u32,
    /// Seconds the code lives, 60 to 3600.
    pub expires_in: u32,
    /// What this server offers beyond the first version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

impl DeviceCode {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, DEVICE_CODE_SCHEMA)?;
        validate_text(&self.device_code, DEVICE_CODE_CHARS_MAX, "device_code", false)?;
        validate_text(&self.user_code, USER_CODE_CHARS_MAX, "user_code", false)?;
        validate_verification_uri(&self.verification_uri, "verification_uri")?;
        validate_verification_uri(&self.verification_uri_complete, "verification_uri_complete")?;
        if !(1..=60).contains(&self.interval) {
            return Err(Invalid::rule("interval", "must be 1 to 60 seconds"));
        }
        if !(60..=3600).contains(&self.expires_in) {
            return Err(Invalid::rule("expires_in", "must be 60 to 3600 seconds"));
        }
        Ok(())
    }
}

fn validate_verification_uri(uri: &str, field: &str) -> Result<(), Invalid> {
    let host = uri.strip_prefix("http://").and_then(|rest| rest.split(['/', ':', '?']).next());
    let loopback = matches!(host, Some("localhost" | "127.0.0.1"));
    if uri.len() <= 512 && (uri.starts_with("https://") || loopback) {
        return Ok(());
    }
    Err(Invalid::rule(field, "must be https (http on localhost and 127.0.0.1 only), at most 512 characters"))
}

impl fmt::Debug for DeviceCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DeviceCode")
            .field("device_code", &REDACTED)
            .field("user_code", &self.user_code)
            .field("verification_uri", &self.verification_uri)
            .field("interval", &self.interval)
            .field("expires_in", &self.expires_in)
            .finish_non_exhaustive()
    }
}

/// `POST /v1/device/token`: polled until approved, then enrolls the instance.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceTokenRequest {
    /// [`DEVICE_TOKEN_REQUEST_SCHEMA`].
    pub schema: String,
    /// Secret handle from [`DeviceCode`].
    pub device_code: String,
    /// Ed25519 public key, 32 bytes base64.
    pub instance_public_key: String,
    /// X25519 public key, 32 bytes base64.
    pub instance_kx_public_key: String,
    /// Shown to people, at most 64 characters.
    pub instance_label: String,
    /// A version of at most 32 characters.
    pub engine_version: String,
    /// The requester's claim.
    pub os: Os,
}

impl DeviceTokenRequest {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, DEVICE_TOKEN_REQUEST_SCHEMA)?;
        validate_text(&self.device_code, DEVICE_CODE_CHARS_MAX, "device_code", false)?;
        validate_base64_exact(&self.instance_public_key, 32, "instance_public_key")?;
        validate_base64_exact(&self.instance_kx_public_key, 32, "instance_kx_public_key")?;
        validate_text(&self.instance_label, INSTANCE_LABEL_CHARS_MAX, "instance_label", false)?;
        validate_engine_version(&self.engine_version)
    }
}

impl fmt::Debug for DeviceTokenRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DeviceTokenRequest")
            .field("device_code", &REDACTED)
            .field("instance_public_key", &self.instance_public_key)
            .field("instance_label", &self.instance_label)
            .field("engine_version", &self.engine_version)
            .field("os", &self.os)
            .finish_non_exhaustive()
    }
}

/// The organization an instance enrolls in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrgRef {
    /// Opaque id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// `personal` or `team`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The company a team belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub company: Option<CompanyRef>,
}

/// The company of a team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompanyRef {
    /// Display name.
    pub name: String,
}

/// Answer of an approved `POST /v1/device/token`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Enrollment {
    /// [`ENROLLMENT_SCHEMA`].
    pub schema: String,
    /// The new instance.
    pub instance_id: String,
    /// Its organization.
    pub org: OrgRef,
    /// Its first lease.
    pub lease: LeaseEnvelope,
    /// Verify this against the root key first, then the lease against it.
    pub keys: KeySet,
    /// The salt to fetch with `GET /v1/org/salt`.
    pub org_salt_id: String,
    /// Origin of the console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_url: Option<String>,
}

impl Enrollment {
    /// Check shapes; signatures are the caller's.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, ENROLLMENT_SCHEMA)?;
        validate_id(&self.instance_id, "instance_id")?;
        validate_id(&self.org.id, "org.id")?;
        validate_text(&self.org.name, 128, "org.name", false)?;
        validate_id(&self.org_salt_id, "org_salt_id")?;
        self.web_url.as_ref().map_or(Ok(()), |url| validate_origin(url, "web_url"))?;
        self.keys.validate()?;
        self.lease.validate()
    }
}

/// Check an origin: `https://host[:port]`, `http` on loopback only, nothing after the port.
pub fn validate_origin(value: &str, field: &str) -> Result<(), Invalid> {
    let refused = || Invalid::rule(field, "must be an https origin without path (http on loopback only)");
    let (scheme, authority) = value.split_once("://").ok_or_else(refused)?;
    let extra = |c: char| matches!(c, '/' | '?' | '#' | '@') || c.is_whitespace();
    if authority.is_empty() || value.len() > 256 || authority.contains(extra) {
        return Err(refused());
    }
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    match scheme {
        "https" => Ok(()),
        "http" if matches!(host, "localhost" | "127.0.0.1" | "[::1]") => Ok(()),
        _ => Err(refused()),
    }
}

/// `POST /v1/instances/{instance_id}/token`: a bearer for a signed assertion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceTokenRequest {
    /// [`TOKEN_REQUEST_SCHEMA`].
    pub schema: String,
    /// Unix seconds, within 300 of the service clock.
    pub iat: i64,
    /// 16 to 64 of `[A-Za-z0-9_-]`, good once.
    pub nonce: String,
    /// Ed25519, 64 bytes base64, over [`token_assertion_input`].
    pub assertion: String,
}

impl InstanceTokenRequest {
    /// Check every field; the clock and the nonce's first use are the caller's.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, TOKEN_REQUEST_SCHEMA)?;
        if self.iat <= 0 {
            return Err(Invalid::rule("iat", "must be positive unix seconds"));
        }
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !(16..=64).contains(&self.nonce.len()) || !self.nonce.bytes().all(inner) {
            return Err(Invalid::rule("nonce", "must be 16 to 64 of the characters A-Z a-z 0-9 _ -"));
        }
        validate_base64_exact(&self.assertion, 64, "assertion")
    }
}

/// The bytes an instance key signs for a bearer.
pub fn token_assertion_input(instance_id: &str, iat: i64, nonce: &str) -> Vec<u8> {
    format!("{TOKEN_ASSERTION_DOMAIN}{instance_id}\n{iat}\n{nonce}").into_bytes()
}

/// Answer of `POST /v1/instances/{instance_id}/token`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// [`ACCESS_TOKEN_SCHEMA`].
    pub schema: String,
    /// The bearer, secret.
    pub access_token: String,
    /// Seconds it lives, 1 to 3600.
    pub expires_in: u32,
}

impl AccessToken {
    /// Check every field.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate_schema(&self.schema, ACCESS_TOKEN_SCHEMA)?;
        validate_text(&self.access_token, ACCESS_TOKEN_CHARS_MAX, "access_token", false)?;
        if !(1..=ACCESS_TOKEN_S_MAX).contains(&self.expires_in) {
            return Err(Invalid::rule(
                "expires_in",
                format_args!("must be 1 to {ACCESS_TOKEN_S_MAX} seconds"),
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AccessToken")
            .field("access_token", &REDACTED)
            .field("expires_in", &self.expires_in)
            .finish_non_exhaustive()
    }
}

/// Answer of `GET /v1/whoami`: whose bearer this is (our own route).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoAmI {
    /// [`WHOAMI_SCHEMA`].
    pub schema: String,
    /// The instance.
    pub instance_id: String,
    /// Its organization.
    pub org_id: String,
    /// Its label.
    pub label: String,
    /// Wire names of its rights.
    pub rights: Vec<String>,
    /// The vaults it may use.
    pub vaults: Vec<WhoAmIVault>,
}

/// A vault in [`WhoAmI`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoAmIVault {
    /// 32 lowercase hexadecimal characters.
    pub vault_id: String,
    /// Display name.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_request() -> DeviceCodeRequest {
        DeviceCodeRequest {
            schema: DEVICE_CODE_REQUEST_SCHEMA.into(),
            client_id: ENGINE_CLIENT_ID.into(),
            engine_version: "3.12.0-rc.1+a".into(),
            os: Os::Linux,
            instance_label: None,
        }
    }

    #[test]
    fn code_requests_are_checked_field_by_field() {
        assert_eq!(code_request().validate(), Ok(()));
        let field = |request: DeviceCodeRequest| request.validate().unwrap_err().field;
        assert_eq!(field(DeviceCodeRequest { schema: "x".into(), ..code_request() }), "schema");
        assert_eq!(field(DeviceCodeRequest { client_id: "x".into(), ..code_request() }), "client_id");
        for version in ["", "v1", "1 2", &"1".repeat(33)] {
            assert_eq!(
                field(DeviceCodeRequest { engine_version: version.into(), ..code_request() }),
                "engine_version"
            );
        }
        for label in ["", "a\nb", "a\u{202e}b", &"x".repeat(65)] {
            assert_eq!(
                field(DeviceCodeRequest { instance_label: Some(label.into()), ..code_request() }),
                "instance_label"
            );
        }
    }

    #[test]
    fn token_requests_are_checked_field_by_field() {
        let good = InstanceTokenRequest {
            schema: TOKEN_REQUEST_SCHEMA.into(),
            iat: 1,
            nonce: "n-0123456789_abcd".into(),
            assertion: format!("{}==", "A".repeat(86)),
        };
        assert_eq!(good.validate(), Ok(()));
        let field = |request: InstanceTokenRequest| request.validate().unwrap_err().field;
        assert_eq!(field(InstanceTokenRequest { iat: 0, ..good.clone() }), "iat");
        for nonce in ["short", "0123456789abcde!", &"n".repeat(65)] {
            assert_eq!(field(InstanceTokenRequest { nonce: nonce.into(), ..good.clone() }), "nonce");
        }
        assert_eq!(field(InstanceTokenRequest { assertion: "AAAA".into(), ..good }), "assertion");
    }

    #[test]
    fn requests_refuse_unknown_fields_and_os_families() {
        let mut value = serde_json::to_value(code_request()).unwrap();
        value["os"] = "plan9".into();
        assert!(serde_json::from_value::<DeviceCodeRequest>(value.clone()).is_err());
        value["os"] = "other".into();
        assert!(serde_json::from_value::<DeviceCodeRequest>(value.clone()).is_ok());
        value["extra"] = true.into();
        assert!(serde_json::from_value::<DeviceCodeRequest>(value).is_err());
    }

    #[test]
    fn the_assertion_is_the_documented_text() {
        let input = token_assertion_input("inst_1", 1_792_500_000, "n0nce-n0nce-n0nce");
        assert_eq!(input, b"leanctx.hive.token.v1\ninst_1\n1792500000\nn0nce-n0nce-n0nce");
    }

    #[test]
    fn origins_are_https_or_loopback_and_nothing_more() {
        for good in [
            "https://a.example",
            "https://a.example:8443",
            "http://localhost:1",
            "http://[::1]:80",
            "http://127.0.0.1",
        ] {
            assert!(validate_origin(good, "u").is_ok(), "{good}");
        }
        for bad in [
            "",
            "a.example",
            "https://",
            "http://a.example",
            "https://a/b",
            "https://u@a",
            "ftp://a",
            "https://a b",
        ] {
            assert!(validate_origin(bad, "u").is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_stay_out_of_debug() {
        let token =
            AccessToken { schema: ACCESS_TOKEN_SCHEMA.into(), access_token: "s3cret".into(), expires_in: 1 };
        let request = DeviceTokenRequest {
            schema: DEVICE_TOKEN_REQUEST_SCHEMA.into(),
            device_code: "s3cret".into(),
            instance_public_key: String::new(),
            instance_kx_public_key: String::new(),
            instance_label: String::new(),
            engine_version: String::new(),
            os: Os::Other,
        };
        let code = DeviceCode {
            schema: DEVICE_CODE_SCHEMA.into(),
            device_code: "s3cret".into(),
            user_code: "WDJB-MJHT".into(),
            verification_uri: "https://a.example/device".into(),
            verification_uri_complete: "https://a.example/device?user_code=WDJB-MJHT".into(),
            interval: 5,
            expires_in: 900,
            features: Vec::new(),
        };
        assert_eq!((token.validate(), code.validate()), (Ok(()), Ok(())));
        assert!(!format!("{token:?} {request:?} {code:?}").contains("s3cret"));
    }
}

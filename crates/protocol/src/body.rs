//! HTTP bodies: the same strict reading as frames get.

use crate::de;
use crate::error::Detail;
use crate::json::{self, Limits};
use serde::Deserialize;

/// Reads a request body within `limits`: strict JSON first, then exactly one typed shape, whose own rules the caller checks.
/// The refusal names the field at fault.
pub fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], limits: Limits) -> Result<T, Detail> {
    let scan = json::scan(bytes, limits)?;
    serde_json::from_str(scan.text).map_err(|error| de::invalid(scan.text, &error).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enroll::DeviceCodeRequest;

    #[test]
    fn a_body_is_refused_by_field() {
        let read = |text: &str| read::<DeviceCodeRequest>(text.as_bytes(), Limits::HTTP_BODY).unwrap_err();
        assert_eq!(read(r#"{"schema":"x"}"#).field.as_deref(), Some("client_id"));
        let twice = r#"{"schema":"x","schema":"y"}"#;
        assert!(read(twice).message.contains("twice"));
    }
}

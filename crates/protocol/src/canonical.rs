//! The one byte form of JSON under every signature: keys sorted at every depth, no whitespace, integers only.

use serde_json::Value;

use crate::text::Invalid;

/// Domain of a lease signature (service signing key).
pub const LEASE_DOMAIN: &str = "leanctx.hive.lease.v1\n";
/// Domain of a key-set signature (root key).
pub const KEYSET_DOMAIN: &str = "leanctx.hive.keyset.v1\n";
/// Domain of a token assertion (instance key).
pub const TOKEN_ASSERTION_DOMAIN: &str = "leanctx.hive.token.v1\n";
/// Domain of the signature over pending sealed grants (service signing key).
pub const SEALED_PENDING_DOMAIN: &str = "leanctx.hive.sealed-pending.v1\n";
/// Domain of a repository's stable identity digest.
pub const REPO_IDENTITY_DOMAIN: &str = "leanctx.project-identity.v1\n";

/// UTF-8 bytes of `value` with object keys sorted by their bytes, strings escaped as little as JSON allows, integers in
/// decimal. Numbers that are no integers are refused, because two implementations write them differently.
pub fn canonical_json(value: &Value) -> Result<Vec<u8>, Invalid> {
    let mut out = Vec::new();
    write_value(value, &mut out)?;
    Ok(out)
}

/// What an Ed25519 key signs: the domain, then the canonical form.
pub fn signing_input(domain: &str, value: &Value) -> Result<Vec<u8>, Invalid> {
    let mut out = domain.as_bytes().to_vec();
    write_value(value, &mut out)?;
    Ok(out)
}

/// The same for an object that carries its own `signature`: that top-level field is left out.
pub fn signing_input_without_signature(domain: &str, value: &Value) -> Result<Vec<u8>, Invalid> {
    let Value::Object(fields) = value else {
        return Err(Invalid::rule("signature", "must be a field of the object it signs"));
    };
    let mut out = domain.as_bytes().to_vec();
    write_object(fields.iter().filter(|(key, _)| *key != "signature"), &mut out)?;
    Ok(out)
}

fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<(), Invalid> {
    match value {
        Value::Object(fields) => write_object(fields.iter(), out),
        Value::Array(values) => {
            out.push(b'[');
            for (index, value) in values.iter().enumerate() {
                separate(index, out);
                write_value(value, out)?;
            }
            out.push(b']');
            Ok(())
        }
        Value::Number(number) if !number.is_i64() && !number.is_u64() => {
            Err(Invalid::new("number", "signed JSON carries whole numbers only"))
        }
        scalar => write_scalar(scalar, out),
    }
}

fn write_object<'a>(
    fields: impl Iterator<Item = (&'a String, &'a Value)>,
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    // Sorted here and not by trusting the map: another crate may turn on insertion order for the whole build.
    let mut fields: Vec<_> = fields.collect();
    fields.sort_unstable_by_key(|(key, _)| key.as_str());
    out.push(b'{');
    for (index, (key, value)) in fields.into_iter().enumerate() {
        separate(index, out);
        write_scalar(key, out)?;
        out.push(b':');
        write_value(value, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn separate(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

fn write_scalar(scalar: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) -> Result<(), Invalid> {
    serde_json::to_writer(out, scalar).map_err(|error| Invalid::new("json", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn text(value: &Value) -> String {
        String::from_utf8(canonical_json(value).unwrap()).unwrap()
    }

    #[test]
    fn keys_are_sorted_at_every_depth_and_text_stays_raw() {
        let value = json!({"b": 1, "a": {"z": [{"y": 2, "x": null}], "c": "ü\n\u{1}/"}, "B": true, "é": -3});
        assert_eq!(
            text(&value),
            "{\"B\":true,\"a\":{\"c\":\"ü\\n\\u0001/\",\"z\":[{\"x\":null,\"y\":2}]},\"b\":1,\"é\":-3}"
        );
        assert_eq!(
            text(&json!([{}, [], u64::MAX, i64::MIN])),
            "[{},[],18446744073709551615,-9223372036854775808]"
        );
    }

    #[test]
    fn fractions_are_refused_anywhere() {
        for value in [json!(1.5), json!({"a": [1e300]}), json!([0.0])] {
            assert!(canonical_json(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn only_the_top_signature_is_left_out() {
        let value = json!({"signature": "x", "keys": [{"signature": "kept"}]});
        let input = signing_input_without_signature("d\n", &value).unwrap();
        assert_eq!(input, b"d\n{\"keys\":[{\"signature\":\"kept\"}]}");
        assert!(signing_input_without_signature("d\n", &json!([])).is_err());
    }

    proptest! {
        #[test]
        fn the_canonical_form_reads_back_and_is_stable(pairs in prop::collection::hash_map("\\PC{0,6}", any::<i64>(), 0..12)) {
            let value: Value = pairs.into_iter().map(|(key, number)| (key, Value::from(number))).collect::<serde_json::Map<_, _>>().into();
            let bytes = canonical_json(&value).unwrap();
            let read: Value = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(&read, &value);
            prop_assert_eq!(canonical_json(&read).unwrap(), bytes);
        }
    }
}

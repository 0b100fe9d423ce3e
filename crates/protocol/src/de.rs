//! Typed reads of tagged texts, and serde's errors turned into ours.
//!
//! A frame is a struct plus a tag. serde's own tagged enums buffer everything into a generic tree first; here the tag is
//! known from the scan, and a thin layer under the struct's derived code takes the tag out of the key stream.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::json::path_at;
use crate::text::{Invalid, validate_id};

/// What happens to a top-level field the struct does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    /// The sender made a mistake: say so. For what clients send.
    Refuse,
    /// A newer peer may say more. For what servers send.
    Skip,
}

/// Read the fields beside the tag `t` as `T`, which must derive with `deny_unknown_fields`.
pub(crate) fn read_tagged<'de, T: Deserialize<'de>>(
    text: &'de str,
    unknown: UnknownFields,
) -> Result<T, Invalid> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = T::deserialize(Untagged { inner: &mut json, unknown });
    read.map_err(|error| invalid(text, &error))
}

struct Untagged<D> {
    inner: D,
    unknown: UnknownFields,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Untagged<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_struct(name, fields, Filter { inner: visitor, fields, unknown: self.unknown })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Filter<T> {
    inner: T,
    fields: &'static [&'static str],
    unknown: UnknownFields,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Filter<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Filter { inner: map, fields: self.fields, unknown: self.unknown })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Filter<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(Key(key)) = self.inner.next_key()? {
            let passes =
                key != "t" && (self.unknown == UnknownFields::Refuse || self.fields.contains(&&*key));
            if !passes {
                self.inner.next_value::<IgnoredAny>()?;
                continue;
            }
            return match key {
                Cow::Borrowed(key) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
                Cow::Owned(key) => seed.deserialize(serde::de::value::StringDeserializer::new(key)).map(Some),
            };
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// For `deserialize_with`: an optional text that borrows when it can. serde's own borrowing stops at `Option`.
pub(crate) fn borrowed_option<'de: 'a, 'a, D>(deserializer: D) -> Result<Option<Cow<'a, str>>, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(Option::<Key<'a>>::deserialize(deserializer)?.map(|key| key.0))
}

/// For `deserialize_with`: a raw value that borrows its text.
pub(crate) fn borrowed_raw<'de: 'a, 'a, D>(
    deserializer: D,
) -> Result<Cow<'a, serde_json::value::RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    <&'a serde_json::value::RawValue>::deserialize(deserializer).map(Cow::Borrowed)
}

/// Gives a type whose fields depend on its `kind` a `Deserialize` that reads straight into the text: the flat form first,
/// then `TryFrom`. serde's own internally tagged enums buffer the object.
macro_rules! deserialize_by_kind {
    ($name:ident, $flat:ident, $expecting:literal) => {
        impl<'de: 'a, 'a> serde::Deserialize<'de> for $name<'a> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct KindVisitor<'a>(std::marker::PhantomData<&'a ()>);
                impl<'de: 'a, 'a> serde::de::Visitor<'de> for KindVisitor<'a> {
                    type Value = $name<'a>;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        formatter.write_str($expecting)
                    }

                    // Inside visit_map, so that an error's position is still this object's.
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$name<'a>, A::Error> {
                        $flat::deserialize(serde::de::value::MapAccessDeserializer::new(map))?.typed()
                    }
                }
                deserializer.deserialize_map(KindVisitor(std::marker::PhantomData))
            }
        }
    };
}

pub(crate) use deserialize_by_kind;

/// serde's error about a scanned text as one of ours: the field it is about, and the rule in our words.
///
/// The refused value is never repeated: it may be a secret sent in the wrong place.
pub(crate) fn invalid(text: &str, error: &serde_json::Error) -> Invalid {
    let said = error.to_string();
    let said = said.rsplit_once(" at line ").map_or(&*said, |(said, _)| said);
    let path = path_at(text, consumed(text, error));
    let here = path.iter().rfind(|name| validate_id(name, "field").is_ok()).map_or("body", String::as_str);
    if let Some(name) = quoted(said, "missing field `") {
        return Invalid::rule(name, "is required");
    }
    if let Some(name) = quoted(said, "unknown field `") {
        let name = if validate_id(name, "field").is_ok() { name } else { here };
        return Invalid::rule(name, "is not known here; remove it");
    }
    // What serde_json says when an enum's name is no string; the text is known to be JSON.
    if said == "expected value" {
        return Invalid::rule(here, "must be a string, one of the known names");
    }
    if let Some((_, expected)) = said.split_once(", expected ") {
        return Invalid::rule(here, format_args!("must be {}", plain_words(expected)));
    }
    Invalid::new(here, format!("{here}: {said}"))
}

/// Bytes read when the error arose, from its line and column.
fn consumed(text: &str, error: &serde_json::Error) -> usize {
    let before = error.line().saturating_sub(1);
    let line_start: usize = text.split_inclusive('\n').take(before).map(str::len).sum();
    line_start + error.column()
}

fn quoted<'a>(said: &'a str, start: &str) -> Option<&'a str> {
    said.strip_prefix(start)?.split('`').next()
}

fn plain_words(expected: &str) -> String {
    let words = match expected {
        "u8" | "u16" | "u32" | "u64" => {
            return format!("a whole number, not negative, that fits {} bits", &expected[1..]);
        }
        "i32" | "i64" => "a whole number",
        other if other.starts_with("struct ") || other == "a map" => "an object",
        other if other.starts_with("a string") || other.starts_with("a borrowed") => "a string",
        other => other,
    };
    words.replace('`', "")
}

/// An error raised inside a hand-written `visit_map`, worded so that [`invalid`] finds the missing field.
pub(crate) fn missing<E: Error>(field: &'static str) -> E {
    E::missing_field(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(default, borrow, deserialize_with = "borrowed_option")]
        to: Option<Cow<'a, str>>,
        #[serde(default)]
        count: u32,
    }

    fn read(text: &str, unknown: UnknownFields) -> Result<Sample<'_>, Invalid> {
        read_tagged(text, unknown)
    }

    #[test]
    fn the_tag_is_taken_out_and_the_rest_borrows() {
        let sample = read(r#"{"name":"a","t":"x","to":"b"}"#, UnknownFields::Refuse).unwrap();
        assert!(matches!(
            sample,
            Sample { name: Cow::Borrowed("a"), to: Some(Cow::Borrowed("b")), count: 0 }
        ));
        let escaped = read(r#"{"\u0074":"x","n\u0061me":"\u0061"}"#, UnknownFields::Refuse).unwrap();
        assert_eq!(escaped.name, "a");
    }

    #[test]
    fn unknown_fields_are_refused_or_skipped_as_asked() {
        let text = r#"{"name":"a","more":{"deep":[1]},"count":2}"#;
        assert_eq!(read(text, UnknownFields::Refuse).unwrap_err().field, "more");
        assert_eq!(read(text, UnknownFields::Skip).unwrap().count, 2);
    }

    #[test]
    fn errors_name_the_field_and_never_the_value() {
        for (text, field) in [
            (r#"{"name":1}"#, "name"),
            (r#"{"name":{"x":1}}"#, "name"),
            (r#"{"name":"a","to":17}"#, "to"),
            (r#"{"name":"a","count":"s3cret"}"#, "count"),
            (r#"{"name":"a","count":-1}"#, "count"),
            ("{\n\"name\":\"a\",\n\"count\":1.5\n}", "count"),
            (r#"{"to":"b"}"#, "name"),
            (r#"{"name":"a","s3cret`<":1}"#, "s3cret"),
            ("[]", "body"),
            (r#""s3cret""#, "body"),
        ] {
            let error = read(text, UnknownFields::Refuse).unwrap_err();
            assert_eq!(error.field, field, "{text}");
            assert!(error.field == "s3cret" || !error.message.contains("s3cret"), "{}", error.message);
        }
    }
}

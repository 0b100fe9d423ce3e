//! Awkward variants of a JSON value: each member replaced by each of a list of values that parsers stumble over, taken out,
//! and given a neighbour nobody knows.

use serde_json::{Map, Value, json};

/// Calls `see` with each variant of a value and the place that was changed; returns how many there were.
pub fn each(value: &Value, see: &mut dyn FnMut(&Value, &str)) -> usize {
    let awkward = awkward();
    let mut places = Vec::new();
    places_of(value, String::new(), &mut places);
    let mut count = 0;
    for place in &places {
        for replacement in &awkward {
            let mut variant = value.clone();
            *variant.pointer_mut(place).expect("a place") = replacement.clone();
            see(&variant, place);
            count += 1;
        }
        let mut variant = value.clone();
        let (parent, member) = place.rsplit_once('/').expect("a pointer");
        if let Some(object) = variant.pointer_mut(parent).and_then(Value::as_object_mut) {
            object.remove(member);
            see(&variant, place);
            object_with_stranger(&mut variant, parent);
            see(&variant, place);
            count += 2;
        }
    }
    count
}

fn object_with_stranger(variant: &mut Value, place: &str) {
    let object: Option<&mut Map<String, Value>> = variant.pointer_mut(place).and_then(Value::as_object_mut);
    object.expect("an object").insert("stranger".to_owned(), json!(1));
}

fn places_of(value: &Value, place: String, places: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, child)| (name.replace('~', "~0").replace('/', "~1"), child)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(at, child)| (at.to_string(), child)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        places_of(child, format!("{place}/{name}"), places);
    }
    if !place.is_empty() {
        places.push(place);
    }
}

/// Texts that break one grammar or another, or just do not.
const TEXTS: &[&str] = &[
    "",
    " ",
    "\n",
    "a",
    "A.b_c:d-e",
    "-a",
    ".a",
    "_a",
    "a b",
    "a/b",
    "ä",
    "a\u{0}",
    "a\u{7f}",
    "a\u{85}b",
    "a\tb",
    "a\r\nb",
    "a\u{200b}b",
    "a\u{200d}b",
    "a\u{202e}b",
    "\u{feff}",
    "a\u{fe0f}",
    "\u{2028}",
    "a\u{e0041}",
    "a\u{3164}",
    "question",
    "answer",
    "finding",
    "unknown",
    "Question",
    "org",
    "swarm",
    "active",
    "closed",
    "low",
    "private",
    "delivered",
    "read",
    "2026-10-21T12:00:00Z",
    "2026-10-21T12:00:00+00:00",
    "2026-10-21T12:00:00.5Z",
    "2026-02-30T12:00:00Z",
    "2026-10-21",
    "0123456",
    "abcdef",
    "ABCDEF0",
    "AAAA",
    "AA==",
    "A===",
    "====",
    "swarm:s-1",
    "org:o/vault:x/g",
    "task",
    "fact",
    "org:o/vault:3f6c1e9a0b7d4c2e8f5a1b6c9d0e7f42/g",
    "org:o/vault:3F6C1E9A0B7D4C2E8F5A1B6C9D0E7F42/g",
    "3f6c1e9a0b7d4c2e8f5a1b6c9d0e7f42",
    "xchacha20poly1305",
    "leanctx.hive.sealed-message/v1",
    "a|b",
    "3.12.0",
    "linux",
];

fn awkward() -> Vec<Value> {
    let mut values: Vec<Value> = TEXTS.iter().copied().map(Value::from).collect();
    for length in [16, 24, 32, 40, 63, 64, 65, 66, 80, 81, 128, 129, 256, 257, 500, 501, 512, 513, 4000, 4001]
    {
        values.push("x".repeat(length).into());
        values.push("é".repeat(length).into());
    }
    values.extend([
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(1e30),
        json!(u64::MAX),
        json!(i64::MIN),
    ]);
    values.extend([json!(900_000), json!(900_001), json!([]), json!({}), json!([1]), json!({"a": 1})]);
    values.extend([
        json!([{"kind": "task", "number": 0}]),
        json!([{"kind": "commit", "id": "abcdef"}]),
        json!([{"kind": "x"}]),
    ]);
    values.push(json!({"text": "hi", "references": [{"kind": "task", "number": 1}]}));
    values.push(json!({"kind": "swarm", "swarm_id": "s-1"}));
    values.push(Value::Array(vec![json!({"kind": "fact", "id": "f"}); 16]));
    values.push(Value::Array(vec![json!({"kind": "fact", "id": "f"}); 17]));
    values
}

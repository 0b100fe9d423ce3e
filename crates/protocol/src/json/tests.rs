use super::*;
use proptest::prelude::*;

fn kind(text: &str) -> Option<ErrorKind> {
    scan(text.as_bytes(), Limits::FRAME).err().map(|error| error.kind)
}

#[test]
fn values_of_every_kind_are_accepted() {
    let accepted = [
        "null",
        " true ",
        "false",
        "0",
        "-0",
        "-12.50e+3",
        "1E-400",
        "\"\"",
        "\"\\u00e9\\ud83d\\ude00\\n\\/\"",
        "[]",
        "[ ]",
        "{}",
        "{ }\n",
        "[1,[2,{\"a\":[]}],\"x\"]",
        "{\"a\":{\"a\":1},\"b\":{\"a\":2}}",
        "[{\"a\":1},{\"a\":1}]",
        "\"\u{7f}\u{80}ü\u{10ffff}\"",
    ];
    for text in accepted {
        assert_eq!(kind(text), None, "{text}");
    }
}

#[test]
fn faults_are_named() {
    use ErrorKind::{
        BadEscape, ControlCharacter, DuplicateKey, Incomplete, LoneSurrogate, NumberRange, TrailingBytes,
        Unexpected,
    };
    let refused = [
        ("", Incomplete),
        ("   ", Incomplete),
        ("{", Incomplete),
        ("{\"a\"", Incomplete),
        ("{\"a\":", Incomplete),
        ("[1,", Incomplete),
        ("\"abc", Incomplete),
        ("\"\\", Incomplete),
        ("\"\\u12", Incomplete),
        ("tru", Incomplete),
        ("-", Incomplete),
        ("1.", Incomplete),
        ("1e+", Incomplete),
        ("[1,]", Unexpected),
        ("{\"a\":1,}", Unexpected),
        ("{a:1}", Unexpected),
        ("{\"a\" 1}", Unexpected),
        ("[1}", Unexpected),
        ("{\"a\":1]", Unexpected),
        ("trux", Unexpected),
        ("+1", Unexpected),
        (".5", Unexpected),
        ("NaN", Unexpected),
        ("'a'", Unexpected),
        ("\u{feff}{}", Unexpected),
        ("/* */1", Unexpected),
        ("01", TrailingBytes),
        ("1 2", TrailingBytes),
        ("{}{}", TrailingBytes),
        ("{}\u{0}", TrailingBytes),
        ("\"a\nb\"", ControlCharacter),
        ("\"a\u{0}b\"", ControlCharacter),
        ("\"\\x41\"", BadEscape),
        ("\"\\u12g4\"", BadEscape),
        ("\"\\u+123\"", BadEscape),
        ("\"\\ud800\"", LoneSurrogate),
        ("\"\\ud800\\n\"", LoneSurrogate),
        ("\"\\ud800\\u0041\"", LoneSurrogate),
        ("\"\\udc00\\ud800\"", LoneSurrogate),
        ("1e400", NumberRange),
        ("-1e999999999999", NumberRange),
        ("{\"a\":1,\"a\":2}", DuplicateKey),
        ("{\"x\":{\"a\":1,\"b\":2,\"\\u0061\":3}}", DuplicateKey),
        ("[{\"\\n\":1,\"\\u000a\":2}]", DuplicateKey),
    ];
    for (text, expected) in refused {
        assert_eq!(kind(text), Some(expected), "{text}");
    }
    assert_eq!(kind(&"9".repeat(400)), Some(NumberRange));
    assert_eq!(kind(&"9".repeat(300)), None);
}

#[test]
fn bytes_that_are_not_utf8_are_refused_where_they_stand() {
    let error = scan(b"\"ab\xff\"", Limits::FRAME).unwrap_err();
    assert_eq!((error.offset, error.kind), (3, ErrorKind::NotUtf8));
    assert!(error.to_string().contains("byte 3"));
}

#[test]
fn size_and_depth_are_bounded_exactly() {
    let limits = Limits { bytes_max: 4, depth_max: 2 };
    assert!(scan(b"[[]]", limits).is_ok());
    assert_eq!(scan(b"[[] ]", limits).unwrap_err().kind, ErrorKind::TooLarge);
    let limits = Limits { bytes_max: 100, depth_max: 2 };
    assert_eq!(scan(b"[[[]]]", limits).unwrap_err().kind, ErrorKind::TooDeep);
    assert_eq!(scan(b"[]", Limits { depth_max: 0, ..limits }).unwrap_err().kind, ErrorKind::TooDeep);
    let unlimited = Limits { bytes_max: usize::MAX, depth_max: usize::MAX };
    for deep in ["[".repeat(10_000), "{\"a\":".repeat(10_000)] {
        assert_eq!(scan(deep.as_bytes(), unlimited).unwrap_err().kind, ErrorKind::TooDeep);
    }
}

#[test]
fn top_level_strings_are_found_and_borrowed() {
    let text = r#"{"x":{"t":"no"},"t":"publish","client_msg_id":"m-1","schema":"s/v1"}"#;
    let found = scan(text.as_bytes(), Limits::FRAME).unwrap();
    assert!(found.is_object && matches!(found.t, Some(Cow::Borrowed("publish"))));
    assert_eq!((found.schema.as_deref(), found.client_msg_id.as_deref()), (Some("s/v1"), Some("m-1")));
}

#[test]
fn escapes_do_not_hide_a_tag() {
    let found = scan(br#"{"\u0074":"pi\u006eg"}"#, Limits::FRAME).unwrap();
    assert_eq!(found.t.as_deref(), Some("ping"));
}

#[test]
fn only_strings_of_the_top_object_count_as_tags() {
    for text in
        [r#"{"t":5}"#, r#"{"t":["a"]}"#, r#"{"t":{"t":"a"}}"#, r#"[{"t":"a"}]"#, r#""t""#, r#"["t","a"]"#]
    {
        assert_eq!(scan(text.as_bytes(), Limits::FRAME).unwrap().t, None, "{text}");
    }
}

#[test]
fn large_objects_are_checked_without_quadratic_work() {
    let keys: Vec<String> = (0..60_000).map(|n| format!("\"k{n}\":0")).collect();
    let unique = format!("{{{}}}", keys.join(","));
    let limits = Limits { bytes_max: usize::MAX, depth_max: 4 };
    assert!(scan(unique.as_bytes(), limits).is_ok());
    let repeated = format!("{{{},\"\\u006b17\":1}}", keys.join(","));
    let error = scan(repeated.as_bytes(), limits).unwrap_err();
    assert_eq!((error.kind, error.offset), (ErrorKind::DuplicateKey, repeated.len() - 12));
}

#[test]
fn keys_of_many_open_objects_are_kept_apart() {
    let inner = r#"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"z":"#;
    let nested = format!("{}0{}", inner.repeat(20), "}".repeat(20));
    assert_eq!(kind(&nested), None);
    let broken = format!("{}0,\"a\":1{}", inner.repeat(20), "}".repeat(20));
    assert_eq!(kind(&broken), Some(ErrorKind::DuplicateKey));
}

#[test]
fn parse_names_the_field_at_fault() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[expect(dead_code, reason = "only the refusal is looked at")]
        count: u32,
    }
    let field = |text: &str| parse::<Body>(text.as_bytes(), Limits::HTTP_BODY).unwrap_err().field;
    assert!(parse::<Body>(b"{\"count\":3}", Limits::HTTP_BODY).is_ok());
    assert_eq!(field("{\"count\":\"3\"}"), "count");
    assert_eq!(field("{\"count\":-1}"), "count");
    assert_eq!(field("{}"), "count");
    assert_eq!(field("{\"count\":1,\"extra\":2}"), "extra");
    assert_eq!(field("{\"count\":1"), "body");
    assert_eq!(field("[]"), "body");
}

#[test]
fn paths_follow_keys_only() {
    let text = r#"{"a":[{"b":1,"c\n":{"d":"x"}}],"e":2}"#;
    let path = |needle: &str| path_at(text, text.find(needle).unwrap() + needle.len());
    assert_eq!(path("\"d\":\"x\""), ["a", "c\n", "d"]);
    assert_eq!(path("\"b\":1"), ["a", "b"]);
    assert_eq!(path("2"), ["e"]);
    assert!(path_at(text, text.len()).is_empty() && path_at("\"\\", 2).is_empty());
}

/// JSON-like text: real values, then a few bytes changed, so that both verdicts occur.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e300..1e300).prop_map(|n: f64| n.into()),
        "\\PC{0,12}|[\\x00-\\x1f\"\\\\/]{0,6}".prop_map(Into::into),
    ];
    let value = leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::vec(("[a-c\"\\\\ü]{0,2}", inner), 0..6)
                .prop_map(|pairs| pairs.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    });
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    (value, edits, any::<bool>()).prop_map(|(value, edits, pretty)| {
        let to_text = if pretty { serde_json::to_vec_pretty } else { serde_json::to_vec };
        let mut text = to_text(&value).unwrap();
        for (at, byte) in edits {
            let at = at.index(text.len());
            text[at] = byte;
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn agrees_with_serde_json(text in nearly_json()) {
        let ours = scan(&text, Limits::HTTP_BODY);
        let theirs = serde_json::from_slice::<serde_json::Value>(&text);
        match ours {
            Ok(_) => prop_assert!(theirs.is_ok(), "accepted what serde refuses: {theirs:?}"),
            Err(error) if theirs.is_ok() => prop_assert_eq!(error.kind, ErrorKind::DuplicateKey),
            Err(error) => prop_assert!(error.offset <= text.len()),
        }
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = scan(&bytes, Limits::FRAME);
        let text = String::from_utf8_lossy(&bytes);
        for end in 0..=text.len() {
            let _ = path_at(&text, end);
        }
    }

    #[test]
    fn unescaping_agrees_with_serde_json(text in "(\\PC|[\\x00-\\x1f\"\\\\]|\u{10000}){0,20}") {
        let units: Vec<_> = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
        let ascii = units.concat();
        prop_assert_eq!(unescape(&ascii), text.clone());
        let escaped = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(unescape(&escaped[1..escaped.len() - 1]), text);
    }

    #[test]
    fn plain_runs_end_at_the_first_special_byte(bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0usize..40) {
        let at = at.min(bytes.len());
        let naive = (at..bytes.len()).find(|&i| bytes[i] < 0x20 || bytes[i] == b'"' || bytes[i] == b'\\');
        prop_assert_eq!(skip_plain(&bytes, at), naive.unwrap_or(bytes.len()));
    }
}

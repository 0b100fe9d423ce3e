use super::*;
use proptest::prelude::*;

const CHANNEL: &str = "org:o/vault:3f6c1e9a0b7d4c2e8f5a1b6c9d0e7f42/general";

fn read(text: &str) -> Result<ClientFrame<'_>, Refused> {
    parse(&*Box::leak(text.replace("CHANNEL", CHANNEL).into_boxed_str()), &Limits::FRAME)
}

fn refused_field(text: &str) -> Option<String> {
    let refused = read(text).expect_err(text);
    assert_eq!(refused.error.code, Code::InvalidRequest, "{text}");
    refused.error.field.clone()
}

#[test]
fn a_message_borrows_from_its_frame() {
    let text = r#"{"t":"message","client_msg_id":"m-1","network":{"kind":"org","channel":"CHANNEL"},
        "type":"question","from":"ada","to":"ben","body":{"text":"Which budget?"}}"#;
    let ClientFrame::Message(message) = read(text).unwrap() else { panic!("{text}") };
    assert!(matches!(message.client_msg_id, Cow::Borrowed("m-1")));
    assert!(matches!(message.to, Some(Cow::Borrowed("ben"))));
    let text = message.body.map(|body| body.text);
    assert!(matches!(text, Some(Cow::Borrowed("Which budget?"))));
}

#[test]
fn a_publish_keeps_its_body_as_written() {
    let text = r#"{"t":"publish","client_msg_id":"m","channel":"CHANNEL","from":"a","kind":"k",
        "priority":"low","privacy":"team","body":{"z": 1,  "a":[1e3]}}"#;
    let ClientFrame::Publish(publish) = read(text).unwrap() else { panic!("{text}") };
    assert_eq!(publish.body.get(), r#"{"z": 1,  "a":[1e3]}"#);
}

#[test]
fn faults_name_their_field() {
    let long_role = format!(
        r#"{{"t":"hello","instance_id":"i","agents":[{{"agent_id":"a","role":"{}","vault_id":"v"}}]}}"#,
        "r".repeat(65)
    );
    for (text, field) in [
        (r#"{"nonce":1}"#, "t"),
        (r#"{"t":7}"#, "t"),
        (r#"["t"]"#, "t"),
        (r#"{"t":"ping"}"#, "nonce"),
        (r#"{"t":"ping","nonce":-1}"#, "nonce"),
        (r#"{"t":"ping","nonce":18446744073709551616}"#, "nonce"),
        (r#"{"t":"ping","nonce":1,"extra":2}"#, "extra"),
        (r#"{"t":"ack","channel":"general","seq":1}"#, "channel"),
        (r#"{"t":"hello","agents":[]}"#, "instance_id"),
        (r#"{"t":"hello","instance_id":"i"}"#, "agents"),
        (
            r#"{"t":"hello","instance_id":"i","agents":[{"agent_id":"a b","role":"r","vault_id":"v"}]}"#,
            "agent_id",
        ),
        (
            r#"{"t":"hello","instance_id":"i","agents":[{"agent_id":"a","role":"r","vault_id":"v"}]}"#,
            "vault_id",
        ),
        (r#"{"t":"hello","instance_id":"i","agents":[],"cursors":{"x":1}}"#, "cursors"),
        (r#"{"t":"hello","instance_id":"i","agents":[],"cursors":{"CHANNEL":-1}}"#, "cursors"),
        (r#"{"t":"hello","instance_id":"i","agents":[],"epoch":"e/1"}"#, "epoch"),
        (r#"{"t":"presence","agent_id":"a","state":"asleep"}"#, "state"),
        (r#"{"t":"presence","agent_id":"a","state":"idle","profile":{"roles":["b","a"]}}"#, "roles"),
        (r#"{"t":"message.receipt","gid":"g","by":"a","state":"burnt"}"#, "state"),
        (r#"{"t":"handoff.reject","handoff_id":"h","by":"a","reason":""}"#, "reason"),
        (
            r#"{"t":"handoff.offer","handoff_id":"h","channel":"CHANNEL","from":"a","to":"b","bundle_ref":"r","deadline":"soon"}"#,
            "deadline",
        ),
        (
            r#"{"t":"message","client_msg_id":"m","network":{"kind":"org"},"type":"offer","from":"a"}"#,
            "channel",
        ),
        (
            r#"{"t":"message","client_msg_id":"m","network":{"kind":"moon"},"type":"offer","from":"a"}"#,
            "kind",
        ),
        (
            r#"{"t":"message","client_msg_id":"m","network":{"kind":"org","channel":"CHANNEL"},"from":"a"}"#,
            "type",
        ),
        (
            r#"{"t":"message","client_msg_id":"m","network":{"kind":"org","channel":"CHANNEL"},"type":"order","from":"a"}"#,
            "type",
        ),
        (
            r#"{"t":"message","client_msg_id":"m","network":{"kind":"org","channel":"CHANNEL"},"type":5,"from":"a"}"#,
            "type",
        ),
        (
            r#"{"t":"message","client_msg_id":"m","network":{"kind":"org","channel":"CHANNEL"},"type":"offer","from":"a","body":{"text":5}}"#,
            "text",
        ),
        (
            r#"{"t":"message","client_msg_id":"m","network":{"kind":0,"channel":"CHANNEL"},"type":"offer","from":"a"}"#,
            "kind",
        ),
        (r#"{"t":"deliver"}"#, "t"),
        (r#"{"t":"message.stored"}"#, "t"),
    ] {
        assert_eq!(refused_field(text).as_deref(), Some(field), "{text}");
    }
    assert_eq!(refused_field(&long_role).as_deref(), Some("role"));
}

#[test]
fn refusals_carry_the_id_only_when_it_is_well_formed() {
    let id = |text: &str| read(text).unwrap_err().client_msg_id;
    assert_eq!(id(r#"{"t":"publish","client_msg_id":"m-1","bad":1}"#).as_deref(), Some("m-1"));
    assert_eq!(id(r#"{"t":"publish","client_msg_id":"m 1","bad":1}"#), None);
    assert_eq!(id(r#"{"client_msg_id":"m-1"}"#).as_deref(), Some("m-1"));
    let frame = ErrorFrame::from(read(r#"{"t":"publish","client_msg_id":"m-1"}"#).unwrap_err());
    assert_eq!(frame.client_msg_id.as_deref(), Some("m-1"));
    assert_eq!(id(r#"{"t":"publish","client_msg_id":"m-1","client_msg_id":"m-2"}"#), None);
}

#[test]
fn unknown_types_are_not_errors() {
    for text in [r#"{"t":"future.thing","x":[1]}"#, r#"{"t":""}"#, r#"{"t":"Hello"}"#] {
        assert!(matches!(read(text), Ok(ClientFrame::Unknown(_))), "{text}");
    }
}

#[test]
fn lists_of_a_hello_are_bounded() {
    let agent = r#"{"agent_id":"a","role":"r","vault_id":"3f6c1e9a0b7d4c2e8f5a1b6c9d0e7f42"}"#;
    let hello = |agents: usize, cursors: usize| {
        let agents = vec![agent; agents].join(",");
        let cursors: Vec<_> = (0..cursors).map(|n| format!("\"swarm:s{n}\":{n}")).collect();
        format!(
            r#"{{"t":"hello","instance_id":"i","agents":[{agents}],"cursors":{{{}}}}}"#,
            cursors.join(",")
        )
    };
    assert!(read(&hello(64, 256)).is_ok() && read(&hello(0, 0)).is_ok());
    assert_eq!(refused_field(&hello(65, 0)).as_deref(), Some("agents"));
    assert_eq!(refused_field(&hello(0, 257)).as_deref(), Some("cursors"));
}

#[test]
fn a_publish_body_ends_at_64_kib() {
    let publish = |bytes: usize| {
        let body = format!("\"{}\"", "x".repeat(bytes - 2));
        format!(
            r#"{{"t":"publish","client_msg_id":"m","channel":"CHANNEL","from":"a","kind":"k","priority":"low","privacy":"team","body":{body}}}"#
        )
    };
    assert!(read(&publish(PUBLISH_BODY_BYTES_MAX)).is_ok());
    assert_eq!(refused_field(&publish(PUBLISH_BODY_BYTES_MAX + 1)).as_deref(), Some("body"));
}

#[test]
fn frames_beyond_the_limits_are_refused_before_they_are_read() {
    let tight = Limits { bytes_max: 20, depth_max: 1 };
    assert!(parse(r#"{"t":"ping","nonce":1}"#, &tight).is_err());
    assert!(parse(r#"{"t":"x","a":[1]}"#, &tight).is_err());
    assert!(parse(&"[".repeat(10_000), &Limits::FRAME).is_err());
}

#[test]
fn frames_are_written_with_their_tag() {
    let frame = ClientFrame::Ack(Ack { channel: "swarm:s".into(), seq: 3 });
    assert_eq!(frame.to_json().unwrap(), r#"{"t":"ack","channel":"swarm:s","seq":3}"#);
    assert!(ClientFrame::Unknown("x".into()).to_json().is_err());
}

/// Text that is close to a frame: right tags and names, values from a small set.
fn nearly_a_frame() -> impl Strategy<Value = String> {
    let tag = prop::sample::select(vec![
        "hello",
        "presence",
        "publish",
        "ack",
        "message",
        "message.receipt",
        "ping",
        "handoff.offer",
        "deliver",
        "x",
    ]);
    let name = prop::sample::select(vec![
        "client_msg_id",
        "network",
        "type",
        "from",
        "to",
        "body",
        "agents",
        "instance_id",
        "seq",
        "channel",
        "nonce",
        "state",
        "gid",
        "by",
        "sealed",
        "zz",
    ]);
    let value = prop::sample::select(vec![
        "\"a\"",
        "1",
        "null",
        "[]",
        "{}",
        "\"question\"",
        r#"{"kind":"swarm","swarm_id":"s"}"#,
        r#"{"text":"x"}"#,
        "\"read\"",
        "1e9",
        "\"\\ud83d\\ude00\"",
        "[{\"agent_id\":1}]",
    ]);
    (tag, prop::collection::btree_map(name, value, 0..8)).prop_map(|(tag, fields)| {
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
        format!("{{\"t\":\"{tag}\"{}}}", fields.concat())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn parse_never_panics_and_always_says_where(text in nearly_a_frame()) {
        match parse(&text, &Limits::FRAME) {
            Ok(ClientFrame::Unknown(_)) => {}
            Ok(frame) => {
                let written = frame.to_json().unwrap();
                let again = parse(&written, &Limits::FRAME).unwrap().to_json().unwrap();
                prop_assert_eq!(written, again);
            }
            Err(refused) => prop_assert!(refused.error.field.is_some(), "{:?}", refused),
        }
    }

    #[test]
    fn parse_never_panics_on_anything(text in "\\PC*") {
        let _ = parse(&text, &Limits::FRAME);
    }
}

use super::*;

const CHANNEL: &str = "org:org_1/vault:3f6c1e9a0b7d4c2e8f5a1b6c9d0e7f42/general";

fn org() -> Network<'static> {
    Network::Org { channel: CHANNEL.into() }
}

fn swarm() -> Network<'static> {
    Network::Swarm { swarm_id: "sw-1".into() }
}

fn question() -> AgentMessage<'static> {
    AgentMessage::new("m-1", org(), MessageType::Question, "ada", MessageBody::text("Which budget?"))
}

fn sealed() -> SealedBlob<'static> {
    SealedBlob {
        alg: SEALED_CONTENT_ALG.into(),
        epoch: 1,
        content_schema: SEALED_MESSAGE_SCHEMA.into(),
        nonce: "A".repeat(32).into(),
        ciphertext: "AAAA".into(),
    }
}

fn refused(change: impl FnOnce(&mut AgentMessage<'static>)) -> String {
    let mut message = question();
    change(&mut message);
    let error = message.validate().expect_err("the change breaks a rule");
    assert!(!error.message.is_empty());
    error.field
}

#[test]
fn each_broken_rule_names_its_field() {
    assert_eq!(question().validate(), Ok(()));
    assert_eq!(refused(|m| m.client_msg_id = "".into()), "client_msg_id");
    assert_eq!(refused(|m| m.network = Network::Org { channel: "general".into() }), "channel");
    assert_eq!(refused(|m| m.network = Network::Swarm { swarm_id: "a b".into() }), "swarm_id");
    assert_eq!(refused(|m| m.message_type = MessageType::Unknown), "type");
    assert_eq!(refused(|m| m.message_type = MessageType::Answer), "reply_to");
    assert_eq!(refused(|m| m.from = "_".into()), "from");
    assert_eq!(refused(|m| m.to = Some("a/b".into())), "to");
    assert_eq!(refused(|m| m.reply_to = Some(" ".into())), "reply_to");
    assert_eq!(refused(|m| m.to_instance = Some("inst_1".into())), "to_instance");
    assert_eq!(refused(|m| m.body = None), "body");
    assert_eq!(refused(|m| m.sealed = Some(sealed())), "sealed");
    assert_eq!(refused(|m| m.body = Some(MessageBody::text("x".repeat(4001)))), "text");
    assert_eq!(refused(|m| m.body = Some(MessageBody::text("a\u{202e}b"))), "text");
}

#[test]
fn only_questions_carry_a_deadline_and_it_lies_ahead() {
    let now = UtcTime::from_unix(1_000_000);
    let with = |seconds: i64| AgentMessage { deadline: Some(now.plus_s(seconds)), ..question() };
    assert_eq!(with(60).validate(), Ok(()));
    assert_eq!(refused(|m| (m.message_type, m.deadline) = (MessageType::Offer, Some(now))), "deadline");
    for (seconds, ok) in [(-1, false), (0, false), (1, true), (604_800, true), (604_801, false)] {
        assert_eq!(with(seconds).validate_deadline(now).is_ok(), ok, "{seconds}");
    }
    assert_eq!(question().validate_deadline(now), Ok(()));
}

#[test]
fn to_instance_needs_an_agent_on_an_organization_network() {
    let direct = |network| AgentMessage {
        network,
        to: Some("ben".into()),
        to_instance: Some("inst_1".into()),
        ..question()
    };
    assert_eq!(direct(org()).validate(), Ok(()));
    assert_eq!(direct(swarm()).validate().unwrap_err().field, "to_instance");
}

#[test]
fn references_are_bounded_and_tasks_stay_in_the_organization() {
    let with = |network: Network<'static>, references: Vec<Reference<'static>>| {
        let body = MessageBody { text: "x".into(), references };
        AgentMessage { network, body: Some(body), ..question() }.validate().map_err(|error| error.field)
    };
    let task = Reference::Task { number: 7 };
    assert_eq!(with(org(), vec![task.clone(); 16]), Ok(()));
    let field = Err("references".to_owned());
    assert_eq!(with(org(), vec![task.clone(); 17]), field);
    assert_eq!(with(swarm(), vec![task]), field);
    assert_eq!(with(swarm(), vec![Reference::Proposal { number: 1 }]), Ok(()));
    for bad in [
        Reference::Task { number: 0 },
        Reference::Proposal { number: 0 },
        Reference::Fact { id: "a b".into() },
        Reference::Commit { id: "abcdef".into() },
        Reference::Commit { id: "ABCDEF0".into() },
        Reference::Handoff { handoff_id: "".into() },
    ] {
        assert_eq!(with(org(), vec![bad]), field);
    }
}

#[test]
fn sealed_bodies_have_one_shape() {
    let with = |change: &dyn Fn(&mut AgentMessage<'static>)| {
        let mut message = AgentMessage { body: None, sealed: Some(sealed()), ..question() };
        change(&mut message);
        message.validate().map_err(|error| error.field)
    };
    let blob =
        |change: &dyn Fn(&mut SealedBlob<'static>)| with(&|m| m.sealed.as_mut().into_iter().for_each(change));
    assert_eq!(with(&|_| ()), Ok(()));
    assert_eq!(with(&|m| m.network = swarm()), Err("sealed".into()));
    assert_eq!(blob(&|b| b.alg = "aes".into()), Err("alg".into()));
    assert_eq!(blob(&|b| b.nonce = "AAAA".into()), Err("nonce".into()));
    assert_eq!(blob(&|b| b.ciphertext = "AAA".into()), Err("ciphertext".into()));
    assert_eq!(blob(&|b| b.content_schema = "a|b".into()), Err("content_schema".into()));
    assert_eq!(blob(&|b| b.content_schema = "other/v1".into()), Err("content_schema".into()));
    assert!(!format!("{:?}", sealed()).contains("AAAA"));
}

#[test]
fn networks_and_references_carry_exactly_the_fields_of_their_kind() {
    let network: Network<'_> = serde_json::from_str(r#"{"kind":"swarm","swarm_id":"s"}"#).unwrap();
    assert!(matches!(network, Network::Swarm { swarm_id: Cow::Borrowed("s") }));
    assert_eq!(network.cursor_key(), "swarm:s");
    for bad in [
        r#"{"kind":"org"}"#,
        r#"{"kind":"org","channel":"c","swarm_id":"s"}"#,
        r#"{"kind":"swarm","channel":"c"}"#,
        r#"{"kind":"other","channel":"c"}"#,
        r#"{"channel":"c"}"#,
        r#"{"kind":"org","channel":"c","more":1}"#,
        r#"["org","c"]"#,
        "\"org\"",
    ] {
        assert!(serde_json::from_str::<Network<'_>>(bad).is_err(), "{bad}");
    }
    for bad in [
        r#"{"kind":"task"}"#,
        r#"{"kind":"task","number":-1}"#,
        r#"{"kind":"task","number":1,"id":"x"}"#,
        r#"{"kind":"fact","number":1}"#,
        r#"{"kind":"commit","handoff_id":"x"}"#,
        r#"{"kind":"person","id":"x"}"#,
    ] {
        assert!(serde_json::from_str::<Reference<'_>>(bad).is_err(), "{bad}");
    }
}

fn delivery(network: Network<'static>, from: Sender<'static>, trust: Trust) -> Delivery<'static> {
    Delivery {
        gid: "g-1".into(),
        seq: 1,
        network,
        message_type: MessageType::Finding,
        from,
        to: None,
        thread_id: "g-1".into(),
        reply_to: None,
        deadline: None,
        body: Some(MessageBody::text("found")),
        sealed: None,
        trust,
        server_time: UtcTime::from_unix(0),
        expires_at: UtcTime::from_unix(60),
    }
}

#[test]
fn swarm_deliveries_are_untrusted_and_show_only_a_handle() {
    let handle = Sender::Swarm { handle: "quiet-heron".into(), reputation: 1 };
    let person = Sender::Person { label: "Ada".into() };
    let field = |delivery: Delivery<'_>| delivery.validate().map_err(|error| error.field);
    assert_eq!(field(delivery(swarm(), handle.clone(), Trust::Untrusted)), Ok(()));
    assert_eq!(field(delivery(org(), person.clone(), Trust::Team)), Ok(()));
    assert_eq!(field(delivery(swarm(), handle.clone(), Trust::Team)), Err("trust".into()));
    assert_eq!(field(delivery(swarm(), person, Trust::Untrusted)), Err("from".into()));
    assert_eq!(field(delivery(org(), handle, Trust::Untrusted)), Err("from".into()));
}

#[test]
fn receivers_tolerate_what_newer_servers_add() {
    let mut value = serde_json::to_value(delivery(org(), Sender::Unknown, Trust::Team)).unwrap();
    value["from"] = serde_json::json!({"kind": "robot", "serial": 5});
    value["type"] = "dream".into();
    value["trust"] = "partner".into();
    value["later"] = serde_json::json!([1]);
    let text = value.to_string();
    let read: Delivery<'_> = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (read.from, read.message_type, read.trust),
        (Sender::Unknown, MessageType::Unknown, Trust::Unknown)
    );
}

#[test]
fn receipts_know_two_states() {
    let receipt = |state| Receipt { gid: "g".into(), by: "ada".into(), state }.validate();
    assert!(receipt(ReceiptState::Delivered).is_ok() && receipt(ReceiptState::Read).is_ok());
    assert_eq!(receipt(ReceiptState::Unknown).unwrap_err().field, "state");
    assert!(ReceiptState::Delivered < ReceiptState::Read);
}

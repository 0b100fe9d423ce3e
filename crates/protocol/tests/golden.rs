//! The wire as files: every shape is written from typed values, compared with its file, and read back.
//!
//! `UPDATE=1 cargo test -p switchboard-protocol --test golden` rewrites the files after a deliberate change. A file that an
//! older version wrote must still be read, so changed shapes get a new file beside the old one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use switchboard_protocol::bus::{
    BUS_EVENTS_SCHEMA, BUS_LEASE_RENEW_REQUEST_SCHEMA, BUS_LEASE_REQUEST_SCHEMA, BUS_LEASE_SCHEMA,
    BUS_POLL_SCHEMA, BusEvents, BusLease, BusLeaseHolder, BusLeaseRenewRequest, BusLeaseRequest, BusPoll,
};
use switchboard_protocol::enroll::{self, AccessToken, DeviceCode, DeviceCodeRequest, DeviceTokenRequest};
use switchboard_protocol::enroll::{Enrollment, InstanceTokenRequest, Os, WhoAmI, WhoAmIVault};
use switchboard_protocol::error::{Body, Code, Detail};
use switchboard_protocol::frame::client::{self, Ack, ClientFrame, Hello, HelloAgent, Presence, Publish};
use switchboard_protocol::frame::server::{
    Control, ControlAction, Cursor, Deliver, ErrorFrame, PresenceUpdate, Published, ServerFrame,
};
use switchboard_protocol::frame::{
    HandoffAck, HandoffOffer, HandoffReject, Heartbeat, PresenceState, Priority, Privacy,
};
use switchboard_protocol::json::{Limits, parse};
use switchboard_protocol::lease::{
    self, Key, KeySet, Lease, LeaseEnvelope, OrgSettings, Plan, PolicySignerKey, Right,
};
use switchboard_protocol::message::{
    AgentMessage, Delivery, MESSAGE_LIST_SCHEMA, MessageBody, MessageList, MessageType, Network, Receipt,
    ReceiptState, Reference, SEALED_CONTENT_ALG, SEALED_MESSAGE_SCHEMA, SealedBlob, Sender, Status, Stored,
    TaskActor, TaskActorKind, TaskEvent, TaskEventKind, TaskState, Trust,
};
use switchboard_protocol::profile::{
    self, AgentProfile, AgentProfileList, Handle, PresenceProfile, Reputation,
};
use switchboard_protocol::vault::{self, OrgSalt, Vault, VaultRef, VaultResolveRequest};
use switchboard_protocol::{Invalid, UtcTime};

const CHANNEL: &str = "org:org_tern/vault:0123456789abcdef0123456789abcdef/build";
const VAULT: &str = "0123456789abcdef0123456789abcdef";

fn time(text: &str) -> UtcTime {
    UtcTime::parse(text).expect("a time")
}

fn noon() -> UtcTime {
    time("2027-03-14T12:00:00Z")
}

fn base64_of(bytes: usize) -> String {
    let padding = (3 - bytes % 3) % 3;
    format!("{}{}", "Q".repeat(bytes.div_ceil(3) * 4 - padding), "=".repeat(padding))
}

/// Compares with, or rewrites, the file; returns its text.
fn golden(folder: &str, name: &str, value: &impl Serialize) -> String {
    let path = folder_path(folder).join(format!("{name}.json"));
    let expected = serde_json::to_value(value).expect("a writable shape");
    if std::env::var_os("UPDATE").is_some() {
        let text = serde_json::to_string_pretty(value).expect("a writable shape");
        fs::create_dir_all(folder_path(folder)).expect("the folder can be made");
        fs::write(&path, text + "\n").expect("the file can be written");
    }
    let found = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; UPDATE=1 writes it", path.display()));
    let parsed: Value = serde_json::from_str(&found).expect("a JSON file");
    assert_eq!(parsed, expected, "{} differs; UPDATE=1 rewrites it", path.display());
    found
}

fn folder_path(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(folder)
}

/// Every file of a folder has a case, so that none is left untested.
fn assert_complete(folder: &str, names: impl IntoIterator<Item = String>) {
    let known: Vec<String> = names.into_iter().map(|name| format!("{name}.json")).collect();
    for entry in fs::read_dir(folder_path(folder)).expect("the folder exists") {
        let name = entry.expect("a readable entry").file_name().to_string_lossy().into_owned();
        assert!(known.contains(&name), "fixtures/{folder}/{name} has no case");
    }
}

fn org() -> Network<'static> {
    Network::Org { channel: CHANNEL.into() }
}

fn swarm() -> Network<'static> {
    Network::Swarm { swarm_id: "sw_reef".into() }
}

fn sealed() -> SealedBlob<'static> {
    SealedBlob {
        alg: SEALED_CONTENT_ALG.into(),
        epoch: 3,
        content_schema: SEALED_MESSAGE_SCHEMA.into(),
        nonce: base64_of(24).into(),
        ciphertext: base64_of(48).into(),
    }
}

fn messages() -> Vec<(&'static str, AgentMessage<'static>)> {
    let question = AgentMessage {
        deadline: Some(time("2027-03-15T12:00:00Z")),
        ..AgentMessage::new(
            "01KPDV3N7Q0000000000000001",
            org(),
            MessageType::Question,
            "tern-1",
            MessageBody {
                text: "Which pool size does the importer use?\n\tTwo answers exist: 8 and 16.".into(),
                references: vec![
                    Reference::Task { number: 12 },
                    Reference::Fact { id: "fact-pool".into() },
                    Reference::Proposal { number: 4 },
                    Reference::Commit { id: "0badcafe".into() },
                    Reference::Handoff { handoff_id: "hof_9".into() },
                ],
            },
        )
    };
    let body = MessageBody::text("Sixteen: see the fact.");
    let answer = AgentMessage {
        to: Some("tern-1".into()),
        to_instance: Some("inst_a".into()),
        reply_to: Some("g_1".into()),
        ..AgentMessage::new("01KPDV3N7Q0000000000000002", org(), MessageType::Answer, "gull-2", body)
    };
    let secret = AgentMessage {
        body: None,
        sealed: Some(sealed()),
        ..AgentMessage::new("m-3", org(), MessageType::Finding, "gull-2", MessageBody::text("x"))
    };
    let on_swarm = AgentMessage::new(
        "m-4",
        swarm(),
        MessageType::Offer,
        "gull-2",
        MessageBody::text("I can check tide tables."),
    );
    vec![
        ("message.question", question),
        ("message.answer", answer),
        ("message.sealed", secret),
        ("message.swarm", on_swarm),
    ]
}

fn offer() -> HandoffOffer<'static> {
    HandoffOffer {
        handoff_id: "hof_9".into(),
        channel: CHANNEL.into(),
        from: "tern-1".into(),
        to: "gull-2".into(),
        bundle_ref: "bundle:sha256:00ff".into(),
        deadline: time("2027-03-14T13:00:00Z"),
    }
}

fn claims() -> PresenceProfile {
    PresenceProfile {
        display_name: Some("Tern (build)".into()),
        model: Some("model-x".into()),
        roles: vec!["build".into(), "review".into()],
    }
}

fn hello() -> Hello<'static> {
    Hello {
        instance_id: "inst_a".into(),
        agents: vec![HelloAgent { agent_id: "tern-1".into(), role: "build".into(), vault_id: VAULT.into() }],
        cursors: BTreeMap::from([(CHANNEL.into(), 41), ("swarm:sw_reef".into(), 7)]),
        epoch: Some("ep-1".into()),
    }
}

fn with_client_frames(check: impl Fn(&'static str, ClientFrame<'_>)) {
    let body = RawValue::from_string(r#"{"step":"link","ok":true,"ms":412}"#.into()).expect("JSON");
    let publish = Publish {
        client_msg_id: "p-1".into(),
        channel: CHANNEL.into(),
        to: Some("gull-2".into()),
        from: "tern-1".into(),
        kind: "status".into(),
        priority: Priority::High,
        privacy: Privacy::Team,
        body: &body,
    };
    check("hello", ClientFrame::Hello(hello()));
    let presence =
        Presence { agent_id: "tern-1".into(), state: PresenceState::Idle, profile: Some(claims()) };
    check("presence", ClientFrame::Presence(presence));
    check("publish", ClientFrame::Publish(publish));
    check("ack", ClientFrame::Ack(Ack { channel: CHANNEL.into(), seq: 42 }));
    check("handoff.offer", ClientFrame::HandoffOffer(offer()));
    let (handoff_id, by) = (Cow::from("hof_9"), Cow::from("gull-2"));
    check(
        "handoff.ack",
        ClientFrame::HandoffAck(HandoffAck { handoff_id: handoff_id.clone(), by: by.clone() }),
    );
    let reject = HandoffReject { handoff_id, by: by.clone(), reason: "Two other builds are running.".into() };
    check("handoff.reject", ClientFrame::HandoffReject(reject));
    for (name, message) in messages() {
        check(name, ClientFrame::Message(message));
    }
    check(
        "message.receipt",
        ClientFrame::MessageReceipt(Receipt { gid: "g_1".into(), by, state: ReceiptState::Read }),
    );
    check("ping", ClientFrame::Ping(Heartbeat { nonce: u64::MAX }));
    check("pong", ClientFrame::Pong(Heartbeat { nonce: 0 }));
}

#[test]
fn client_frames_are_as_filed() {
    let names = std::cell::RefCell::new(Vec::new());
    with_client_frames(|name, frame| {
        let text = golden("client", name, &frame);
        let read =
            client::parse(&text, &Limits::FRAME).unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
        assert_eq!(read.to_json().expect("writable"), frame.to_json().expect("writable"), "{name}");
        names.borrow_mut().push(name.to_owned());
    });
    assert_complete("client", names.into_inner());
}

fn delivery(network: Network<'static>, from: Sender<'static>, trust: Trust) -> Delivery<'static> {
    Delivery {
        gid: "g_2".into(),
        seq: 43,
        network,
        message_type: MessageType::Answer,
        from,
        to: None,
        thread_id: "g_1".into(),
        reply_to: Some("g_1".into()),
        deadline: None,
        body: Some(MessageBody::text("Sixteen: see the fact.")),
        sealed: None,
        trust,
        server_time: noon(),
        expires_at: time("2027-04-13T12:00:00Z"),
    }
}

fn from_agent() -> Sender<'static> {
    Sender::Agent {
        agent: "gull-2".into(),
        instance_label: "runner".into(),
        instance_id: Some("inst_b".into()),
        owner: Some("Iben".into()),
        model: Some("model-y".into()),
        mine: false,
        profile_id: Some("prof_2".into()),
    }
}

fn deliveries() -> Vec<(&'static str, Delivery<'static>)> {
    let handle = Sender::Swarm { handle: "low-tide".into(), reputation: 12 };
    let person = Sender::Person { label: "Iben".into() };
    let hidden =
        Delivery { body: None, sealed: Some(sealed()), ..delivery(org(), from_agent(), Trust::Team) };
    let direct = Delivery { to: Some("tern-1".into()), ..delivery(org(), from_agent(), Trust::Team) };
    vec![
        ("message.deliver.agent", direct),
        ("message.deliver.person", delivery(org(), person, Trust::Team)),
        ("message.deliver.swarm", delivery(swarm(), handle, Trust::Untrusted)),
        ("message.deliver.sealed", hidden),
    ]
}

fn publish_event() -> Deliver<'static> {
    Deliver {
        seq: 42,
        channel: CHANNEL.into(),
        from: "tern-1".into(),
        to: None,
        kind: "status".into(),
        priority: Priority::Normal,
        privacy: Privacy::Public,
        body: Cow::Owned(RawValue::from_string(r#"{"step":"link"}"#.into()).expect("JSON")),
        server_time: noon(),
    }
}

fn task_event() -> TaskEvent {
    TaskEvent {
        channel: CHANNEL.into(),
        seq: 45,
        number: 12,
        event: TaskEventKind::Claimed,
        state: TaskState::Claimed,
        by: Some(TaskActor {
            kind: TaskActorKind::Instance,
            label: "runner".into(),
            agent: Some("gull-2".into()),
            owner: Some("Iben".into()),
            model: None,
            mine: true,
            profile_id: None,
        }),
        server_time: noon(),
    }
}

fn control() -> Control {
    Control {
        control_id: "ctl_1".into(),
        target_agent: Some("gull-2".into()),
        target_ref: Some("hof_9".into()),
        action: ControlAction::Veto,
        reason: "The release is frozen.".into(),
        issued_by: "Iben".into(),
        seq: 44,
        server_time: noon(),
    }
}

fn answers() -> Vec<(&'static str, ServerFrame<'static>)> {
    let published =
        Published { client_msg_id: "p-1".into(), channel: CHANNEL.into(), seq: 42, server_time: noon() };
    let stored = Stored {
        client_msg_id: "m-1".into(),
        gid: "g_1".into(),
        thread_id: "g_1".into(),
        network: org(),
        seq: 41,
        server_time: noon(),
        expires_at: time("2027-04-13T12:00:00Z"),
    };
    let status = Status {
        gid: "g_1".into(),
        client_msg_id: "m-1".into(),
        by: "gull-2".into(),
        state: ReceiptState::Delivered,
        server_time: noon(),
    };
    let error = Detail::new(Code::InvalidState, "Several instances run gull-2; name one in to_instance.")
        .reason("ambiguous_recipient")
        .field("to")
        .sb("SB0103");
    vec![
        ("published", ServerFrame::Published(published)),
        ("message.stored", ServerFrame::MessageStored(stored)),
        ("message.status", ServerFrame::MessageStatus(status)),
        ("error", ServerFrame::Error(ErrorFrame { client_msg_id: Some("m-1".into()), answers: None, error })),
    ]
}

fn server_frames() -> Vec<(&'static str, ServerFrame<'static>)> {
    let presence = PresenceUpdate {
        agent_id: "gull-2".into(),
        instance_id: "inst_b".into(),
        role: "review".into(),
        vault_id: VAULT.into(),
        state: PresenceState::Active,
        server_time: noon(),
        profile_id: Some("prof_2".into()),
        profile: Some(claims()),
    };
    let cursor =
        Cursor { channel: "swarm:sw_reef".into(), seq: 9, epoch: "ep-1".into(), first_available: Some(4) };
    let (handoff_id, by) = (Cow::from("hof_9"), Cow::from("gull-2"));
    let mut frames = vec![
        ("deliver", ServerFrame::Deliver(publish_event())),
        ("presence_update", ServerFrame::PresenceUpdate(presence)),
        ("control", ServerFrame::Control(control())),
        ("handoff.offer", ServerFrame::HandoffOffer(offer())),
        (
            "handoff.ack",
            ServerFrame::HandoffAck(HandoffAck { handoff_id: handoff_id.clone(), by: by.clone() }),
        ),
        (
            "handoff.reject",
            ServerFrame::HandoffReject(HandoffReject { handoff_id, by, reason: "Busy.".into() }),
        ),
        ("task.event", ServerFrame::TaskEvent(task_event())),
        ("cursor", ServerFrame::Cursor(cursor)),
        ("ping", ServerFrame::Ping(Heartbeat { nonce: 1 })),
        ("pong", ServerFrame::Pong(Heartbeat { nonce: u64::MAX })),
    ];
    frames.extend(answers());
    frames.extend(
        deliveries().into_iter().map(|(name, delivery)| (name, ServerFrame::MessageDeliver(delivery))),
    );
    frames
}

#[test]
fn server_frames_are_as_filed() {
    let frames = server_frames();
    for (name, frame) in &frames {
        let text = golden("server", name, frame);
        let read = ServerFrame::parse(&text, Limits::FRAME).unwrap_or_else(|error| panic!("{name}: {error}"));
        let written = frame.to_json().expect("writable");
        assert_eq!(read.to_json().expect("writable"), written, "{name}");
        assert_eq!(read.into_owned().to_json().expect("writable"), written, "{name}");
    }
    for (name, delivery) in deliveries() {
        assert_eq!(delivery.validate(), Ok(()), "{name}");
    }
    assert_complete("server", frames.into_iter().map(|(name, _)| name.to_owned()));
}

/// The shape is as filed, reads back to the same JSON, and keeps its own rules.
fn http<T: Serialize + DeserializeOwned>(
    name: &str,
    value: &T,
    rules: impl Fn(&T) -> Result<(), Invalid>,
) -> String {
    let text = golden("http", name, value);
    let read: T = parse(text.as_bytes(), Limits::HTTP_BODY).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(rules(&read), Ok(()), "{name}");
    let (again, once) = (serde_json::to_value(&read), serde_json::to_value(value));
    assert_eq!(again.expect("writable"), once.expect("writable"), "{name}");
    name.to_owned()
}

fn bus_bodies() -> Vec<String> {
    let request = BusLeaseRequest {
        schema: BUS_LEASE_REQUEST_SCHEMA.into(),
        resource_kind: "file".into(),
        resource_ref: "ab".repeat(32),
        vault_id: VAULT.into(),
        owner_agent_id: "tern-1".into(),
        duration_ms: 60_000,
    };
    let renew = BusLeaseRenewRequest {
        schema: BUS_LEASE_RENEW_REQUEST_SCHEMA.into(),
        fencing_token: 7,
        duration_ms: 60_000,
    };
    let granted = BusLease {
        schema: BUS_LEASE_SCHEMA.into(),
        granted: true,
        lease_id: Some("bl_1".into()),
        fencing_token: Some(7),
        expires_at: Some(time("2027-03-14T12:01:00Z")),
        holder: None,
        server_time: noon(),
    };
    let holder = BusLeaseHolder {
        agent_id: "gull-2".into(),
        instance_id: "inst_b".into(),
        expires_at: time("2027-03-14T12:01:00Z"),
    };
    let refused = BusLease {
        granted: false,
        lease_id: None,
        fencing_token: None,
        expires_at: None,
        holder: Some(holder),
        ..granted.clone()
    };
    let poll = BusPoll {
        schema: BUS_POLL_SCHEMA.into(),
        frames: vec![ServerFrame::Deliver(publish_event()), ServerFrame::TaskEvent(task_event())],
        cursor: "c_42".into(),
        epoch: Some("ep-1".into()),
    };
    let events = BusEvents {
        schema: BUS_EVENTS_SCHEMA.into(),
        channel: CHANNEL.into(),
        events: vec![ServerFrame::Deliver(publish_event())],
        next_after_seq: Some(42),
        epoch: Some("ep-1".into()),
        complete_up_to: Some(42),
        first_available_seq: Some(11),
    };
    vec![
        http("bus_lease.request", &request, BusLeaseRequest::validate),
        http("bus_lease_renew.request", &renew, BusLeaseRenewRequest::validate),
        http("bus_lease.granted", &granted, BusLease::validate),
        http("bus_lease.refused", &refused, BusLease::validate),
        http("bus_poll", &poll, |_| Ok(())),
        http("bus_events", &events, BusEvents::validate),
    ]
}

fn key_set() -> KeySet {
    let key =
        Key { kid: "k-2027".into(), ed25519_pub: base64_of(32), not_after: time("2028-03-14T12:00:00Z") };
    KeySet { schema: lease::KEYSET_SCHEMA.into(), keys: vec![key], signature: base64_of(64) }
}

fn lease_envelope() -> LeaseEnvelope {
    let statement = Lease {
        schema: lease::LEASE_SCHEMA.into(),
        lease_id: "lse_1".into(),
        org_id: "org_tern".into(),
        instance_id: "inst_a".into(),
        plan: Plan::None,
        seats_limit: 25,
        rights: Right::NAMES.iter().map(|(right, _)| *right).collect(),
        policy_signer_keys: vec![PolicySignerKey { org: "org_tern".into(), ed25519_pub: base64_of(32) }],
        issued_at: noon(),
        expires_at: time("2027-03-15T12:00:00Z"),
        grace_until: time("2027-03-22T12:00:00Z"),
        server_time: noon(),
        org_settings: Some(OrgSettings { metrics_upload: true, receipts_upload: false }),
    };
    LeaseEnvelope::new(&statement, "k-2027", base64_of(64)).expect("a valid lease")
}

fn enroll_requests() -> Vec<String> {
    let code = DeviceCodeRequest {
        schema: enroll::DEVICE_CODE_REQUEST_SCHEMA.into(),
        client_id: enroll::ENGINE_CLIENT_ID.into(),
        engine_version: "3.12.0".into(),
        os: Os::Linux,
        instance_label: Some("runner".into()),
    };
    let token = DeviceTokenRequest {
        schema: enroll::DEVICE_TOKEN_REQUEST_SCHEMA.into(),
        device_code: "dc_not_a_real_code".into(),
        instance_public_key: base64_of(32),
        instance_kx_public_key: base64_of(32),
        instance_label: "runner".into(),
        engine_version: "3.12.0".into(),
        os: Os::Other,
    };
    let assertion = InstanceTokenRequest {
        schema: enroll::TOKEN_REQUEST_SCHEMA.into(),
        iat: noon().unix(),
        nonce: "n-0123456789_abcd".into(),
        assertion: base64_of(64),
    };
    vec![
        http("device_code.request", &code, DeviceCodeRequest::validate),
        http("device_token.request", &token, DeviceTokenRequest::validate),
        http("token.request", &assertion, InstanceTokenRequest::validate),
    ]
}

fn enroll_answers() -> Vec<String> {
    let code = DeviceCode {
        schema: enroll::DEVICE_CODE_SCHEMA.into(),
        device_code: "dc_not_a_real_code".into(),
        user_code: "TERN-GULL".into(),
        verification_uri: "https://hub.example/device".into(),
        verification_uri_complete: "https://hub.example/device?user_code=TERN-GULL".into(),
        interval: 5,
        expires_in: 900,
        features: Vec::new(),
    };
    let enrollment = Enrollment {
        schema: enroll::ENROLLMENT_SCHEMA.into(),
        instance_id: "inst_a".into(),
        org: enroll::OrgRef {
            id: "org_tern".into(),
            name: "Tern".into(),
            kind: Some("team".into()),
            company: None,
        },
        lease: lease_envelope(),
        keys: key_set(),
        org_salt_id: "salt_1".into(),
        web_url: Some("https://hub.example".into()),
    };
    let token = AccessToken {
        schema: enroll::ACCESS_TOKEN_SCHEMA.into(),
        access_token: "not_a_real_token".into(),
        expires_in: 3600,
    };
    let whoami = WhoAmI {
        schema: enroll::WHOAMI_SCHEMA.into(),
        instance_id: "inst_a".into(),
        org_id: "org_tern".into(),
        label: "runner".into(),
        rights: vec!["bus.relay".into(), "tasks.read".into()],
        vaults: vec![WhoAmIVault { vault_id: VAULT.into(), name: "main".into() }],
    };
    vec![
        http("device_code", &code, DeviceCode::validate),
        http("enrollment", &enrollment, |read| read.validate().and_then(|()| read.lease.lease().map(drop))),
        http("access_token", &token, AccessToken::validate),
        http("whoami", &whoami, |_| Ok(())),
        http("keyset", &key_set(), KeySet::validate),
        http("lease_envelope", &lease_envelope(), LeaseEnvelope::validate),
    ]
}

fn vault_bodies() -> Vec<String> {
    let salt =
        OrgSalt { schema: vault::ORG_SALT_SCHEMA.into(), org_salt_id: "salt_1".into(), salt: base64_of(32) };
    let name = VaultRef { ns: "tern".into(), name: "importer".into() };
    let resolve = VaultResolveRequest {
        schema: vault::VAULT_RESOLVE_REQUEST_SCHEMA.into(),
        org_salt_id: "salt_1".into(),
        identity_digest: "0d".repeat(32),
        label: Some("importer".into()),
        vault: Some(name.clone()),
    };
    let open = Vault {
        schema: vault::VAULT_SCHEMA.into(),
        vault_id: VAULT.into(),
        vault: name,
        sealed: false,
        key_epoch: None,
        label: Some("importer".into()),
        auto_merge: Some(serde_json::json!({"confirmations": 2})),
        code_graph: Some("full".into()),
    };
    let closed = Vault {
        sealed: true,
        key_epoch: Some(0),
        label: None,
        auto_merge: None,
        code_graph: None,
        ..open.clone()
    };
    vec![
        http("org_salt", &salt, OrgSalt::validate),
        http("vault_resolve.request", &resolve, VaultResolveRequest::validate),
        http("vault", &open, Vault::validate),
        http("vault.sealed", &closed, Vault::validate),
    ]
}

fn profile_bodies() -> Vec<String> {
    let reputation = Reputation { score: 12, contributions: 3, weight_pct: 100 };
    let agent = AgentProfile {
        profile_id: "prof_2".into(),
        agent: "gull-2".into(),
        instance_label: "runner".into(),
        owner: "Iben".into(),
        display_name: "Gull".into(),
        model: Some("model-y".into()),
        roles: vec!["review".into()],
        strengths: vec!["importer".into()],
        reputation,
        mine: false,
        last_seen: Some(noon()),
    };
    let list = AgentProfileList {
        schema: profile::AGENT_PROFILE_LIST_SCHEMA.into(),
        profiles: vec![agent],
        next_after: Some("prof_2".into()),
    };
    let handle = Handle {
        schema: profile::HANDLE_SCHEMA.into(),
        handle: "low-tide".into(),
        reputation: Reputation { weight_pct: 25, ..reputation },
        strengths: Vec::new(),
        since: noon(),
    };
    vec![
        http("agent_profile_list", &list, AgentProfileList::validate),
        http("handle", &handle, Handle::validate),
    ]
}

#[test]
fn http_bodies_are_as_filed() {
    let error = Body {
        error: Detail::new(Code::RateLimited, "At most 60 messages an hour on this swarm; wait.")
            .reason("limit_exceeded")
            .field("messages_per_hour")
            .limit(60_u64)
            .used(60_u64)
            .retry_after_s(1800_u64),
    };
    let mut names = vec![http("error", &error, |_| Ok(()))];
    names.extend(bus_bodies());
    names.extend(enroll_requests());
    names.extend(enroll_answers());
    names.extend(vault_bodies());
    names.extend(profile_bodies());
    names.push(message_list());
    assert_complete("http", names);
}

fn message_list() -> String {
    let list = MessageList {
        schema: MESSAGE_LIST_SCHEMA.into(),
        messages: deliveries().into_iter().map(|(_, delivery)| delivery).collect(),
        next: Some("g_2".into()),
        epoch: Some("ep-1".into()),
        complete_up_to: Some(43),
    };
    let text = golden("http", "message_list", &list);
    let read: MessageList<'_> = parse(text.as_bytes(), Limits::HTTP_BODY).expect("readable");
    assert_eq!(read.validate(), Ok(()));
    assert_eq!(read.into_owned(), list);
    "message_list".into()
}

/// Refused frames with the exact answer, so that a change of wording or field is seen.
#[test]
fn refusals_are_as_filed() {
    let cases = [
        ("no_tag", r#"{"client_msg_id":"m-1","nonce":1}"#),
        ("tag_of_the_server", r#"{"t":"message.stored","client_msg_id":"m-1"}"#),
        ("unknown_field", r#"{"t":"ack","channel":"swarm:s","seq":1,"sequence":2}"#),
        ("missing_field", r#"{"t":"ack","channel":"swarm:s"}"#),
        ("wrong_type", r#"{"t":"ping","nonce":"1"}"#),
        ("duplicate_key", r#"{"t":"ping","nonce":1,"nonc\u0065":2}"#),
        (
            "unknown_message_type",
            r#"{"t":"message","client_msg_id":"m-1","network":{"kind":"swarm","swarm_id":"s"},"type":"order","from":"a","body":{"text":"x"}}"#,
        ),
        (
            "answer_without_question",
            r#"{"t":"message","client_msg_id":"m-1","network":{"kind":"swarm","swarm_id":"s"},"type":"answer","from":"a","body":{"text":"x"}}"#,
        ),
        (
            "hidden_text",
            r#"{"t":"message","client_msg_id":"m-1","network":{"kind":"swarm","swarm_id":"s"},"type":"offer","from":"a","body":{"text":"x\u202ey"}}"#,
        ),
        ("bad_channel", r#"{"t":"ack","channel":"general","seq":1}"#),
    ];
    let mut names = Vec::new();
    for (name, frame) in cases {
        let refused = client::parse(frame, &Limits::FRAME).expect_err(name);
        let answer = ServerFrame::Error(ErrorFrame::from(refused));
        let filed: Value = serde_json::json!({ "frame": frame, "answer": answer });
        golden("refused", name, &filed);
        names.push(name.to_owned());
    }
    assert_complete("refused", names);
}

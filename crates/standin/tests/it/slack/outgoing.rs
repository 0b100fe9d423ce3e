//! What goes out: who is reached, threads, refusals, tokens that go.

use super::{NOTICE, Set, Way, attempt, class, settings};
use switchboard_channels::conformance::Behaviour;
use switchboard_channels::slack::{Settings, Slack};
use switchboard_core::port::channel::{
    Address, AddressKind, Amendment, Attempt, Channel as _, Draft, FailureClass, Part, Performed,
};
use switchboard_standin::slack::{ADA, BOT_USER, GENERAL};

fn to(set: &Set, kind: AddressKind, handle: &str) -> Attempt {
    Attempt { to: Address { kind, handle: handle.into() }, ..attempt(&*set.channel, &NOTICE, kind) }
}

fn refused(performed: Performed) -> (FailureClass, String) {
    match performed {
        Performed::NotSent(why) => (why.class, why.reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_person_is_opened_once_and_a_message_is_one_call() {
    let set = Set::start(Way::None).await;
    let first = set.post(&NOTICE).await;
    assert!(first.starts_with("D024BE7LH:"), "{first}");
    set.post(&NOTICE).await;
    assert_eq!(set.standin.calls(), ["conversations.open", "chat.postMessage", "chat.postMessage"]);
    let message = &set.standin.messages()[0].body;
    assert_eq!((&message["unfurl_links"], &message["unfurl_media"]), (&false.into(), &false.into()));
    assert_eq!(message["blocks"][0]["elements"][0]["text"], "From builder");
    assert_eq!(message["text"], "From builder\nDeploy now?");
}

#[tokio::test]
async fn who_cannot_be_reached_is_told_with_a_remedy() {
    use AddressKind::{Channel, Direct};
    let set = Set::start(Way::None).await;
    for (kind, handle, expected, word) in [
        (Direct, "U0NOBODY01", FailureClass::BadAddress, "no such person"),
        (Direct, "U0GONE0001", FailureClass::BadAddress, "deactivated"),
        (Direct, BOT_USER, FailureClass::BadAddress, "an app"),
        (Channel, "C0NOWHERE1", FailureClass::BadAddress, "/invite"),
        (Channel, "C0OUTSIDE1", FailureClass::Permanent, "/invite"),
        (Channel, "C0ARCHIVE1", FailureClass::BadAddress, "archived"),
    ] {
        let (class, reason) = refused(set.perform(&to(&set, kind, handle)).await);
        assert!(class == expected && reason.contains(word), "{handle}: {class:?} {reason}");
    }
    assert_eq!(set.standin.messages().len(), 0);
}

#[tokio::test]
async fn somebody_who_leaves_is_looked_for_anew() {
    let set = Set::start(Way::None).await;
    set.post(&NOTICE).await;
    set.standin.disable(ADA);
    let gone = [
        set.perform(&to(&set, AddressKind::Direct, ADA)).await,
        set.perform(&to(&set, AddressKind::Direct, ADA)).await,
    ];
    let [first, second] = gone.map(refused);
    assert_eq!([first.0, second.0], [FailureClass::BadAddress; 2]);
    assert!(second.1.contains("user_disabled"), "{}", second.1);
}

#[tokio::test]
async fn a_token_that_goes_stops_everything_until_it_is_mended() {
    let set = Set::start(Way::None).await;
    set.post(&NOTICE).await;
    for code in ["token_revoked", "account_inactive", "invalid_auth"] {
        set.standin.revoke(Some(code));
        let (class, reason) = refused(set.perform(&to(&set, AddressKind::Channel, GENERAL)).await);
        assert!(class == FailureClass::Misconfigured && reason.contains(code), "{reason}");
        assert!(set.channel.check().await.unwrap_err().contains(code));
    }
    set.standin.revoke(None);
    set.standin.scopes(&["im:write"]);
    let (class, reason) = refused(set.perform(&to(&set, AddressKind::Channel, GENERAL)).await);
    assert!(
        class == FailureClass::Misconfigured && reason.contains("missing_scope (chat:write)"),
        "{reason}"
    );
    assert!(set.channel.check().await.unwrap_err().contains("lacks the scopes chat:write"));
}

#[tokio::test]
async fn a_call_that_reaches_nobody_is_never_unknown() {
    let set = Set::start(Way::None).await;
    set.standin.revoke(Some("internal_error"));
    let performed = set.perform(&to(&set, AddressKind::Direct, ADA)).await;
    assert_eq!(class(&performed), Some(FailureClass::Transient), "{performed:?}");
    let performed = set.perform(&to(&set, AddressKind::Channel, GENERAL)).await;
    assert!(matches!(performed, Performed::Unknown { .. }), "{performed:?}");
}

#[tokio::test]
async fn what_continues_a_message_stands_in_its_thread_and_its_end_is_seen_by_all() {
    let set = Set::start(Way::Socket).await;
    let root = set.post(&NOTICE).await;
    let continued = |references: &[&str], place| Attempt {
        references: references.iter().map(|&id| id.to_owned()).collect(),
        place,
        ..to(&set, AddressKind::Direct, ADA)
    };
    let Performed::Sent { message_id: Some(second) } = set.perform(&continued(&[&root], (2, 3))).await else {
        panic!()
    };
    let foreign = ["fake_1", "C024BE91L:1800000001.000119", &root, &second];
    set.perform(&continued(&foreign, (3, 3))).await;
    set.perform(&continued(&["fake_1", "C024BE91L:1.2", "<a@b>"], (1, 1))).await;
    let messages = set.standin.messages();
    let ts = root.split_once(':').unwrap().1;
    let threads: Vec<_> = messages.iter().map(|message| message.thread().map(|at| at == ts)).collect();
    assert_eq!(threads, [None, Some(true), Some(true), None]);
    let seen: Vec<_> = messages.iter().map(|message| message.body["reply_broadcast"] == true).collect();
    assert_eq!(seen, [false, false, true, false]);
}

#[tokio::test]
async fn a_message_that_is_gone_cannot_be_changed() {
    let set = Set::start(Way::None).await;
    for (message_id, word) in
        [("D024BE7LH:1.2", "channel_not_found"), ("C024BE91L:1.2", "gone"), ("m_1", "no id")]
    {
        let amendment = Amendment {
            delivery: "d1".into(),
            to: Address { kind: AddressKind::Direct, handle: ADA.into() },
            message_id: message_id.into(),
            part: Part { text: "Deploy?".into(), ..Part::default() },
            outcome: "Ada has answered".into(),
        };
        let (class, reason) = refused(set.channel.amend(amendment).await);
        assert!(
            matches!(class, FailureClass::Permanent | FailureClass::BadAddress) && reason.contains(word),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn a_64_kb_message_arrives_whole_and_in_order() {
    let set = Set::start(Way::None).await;
    let words: Vec<String> = (0..9400).map(|number| format!("{number:06}")).collect();
    let body = words.join(" ");
    let mut references = Vec::new();
    let parts = set.channel.prepare(&Draft { body: &body, ..NOTICE }).unwrap();
    let count = u32::try_from(parts.len()).unwrap();
    for (at, part) in (1..).zip(parts) {
        let attempt = Attempt {
            part,
            place: (at, count),
            references: references.clone(),
            ..to(&set, AddressKind::Channel, GENERAL)
        };
        let Performed::Sent { message_id: Some(id) } = set.perform(&attempt).await else { panic!() };
        references.push(id);
    }
    let texts: Vec<String> = set.standin.accepted().into_iter().map(|one| one.text).collect();
    assert_eq!(texts.join(" ").split_whitespace().collect::<Vec<_>>(), words);
}

#[tokio::test]
async fn two_workspaces_are_kept_apart() {
    let (one, other) = (Set::start(Way::None).await, Set::start(Way::None).await);
    one.standin.script(Behaviour::Refuse);
    let attempts = [to(&one, AddressKind::Direct, ADA), to(&other, AddressKind::Direct, ADA)];
    let (refused, sent) = tokio::join!(one.perform(&attempts[0]), other.perform(&attempts[1]));
    assert_eq!(class(&refused), Some(FailureClass::Permanent));
    assert!(matches!(sent, Performed::Sent { .. }));
    assert_eq!((one.standin.messages().len(), other.standin.messages().len()), (0, 1));
}

#[tokio::test]
async fn a_check_says_who_we_are_and_what_is_missing() {
    let set = Set::start(Way::Socket).await;
    let checked = set.channel.check().await.unwrap();
    assert_eq!(checked.account, "@switchboard in Example Team");
    assert!(checked.invite.unwrap().contains("pair {code}"));
    assert_eq!(set.standin.calls(), ["auth.test", "apps.connections.open"]);
    let silent = Set::start(Way::None).await;
    assert_eq!(silent.channel.check().await.unwrap().invite, None);
    set.standin.scopes(&["chat:write", "im:write"]);
    assert!(set.channel.check().await.unwrap_err().contains("im:history"));
    let other = Settings { app_token: Some("xapp-other".into()), ..settings(&set.standin, Way::Socket) };
    set.standin.scopes(&["chat:write", "im:write", "im:history"]);
    let why = Slack::new(other).unwrap().check().await.unwrap_err();
    assert!(why.starts_with("app_token: Slack answered invalid_auth"), "{why}");
}

#[tokio::test]
async fn bad_settings_are_refused_without_repeating_them() {
    let set = Set::start(Way::None).await;
    let with = |change: fn(&mut Settings)| {
        let mut settings = settings(&set.standin, Way::Socket);
        change(&mut settings);
        Slack::new(settings).err()
    };
    assert_eq!(with(|_| ()), None);
    let bad: [fn(&mut Settings); 12] = [
        |settings| settings.name = "Bad Name".into(),
        |settings| settings.bot_token = "".into(),
        |settings| settings.bot_token = "xapp-canary".into(),
        |settings| settings.bot_token = "xoxb-can ary".into(),
        |settings| settings.bot_token = "xoxb-canary\n".into(),
        |settings| settings.app_token = Some("xoxb-canary".into()),
        |settings| settings.signing_secret = Some("canary".into()),
        |settings| settings.signing_secret = Some("canary canary canary canary".into()),
        |settings| settings.base_url = "http://slack.example/canary/".into(),
        |settings| settings.base_url = "ftp://slack.test/canary/".into(),
        |settings| settings.base_url = "https://slack.test/canary".into(),
        |settings| settings.tuning.connect = settings.tuning.call,
    ];
    for (number, change) in bad.into_iter().enumerate() {
        let why = with(change).unwrap_or_else(|| panic!("setting {number} is taken"));
        assert!(!why.contains("canary"), "{why}");
    }
}

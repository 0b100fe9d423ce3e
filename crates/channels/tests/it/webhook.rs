//! The webhook channel against an HTTP service: the conformance suite, and what is its own.

use crate::http::{Request, Script, Service, respond};
use crate::{NOW_MS, cleared, everything, notice};
use futures_util::future::BoxFuture;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::conformance::{self, Accepted, Behaviour, Fixture, SECRET};
use switchboard_channels::guard::Lookup;
use switchboard_channels::webhook::{ANSWER_BYTES_MAX, Settings, Webhook};
use switchboard_channels::{message, webhook};
use switchboard_core::port::channel::{AddressKind, Channel, FailureClass, NotSent, Part, Performed};
use switchboard_core::time::ManualClock;

/// Headers that must differ between attempts.
const OF_THE_ATTEMPT: [&str; 3] = ["webhook-timestamp", "webhook-signature", "switchboard-attempt"];

struct WebhookFixture {
    service: Service,
    channel: Arc<Webhook>,
}

fn settings(target: &str, lookup: Arc<dyn Lookup>) -> Settings {
    let secret = format!("whsec_{SECRET}YWJjZGVmZ2");
    Settings {
        allow_private_targets: true,
        connect_timeout: Duration::from_secs(2),
        timeout: Duration::from_secs(4),
        lookup,
        ..Settings::new(
            "hook",
            target.into(),
            vec![secret.as_str().into()],
            Arc::new(ManualClock::at(NOW_MS)),
        )
    }
}

impl WebhookFixture {
    async fn start() -> Self {
        let service = Service::start().await;
        let target = format!("http://receiver.test:{}/in?token={SECRET}", service.address.port());
        let channel = Webhook::new(settings(&target, service.lookup())).unwrap();
        Self { service, channel: Arc::new(channel) }
    }

    async fn perform(&self, text: &str) -> Performed {
        self.channel.perform(cleared(notice(&*self.channel, text))).await
    }
}

fn accepted(request: &Request) -> Accepted {
    let kept = request.headers.iter().filter(|(name, _)| !OF_THE_ATTEMPT.contains(&name.as_str()));
    let head: Vec<_> = kept.map(|(name, value)| format!("{name}: {value}")).collect();
    Accepted {
        delivery: request.header("webhook-id").into(),
        text: request.json()["data"]["message"]["text"].as_str().unwrap().into(),
        bytes: [head.join("\n").as_bytes(), &request.body].concat(),
        message_id: Some(format!("m_{}", request.header("webhook-id"))),
    }
}

impl Fixture for WebhookFixture {
    fn channel(&self) -> Arc<dyn Channel> {
        self.channel.clone()
    }

    fn script(&self, behaviour: Behaviour) -> bool {
        self.service.script(Script::As(behaviour));
        true
    }

    fn contacts(&self) -> usize {
        self.service.contacts()
    }

    fn accepted(&self) -> Vec<Accepted> {
        self.service.accepted().iter().map(accepted).collect()
    }

    fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(self.service.until_accepted(count))
    }

    fn address(&self, kind: AddressKind) -> Option<String> {
        Some(if kind == AddressKind::Direct { "Ada Lovelace" } else { "#deployments" }.into())
    }

    fn text_of(&self, part: &Part) -> String {
        message::read(part).unwrap().text.into_owned()
    }

    fn debug(&self) -> String {
        format!("{:?}", self.channel)
    }
}

#[tokio::test]
async fn a_webhook_keeps_every_promise() {
    let report =
        conformance::run(|| Box::pin(async { Box::new(WebhookFixture::start().await) as Box<dyn Fixture> }))
            .await;
    report.assert();
    assert_eq!(
        report.not_applicable(),
        [
            "an_outcome_is_shown_in_place",
            "nothing_is_acknowledged_before_it_is_taken",
            "a_press_brings_back_its_value",
            "what_a_person_changes_is_an_event_of_its_own"
        ]
    );
}

fn refused(performed: Performed) -> NotSent {
    match performed {
        Performed::NotSent(why) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_repeat_has_the_same_id_and_bytes_and_another_attempt() {
    let fixture = WebhookFixture::start().await;
    fixture.service.script(Script::As(Behaviour::AcceptThenFail));
    let mut attempt = everything(&*fixture.channel);
    for number in 1..=2 {
        attempt.attempt = number;
        fixture.channel.perform(cleared(attempt.clone())).await;
    }
    let [first, second] = &fixture.service.accepted()[..] else { panic!() };
    assert_eq!(first.body, second.body);
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    assert_eq!([first, second].map(|request| request.header("switchboard-attempt").to_owned()), ["1", "2"]);
    assert_eq!(first.line, format!("POST /in?token={SECRET} HTTP/1.1"));
    assert_eq!(fixture.service.lookups(), 2, "each attempt looks its target up anew");
}

/// Looks like a port scan from outside: open or closed, it is the same sentence, and nothing was contacted (fault X04).
#[tokio::test]
async fn targets_within_are_refused_before_anything_is_sent() {
    let service = Service::start().await;
    let mut reasons = Vec::new();
    for port in [service.address.port(), 9] {
        let target = format!("https://receiver.test:{port}/");
        let settings = Settings { allow_private_targets: false, ..settings(&target, service.lookup()) };
        let channel = Webhook::new(settings).unwrap();
        let why = refused(channel.perform(cleared(notice(&channel, "hello"))).await);
        assert_eq!(why.class, FailureClass::Misconfigured);
        reasons.push(why.reason);
    }
    assert!(reasons[0].contains("allow_private_targets"), "{reasons:?}");
    assert_eq!(reasons[0], reasons[1]);
    assert_eq!(service.contacts(), 0);
}

#[tokio::test]
async fn a_check_connects_where_that_is_allowed_and_posts_nothing() {
    let service = Service::start().await;
    let target = format!("http://receiver.test:{}/in?token={SECRET}", service.address.port());
    let check = async |settings: Settings| Webhook::new(settings).unwrap().check().await;
    let account = check(settings(&target, service.lookup())).await.unwrap().account;
    assert_eq!(account, format!("http://receiver.test:{} takes connections", service.address.port()));
    let literal = format!("http://{}/", service.address);
    assert!(check(settings(&literal, service.lookup())).await.is_ok());
    let within = Settings {
        allow_private_targets: false,
        ..settings(&target.replacen("http:", "https:", 1), service.lookup())
    };
    let why = check(within).await.unwrap_err();
    assert!(why.contains("set allow_private_targets"), "{why}");
    let port = service.address.port();
    let lookup = service.lookup();
    assert!(service.accepted().is_empty());
    drop(service);
    let closed = check(settings(&format!("http://receiver.test:{port}/?token={SECRET}"), lookup)).await;
    let why = closed.unwrap_err();
    assert!(why.starts_with("target: ") && !why.contains(SECRET), "{why}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (fixture, elsewhere) = (WebhookFixture::start().await, Service::start().await);
    let location = format!("location: http://{}/\r\n", elsewhere.address);
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        fixture.service.script(Script::Raw(respond(status, &location, "")));
        assert_eq!(refused(fixture.perform("hello").await).class, FailureClass::Permanent);
    }
    assert_eq!(elsewhere.contacts(), 0);
}

/// A test of its own process, because a process has but one environment: the redirects' test in one that names a proxy.
#[tokio::test]
async fn the_environment_sets_no_proxy() {
    let proxy = Service::start().await;
    let url = format!("http://{}", proxy.address);
    let mut tests = tokio::process::Command::new(std::env::current_exe().unwrap());
    tests.args(["--exact", "webhook::redirects_are_not_followed"]).kill_on_drop(true);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        tests.env(name, &url);
    }
    let done = tokio::time::timeout(Duration::from_mins(1), tests.output()).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(proxy.contacts(), 0);
}

#[tokio::test]
async fn answers_are_read_to_a_bound() {
    let fixture = WebhookFixture::start().await;
    fixture.service.script(Script::Endless);
    assert_eq!(fixture.perform("hello").await, Performed::Sent { message_id: None });
    let long = format!("{{\"pad\":\"{}\",\"id\":\"m1\"}}", "x".repeat(ANSWER_BYTES_MAX));
    fixture.service.script(Script::Raw(respond("200 OK", "", &long)));
    assert_eq!(fixture.perform("hello").await, Performed::Sent { message_id: None });
    let cut = b"HTTP/1.1 202 Accepted\r\ncontent-length: 50\r\n\r\n{\"id\":".to_vec();
    fixture.service.script(Script::Raw(cut));
    assert_eq!(
        fixture.perform("hello").await,
        Performed::Sent { message_id: None },
        "the status has confirmed"
    );
}

#[tokio::test]
async fn a_service_without_tls_gets_nothing_of_a_message_for_https() {
    let service = Service::start().await;
    let target = format!("https://receiver.test:{}/", service.address.port());
    let channel = Webhook::new(settings(&target, service.lookup())).unwrap();
    let why = refused(channel.perform(cleared(notice(&channel, "hello"))).await);
    assert_eq!(why.class, FailureClass::Transient, "{why:?}");
    assert!(service.accepted().is_empty());
}

/// A handshake and a lookup that never end use up the time to connect, and nothing has been said by then.
#[tokio::test]
async fn whoever_cannot_be_reached_in_time_has_got_nothing() {
    struct Never;
    impl Lookup for Never {
        fn lookup(&self, _host: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
            Box::pin(std::future::pending())
        }
    }
    let service = Service::start().await;
    let target = format!("https://receiver.test:{}/", service.address.port());
    service.script(Script::Mute);
    for lookup in [service.lookup(), Arc::new(Never)] {
        let settings = Settings { connect_timeout: Duration::from_millis(500), ..settings(&target, lookup) };
        let channel = Webhook::new(settings).unwrap();
        let why = refused(channel.perform(cleared(notice(&channel, "hello"))).await);
        assert_eq!(
            (why.class, why.reason.contains("time ran out")),
            (FailureClass::Transient, true),
            "{why:?}"
        );
    }
    assert_eq!(service.contacts(), 1);
}

#[tokio::test]
async fn certificates_are_checked() {
    let (service, authority) = Service::start_tls("receiver.test").await;
    let target = |host: &str| format!("https://{host}:{}/", service.address.port());
    let send = async |host: &str, authorities_pem: Option<&str>| {
        let authorities_pem = authorities_pem.map(|pem| pem.as_bytes().to_vec());
        let settings = Settings { authorities_pem, ..settings(&target(host), service.lookup()) };
        let channel = Webhook::new(settings).unwrap();
        channel.perform(cleared(notice(&channel, "hello"))).await
    };
    for performed in [send("receiver.test", None).await, send("other.test", Some(&authority)).await] {
        assert_eq!(refused(performed).class, FailureClass::Transient);
    }
    assert!(service.accepted().is_empty(), "nothing was said to whoever has no certificate");
    let performed = send("receiver.test", Some(&authority)).await;
    assert!(matches!(performed, Performed::Sent { message_id: Some(_) }), "{performed:?}");
}

#[test]
fn bad_settings_are_refused_without_repeating_them() {
    let lookup: Arc<dyn Lookup> = Arc::new(switchboard_channels::guard::SystemLookup);
    let with = |change: fn(&mut Settings)| {
        let mut settings = settings("https://receiver.test/canary", lookup.clone());
        settings.allow_private_targets = false;
        change(&mut settings);
        Webhook::new(settings).err()
    };
    assert_eq!(with(|_| ()), None);
    let bad: [fn(&mut Settings); 17] = [
        |settings| settings.name = "Bad Name".into(),
        |settings| settings.target = "canary".into(),
        |settings| settings.target = "ftp://receiver.test/canary".into(),
        |settings| settings.target = "http://receiver.test/canary".into(),
        |settings| settings.target = "https://user:canary@receiver.test/".into(),
        |settings| settings.target = "https://127.0.0.1/canary".into(),
        |settings| settings.target = "https://0x7f.1/canary".into(),
        |settings| settings.target = "https://2130706433/canary".into(),
        |settings| settings.target = "https://[::1]/canary".into(),
        |settings| settings.target = "https://[::ffff:7f00:1]/canary".into(),
        |settings| settings.target = "https://169.254.169.254/canary".into(),
        |settings| settings.secrets = Vec::new(),
        |settings| settings.secrets = vec!["canary".into()],
        |settings| settings.secrets.push("whsec_Y2FuYXJ5".into()),
        |settings| settings.authorities_pem = Some(b"canary".to_vec()),
        |settings| settings.connect_timeout = Duration::ZERO,
        |settings| settings.timeout = settings.connect_timeout,
    ];
    for (number, change) in bad.into_iter().enumerate() {
        let why = with(change).unwrap_or_else(|| panic!("setting {number} is taken"));
        assert!(!why.contains("canary") && !why.contains("Y2FuYXJ5"), "{why}");
    }
    assert_eq!(webhook::KIND, "webhook");
}

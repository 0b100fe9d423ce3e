//! The link in a mail that asks for an approval: it decides without a session, once, that one thing, and only while its person may.

use super::{Desk, by_clock, in_time, notice, options};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use switchboard_channels::fake::{CAPABILITIES, FakeNetwork, Script};
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{
    AddressKind, Capabilities, Channel, Draft, FailureClass, Inbound, NotSent, Part, Performed,
};
use switchboard_testkit::Options;

const CARE: &str = "[[require_approval]]\nname = \"care\"\ntool = \"messaging.send\"\nparam = \"body\"\ncontains = \"deploy\"\n";

/// The network in memory, as a mail system that shows links.
struct Mails(Arc<FakeNetwork>);

impl Channel for Mails {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn kind(&self) -> &'static str {
        "email"
    }

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn normalise(&self, kind: AddressKind, to: &str) -> Result<String, String> {
        self.0.normalise(kind, to)
    }

    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        let text = format!("{}\n\n{}", draft.body, draft.link.unwrap_or_default());
        Ok(vec![Part { html: Some(format!("<p>{text}</p>")), text, ..Part::default() }])
    }

    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed> {
        self.0.perform(attempt)
    }

    fn listen(self: Arc<Self>, inbound: Arc<dyn Inbound>) -> BoxFuture<'static, ()> {
        self.0.clone().listen(inbound)
    }
}

/// A desk whose rules hold what says "deploy" until the boss, who is asked by mail, or somebody else approves it.
struct Post {
    desk: Desk,
    mails: Arc<FakeNetwork>,
    client: reqwest::Client,
    taken: usize,
}

impl Post {
    async fn open(mut options: Options, rules: &Path) -> Self {
        std::fs::write(rules.join("care.toml"), CARE).unwrap();
        options.settings.policy_dir = Some(rules.to_owned());
        options.settings.outbound.approvers = vec![("post".into(), "boss".into())];
        let mut desk = Desk::with(options, CAPABILITIES).await;
        let mails = FakeNetwork::new("post");
        desk.add(Arc::new(Mails(mails.clone())), false).await;
        assert_eq!(desk.allow("post", "boss", true).await.status, 200);
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self { desk, mails, client, taken: 0 }
    }

    /// A call that is held, and the path of the link in the mail about it.
    async fn held(&mut self, text: &str) -> (Value, String) {
        let receipt = self.desk.sent(&notice("ada", text)).await;
        assert_eq!(receipt["state"], "held", "{receipt}");
        self.taken += 1;
        in_time(self.mails.until_accepted(self.taken)).await;
        let part = self.mails.accepted().pop().unwrap().part;
        let path = path(&part.text);
        assert!(part.html.unwrap().contains(&path), "both forms carry it");
        (receipt, path)
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let response = self.client.get(format!("{}{path}", self.desk.hub.url)).send().await.unwrap();
        let headers = response.headers().clone();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        assert_eq!((header("cache-control"), header("referrer-policy")), ("no-store", "strict-origin"));
        assert!(header("content-security-policy").contains("default-src 'none'"));
        assert!(!headers.contains_key("set-cookie"), "nobody is let in");
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn post(&self, path: &str, decision: &str) -> (u16, String) {
        self.post_from(path, decision, &self.desk.hub.url.clone()).await
    }

    async fn post_from(&self, path: &str, decision: &str, origin: &str) -> (u16, String) {
        let request = self.client.post(format!("{}{path}", self.desk.hub.url)).header("origin", origin);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let response = request.body(format!("decision={decision}")).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn log(&self) -> String {
        self.desk.admin().get("/admin/v1/log?limit=500").await.text
    }
}

fn path(text: &str) -> String {
    let at = text.find("/console/decide/").unwrap_or_else(|| panic!("no link in {text}"));
    text[at..].split_whitespace().next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_link_decides_once_without_a_session_and_looking_changes_nothing() {
    let rules = tempfile::tempdir().unwrap();
    let mut post = Post::open(options(), rules.path()).await;
    let (receipt, link) = post.held("Please deploy <b>7</b>.").await;
    let proof = link.rsplit('.').next().unwrap().to_owned();
    assert!(proof.len() > 40, "{link}");
    for _ in 0..2 {
        let (status, page) = post.get(&link).await;
        assert_eq!(status, 200, "{page}");
        assert!(page.contains("Please deploy &lt;b&gt;7&lt;/b&gt;.") && page.contains("planner"), "{page}");
        assert!(page.contains("Approve") && page.contains("Deny") && page.contains("care"), "{page}");
    }
    assert_eq!(post.desk.show(&receipt["send_id"]).await["state"], "held", "looking decides nothing");
    let (status, page) = post.post_from(&link, "approve", "http://evil.test").await;
    assert!(status == 403 && page.contains("another origin"), "{status} {page}");
    assert_eq!(post.post(&link, "perhaps").await.0, 400);
    assert_eq!(post.desk.show(&receipt["send_id"]).await["state"], "held");

    assert_eq!(post.post(&link, "approve").await.0, 303);
    let shown = post.desk.until(&receipt["send_id"], "delivered").await;
    assert_eq!(
        (&shown["approval"]["decided_by"], &shown["approval"]["decided_via"]),
        (&json!("boss"), &json!("mail-link"))
    );
    let (status, page) = post.post(&link, "deny").await;
    assert!(status == 409 && page.contains("already approved by boss"), "{status} {page}");
    let (status, page) = post.get(&link).await;
    assert!(status == 200 && page.contains("mail-link") && !page.contains("<form"), "{page}");
    let log = post.log().await;
    assert_eq!(log.matches("outbound.decided").count(), 1, "{log}");
    assert!(log.contains("via=mail-link") && log.contains(" sig="), "{log}");
    assert!(!log.contains(&proof), "what decides stands nowhere");
    post.desk.ledger().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_decides_is_not_stored() {
    let rules = tempfile::tempdir().unwrap();
    let mut post = Post::open(options(), rules.path()).await;
    let (_, link) = post.held("Please deploy 7.").await;
    let proof = link.rsplit('.').next().unwrap().as_bytes().to_vec();
    let stored = |dir: &Path| {
        let files =
            std::fs::read_dir(dir).unwrap().filter_map(|entry| std::fs::read(entry.unwrap().path()).ok());
        files.flatten().collect::<Vec<u8>>()
    };
    let stored = stored(&post.desk.hub.dir());
    let holds = |what: &[u8]| stored.windows(what.len()).any(|window| window == what);
    if switchboard_testkit::store::backend() == "sqlite" {
        assert!(holds(b"/console/decide/snd_"), "this is where it would be");
    }
    assert!(!holds(&proof));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_is_for_one_thing_and_for_who_may_still_decide() {
    let rules = tempfile::tempdir().unwrap();
    let mut post = Post::open(options(), rules.path()).await;
    let (first, one) = post.held("Please deploy one.").await;
    let (second, other) = post.held("Please deploy two.").await;
    let (id, proof) = one.rsplit_once('.').unwrap();
    let (other_id, other_proof) = other.rsplit_once('.').unwrap();
    let last = if proof.ends_with('0') { "1" } else { "0" };
    let wrong = [
        format!("{other_id}.{proof}"),
        format!("{id}.{other_proof}"),
        format!("{}{last}", &one[..one.len() - 1]),
        one[..one.len() - 1].to_owned(),
        id.to_owned(),
        format!("/console/decide/{}.{proof}", first["send_id"].as_str().unwrap()),
        "/console/decide/x".to_owned(),
        format!("/console/decide/{}", "x".repeat(4000)),
    ];
    let mut told = std::collections::HashSet::new();
    told.insert(post.get(&wrong[0]).await.1);
    for wrong in &wrong {
        let (status, page) = post.post(wrong, "approve").await;
        assert_eq!(status, 404, "{wrong}: {page}");
        told.insert(page);
    }
    assert_eq!(post.desk.allow("post", "boss", false).await.status, 200);
    told.insert(post.get(&one).await.1);
    let (status, page) = post.post(&one, "approve").await;
    assert_eq!(status, 404, "{page}");
    told.insert(page);
    assert_eq!(told.len(), 1, "one answer for all: {told:?}");
    for receipt in [&first, &second] {
        assert_eq!(post.desk.show(&receipt["send_id"]).await["state"], "held");
    }
    assert_eq!(post.desk.allow("post", "boss", true).await.status, 200);
    assert_eq!(post.post(&other, "deny").await.0, 303);
    assert_eq!(post.desk.until(&second["send_id"], "refused").await["approval"]["state"], "denied");
    assert_eq!(post.desk.show(&first["send_id"]).await["state"], "held", "the other one waits on");
    assert!(post.get(&other).await.1.contains("Denied"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_are_counted_and_shut_out_nobody_else() {
    let rules = tempfile::tempdir().unwrap();
    let mut post = Post::open(options(), rules.path()).await;
    let (receipt, link) = post.held("Please deploy one.").await;
    let (_, other) = post.held("Please deploy two.").await;
    let id = other.rsplit_once('.').unwrap().0;
    let mut statuses = Vec::new();
    for number in 0..12 {
        statuses.push(post.get(&format!("{id}.{number}")).await.0);
    }
    assert_eq!(statuses, [[404; 10].as_slice(), &[429; 2]].concat());
    assert_eq!(post.get(&other).await.0, 429, "not even the right one, for now");
    for number in 0..100 {
        post.get(&format!("/console/decide/snd_{number}.x")).await;
    }
    assert_eq!(post.get("/console/decide/snd_none.x").await.0, 429);
    assert_eq!(
        post.post(&link, "approve").await.0,
        303,
        "a right link is not kept out by the guesses of others"
    );
    post.desk.until(&receipt["send_id"], "delivered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_ends_with_the_time_to_decide() {
    let rules = tempfile::tempdir().unwrap();
    let (options, clock) = by_clock();
    let mut post = Post::open(options, rules.path()).await;
    let (receipt, link) = post.held("Please deploy 7.").await;
    clock.advance(25 * 3_600_000);
    let (status, page) = post.get(&link).await;
    assert!(status == 200 && page.contains("Its time is over") && !page.contains("<form"), "{page}");
    let (status, page) = post.post(&link, "approve").await;
    assert!(status == 409 && page.contains("the time to decide this was over"), "{status} {page}");
    post.desk.until(&receipt["send_id"], "refused").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_carries_the_same_link() {
    let rules = tempfile::tempdir().unwrap();
    let mut post = Post::open(options(), rules.path()).await;
    let slowly = NotSent::new(FailureClass::Throttled, "slowly");
    post.mails.script([Script::NotSent(NotSent { retry_after_ms: Some(1), ..slowly })]);
    let (_, link) = post.held("Please deploy 7.").await;
    let parts: Vec<_> = post.mails.attempts().into_iter().map(|attempt| attempt.part).collect();
    assert_eq!((parts.len(), &parts[0]), (2, &parts[1]), "the same bytes");
    assert_eq!(path(&parts[0].text), link);
}

//! The process ends, as by `kill -9`, between every two steps of a send to a person. Afterwards nothing has gone out twice in silence,
//! nothing is lost in silence, and what nobody can know is shown as that.

use super::relay::{Relay, STEPS, Step};
use crate::people::standin::{SECRET, StandIn};
use crate::people::{CONSENTS, OUTBOUND, SEND, books};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use switchboard_engine::fault::VARIABLE;
use switchboard_testkit::mail::person::header;
use switchboard_testkit::{Http, PATIENCE, Process};

/// Where it ends, in the order of the steps.
const POINTS: [&str; 5] = ["before-accept", "after-accept", "after-claim", "after-perform", "after-record"];

/// Where the process ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// At one of [`POINTS`].
    Point(&'static str),
    /// When the relay has heard this.
    Relay(Step),
}

/// A data directory with its configuration: a program of one's own that counts, a webhook to one that does, and mail by a relay that does.
struct Place {
    dir: tempfile::TempDir,
    standin: Arc<StandIn>,
    relay: Arc<Relay>,
}

/// Writes a configuration with the channels `pager` (a program that adds each delivery to a file) and `hook`; its file.
pub(crate) fn configure(dir: &Path, target: &str) -> PathBuf {
    let (script, secret, config) = (dir.join("deliver.sh"), dir.join("secret"), dir.join("hub.toml"));
    let deliver = format!(
        "cat >> {}\necho '{{\"status\":\"sent\",\"message_id\":\"m1\"}}'\n",
        dir.join("paged").display()
    );
    std::fs::write(&script, deliver).unwrap();
    std::fs::write(&secret, SECRET).unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = format!(
        "[[channel]]\nname = \"pager\"\nkind = \"exec\"\ncommand = [\"/bin/sh\", \"{}\"]\n\
         [[channel]]\nname = \"hook\"\nkind = \"webhook\"\ntarget = \"{target}\"\nsecret_file = \"{}\"\n\
         allow_private_targets = true\n",
        script.display(),
        secret.display(),
    );
    std::fs::write(&config, text).unwrap();
    config
}

/// The deliveries that the program got, by id.
pub(crate) fn paged(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("paged")).unwrap_or_default();
    let id = |line: &str| {
        let document: Value = serde_json::from_str(line).unwrap();
        document["delivery"].as_str().or(document["id"].as_str()).unwrap_or_default().to_owned()
    };
    text.lines().map(id).collect()
}

impl Place {
    async fn new() -> Self {
        let (standin, relay) = (StandIn::start([]).await, Relay::start().await);
        let place = Self { dir: tempfile::tempdir().unwrap(), standin, relay };
        let config = configure(place.dir.path(), &place.standin.url);
        let (text, port) = (std::fs::read_to_string(&config).unwrap(), place.relay.port);
        let mail = |name: &str, relay_dedups: bool| {
            format!(
                "[[channel]]\nname = \"{name}\"\nkind = \"email\"\nsmtp_url = \"smtp+plain://127.0.0.1:{port}\"\n\
                 from = \"hub@example.test\"\nrelay_dedups = {relay_dedups}\n"
            )
        };
        let text = [text, mail("mail", false), mail("sure-mail", true)].concat();
        std::fs::write(&config, text).unwrap();
        place
    }

    async fn start(&self, point: Option<&str>) -> Process {
        let data = self.dir.path().join("data");
        let config = self.dir.path().join("hub.toml").display().to_string();
        let store: Vec<_> = switchboard_testkit::store::variables(&data).collect();
        let store = store.iter().map(|(name, value)| (*name, value.as_str()));
        let point = point.map(|point| (VARIABLE, point));
        let variables: Vec<_> =
            [("SWITCHBOARD_CONFIG", config.as_str())].into_iter().chain(point).chain(store).collect();
        Process::start_set(Path::new(env!("CARGO_BIN_EXE_switchboard")), &data, &variables).await
    }

    /// Ids of what has reached the channel, one for each time.
    fn arrived(&self, channel: &str) -> Vec<String> {
        match channel {
            "pager" => paged(self.dir.path()),
            "mail" | "sure-mail" => {
                self.relay.taken().iter().map(|mail| header(mail, "Message-ID")).collect()
            }
            _ => self.standin.came().into_iter().map(|came| came.id).collect(),
        }
    }
}

/// What a send is like after the restart.
#[derive(Debug, PartialEq)]
enum After {
    /// It had not been accepted; the caller's repeat is the first.
    Fresh,
    /// It has arrived, having reached the channel so often under one id.
    Arrived(usize),
    /// Nobody knows, and it has reached the channel so often.
    Unknown(usize),
}

async fn state(admin: &Http, send_id: &Value) -> Value {
    admin.get(&format!("{OUTBOUND}/{}", send_id.as_str().unwrap())).await.json()
}

/// Waits for one of these states.
pub(crate) async fn until(admin: &Http, send_id: &Value, states: &[&str]) -> Value {
    let mut shown = Value::Null;
    let looked = async {
        loop {
            shown = state(admin, send_id).await;
            if states.contains(&shown["state"].as_str().unwrap()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await; // another process: nothing rings here
        }
    };
    // On a database that others share, a dead node is one only after a while.
    assert!(tokio::time::timeout(2 * PATIENCE, looked).await.is_ok(), "not in time: {shown}");
    shown
}

/// Sends, dies there, starts again, and sends once more under the same key, as an agent does that got no answer.
async fn die_at(place: &Place, channel: &str, end: End) -> After {
    let point = match end {
        End::Point(point) => Some(point),
        End::Relay(step) => {
            place.relay.fall_silent(Some(step));
            None
        }
    };
    let process = place.start(point).await;
    let token = process.token("planner").await;
    let admin = process.admin();
    let mut to = if channel.ends_with("mail") { "ada@example.test" } else { "ada" }.to_owned();
    if channel == "console" {
        let known = admin.get("/v1/tools/messaging.channels").await.json();
        let console =
            known["channels"].as_array().unwrap().iter().find(|one| one["name"] == "console").unwrap();
        console["reachable"][0]["to"].as_str().unwrap().clone_into(&mut to);
    } else {
        let agreed = admin.post(CONSENTS, &json!({ "channel": channel, "to": to, "allow": true })).await;
        assert_eq!(agreed.status, 200, "{}", agreed.text);
    }
    let call = json!({ "channel": channel, "to": to, "body": "once", "message_kind": "notice", "idempotency_key": "k" });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request =
        client.post(format!("{}{SEND}", process.url)).bearer_auth(&token.bearer).body(call.to_string());
    let answered = request.header("content-type", "application/json").send();
    let ended = async {
        if point.is_some() {
            assert_eq!(process.ended().await, None, "it was ended at {end:?}");
        } else {
            tokio::time::timeout(2 * PATIENCE, place.relay.reached()).await.expect("it gets there in time");
            process.kill().await;
            place.relay.fall_silent(None);
        }
    };
    let (answered, ()) = tokio::join!(answered, ended);
    drop(answered); // an answer, if there was one: the receipt may have been faster than the end

    let process = place.start(None).await;
    let admin = process.admin();
    let reply = Http::new(&process.url, &token.bearer).post(SEND, &call).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let receipt = reply.json();
    let shown = until(&admin, &receipt["send_id"], &["delivered", "unknown"]).await;
    let counts = books(&admin).await;
    assert_eq!(counts["accepted"], 1, "{end:?}: one call, one send");
    let arrived = place.arrived(channel);
    assert!(arrived.iter().collect::<HashSet<_>>().len() <= 1, "{end:?}: two messages: {arrived:?}");
    let after = match (&receipt["deduplicated"], shown["state"].as_str().unwrap()) {
        (Value::Bool(false), _) => After::Fresh,
        (_, "delivered") => After::Arrived(arrived.len()),
        _ => After::Unknown(arrived.len()),
    };
    if shown["state"] == "unknown" {
        unknown_is_shown_and_stays(&process, place, channel, &shown).await;
    } else {
        assert!(channel == "console" || !arrived.is_empty(), "{end:?}: delivered, and nobody has it");
    }
    process.kill().await;
    after
}

async fn unknown_is_shown_and_stays(process: &Process, place: &Place, channel: &str, shown: &Value) {
    let (admin, id) = (process.admin(), &shown["send_id"]);
    assert_eq!(books(&admin).await["unknown"], 1);
    let listed = admin.get(&format!("{OUTBOUND}?state=unknown")).await.json();
    assert_eq!(&listed["sends"][0]["send_id"], id, "{listed}");
    let before = place.arrived(channel).len();
    let retried = admin.post(&format!("{OUTBOUND}/{}/retry", id.as_str().unwrap()), &json!({})).await;
    assert_eq!(retried.status, 200, "{}", retried.text);
    until(&admin, id, &["delivered"]).await;
    assert_eq!(place.arrived(channel).len(), before + 1, "a person asked for one more, and got one");
}

async fn die_everywhere(channel: &str) -> Vec<After> {
    let mut all = Vec::new();
    for point in POINTS {
        all.push(die_at(&Place::new().await, channel, End::Point(point)).await);
    }
    all
}

async fn die_in_every_step_of_smtp(channel: &str) -> Vec<After> {
    let mut all = Vec::new();
    for step in STEPS {
        let place = Place::new().await;
        let after = die_at(&place, channel, End::Relay(step)).await;
        let taken: HashSet<_> = place.relay.taken().into_iter().collect();
        // What a person has sent again is another mail, under an id of its own (fault O05).
        let by_hand = usize::from(matches!(after, After::Unknown(_)));
        assert!(taken.len() <= 1 + by_hand, "{step:?}: a repeat has the same bytes: {taken:?}");
        all.push(after);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_keeps_no_ids_is_never_started_twice_in_silence() {
    let expected = [After::Fresh, After::Arrived(1), After::Unknown(0), After::Unknown(1), After::Arrived(1)];
    assert_eq!(die_everywhere("pager").await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_gets_everything_and_repeats_under_one_id() {
    let expected = [After::Fresh, After::Arrived(1), After::Arrived(1), After::Arrived(2), After::Arrived(1)];
    assert_eq!(die_everywhere("hook").await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_has_everything_once() {
    let expected = [After::Fresh, After::Arrived(0), After::Arrived(0), After::Arrived(0), After::Arrived(0)];
    assert_eq!(die_everywhere("console").await, expected);
}

// As long as nobody vouches for the relay, a message id promises nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_is_never_sent_twice_in_silence() {
    let expected = [After::Fresh, After::Arrived(1), After::Unknown(0), After::Unknown(1), After::Arrived(1)];
    assert_eq!(die_everywhere("mail").await, expected);
    let [connected, hello, sender, recipient, data] = [0; 5].map(After::Unknown);
    let expected = [connected, hello, sender, recipient, data, After::Unknown(1)];
    assert_eq!(die_in_every_step_of_smtp("mail").await, expected);
}

// Where the relay drops what it has had, a repeat is the same mail to the byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_by_a_relay_that_drops_repeats_gets_there_and_repeats_as_the_same_mail() {
    let expected = [After::Fresh, After::Arrived(1), After::Arrived(1), After::Arrived(2), After::Arrived(1)];
    assert_eq!(die_everywhere("sure-mail").await, expected);
    let [connected, hello, sender, recipient, data] = [1; 5].map(After::Arrived);
    let expected = [connected, hello, sender, recipient, data, After::Arrived(2)];
    assert_eq!(die_in_every_step_of_smtp("sure-mail").await, expected);
}

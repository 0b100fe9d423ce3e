//! The suite, over Socket Mode and over what Slack posts.

use super::{Set, Way, bot_token};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use switchboard_channels::conformance::{self, Accepted, Behaviour, Check, Fixture, Shown};
use switchboard_channels::document::slack::{Mrkdwn, tame};
use switchboard_channels::document::{Document, render};
use switchboard_channels::slack::FOOTER;
use switchboard_core::port::channel::{AddressKind, Channel, Part};
use switchboard_standin::slack::{ADA, GENERAL, text};

struct SlackFixture {
    set: Set,
    /// Messages of people, by the event in which they came.
    said: Mutex<HashMap<String, String>>,
}

/// What a person reads, without what the channel adds below.
fn without_footer(text: &str) -> String {
    let start = if text.starts_with(FOOTER) { Some(0) } else { text.rfind(&format!("\n\n{FOOTER}")) };
    text[..start.unwrap_or(text.len())].to_owned()
}

impl Fixture for SlackFixture {
    fn channel(&self) -> Arc<dyn Channel> {
        self.set.channel.clone()
    }

    fn script(&self, behaviour: Behaviour) -> bool {
        self.set.standin.script(behaviour)
    }

    fn contacts(&self) -> usize {
        self.set.standin.contacts()
    }

    fn accepted(&self) -> Vec<Accepted> {
        let accepted = self.set.standin.accepted().into_iter();
        accepted.map(|one| Accepted { text: without_footer(&one.text), ..one }).collect()
    }

    fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(self.set.standin.until_accepted(count))
    }

    fn address(&self, kind: AddressKind) -> Option<String> {
        Some(if kind == AddressKind::Direct { ADA.to_lowercase() } else { GENERAL.to_owned() })
    }

    fn junk(&self) -> Vec<String> {
        ["@ada", "#general", "ada@example.org", "D024BE7LH", "<@U024BE7LH>", "B0BOT00001", "C024BE91L:1.2"]
            .map(Into::into)
            .into()
    }

    fn text_of(&self, part: &Part) -> String {
        without_footer(&text::read(&part.text).text)
    }

    fn rendered(&self, body: &str) -> String {
        text::read(&render(&tame(&Document::parse(body)), &Mrkdwn)).text
    }

    fn debug(&self) -> String {
        format!("{:?}", self.set.channel)
    }

    fn offer(&self, event: &str, text: &str) -> bool {
        let id = self.set.standin.write(ADA, None, None, text, event);
        self.said.lock().insert(event.to_owned(), id);
        true
    }

    fn acknowledged(&self) -> usize {
        self.set.standin.acknowledged()
    }

    fn until_acknowledged(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(self.set.standin.until_acknowledged(count))
    }

    fn press(&self, _event: &str, message_id: &str, value: &str) -> bool {
        self.set.standin.press(ADA, message_id, value)
    }

    fn change(&self, event: &str, of: &str, text: Option<&str>) -> bool {
        let id = self.said.lock().get(of).cloned();
        id.is_some_and(|id| self.set.standin.edit(&id, text, event))
    }

    fn shown(&self, message_id: &str) -> Option<Shown> {
        self.set.standin.shown(message_id)
    }

    fn bring_again(&self) {
        self.set.standin.bring_again();
    }
}

/// Checks that prepare every hostile text. They keep a thread busy for seconds, in which the times of others would run out.
const BUSY: [&str; 4] = [
    "preparing_is_pure",
    "parts_are_within_the_limits",
    "nothing_of_the_text_is_lost",
    "hostile_text_arrives_as_it_was",
];

fn make() -> BoxFuture<'static, Box<dyn Fixture>> {
    Box::pin(async {
        let set = Set::start(Way::Socket).await;
        Box::new(SlackFixture { set, said: Mutex::default() }) as Box<dyn Fixture>
    })
}

#[tokio::test]
async fn slack_keeps_every_promise() {
    let (busy, others): (Vec<Check>, Vec<Check>) =
        conformance::CHECKS.iter().copied().partition(|check| BUSY.contains(&check.name));
    for check in busy {
        conformance::run_some(&[check], make).await.assert();
    }
    let report = conformance::run_some(&others, make).await;
    report.assert();
    assert_eq!(report.not_applicable(), ["a_channel_without_answers_never_ends_to_listen"]);
    assert_eq!(report.verdicts.len() + BUSY.len(), conformance::CHECKS.len());
}

#[tokio::test]
async fn no_hostile_text_calls_anybody() {
    let set = Set::start(Way::Socket).await;
    for (what, body) in conformance::bodies::hostile() {
        let draft = switchboard_core::port::channel::Draft { body: &body, ..super::NOTICE };
        let Ok(parts) = set.channel.prepare(&draft) else { continue };
        for part in parts.into_iter().take(2) {
            let attempt = super::Attempt {
                part,
                ..super::attempt(&*set.channel, &super::NOTICE, AddressKind::Channel)
            };
            let performed = set.perform(&attempt).await;
            assert!(matches!(performed, super::Performed::Sent { .. }), "{what}: {performed:?}");
        }
    }
    let (mentions, links) = set.standin.called();
    assert_eq!(mentions, Vec::<String>::new());
    assert!(links.iter().all(|link| link.starts_with("https://")), "{links:?}");
    assert!(
        set.standin.calls().iter().all(|call| call == "chat.postMessage"),
        "a shared channel is not opened"
    );
    assert!(!format!("{:?}", set.channel).contains(&bot_token()));
}

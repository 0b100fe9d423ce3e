//! The content of the events that we send. Every one names nobody (`m.mentions`), so that its text pings nobody, whatever stands in it.

use super::prepare;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_core::port::channel::{Amendment, Attempt, Part};

/// Where an event says what it is to us.
pub(super) const OWN_KEY: &str = "io.switchboard.message";
/// The name of HTML in a message.
const HTML_FORMAT: &str = "org.matrix.custom.html";

/// What our events say beside what people read: a reaction is read by it, also after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Own {
    /// The delivery.
    pub delivery: String,
    /// What the choices bring back, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// Where a message stands in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relation {
    /// The event that it answers.
    pub answers: String,
    /// The root of the thread that it belongs to.
    pub thread: Option<String>,
}

impl Relation {
    fn value(&self) -> Value {
        let answers = json!({ "event_id": self.answers });
        match &self.thread {
            Some(root) => {
                json!({ "rel_type": "m.thread", "event_id": root, "is_falling_back": true, "m.in_reply_to": answers })
            }
            None => json!({ "m.in_reply_to": answers }),
        }
    }
}

/// The message of an attempt. The same attempt gives the same content.
pub(super) fn message(attempt: &Attempt, relation: Option<&Relation>) -> Value {
    let choices = attempt.part.buttons.iter().map(|button| button.value.clone()).collect();
    let own = Own { delivery: attempt.delivery.clone(), choices };
    let mut content = text("m.text", &attempt.part, Some(&own));
    if let Some(relation) = relation {
        content["m.relates_to"] = relation.value();
    }
    content
}

/// The change that shows an outcome under a message and takes its choices away. What clients show that know no changes is the outcome alone:
/// the text twice would be too long for an event.
pub(super) fn amended(amendment: &Amendment) -> Value {
    let outcome = prepare::line(&amendment.outcome);
    let asked = prepare::without_choices(&amendment.part);
    let part = Part {
        text: format!("{}\n\n{}", asked.text, outcome.text),
        html: joined(asked.html.as_deref(), outcome.html.as_deref()),
        ..Part::default()
    };
    let own = Own { delivery: amendment.delivery.clone(), choices: Vec::new() };
    let mut content =
        text("m.text", &Part { text: format!("* {}", outcome.text), ..Part::default() }, Some(&own));
    content["m.new_content"] = text("m.text", &part, Some(&own));
    content["m.relates_to"] = json!({ "rel_type": "m.replace", "event_id": amendment.message_id });
    content
}

fn joined(html: Option<&str>, outcome: Option<&str>) -> Option<String> {
    Some(format!("{}\n{}", html?, outcome?))
}

/// One sentence to somebody who wrote. Programs never answer a notice.
pub(super) fn notice(sentence: &str, relation: &Relation) -> Value {
    let mut content = text("m.notice", &prepare::line(sentence), None);
    content["m.relates_to"] = relation.value();
    content
}

fn text(kind: &str, part: &Part, own: Option<&Own>) -> Value {
    let mut content = json!({ "msgtype": kind, "body": part.text, "m.mentions": {} });
    if let Some(html) = &part.html {
        content["format"] = HTML_FORMAT.into();
        content["formatted_body"] = html.as_str().into();
    }
    if let Some(own) = own {
        content[OWN_KEY] = json!(own);
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_core::port::channel::{Address, AddressKind, Button};

    fn attempt() -> Attempt {
        Attempt {
            delivery: "dlv_1".into(),
            attempt: 1,
            channel: "matrix".into(),
            to: Address { kind: AddressKind::Direct, handle: "@ada:x.test".into() },
            part: Part {
                text: "Go?".into(),
                html: Some("<p>Go?</p>".into()),
                buttons: vec![Button { label: "Yes".into(), value: "SB-K7QD3M.1".into() }],
                ..Part::default()
            },
            place: (1, 1),
            references: Vec::new(),
            accepted_ms: 0,
        }
    }

    #[test]
    fn a_message_mentions_nobody_and_says_what_it_is_to_us() {
        let relation = Relation { answers: "$b".into(), thread: Some("$a".into()) };
        assert_eq!(
            message(&attempt(), Some(&relation)),
            json!({
                "msgtype": "m.text", "body": "Go?", "format": HTML_FORMAT, "formatted_body": "<p>Go?</p>", "m.mentions": {},
                "io.switchboard.message": { "delivery": "dlv_1", "choices": ["SB-K7QD3M.1"] },
                "m.relates_to": {
                    "rel_type": "m.thread", "event_id": "$a", "is_falling_back": true, "m.in_reply_to": { "event_id": "$b" },
                },
            })
        );
    }

    #[test]
    fn an_outcome_stands_under_the_text_without_choices() {
        let attempt = attempt();
        let amendment = Amendment {
            delivery: attempt.delivery,
            to: attempt.to,
            message_id: "$m".into(),
            part: attempt.part,
            outcome: "Ada said <b>yes</b> @room".into(),
        };
        let content = amended(&amendment);
        assert_eq!(content["m.new_content"]["body"], "Go?\n\nAda said <b>yes</b> @\u{2060}room");
        assert_eq!(
            content["m.new_content"]["formatted_body"],
            "<p>Go?</p>\n<p>Ada said &lt;b&gt;yes&lt;/b&gt; @\u{2060}room</p>"
        );
        assert_eq!(content["m.new_content"][OWN_KEY], json!({ "delivery": "dlv_1" }));
        assert_eq!(content["m.relates_to"], json!({ "rel_type": "m.replace", "event_id": "$m" }));
        assert_eq!(
            (&content["m.mentions"], &content["m.new_content"]["m.mentions"]),
            (&json!({}), &json!({}))
        );
    }
}

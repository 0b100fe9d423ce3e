//! Messages on their way to Telegram.

use super::address::{self, MessageId};
use super::api::Api;
use super::update::Way;
use super::{TEXT_UNITS_MAX, answer};
use crate::document::{Document, Limit, Telegram, clean_line, render, split};
use serde::Serialize;
use serde_json::value::RawValue;
use switchboard_core::port::channel::{
    Amendment, Attempt, Button, FailureClass, LengthUnit, NotSent, Part, Performed,
};
use unicode_segmentation::UnicodeSegmentation as _;

/// Graphemes of the labels in a row of buttons, and most buttons in it.
const ROW_GRAPHEMES_MAX: usize = 28;
const ROW_BUTTONS_MAX: usize = 4;
/// Longest sentence over a button, in UTF-16 units (Bot API, `answerCallbackQuery`: 200 characters).
const PRESS_UNITS_MAX: usize = 200;
/// From so many on, a sentence over a button stays until it is closed: it would be gone before it is read.
const PRESS_UNITS_SHORT: usize = 60;

#[derive(Serialize)]
struct SendMessage<'a> {
    chat_id: i64,
    text: &'a str,
    parse_mode: &'static str,
    link_preview_options: LinkPreview,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_parameters: Option<Reply>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_markup: Option<Keyboard<'a>>,
}

#[derive(Serialize)]
struct EditMessage<'a> {
    chat_id: i64,
    message_id: i64,
    text: &'a str,
    parse_mode: &'static str,
    link_preview_options: LinkPreview,
}

#[derive(Serialize)]
struct AnswerPress<'a> {
    callback_query_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    show_alert: bool,
}

/// What is written into the answer to a request of Telegram's.
#[derive(Serialize)]
struct Method<T> {
    method: &'static str,
    #[serde(flatten)]
    body: T,
}

#[derive(Serialize)]
struct LinkPreview {
    is_disabled: bool,
}

#[derive(Serialize)]
struct Reply {
    message_id: i64,
    allow_sending_without_reply: bool,
}

#[derive(Serialize)]
struct Keyboard<'a> {
    inline_keyboard: Vec<Vec<Key<'a>>>,
}

#[derive(Serialize)]
struct Key<'a> {
    text: &'a str,
    callback_data: &'a str,
}

const HTML: &str = "HTML";
const NO_PREVIEW: LinkPreview = LinkPreview { is_disabled: true };

fn bad_address() -> Performed {
    Performed::NotSent(NotSent::new(FailureClass::BadAddress, "the address is no chat of Telegram"))
}

/// One attempt.
pub(super) async fn send(api: &Api, timeout: std::time::Duration, attempt: &Attempt) -> Performed {
    let Some(chat_id) = address::chat(&attempt.to.handle) else { return bad_address() };
    // Ids of other channels, and of other chats, name nothing here.
    let answered = attempt.references.iter().rev().filter_map(|id| MessageId::parse(id));
    let reply = answered.into_iter().find(|id| id.chat == chat_id);
    let message = message(chat_id, &attempt.part, reply);
    answer::outcome(api.call_within("sendMessage", &message, Some(&attempt.delivery), timeout).await)
}

fn message(chat_id: i64, part: &Part, reply: Option<MessageId>) -> SendMessage<'_> {
    SendMessage {
        chat_id,
        text: &part.text,
        parse_mode: HTML,
        link_preview_options: NO_PREVIEW,
        reply_parameters: reply.map(|id| Reply { message_id: id.id, allow_sending_without_reply: true }),
        reply_markup: keyboard(&part.buttons),
    }
}

/// Short labels share a row.
fn keyboard(buttons: &[Button]) -> Option<Keyboard<'_>> {
    let mut rows: Vec<Vec<Key<'_>>> = Vec::new();
    let mut left = 0;
    for button in buttons {
        let length = button.label.graphemes(true).count();
        let key = Key { text: &button.label, callback_data: &button.value };
        match rows.last_mut() {
            Some(row) if length <= left && row.len() < ROW_BUTTONS_MAX => {
                left -= length;
                row.push(key);
            }
            _ => {
                left = ROW_GRAPHEMES_MAX.saturating_sub(length);
                rows.push(vec![key]);
            }
        }
    }
    (!rows.is_empty()).then_some(Keyboard { inline_keyboard: rows })
}

/// Shows an outcome at a message; without a keyboard in the call its buttons go.
pub(super) async fn amend(api: &Api, amendment: &Amendment) -> Performed {
    let Some(id) = MessageId::parse(&amendment.message_id) else { return bad_address() };
    let text =
        format!("{}\n\n{}", amendment.part.text, outcome_line(&amendment.part.text, &amendment.outcome));
    let edit = EditMessage {
        chat_id: id.chat,
        message_id: id.id,
        text: text.trim_end(),
        parse_mode: HTML,
        link_preview_options: NO_PREVIEW,
    };
    answer::changed(api.call("editMessageText", &edit).await, &amendment.message_id)
}

/// The outcome in Telegram's HTML, as much of it as has room under `text`.
fn outcome_line(text: &str, outcome: &str) -> String {
    let units = |text: &str| text.encode_utf16().count();
    let room = TEXT_UNITS_MAX.saturating_sub(units(text) + 2);
    let line = clean_line(outcome);
    let escaped = |line: &str| {
        let mut document = Document::default();
        document.push_text(line);
        render(&document, &Telegram)
    };
    let whole = escaped(&line);
    if units(&whole) <= room {
        return whole;
    }
    let ends = line.grapheme_indices(true).map(|(at, _)| format!("{}…", &line[..at]));
    ends.map(|cut| escaped(&cut)).take_while(|cut| units(cut) <= room).last().unwrap_or_default()
}

/// Tells a sender a sentence. It is a courtesy: what becomes of it changes nothing.
pub(super) async fn tell(api: &Api, way: &Way, sentence: &str) {
    let _ = match way {
        Way::Reply(id) => {
            let part = escaped(sentence);
            api.call("sendMessage", &message(id.chat, &part, Some(*id))).await
        }
        Way::Press { query } => api.call("answerCallbackQuery", &press(query, &over_button(sentence))).await,
        Way::Nowhere => return,
    };
}

/// The same as the answer to a request in which Telegram told of it; `None` when there is nothing to say.
pub(super) fn told(way: &Way, sentence: &str) -> Option<Box<RawValue>> {
    let json = match way {
        Way::Reply(_) if sentence.is_empty() => return None,
        Way::Reply(id) => {
            let part = escaped(sentence);
            let body = message(id.chat, &part, Some(*id));
            serde_json::value::to_raw_value(&Method { method: "sendMessage", body })
        }
        Way::Press { query } => {
            let text = over_button(sentence);
            let body = press(query, &text);
            serde_json::value::to_raw_value(&Method { method: "answerCallbackQuery", body })
        }
        Way::Nowhere => return None,
    };
    json.ok()
}

fn press<'a>(query: &'a str, text: &'a str) -> AnswerPress<'a> {
    AnswerPress {
        callback_query_id: query,
        text,
        show_alert: text.encode_utf16().count() > PRESS_UNITS_SHORT,
    }
}

/// A sentence as one message.
fn escaped(sentence: &str) -> Part {
    let mut document = Document::default();
    document.push_text(sentence);
    let first =
        split(&document, &Telegram, Limit::new(TEXT_UNITS_MAX, LengthUnit::Utf16), false).swap_remove(0);
    Part { text: render(&first, &Telegram), ..Part::default() }
}

/// Plain text, cut to what has room.
fn over_button(sentence: &str) -> String {
    let line = clean_line(sentence);
    if line.encode_utf16().count() <= PRESS_UNITS_MAX {
        return line;
    }
    let mut left = PRESS_UNITS_MAX - 1;
    let fits = |piece: &&str| {
        let units = piece.encode_utf16().count();
        let has_room = units <= left;
        left = left.saturating_sub(units);
        has_room
    };
    let kept: String = line.graphemes(true).take_while(fits).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> usize {
        text.encode_utf16().count()
    }

    #[test]
    fn rows_hold_what_can_be_read_side_by_side() {
        let labels = ["Yes", "No", "Ask me again tomorrow", "Only on Mondays, please", "a", "b", "c", "d"];
        let buttons: Vec<Button> =
            labels.iter().map(|label| Button { label: (*label).into(), value: "v".into() }).collect();
        let rows: Vec<Vec<&str>> = keyboard(&buttons)
            .unwrap()
            .inline_keyboard
            .iter()
            .map(|row| row.iter().map(|key| key.text).collect())
            .collect();
        assert_eq!(
            rows,
            [
                vec!["Yes", "No", "Ask me again tomorrow"],
                vec!["Only on Mondays, please", "a", "b", "c"],
                vec!["d"]
            ]
        );
        assert!(keyboard(&[]).is_none());
    }

    #[test]
    fn an_outcome_has_room_under_every_text() {
        for length in [0, 3000, 3840, 4090, 4096] {
            let text = "x".repeat(length);
            for outcome in ["Ada: yes", &"👍🏽 & ".repeat(200), &"a.b".repeat(3000)] {
                let line = outcome_line(&text, outcome);
                assert!(
                    length + 2 + units(&line) <= TEXT_UNITS_MAX || line.is_empty(),
                    "{length}: {}",
                    units(&line)
                );
            }
        }
        assert!(outcome_line(&"x".repeat(3840), &"a.b".repeat(3000)).ends_with('…'));
    }

    #[test]
    fn sentences_over_buttons_are_short() {
        assert_eq!(over_button(" one\nline "), "one line");
        let long = over_button(&"👍🏽 words ".repeat(40));
        assert!(units(&long) <= PRESS_UNITS_MAX && long.ends_with('…'), "{long}");
        assert!(!press("q", "Noted.").show_alert && press("q", &long).show_alert);
    }

    #[test]
    fn what_is_told_mentions_nobody() {
        let way = Way::Reply(MessageId { chat: 5, id: 6 });
        let json = told(&way, "<b>@ada</b> is not known").unwrap();
        let text = json.get().replace(crate::document::TELEGRAM_JOINER, "¦");
        assert!(text.contains(r#""text":"&lt;b&gt;@¦ada&lt;/¦b&gt; is not known""#), "{text}");
        assert!(told(&way, "").is_none());
        let press = told(&Way::Press { query: "q1".into() }, "").unwrap();
        assert_eq!(
            press.get(),
            r#"{"method":"answerCallbackQuery","callback_query_id":"q1","show_alert":false}"#
        );
        assert!(told(&Way::Nowhere, "bye").is_none());
    }
}

//! What an answer of the API means: its status, and the code in its JSON
//! (<https://discord.com/developers/docs/topics/opcodes-and-status-codes>). What stands before the API answers in HTML.

use super::address::{MessageId, Snowflake};
use super::rest::Answer;
use crate::document::clean_line;
use crate::retry_after;
use serde::Deserialize;
use std::time::Duration;
use switchboard_core::port::channel::{FailureClass, NotSent, Performed};
use switchboard_core::time::WallMs;

/// Longest sentence of Discord's that is repeated, in characters.
const SENTENCE_CHARS_MAX: usize = 200;
const TOKEN: &str =
    "it does not accept the bot's token: copy it again from the application's page Bot, and set it";

/// What codes mean, and what to do.
const CODES: [(i64, FailureClass, &str); 19] = {
    use FailureClass::{BadAddress, Misconfigured, Permanent, Throttled};
    [
        (10_003, BadAddress, "there is no such channel, or the bot is not on its server"),
        (10_008, Permanent, "the message is gone"),
        (10_013, BadAddress, "there is no such user"),
        (20_016, Throttled, "the channel is in slow mode"),
        (20_028, Throttled, "the channel is written to too often"),
        (40_001, Permanent, "the bot may not do that there: check its permissions"),
        (40_002, Misconfigured, "the bot's account has to be verified"),
        (40_003, Throttled, "direct messages are begun too fast"),
        (50_001, Permanent, "the bot cannot see the channel: give it the permission View Channel there"),
        (
            50_007,
            BadAddress,
            "the user does not take direct messages of the bot, or shares no server with it",
        ),
        (50_008, BadAddress, "the channel takes no text"),
        (50_009, BadAddress, "the user does not take messages of the bot"),
        (
            50_013,
            Permanent,
            "the bot may not write there: give it the permission Send Messages in that channel",
        ),
        (50_033, BadAddress, "the user cannot be written to"),
        (50_035, Permanent, "it refuses the message's form"),
        (50_083, Permanent, "the thread is archived"),
        (50_278, BadAddress, "the user shares no server with the bot: both have to be on one"),
        (160_005, Permanent, "the thread is locked"),
        (200_000, Permanent, "the server's AutoMod blocks the message"),
    ]
};

/// What the API says of a refusal.
#[derive(Debug, Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    global: bool,
}

#[derive(Deserialize)]
struct Created {
    id: Snowflake,
}

/// What became of a message to `channel`, by the answer to its posting or its change.
pub(super) fn outcome(answer: &Answer, channel: Snowflake, now_ms: WallMs) -> Performed {
    if answer.is_success() {
        return match serde_json::from_slice::<Created>(&answer.body) {
            Ok(created) => {
                Performed::Sent { message_id: Some(MessageId { channel, id: created.id }.to_string()) }
            }
            Err(_) => Performed::Unknown { reason: "Discord's confirmation cannot be read".into() },
        };
    }
    refused(answer, now_ms).map_or_else(
        || Performed::Unknown {
            reason: format!(
                "Discord answered {}; it may have taken the message before it failed",
                answer.status
            ),
        },
        Performed::NotSent,
    )
}

/// The refusal, when it is certain that nothing was done.
pub(super) fn refused(answer: &Answer, now_ms: WallMs) -> Option<NotSent> {
    let refusal = serde_json::from_slice::<Refusal>(&answer.body).ok();
    let foreign = refusal.is_none();
    let refusal = refusal.unwrap_or_default();
    let known = CODES.iter().find(|(code, ..)| *code == refusal.code);
    let wait_ms = retry_after::of_answer(&answer.headers, &answer.body, now_ms);
    let (class, why) = match (answer.status, known) {
        (429, _) => (FailureClass::Throttled, "it asks to slow down"),
        (401, _) => (FailureClass::Misconfigured, TOKEN),
        (400..=499, Some((_, class, why))) => (*class, *why),
        // What stands before the API turns away whole addresses for some minutes.
        (403, None) if foreign => (FailureClass::Transient, "what stands before it turns our address away"),
        (408 | 425 | 503, _) => (FailureClass::Transient, "it is not available"),
        (300..=499 | 501 | 505, None) => (FailureClass::Permanent, "it refuses the message"),
        _ => return None,
    };
    let is_global = refusal.global || answer.headers.contains_key("x-ratelimit-global");
    let throttled = class == FailureClass::Throttled;
    let everywhere = matches!(class, FailureClass::Misconfigured | FailureClass::Transient);
    Some(NotSent {
        code: Some(if refusal.code == 0 { answer.status.to_string() } else { refusal.code.to_string() }),
        retry_after_ms: wait_ms.filter(|_| throttled || class == FailureClass::Transient),
        account_wide: everywhere || (throttled && (is_global || foreign)),
        ..NotSent::new(class, format!("Discord answered {}: {why}{}", answer.status, quoted(&refusal)))
    })
}

fn quoted(refusal: &Refusal) -> String {
    let sentence: String = clean_line(&refusal.message).chars().take(SENTENCE_CHARS_MAX).collect();
    if sentence.is_empty() { sentence } else { format!(" ({sentence})") }
}

/// How long the next call of the same kind would be refused, when this one was the last of its window.
pub(super) fn exhausted(answer: &Answer) -> Option<Duration> {
    let header = |name: &str| answer.headers.get(name)?.to_str().ok();
    if header("x-ratelimit-remaining")?.trim() != "0" {
        return None;
    }
    let wait_ms = retry_after::of_headers([header("x-ratelimit-reset-after")?], None, 0)?;
    Some(Duration::from_millis(wait_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: Snowflake = Snowflake(175_928_847_299_117_063);

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
        let headers = headers.iter().map(|&(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        Answer { status, headers: headers.collect(), body: body.as_bytes().to_vec() }
    }

    fn not_sent(status: u16, headers: &[(&'static str, &str)], body: &str) -> NotSent {
        match outcome(&answer(status, headers, body), CHANNEL, 0) {
            Performed::NotSent(why) => why,
            other => panic!("{status} {body}: {other:?}"),
        }
    }

    #[test]
    fn codes_say_more_than_the_status() {
        use FailureClass::{BadAddress, Misconfigured, Permanent, Throttled, Transient};
        for (status, code, class) in [
            (401, 0, Misconfigured),
            (401, 40_001, Misconfigured),
            (403, 40_001, Permanent),
            (403, 50_007, BadAddress),
            (403, 50_278, BadAddress),
            (404, 10_003, BadAddress),
            (404, 10_013, BadAddress),
            (403, 50_001, Permanent),
            (403, 50_013, Permanent),
            (400, 50_035, Permanent),
            (404, 10_008, Permanent),
            (400, 40_003, Throttled),
            (403, 99_999, Permanent),
            (404, 0, Permanent),
            (302, 0, Permanent),
            (503, 0, Transient),
        ] {
            let why = not_sent(status, &[], &format!(r#"{{"message":"why","code":{code}}}"#));
            let expected = if code == 0 { i64::from(status) } else { code };
            assert_eq!((why.class, why.code), (class, Some(expected.to_string())), "{status} {code}");
            assert!(why.reason.ends_with(" (why)"), "{}", why.reason);
        }
        for status in [500, 502, 504, 520, 524, 100] {
            let performed = outcome(&answer(status, &[], "{}"), CHANNEL, 0);
            assert!(matches!(performed, Performed::Unknown { .. }), "{status}");
        }
    }

    #[test]
    fn waits_hold_for_as_much_as_is_said() {
        let json = |global| format!(r#"{{"message":"slow","retry_after":1.2901,"global":{global}}}"#);
        let one = not_sent(429, &[("retry-after", "1")], &json(false));
        assert_eq!((one.retry_after_ms, one.account_wide), (Some(1_291), false));
        let all = not_sent(429, &[("retry-after", "2")], &json(true));
        assert_eq!((all.retry_after_ms, all.account_wide), (Some(2_000), true));
        assert!(not_sent(429, &[("x-ratelimit-global", "true")], &json(false)).account_wide);
        let html = not_sent(429, &[("retry-after", "600")], "<!DOCTYPE html>");
        assert_eq!(
            (html.class, html.retry_after_ms, html.account_wide),
            (FailureClass::Throttled, Some(600_000), true)
        );
        let banned = not_sent(403, &[], "<html>error 1015</html>");
        assert_eq!((banned.class, banned.account_wide), (FailureClass::Transient, true));
    }

    #[test]
    fn only_a_confirmation_confirms() {
        let sent = |body| outcome(&answer(200, &[], body), CHANNEL, 0);
        let id = "175928847299117063:175928847299117064".to_owned();
        assert_eq!(sent(r#"{"id":"175928847299117064","x":1}"#), Performed::Sent { message_id: Some(id) });
        for body in ["", "{}", "<html>", r#"{"id":1}"#, r#"{"id":"1 2"}"#, r#"{"id":"175928847299117064""#] {
            assert!(matches!(sent(body), Performed::Unknown { .. }), "{body}");
        }
    }

    #[test]
    fn the_last_of_a_window_is_known() {
        let of = |remaining, after| {
            exhausted(&answer(
                200,
                &[("x-ratelimit-remaining", remaining), ("x-ratelimit-reset-after", after)],
                "",
            ))
        };
        assert_eq!(of("0", "0.3"), Some(Duration::from_millis(300)));
        assert_eq!(of("1", "0.3"), None);
        assert_eq!(of("0", "soon"), None);
    }
}

//! What a message becomes in a channel's form.

use super::trial::{Trial, ensure, notice};
use super::{Verdict, bodies};
use switchboard_core::port::channel::{
    Button, Capabilities, Draft, LengthUnit, MessageKind, Part, Performed,
};

type Outcome = Result<Verdict, String>;

/// JSON escapes a control character with six.
const ESCAPED_MAX: usize = 6;

/// Texts of every field but the body: whoever sends chooses them too.
const HOSTILE_FIELD: &str = "a\r\nBcc: eve@evil.example\r\n\r\n<b>@everyone</b> \u{202e}é🦀 \"quoted\"";

fn length(text: &str, unit: LengthUnit) -> usize {
    match unit {
        LengthUnit::Bytes => text.len(),
        LengthUnit::Chars => text.chars().count(),
        LengthUnit::Utf16 => text.encode_utf16().count(),
    }
}

/// A channel may refuse what would be over its limits once it is escaped, and nothing else.
fn may_be_refused(body: &str, can: &Capabilities) -> bool {
    let room = can.part_max.saturating_mul(can.parts_max);
    length(body, can.unit).saturating_mul(ESCAPED_MAX) > room
}

fn without_space(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// A draft that is hostile in all its fields.
fn hostile_in_every_field<'a>(body: &'a str, buttons: &'a [Button]) -> Draft<'a> {
    Draft {
        kind: MessageKind::Approval,
        from: HOSTILE_FIELD,
        code: Some("K7"),
        deadline_ms: Some(1_800_000_000_000),
        buttons,
        link: Some("https://hub.example/answer?a=1&b=\"2\""),
        ..notice(body)
    }
}

fn buttons(count: usize) -> Vec<Button> {
    let button =
        |number| Button { label: format!("{HOSTILE_FIELD} {number}"), value: format!("value-{number}") };
    (0..count).map(button).collect()
}

/// Calls `visit` with each hostile draft and its parts.
fn each_prepared(
    trial: &Trial,
    mut visit: impl FnMut(&str, &Draft<'_>, &[Part]) -> Result<(), String>,
) -> Outcome {
    let channel = trial.channel();
    let can = channel.capabilities();
    let buttons = buttons(can.buttons_max.min(3));
    for (what, body) in bodies::hostile() {
        for draft in [notice(&body), hostile_in_every_field(&body, &buttons)] {
            match channel.prepare(&draft) {
                Ok(parts) => visit(what, &draft, &parts)?,
                Err(why) => ensure(may_be_refused(&body, can) && !why.trim().is_empty(), || {
                    format!("{what}: refused although it has room: {why:?}")
                })?,
            }
        }
    }
    Ok(Verdict::Kept)
}

pub(super) async fn preparing_is_pure(trial: Trial) -> Outcome {
    let channel = trial.channel();
    each_prepared(&trial, |what, draft, parts| {
        let again = channel.prepare(draft);
        ensure(again.as_deref() == Ok(parts), || {
            format!("{what}: the second time it is prepared differently")
        })
    })?;
    ensure(trial.fixture.contacts() == 0, || "preparing contacted the network".to_owned())?;
    Ok(Verdict::Kept)
}

pub(super) async fn parts_are_within_the_limits(trial: Trial) -> Outcome {
    let channel = trial.channel();
    let can = channel.capabilities();
    each_prepared(&trial, |what, _, parts| {
        let count = parts.len();
        ensure((1..=can.parts_max).contains(&count), || format!("{what}: {count} parts"))?;
        for part in parts {
            let size = length(&part.text, can.unit);
            ensure(size <= can.part_max, || {
                format!("{what}: a part of {size}, and {} are allowed", can.part_max)
            })?;
            ensure(part.buttons.len() <= can.buttons_max, || format!("{what}: too many buttons"))?;
            let is_one_line = |line: &str| !line.contains(char::is_control);
            ensure(part.subject.as_deref().is_none_or(is_one_line), || {
                format!("{what}: the subject holds control characters: {:?}", part.subject)
            })?;
        }
        Ok(())
    })
}

pub(super) async fn nothing_of_the_text_is_lost(trial: Trial) -> Outcome {
    each_prepared(&trial, |what, draft, parts| {
        let shown: String = parts.iter().map(|part| trial.fixture.text_of(part)).collect();
        let (shown, expected) = (without_space(&shown), without_space(&trial.fixture.rendered(draft.body)));
        ensure(shown == expected, || {
            let same = shown.chars().zip(expected.chars()).take_while(|(a, b)| a == b).count();
            let tail = |text: &str| text.chars().skip(same).take(40).collect::<String>();
            format!("{what}: after {same} characters {:?} became {:?}", tail(&expected), tail(&shown))
        })
    })
}

pub(super) async fn hostile_text_arrives_as_it_was(trial: Trial) -> Outcome {
    let mut prepared = Vec::new();
    each_prepared(&trial, |what, _, parts| {
        prepared.extend(parts.iter().take(2).map(|part| (what.to_owned(), part.clone())));
        Ok(())
    })?;
    for (what, part) in prepared {
        let attempt = trial.attempt_of(part)?;
        let performed = trial.perform(&attempt).await;
        ensure(matches!(performed, Performed::Sent { .. }), || format!("{what}: {performed:?}"))?;
        let accepted = trial.accepted_of(&attempt);
        let [accepted] = accepted.as_slice() else {
            return Err(format!("{what}: {} were accepted", accepted.len()));
        };
        let expected = trial.fixture.text_of(&attempt.part);
        ensure(accepted.text == expected, || {
            let start = |text: &str| text.chars().take(80).collect::<String>();
            format!("{what}: {:?} arrived as {:?}", start(&expected), start(&accepted.text))
        })?;
    }
    Ok(Verdict::Kept)
}

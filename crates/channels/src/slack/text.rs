//! What a person wrote, from the text as Slack gives it: `&`, `<` and `>` escaped, and mentions and links between angle brackets.

use crate::document::clean_line;
use serde_json::Value;
use std::fmt::Write as _;

/// Most files that are named.
const FILES_MAX: usize = 10;
/// Longest name of a file that is shown, in characters.
const FILE_NAME_CHARS_MAX: usize = 80;

/// The person's own words and a line for each file, without our name at the head.
pub(super) fn own(message: &Value, me: &str) -> String {
    let raw = message["text"].as_str().unwrap_or_default().trim_start();
    let mut text = plain(without_head(raw, me)).trim().to_owned();
    for file in message["files"].as_array().into_iter().flatten().take(FILES_MAX) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&file_line(file));
    }
    text
}

/// Whether a text mentions this person.
pub(super) fn mentions(raw: &str, user: &str) -> bool {
    tags(raw).any(|tag| tag.strip_prefix('@').is_some_and(|rest| rest.split('|').next() == Some(user)))
}

fn without_head<'a>(raw: &'a str, me: &str) -> &'a str {
    let Some((tag, rest)) = raw.strip_prefix("<@").and_then(|rest| rest.split_once('>')) else { return raw };
    let is_me = tag.split('|').next() == Some(me);
    if is_me { rest.trim_start_matches([':', ',']).trim_start() } else { raw }
}

fn tags(raw: &str) -> impl Iterator<Item = &str> {
    raw.split('<').skip(1).filter_map(|rest| rest.split_once('>').map(|(tag, _)| tag))
}

fn plain(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('<') {
        unescape(&rest[..at], &mut out);
        let Some(end) = rest[at..].find('>') else {
            rest = &rest[at..];
            break;
        };
        tag(&rest[at + 1..at + end], &mut out);
        rest = &rest[at + end + 1..];
    }
    unescape(rest, &mut out);
    out
}

/// What a person sees in place of `<tag>`.
fn tag(tag: &str, out: &mut String) {
    let (target, label) = tag.split_once('|').map_or((tag, None), |(target, label)| (target, Some(label)));
    let shown = label.filter(|label| !label.is_empty());
    match target.chars().next() {
        Some(sign @ ('@' | '#')) => {
            let name = shown.unwrap_or(&target[1..]);
            out.push(sign);
            unescape(name.trim_start_matches(sign), out);
        }
        Some('!') => {
            let word = target[1..].split('^').next().unwrap_or_default();
            match shown {
                Some(label) => unescape(label, out),
                None => out.extend(["@", word]),
            }
        }
        _ => {
            let bare = target.strip_prefix("mailto:").unwrap_or(target);
            match shown {
                Some(label)
                    if label != target && label != bare && !target.ends_with(&format!("//{label}")) =>
                {
                    unescape(label, out);
                    out.push_str(" (");
                    unescape(target, out);
                    out.push(')');
                }
                _ => unescape(bare, out),
            }
        }
    }
}

fn unescape(text: &str, out: &mut String) {
    out.push_str(&text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
}

fn file_line(file: &Value) -> String {
    let is_photo = file["mimetype"].as_str().is_some_and(|kind| kind.starts_with("image/"));
    let name: String =
        clean_line(file["name"].as_str().unwrap_or_default()).chars().take(FILE_NAME_CHARS_MAX).collect();
    let mut line = String::from(if is_photo { "[photo" } else { "[file" });
    if !name.is_empty() {
        line.extend([": ", &name.replace(['[', ']'], "_")]);
    }
    if let Some(size) = file["size"].as_u64() {
        let _ = write!(line, ", {}", size_words(size));
    }
    line + "]"
}

fn size_words(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_person_said_what_they_see() {
        for (raw, expected) in [
            ("yes &amp; no &lt;b&gt; &amp;lt;", "yes & no <b> &lt;"),
            ("<@U0BOT0001> yes", "yes"),
            ("<@U0BOT0001|switchboard>: yes", "yes"),
            (
                "ask <@U024BE7LH> or <@U024BE7LH|ada> in <#C024BE91L|general>",
                "ask @U024BE7LH or @ada in #general",
            ),
            ("<!here> <!subteam^S1|@ops> <!date^1392734382^{date}|Feb 18>", "@here @ops Feb 18"),
            (
                "<https://x.test/?a=1&amp;b=2> <https://x.test|page> <http://x.test|x.test>",
                "https://x.test/?a=1&b=2 page (https://x.test) http://x.test",
            ),
            ("<mailto:ada@x.test|ada@x.test>", "ada@x.test"),
            ("broken <tag and > more", "broken tag and  more"),
            ("open <", "open <"),
            ("<>", ""),
        ] {
            assert_eq!(own(&json!({ "text": raw }), "U0BOT0001"), expected, "{raw}");
        }
    }

    #[test]
    fn files_are_lines() {
        let message = json!({ "text": "see", "files": [
            { "name": "plan]\u{202e}.pdf", "mimetype": "application/pdf", "size": 119_500 },
            { "name": "", "mimetype": "image/png", "size": 7 },
            { "mode": "tombstone" },
        ]});
        assert_eq!(own(&message, "U0BOT0001"), "see\n[file: plan_.pdf, 120 kB]\n[photo, 7 B]\n[file]");
        let alone =
            json!({ "files": [{ "name": "a.mov", "mimetype": "video/quicktime", "size": 2_000_001 }] });
        assert_eq!(own(&alone, "U0BOT0001"), "[file: a.mov, 3 MB]");
    }

    #[test]
    fn only_a_mention_is_one() {
        assert!(mentions("hi <@U0BOT0001>", "U0BOT0001") && mentions("<@U0BOT0001|sb> x", "U0BOT0001"));
        assert!(!mentions("hi @U0BOT0001 &lt;@U0BOT0001&gt; <@U0BOT00012> <#U0BOT0001>", "U0BOT0001"));
    }
}

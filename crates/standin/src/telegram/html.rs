//! What the Bot API makes of a text: its HTML read as strictly as documented, and what it finds in plain text by itself.

use serde_json::{Value, json};

/// Tags that are known, with the entity that each makes.
const TAGS: [(&str, &str); 13] = [
    ("b", "bold"),
    ("strong", "bold"),
    ("i", "italic"),
    ("em", "italic"),
    ("u", "underline"),
    ("ins", "underline"),
    ("s", "strikethrough"),
    ("strike", "strikethrough"),
    ("del", "strikethrough"),
    ("code", "code"),
    ("pre", "pre"),
    ("a", "text_link"),
    ("blockquote", "blockquote"),
];

/// A text and its entities.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// The text as readers see it.
    pub text: String,
    /// Its entities, as the API has them.
    pub entities: Vec<Value>,
    /// Bytes in which nothing is looked for.
    quiet: Vec<std::ops::Range<usize>>,
}

struct Open {
    tag: String,
    attribute: String,
    from: usize,
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Plain text.
#[must_use]
pub fn plain(text: &str) -> Parsed {
    Parsed { text: text.to_owned(), ..Parsed::default() }.with_found()
}

/// HTML, or what is wrong with it in the API's words.
pub fn parse(html: &str) -> Result<Parsed, String> {
    let (mut parsed, mut open, mut rest) = (Parsed::default(), Vec::<Open>::new(), html);
    while let Some(c) = rest.chars().next() {
        let offset = html.len() - rest.len();
        if c == '<' {
            let end = rest.find('>').ok_or_else(|| format!("Unclosed start tag at byte offset {offset}"))?;
            tag(&rest[1..end], offset, &mut parsed, &mut open)?;
            rest = &rest[end + 1..];
            continue;
        }
        let (c, length) = if c == '&' { character(rest) } else { (c, c.len_utf8()) };
        parsed.text.push(c);
        rest = &rest[length..];
    }
    match open.last() {
        Some(open) => Err(format!("Can't find end tag corresponding to start tag \"{}\"", open.tag)),
        None => Ok(parsed.with_found()),
    }
}

fn character(rest: &str) -> (char, usize) {
    for (name, c) in [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"'), ("&#39;", '\'')] {
        if rest.starts_with(name) {
            return (c, name.len());
        }
    }
    ('&', 1)
}

fn tag(inside: &str, offset: usize, parsed: &mut Parsed, open: &mut Vec<Open>) -> Result<(), String> {
    if let Some(name) = inside.strip_prefix('/') {
        let Some(begun) = open.pop() else {
            return Err(format!("Unexpected end tag at byte offset {offset}"));
        };
        if begun.tag != name {
            return Err(format!(
                "Unmatched end tag at byte offset {offset}, expected \"</{}>\", found \"</{name}>\"",
                begun.tag
            ));
        }
        parsed.end(&begun);
        return Ok(());
    }
    let (name, attribute) = inside.split_once(' ').unwrap_or((inside, ""));
    if !TAGS.iter().any(|(known, _)| *known == name) {
        return Err(format!("Unsupported start tag \"{name}\" at byte offset {offset}"));
    }
    if name == "blockquote" && open.iter().any(|open| open.tag == name) {
        return Err(format!("Blockquote within a blockquote at byte offset {offset}"));
    }
    open.push(Open { tag: name.to_owned(), attribute: attribute.to_owned(), from: parsed.text.len() });
    Ok(())
}

impl Parsed {
    fn end(&mut self, open: &Open) {
        let kind = TAGS.iter().find(|(known, _)| *known == open.tag).map_or("", |(_, kind)| kind);
        if matches!(kind, "code" | "pre" | "text_link") {
            self.quiet.push(open.from..self.text.len());
        }
        let mut entity = self.entity(kind, open.from, self.text.len());
        if let Some(url) = open.attribute.strip_prefix("href=") {
            entity["url"] = json!(url.trim_matches('"').replace("&amp;", "&").replace("&quot;", "\""));
        }
        if open.from < self.text.len() {
            self.entities.push(entity);
        }
    }

    fn entity(&self, kind: &str, from: usize, to: usize) -> Value {
        json!({ "type": kind, "offset": units(&self.text[..from]), "length": units(&self.text[from..to]) })
    }

    /// With what the API finds by itself; rather too much than too little.
    fn with_found(mut self) -> Self {
        let found: Vec<Value> = find(&self.text)
            .into_iter()
            .filter(|(_, from, to)| !self.quiet.iter().any(|quiet| *from < quiet.end && quiet.start < *to))
            .map(|(kind, from, to)| self.entity(kind, from, to))
            .collect();
        self.entities.extend(found);
        self
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn run(text: &str, holds: impl Fn(char) -> bool) -> usize {
    text.find(|c| !holds(c)).unwrap_or(text.len())
}

/// Kinds and bytes of what is clickable in `text`.
fn find(text: &str) -> Vec<(&'static str, usize, usize)> {
    let (mut found, mut before) = (Vec::new(), None);
    let mut address_to = 0;
    for (at, c) in text.char_indices() {
        let after = &text[at + c.len_utf8()..];
        let (word, begins) = (run(after, is_word), !before.is_some_and(is_word));
        let kind = match c {
            '@' if begins && word > 0 => Some("mention"),
            '/' if begins && word > 0 && !matches!(before, Some('/' | '<' | '>')) => Some("bot_command"),
            '#' if begins && word > 0 => Some("hashtag"),
            '$' if begins && (1..=8).contains(&run(after, |c| c.is_ascii_uppercase())) => Some("cashtag"),
            _ => None,
        };
        if at >= address_to {
            let token = run(&text[at..], |c| !c.is_whitespace() && !"<>\"\u{2060}".contains(c));
            if is_word(c) && begins && is_address(&text[at..at + token]) {
                found.push(("url", at, at + token));
                address_to = at + token;
            } else if let Some(kind) = kind {
                let end = at + c.len_utf8() + word;
                found.push((kind, at, end + if kind == "bot_command" { named(&text[end..]) } else { 0 }));
            }
        }
        before = Some(c);
    }
    found
}

/// The bytes of `@bot` behind a command.
fn named(rest: &str) -> usize {
    let name = rest.strip_prefix('@').map_or(0, |name| run(name, is_word));
    if name > 0 { name + 1 } else { 0 }
}

/// With a scheme, or a domain whose last label could be one.
fn is_address(token: &str) -> bool {
    if let Some((scheme, rest)) = token.split_once("://") {
        return ["http", "https", "tg", "ton"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
            && rest.starts_with(is_word);
    }
    let host = &token[..run(token, |c| is_word(c) || matches!(c, '.' | '-' | '@'))];
    let labels: Vec<&str> = host.trim_end_matches('.').split(['.', '@']).collect();
    let last = labels.last().copied().unwrap_or_default();
    labels.len() > 1
        && last.chars().count() > 1
        && last.chars().all(char::is_alphabetic)
        && labels.iter().all(|label| !label.is_empty())
}

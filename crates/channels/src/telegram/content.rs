//! A person's own words in a message of Telegram.

use super::prepare::shortened;
use super::update::Me;
use crate::document::clean_line;
use serde::Deserialize;
use serde_json::Value;

/// Graphemes of a file's name that are shown.
const NAME_GRAPHEMES_MAX: usize = 80;

/// What was said.
pub(super) struct Said {
    /// The words, and a line for each attachment.
    pub text: String,
    /// Whether the bot is named in it, or the command is meant for it.
    pub names_us: bool,
}

#[derive(Deserialize)]
struct Content {
    text: Option<String>,
    caption: Option<String>,
    #[serde(default)]
    entities: Vec<Entity>,
    #[serde(default)]
    caption_entities: Vec<Entity>,
    forward_origin: Option<Value>,
    #[serde(flatten)]
    attached: Attached,
}

/// Offsets and lengths are in UTF-16 code units.
#[derive(Deserialize)]
struct Entity {
    #[serde(rename = "type")]
    kind: String,
    offset: usize,
    length: usize,
    user: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    id: i64,
}

#[derive(Deserialize)]
struct Attached {
    photo: Option<Value>,
    animation: Option<File>,
    document: Option<File>,
    video: Option<File>,
    video_note: Option<Value>,
    audio: Option<File>,
    voice: Option<File>,
    sticker: Option<Sticker>,
    contact: Option<Value>,
    location: Option<Location>,
    venue: Option<Value>,
    poll: Option<Value>,
    story: Option<Value>,
    dice: Option<Value>,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "file_name")]
    name: Option<String>,
    #[serde(rename = "file_size")]
    bytes: Option<u64>,
    duration: Option<u64>,
}

#[derive(Deserialize)]
struct Sticker {
    emoji: Option<String>,
}

#[derive(Deserialize)]
struct Location {
    latitude: f64,
    longitude: f64,
}

/// What a message says; `None` when a person says nothing in it (members come and go, titles change).
pub(super) fn read(json: &str, me: &Me) -> Option<Said> {
    let content: Content = serde_json::from_str(json).ok()?;
    let (text, entities) = match content.text {
        Some(text) => (text, content.entities),
        None => (content.caption.unwrap_or_default(), content.caption_entities),
    };
    let attached = attached(&content.attached);
    if text.is_empty() && attached.is_empty() {
        return None;
    }
    let names = entities.iter().filter(|entity| names(entity, &text, me));
    let ranges: Vec<_> =
        names.filter_map(|entity| range(entity, &text).map(|range| (&*entity.kind, range))).collect();
    let names_us = !ranges.is_empty();
    let words = command(without(&text, &ranges).trim());
    let mut lines = Vec::new();
    // What others have written is not the word of the one who passes it on.
    lines.extend(content.forward_origin.map(|_| "[forwarded message]".to_owned()));
    lines.extend((!words.is_empty()).then_some(words));
    lines.extend(attached);
    Some(Said { text: lines.join("\n"), names_us })
}

/// The bytes of an entity.
fn range(entity: &Entity, text: &str) -> Option<std::ops::Range<usize>> {
    let end = entity.offset.checked_add(entity.length)?;
    Some(at(text, entity.offset)?..at(text, end)?)
}

/// The byte at which so many UTF-16 units end; `None` within a character or behind the end.
fn at(text: &str, units: usize) -> Option<usize> {
    let mut passed = 0;
    for (byte, c) in text.char_indices() {
        if passed >= units {
            return (passed == units).then_some(byte);
        }
        passed += c.len_utf16();
    }
    (passed == units).then_some(text.len())
}

fn names(entity: &Entity, text: &str, me: &Me) -> bool {
    let Some(range) = range(entity, text) else { return false };
    let is_ours = |name: &str| name.eq_ignore_ascii_case(&me.username);
    match entity.kind.as_str() {
        "mention" => text[range].strip_prefix('@').is_some_and(is_ours),
        "bot_command" => text[range].split_once('@').is_some_and(|(_, name)| is_ours(name)),
        "text_mention" => entity.user.as_ref().is_some_and(|user| user.id == me.id),
        _ => false,
    }
}

/// The text without the bot's name where that begins or ends it, and without it behind a command.
fn without(text: &str, names: &[(&str, std::ops::Range<usize>)]) -> String {
    let mut words = text.to_owned();
    for (kind, range) in names.iter().rev() {
        let edge = text[..range.start].trim().is_empty() || text[range.end..].trim().is_empty();
        if *kind == "bot_command" {
            let name = text[range.clone()].find('@').map_or(range.end, |at| range.start + at);
            words.replace_range(name..range.end, "");
        } else if edge {
            words.replace_range(range.clone(), "");
        }
    }
    words
}

/// The commands of a chat with a bot, in the hub's words: `/start CODE` is what pressing Start behind a link with a code sends.
fn command(words: &str) -> String {
    let (first, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    match (first.to_ascii_lowercase().as_str(), rest.trim()) {
        ("/start", code) if !code.is_empty() => format!("/pair {code}"),
        ("/stop", "") => "STOP".to_owned(),
        _ => words.to_owned(),
    }
}

fn attached(found: &Attached) -> Vec<String> {
    let one = |name: &str, there: bool| there.then(|| format!("[{name}]"));
    let is_animation = found.animation.is_some();
    let lines = [
        one("photo", found.photo.is_some()),
        found.animation.as_ref().map(|file| described("animation", file)),
        // An animation comes as a document too, and a venue as a location.
        found.document.as_ref().filter(|_| !is_animation).map(|file| described("file", file)),
        found.video.as_ref().map(|file| described("video", file)),
        one("video message", found.video_note.is_some()),
        found.audio.as_ref().map(|file| described("audio", file)),
        found.voice.as_ref().map(|file| described("voice message", file)),
        found.sticker.as_ref().map(|sticker| {
            let emoji = sticker.emoji.as_deref().map(clean_line).unwrap_or_default();
            format!("[sticker {}]", shortened(&emoji, 1)).replace(" ]", "]")
        }),
        one("contact", found.contact.is_some()),
        found.location.as_ref().map(|at| format!("[location: {:.6}, {:.6}]", at.latitude, at.longitude)),
        one("venue", found.venue.is_some()),
        one("poll", found.poll.is_some()),
        one("story", found.story.is_some()),
        one("dice", found.dice.is_some()),
    ];
    lines.into_iter().flatten().collect()
}

/// `[file: name.pdf, 120 kB]`.
fn described(what: &str, file: &File) -> String {
    let name = file.name.as_deref().map(|name| shortened(&clean_line(name), NAME_GRAPHEMES_MAX));
    let duration = file.duration.map(|seconds| format!("{seconds} s"));
    let size = file.bytes.map(|bytes| format!("{} kB", bytes.div_ceil(1000)));
    let facts: Vec<String> =
        [name, duration, size].into_iter().flatten().filter(|fact| !fact.is_empty()).collect();
    if facts.is_empty() { format!("[{what}]") } else { format!("[{what}: {}]", facts.join(", ")) }
}

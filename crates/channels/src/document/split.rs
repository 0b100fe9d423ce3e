//! Cuts a document into parts that a service takes.
//!
//! Parts are cut between leaves where that is possible, else behind a sentence, else behind a word, else behind a grapheme. What counts
//! is the length of a part as it is sent, everything that is opened again included. The time is linear in the length of the document:
//! no leaf is looked at further than one part reaches.

use super::render::{Measure, Renderer, Room};
use super::{Block, Dialect, Document, Kind, Span};
use std::ops::Range;
use switchboard_core::port::channel::LengthUnit;
use unicode_segmentation::UnicodeSegmentation as _;

/// Smallest limit that documents are cut to: no service has one near it, and everything that is opened again has to fit.
const MAX_LOWEST: usize = 512;
/// Sentence ends that need no space behind them.
const FULL_STOPS: [char; 5] = ['。', '！', '？', '…', '｡'];

/// How long a part may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    max: usize,
    unit: LengthUnit,
}

impl Limit {
    /// At most `max` of `unit`, but not less than 512.
    #[must_use]
    pub fn new(max: usize, unit: LengthUnit) -> Self {
        Self { max: max.max(MAX_LOWEST), unit }
    }

    /// The length of `text` in this limit's unit.
    #[must_use]
    pub fn measure(self, text: &str) -> usize {
        measure(self.unit)(text)
    }
}

fn measure(unit: LengthUnit) -> Measure {
    match unit {
        LengthUnit::Bytes => str::len,
        LengthUnit::Chars => |text| text.chars().count(),
        LengthUnit::Utf16 => |text| text.encode_utf16().count(),
    }
}

/// Cuts `document` into parts that are within `limit` when rendered in `dialect`; one part at least. With `numbered`, parts of several
/// end with `(1/3)`.
///
/// What a part must open again is bounded: containers whose opening takes more than a third of a part are left off, and a link that takes
/// more than a quarter is text with its target behind it.
#[must_use]
pub fn split(document: &Document, dialect: &dyn Dialect, limit: Limit, numbered: bool) -> Vec<Document> {
    let room = Room { measure: measure(limit.unit), max: limit.max };
    if let Some(whole) = whole(document, dialect, room) {
        return vec![whole];
    }
    let reserve = if numbered { numbering_len(dialect, room) } else { 0 };
    let mut splitter = Splitter {
        dialect,
        room: Room { max: limit.max - reserve, ..room },
        parts: Vec::new(),
        part: Document::default(),
        renderer: Renderer::new(dialect),
    };
    for block in &document.blocks {
        splitter.place(block.clone());
    }
    splitter.flush();
    let mut parts = splitter.parts;
    let total = parts.len();
    if numbered && total > 1 {
        for (at, part) in parts.iter_mut().enumerate() {
            part.push_text(&format!("({}/{total})", at + 1));
        }
    }
    parts
}

/// The document, if it fits into one part.
fn whole(document: &Document, dialect: &dyn Dialect, room: Room) -> Option<Document> {
    let mut renderer = Renderer::new(dialect);
    for block in &document.blocks {
        if renderer.push(block, &(0..usize::MAX), Some(room)).is_some() {
            return None;
        }
    }
    ((room.measure)(&renderer.finish()) <= room.max).then(|| document.clone())
}

fn numbering_len(dialect: &dyn Dialect, room: Room) -> usize {
    let mut numbered = Document::default();
    numbered.push_text("x");
    let alone = (room.measure)(&super::render(&numbered, dialect));
    numbered.push_text("(999999/999999)");
    (room.measure)(&super::render(&numbered, dialect)) - alone
}

struct Splitter<'a> {
    dialect: &'a dyn Dialect,
    room: Room,
    parts: Vec<Document>,
    part: Document,
    renderer: Renderer<'a>,
}

impl Splitter<'_> {
    /// Puts a leaf into the current part, or as much of it as belongs there and the rest into the next ones.
    fn place(&mut self, block: Block) {
        let block = self.bounded(block);
        let text = block.text();
        let mut rest = 0..text.len();
        loop {
            let mark = self.renderer.mark();
            let Some(fitted) = self.renderer.push(&block, &rest, Some(self.room)) else {
                self.part.blocks.push(piece(&block, &rest));
                return;
            };
            self.renderer.back(mark);
            let window = &text[rest.start..rest.start + fitted];
            if !self.part.blocks.is_empty() && (self.worth_moving(window) || self.fits_alone(&block, &rest)) {
                self.flush();
                continue;
            }
            let cut = rest.start + cut_at(window, &text[rest.start + fitted..], block.is_code());
            self.part.blocks.push(piece(&block, &(rest.start..cut)));
            self.flush();
            rest.start = if block.is_code() { cut } else { cut + leading_space(&text[cut..]) };
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Whether what is left of the current part is too little to begin a leaf in.
    fn worth_moving(&self, window: &str) -> bool {
        (self.room.measure)(window) < self.room.max / 4
    }

    fn fits_alone(&self, block: &Block, rest: &Range<usize>) -> bool {
        Renderer::new(self.dialect).push(block, rest, Some(self.room)).is_none()
    }

    fn flush(&mut self) {
        if !self.part.blocks.is_empty() || self.parts.is_empty() {
            self.parts.push(std::mem::take(&mut self.part));
        }
        self.renderer = Renderer::new(self.dialect);
    }

    /// The leaf with no more to open again than leaves room for its text.
    fn bounded(&self, mut block: Block) -> Block {
        for link in long_links(&block, self.dialect, self.room) {
            let target = block.spans[link].link.as_ref().map(|link| link.target.clone());
            unlink(&mut block, link, &target.unwrap_or_default());
        }
        let empty = Block { spans: Vec::new(), ..block.clone() };
        let alone = super::render(&Document { blocks: vec![empty] }, self.dialect);
        if (self.room.measure)(&alone) > self.room.max / 3 {
            block.path.clear();
            block.starts = 0;
            if let Kind::Code { language, .. } = &mut block.kind {
                language.clear();
            }
        }
        block
    }
}

/// Last spans of links that take too much room, from the end.
fn long_links(block: &Block, dialect: &dyn Dialect, room: Room) -> Vec<usize> {
    let mut long = Vec::new();
    for (at, span) in block.spans.iter().enumerate().rev() {
        let Some(link) = &span.link else { continue };
        if block.spans.get(at + 1).is_some_and(|next| next.link.as_ref() == Some(link)) {
            continue;
        }
        let mut around = String::new();
        dialect.open_link(link, &mut around);
        dialect.close_link(link, &mut around);
        if (room.measure)(&around) > room.max / 4 {
            long.push(at);
        }
    }
    long
}

/// Makes the link that ends with span `last` text.
pub(super) fn unlink(block: &mut Block, last: usize, target: &str) {
    let link = block.spans[last].link.clone();
    let bare = link.as_ref().is_some_and(|link| link.bare);
    for span in block.spans[..=last].iter_mut().rev().take_while(|span| span.link == link) {
        span.link = None;
    }
    if !bare {
        block.spans.insert(last + 1, Span::plain(&format!(" ({target})")));
    }
}

/// The bytes `part` of a leaf's text as a leaf.
fn piece(block: &Block, part: &Range<usize>) -> Block {
    let mut spans = Vec::new();
    let mut at = 0;
    for span in &block.spans {
        let from = part.start.saturating_sub(at).min(span.text.len());
        let to = part.end.saturating_sub(at).min(span.text.len());
        at += span.text.len();
        if from < to {
            spans.push(Span { text: span.text[from..to].to_owned(), ..span.clone() });
        }
    }
    if let Some(last) = spans.last_mut() {
        // A cut behind a line end or a space: what ends the leaf ends them.
        let kept =
            if block.is_code() { last.text.trim_end_matches('\n').len() } else { last.text.trim_end().len() };
        last.text.truncate(kept);
    }
    let starts = if part.start == 0 { block.starts } else { block.path.len() };
    Block { path: block.path.clone(), starts, kind: block.kind.clone(), spans }
}

/// How much of `window`, which is all that fits, is taken; more than nothing. `after` is what follows it.
fn cut_at(window: &str, after: &str, code: bool) -> usize {
    let lowest = window.len() / 3;
    if code {
        return window.rfind('\n').map_or(window.len(), |at| at + 1).max(1);
    }
    if let Some(at) = last_sentence(window).filter(|at| *at > lowest) {
        return at;
    }
    if after.starts_with(char::is_whitespace) {
        return window.len();
    }
    let word = window.trim_end().rfind(char::is_whitespace).map(|at| at + leading_space(&window[at..]));
    match word {
        // An address is not cut while it can move as a whole.
        Some(at) if at > lowest || window[at..].contains("://") => at,
        _ => window.len(),
    }
}

fn last_sentence(window: &str) -> Option<usize> {
    let ends = |at: usize| {
        window[..at].chars().next_back().is_some_and(|c| c.is_whitespace() || FULL_STOPS.contains(&c))
    };
    window.split_sentence_bound_indices().map(|(at, _)| at).filter(|at| *at > 0 && ends(*at)).last()
}

fn leading_space(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

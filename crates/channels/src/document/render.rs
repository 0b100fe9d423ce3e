//! A document in a service's dialect, and the one walk that both rendering and cutting take.

use super::{Block, Container, Document, Kind, Link, Span, Style};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation as _;

/// Longest grapheme that is kept in one piece, in bytes; letters under hundreds of accents are cut between them.
const GRAPHEME_BYTES_MAX: usize = 64;

/// Where text stands, for what has to be escaped there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Running text.
    Text,
    /// Code within running text.
    Code,
    /// A leaf of code.
    Fence,
    /// The text of a link that is its target: for services that make a link of it by themselves, if it is left as it is.
    Address,
}

/// How a service writes documents. Everything is appended to `out`; what is written for a text must not depend on what stands around it.
pub trait Dialect: Sync {
    /// `text`, which has no line end, so that nothing of it is markup.
    fn text(&self, text: &str, place: Place, out: &mut String);
    /// A line end within a leaf. What begins the next line is written by [`Dialect::prefix`].
    fn line_end(&self, place: Place, out: &mut String);
    /// Begins a look.
    fn open(&self, style: Style, out: &mut String);
    /// Ends it.
    fn close(&self, style: Style, out: &mut String);
    /// Begins a link.
    fn open_link(&self, link: &Link, out: &mut String);
    /// Ends it.
    fn close_link(&self, link: &Link, out: &mut String);
    /// Begins the container `path[at]`.
    fn enter(&self, path: &[Container], at: usize, out: &mut String);
    /// Ends it.
    fn leave(&self, container: &Container, out: &mut String);
    /// Ends the innermost container of `path`, for dialects to which it matters what stands around it.
    fn leave_within(&self, path: &[Container], out: &mut String) {
        if let Some(innermost) = path.last() {
            self.leave(innermost, out);
        }
    }
    /// What begins a line below `path`. The items of `path` from `fresh` on begin on this line.
    fn prefix(&self, path: &[Container], fresh: usize, out: &mut String);
    /// Begins a leaf; `line` begins each of its further lines.
    fn start(&self, kind: &Kind, line: &str, out: &mut String);
    /// Ends it.
    fn end(&self, kind: &Kind, line: &str, out: &mut String);
    /// What stands between two leaves that have `shared` in common; `tight` when the second begins an item or a list in an item.
    fn between(&self, shared: &[Container], tight: bool, out: &mut String);
}

/// The whole document.
#[must_use]
pub fn render(document: &Document, dialect: &dyn Dialect) -> String {
    let mut renderer = Renderer::new(dialect);
    for block in &document.blocks {
        renderer.push(block, &(0..usize::MAX), None);
    }
    renderer.finish()
}

/// Counts what was written.
pub(super) type Measure = fn(&str) -> usize;

/// How much may be written.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub measure: Measure,
    pub max: usize,
}

/// A document on its way out.
pub(super) struct Renderer<'a> {
    dialect: &'a dyn Dialect,
    out: String,
    open: Vec<Container>,
    counted: Counted,
}

/// How much has been counted, so that nothing is counted twice.
#[derive(Clone, Copy, Default)]
struct Counted {
    bytes: usize,
    units: usize,
}

/// Where a renderer was, to go back to.
pub(super) struct Mark {
    len: usize,
    open: Vec<Container>,
    counted: Counted,
}

impl<'a> Renderer<'a> {
    pub fn new(dialect: &'a dyn Dialect) -> Self {
        Self { dialect, out: String::new(), open: Vec::new(), counted: Counted::default() }
    }

    pub fn mark(&self) -> Mark {
        Mark { len: self.out.len(), open: self.open.clone(), counted: self.counted }
    }

    pub fn back(&mut self, mark: Mark) {
        self.out.truncate(mark.len);
        self.open = mark.open;
        self.counted = mark.counted;
    }

    /// The length of what has been written.
    fn used(&mut self, room: Room) -> usize {
        self.counted.units += (room.measure)(&self.out[self.counted.bytes..]);
        self.counted.bytes = self.out.len();
        self.counted.units
    }

    pub fn finish(mut self) -> String {
        self.leave_to(0);
        self.out
    }

    /// Writes the bytes `part` of a leaf's text. With a room, everything so far included, it stops where that would be too small, says
    /// how many bytes of the text have been written, and what is written is of no use; `None` when all of it is there.
    pub fn push(&mut self, block: &Block, part: &Range<usize>, room: Option<Room>) -> Option<usize> {
        let shared = self.open.iter().zip(&block.path).take_while(|(a, b)| a == b).count();
        self.leave_to(shared);
        let fresh = if part.start == 0 { block.starts } else { block.path.len() };
        if !self.out.is_empty() {
            self.dialect.between(&block.path[..shared], is_tight(block, fresh, shared), &mut self.out);
        }
        for at in shared..block.path.len() {
            self.dialect.enter(&block.path, at, &mut self.out);
        }
        self.open.clone_from(&block.path);
        self.dialect.prefix(&block.path, fresh, &mut self.out);
        let mut line = String::new();
        self.dialect.prefix(&block.path, block.path.len(), &mut line);
        self.dialect.start(&block.kind, &line, &mut self.out);
        let cut = self.spans(block, part, &line, room);
        if cut.is_none() {
            self.dialect.end(&block.kind, &line, &mut self.out);
        }
        cut
    }

    fn leave_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            self.dialect.leave_within(&self.open, &mut self.out);
            self.open.pop();
        }
    }

    fn spans(&mut self, block: &Block, part: &Range<usize>, line: &str, room: Option<Room>) -> Option<usize> {
        let mut left = room.map(|room| room.max.saturating_sub(self.used(room)));
        let mut last: Option<&Span> = None;
        let (mut at, mut done) = (0, 0);
        if left.is_some_and(|left| self.tail(block, None, line, room) > left) {
            return Some(0);
        }
        for span in &block.spans {
            let from = part.start.saturating_sub(at).min(span.text.len());
            let to = part.end.saturating_sub(at).min(span.text.len());
            at += span.text.len();
            if from >= to {
                continue;
            }
            let began = self.out.len();
            self.turn(last, Some(span));
            last = Some(span);
            let written = room.map_or(0, |room| (room.measure)(&self.out[began..]));
            left = left.map(|left| left.saturating_sub(written));
            let tail = self.tail(block, last, line, room);
            match self.text(&span.text[from..to], place(block, span), line, room.zip(left), tail) {
                Ok(rest) => left = left.and(Some(rest)),
                Err(fitted) => return Some(done + fitted),
            }
            done += to - from;
        }
        self.turn(last, None);
        None
    }

    /// Writes one span's text. `Ok` says how much room is left, `Err` how many bytes of it had room.
    fn text(
        &mut self,
        text: &str,
        place: Place,
        line: &str,
        room: Option<(Room, usize)>,
        tail: usize,
    ) -> Result<usize, usize> {
        let Some((room, mut left)) = room else {
            for (number, one) in text.split('\n').enumerate() {
                if number > 0 {
                    self.line_end(place, line);
                }
                self.dialect.text(one, place, &mut self.out);
            }
            return Ok(0);
        };
        let mut fitted = 0;
        for piece in pieces(text) {
            let began = self.out.len();
            if piece == "\n" {
                self.line_end(place, line);
            } else {
                self.dialect.text(piece, place, &mut self.out);
            }
            let written = (room.measure)(&self.out[began..]);
            if written + tail > left {
                return Err(fitted);
            }
            left -= written;
            fitted += piece.len();
        }
        Ok(left)
    }

    fn line_end(&mut self, place: Place, line: &str) {
        self.dialect.line_end(place, &mut self.out);
        self.out.push_str(line);
    }

    /// What must still be written when the text ends within `span`.
    fn tail(&self, block: &Block, span: Option<&Span>, line: &str, room: Option<Room>) -> usize {
        let Some(room) = room else { return 0 };
        let mut tail = Renderer::new(self.dialect);
        tail.turn(span, None);
        tail.dialect.end(&block.kind, line, &mut tail.out);
        tail.open.clone_from(&self.open);
        (room.measure)(&tail.finish())
    }

    /// Ends what only `before` has, and begins what only `after` has.
    fn turn(&mut self, before: Option<&Span>, after: Option<&Span>) {
        let (old, new) = (looks(before), looks(after));
        let (old_link, new_link) =
            (before.and_then(|s| s.link.as_ref()), after.and_then(|s| s.link.as_ref()));
        let same_link = old_link == new_link;
        let shared = if same_link { old.iter().zip(&new).take_while(|(a, b)| a == b).count() } else { 0 };
        for style in old[shared..].iter().rev() {
            self.dialect.close(*style, &mut self.out);
        }
        if !same_link {
            old_link.into_iter().for_each(|link| self.dialect.close_link(link, &mut self.out));
            new_link.into_iter().for_each(|link| self.dialect.open_link(link, &mut self.out));
        }
        for style in &new[shared..] {
            self.dialect.open(*style, &mut self.out);
        }
    }
}

fn looks(span: Option<&Span>) -> Vec<Style> {
    let style = span.map_or(Style::default(), |span| span.style);
    Style::ALL.into_iter().filter(|look| style.has(*look)).collect()
}

fn place(block: &Block, span: &Span) -> Place {
    match (block.is_code(), span.style.has(Style::CODE)) {
        (true, _) => Place::Fence,
        (false, true) => Place::Code,
        (false, false) if span.link.as_ref().is_some_and(|link| link.bare) => Place::Address,
        (false, false) => Place::Text,
    }
}

fn is_tight(block: &Block, fresh: usize, shared: usize) -> bool {
    match block.path.get(shared) {
        Some(Container::Item { .. }) => fresh <= shared,
        Some(Container::List { .. }) => {
            shared > 0 && matches!(block.path[shared - 1], Container::Item { .. })
        }
        _ => false,
    }
}

/// Graphemes, or characters where one is too long.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.graphemes(true).flat_map(|grapheme| {
        let whole = grapheme.len() <= GRAPHEME_BYTES_MAX;
        let chars = (!whole).then(|| grapheme.split_inclusive(|_: char| true).filter(|one| !one.is_empty()));
        whole.then_some(grapheme).into_iter().chain(chars.into_iter().flatten())
    })
}

//! A message as a document: CommonMark in, any service's dialect out.
//!
//! [`Document::parse`] reads CommonMark once; [`render`] writes a document in a [`Dialect`]; [`split`] cuts a document that is too
//! long into several. Cutting happens here and never in what was rendered, so that every part is well formed by itself.
//!
//! The tree is kept as its leaves in order, each with the path of containers above it: nothing recurses, however deep a text nests, and
//! a cut is a leaf in two with the same path.
//!
//! To add a dialect: one file with a [`Dialect`]; then its row in the property tests of this folder.

mod clean;
pub mod discord;
mod html;
mod matrix;
mod parse;
mod plain;
mod render;
pub mod slack;
mod split;
mod telegram;
#[cfg(test)]
mod tests;

pub use clean::{clean, clean_line};
pub use discord::Discord;
pub use html::Html;
pub use matrix::{Matrix, MatrixEvent, WORD_JOINER, without_mentions};
pub use plain::Plain;
pub use render::{Dialect, Place, render};
pub use split::{Limit, split};
pub use telegram::{JOINER as TELEGRAM_JOINER, Telegram};

use std::sync::Arc;

/// Containers that are kept around a leaf; what nests deeper stands in the innermost of these.
pub const DEPTH_MAX: usize = 24;
/// Longest language of a fence, in characters.
pub const LANGUAGE_CHARS_MAX: usize = 64;
/// Longest target of a link, in bytes; a longer one is text.
pub const TARGET_BYTES_MAX: usize = 2048;

/// A document: its leaves in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// The leaves.
    pub blocks: Vec<Block>,
}

/// A leaf with its place in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Containers above it, outermost first.
    pub path: Vec<Container>,
    /// The containers of `path` from here on begin with this leaf.
    pub starts: usize,
    /// What it is.
    pub kind: Kind,
    /// Its text; a line end within it is `\n`.
    pub spans: Vec<Span>,
}

/// What a leaf is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Running text.
    Paragraph,
    /// A heading of level 1 to 6.
    Heading(u8),
    /// Text to be shown as it is.
    Code {
        /// Its language, perhaps empty: at most [`LANGUAGE_CHARS_MAX`], no spaces, no backticks.
        language: String,
        /// A fence that its text cannot close.
        fence: String,
    },
    /// A line across.
    Rule,
}

/// A container, told from others of its kind by `id`, which is unique in the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Container {
    /// A quotation.
    Quote {
        /// Identity.
        id: u32,
    },
    /// A list; within it stand items alone.
    List {
        /// Identity.
        id: u32,
        /// Whether its items are numbered.
        ordered: bool,
    },
    /// An item.
    Item {
        /// Identity.
        id: u32,
        /// Its number, where the list has numbers.
        number: Option<u64>,
    },
}

/// Text of one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The text.
    pub text: String,
    /// How it looks.
    pub style: Style,
    /// What it leads to.
    pub link: Option<Arc<Link>>,
}

/// A link that is allowed: `http`, `https` or `mailto`.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// Where to.
    pub target: String,
    /// Whether its text is its target.
    pub bare: bool,
}

/// A set of looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style(u8);

impl Style {
    /// Bold.
    pub const STRONG: Self = Self(1);
    /// Italic.
    pub const EMPHASIS: Self = Self(2);
    /// Struck out.
    pub const STRIKE: Self = Self(4);
    /// Code within text.
    pub const CODE: Self = Self(8);

    /// All of them, outermost first.
    pub const ALL: [Self; 4] = [Self::STRONG, Self::EMPHASIS, Self::STRIKE, Self::CODE];

    /// Both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This without the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it has all of `other`.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Document {
    /// Reads CommonMark with tables, task lists and strike-through. HTML in it is text; a table becomes a line for each row; an image
    /// becomes a link; what [`clean`] drops is dropped.
    #[must_use]
    pub fn parse(source: &str) -> Self {
        parse::parse(source)
    }

    /// Adds a paragraph of plain text, cleaned.
    pub fn push_text(&mut self, text: &str) {
        self.push(vec![Span::plain(&clean(text))]);
    }

    /// Adds a paragraph of these.
    pub fn push(&mut self, spans: Vec<Span>) {
        self.blocks.push(Block { path: Vec::new(), starts: 0, kind: Kind::Paragraph, spans });
    }

    /// Adds a line across.
    pub fn push_rule(&mut self) {
        self.blocks.push(Block { path: Vec::new(), starts: 0, kind: Kind::Rule, spans: Vec::new() });
    }

    /// What a reader reads: the text of the leaves, one after the other, without any markup.
    #[must_use]
    pub fn visible(&self) -> String {
        let texts: Vec<String> = self.blocks.iter().map(Block::text).collect();
        texts.join("\n")
    }
}

impl Block {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    pub(crate) fn is_code(&self) -> bool {
        matches!(self.kind, Kind::Code { .. })
    }
}

impl Span {
    /// Text without any look.
    #[must_use]
    pub fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), style: Style::default(), link: None }
    }

    /// A link that shows its target, where that is allowed; else text.
    #[must_use]
    pub fn link(target: &str) -> Self {
        let link = parse::target(target).map(|target| Arc::new(Link { target, bare: true }));
        Self { link, ..Self::plain(&clean_line(target)) }
    }
}

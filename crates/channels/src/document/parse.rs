//! CommonMark to a [`Document`].

use super::{
    Block, Container, DEPTH_MAX, Document, Kind, LANGUAGE_CHARS_MAX, Link, Span, Style, TARGET_BYTES_MAX,
    clean, clean_line,
};
use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd, TextMergeStream};
use std::sync::Arc;

/// Backticks or tildes of a fence at most; code that has longer runs of both is a paragraph.
const FENCE_MAX: usize = 16;

pub(super) fn parse(source: &str) -> Document {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut builder = Builder::default();
    for event in TextMergeStream::new(Parser::new_ext(source, options)) {
        builder.take(event);
    }
    builder.flush();
    Document { blocks: builder.blocks }
}

/// The target of a link if it is allowed, without anything invisible.
pub(super) fn target(raw: &str) -> Option<String> {
    let target = clean_line(raw);
    let scheme = target.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let known = matches!(scheme.as_deref(), Some("http" | "https" | "mailto"));
    let shaped = target.len() <= TARGET_BYTES_MAX
        && !target.contains(|c: char| c.is_whitespace() || "<>\"`\\".contains(c));
    (known && shaped).then_some(target)
}

#[derive(Default)]
struct Builder {
    blocks: Vec<Block>,
    path: Vec<Container>,
    /// How many of `path` have a leaf already.
    used: usize,
    /// Containers that are open beyond [`DEPTH_MAX`].
    beyond: usize,
    /// Ids given.
    ids: u32,
    /// Next number of each open list, innermost last; `None` for one without numbers.
    numbers: Vec<Option<u64>>,
    current: Option<(Kind, Vec<Span>)>,
    style: Style,
    link: Option<OpenLink>,
    /// How often each look is open: it may nest in itself.
    open: [u32; 4],
    /// Whether a cell came before in this row.
    cells: usize,
}

struct OpenLink {
    /// Where to, as it came; `None` when it is not allowed.
    target: Option<String>,
    raw: String,
    /// First span of its text.
    from: usize,
    image: bool,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text, Style::default()),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text, Style::CODE);
            }
            Event::Html(text) | Event::InlineHtml(text) | Event::FootnoteReference(text) => {
                self.text(&text, Style::default());
            }
            Event::SoftBreak | Event::HardBreak => self.text("\n", Style::default()),
            Event::Rule => self.leaf(Kind::Rule),
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }, Style::default()),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock | Tag::Table(_) => self.leaf(Kind::Paragraph),
            Tag::Heading { level, .. } => self.leaf(Kind::Heading(level as u8)),
            Tag::CodeBlock(kind) => self.leaf(Kind::Code { language: language(&kind), fence: String::new() }),
            Tag::BlockQuote(_) => self.enter(|id| Container::Quote { id }),
            Tag::List(first) => {
                self.numbers.push(first);
                self.enter(|id| Container::List { id, ordered: first.is_some() });
            }
            Tag::Item => self.item(),
            Tag::TableHead | Tag::TableRow => self.row(),
            Tag::TableCell => self.cell(),
            Tag::Strong => self.look(0, true),
            Tag::Emphasis => self.look(1, true),
            Tag::Strikethrough => self.look(2, true),
            Tag::Link { link_type, dest_url, .. } => self.open_link(link_type, &dest_url, false),
            Tag::Image { link_type, dest_url, .. } => self.open_link(link_type, &dest_url, true),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph
            | TagEnd::HtmlBlock
            | TagEnd::Table
            | TagEnd::Heading(_)
            | TagEnd::CodeBlock => {
                self.flush();
            }
            TagEnd::BlockQuote(_) => self.leave(),
            TagEnd::List(_) => {
                self.numbers.pop();
                self.leave();
            }
            TagEnd::Item => {
                self.flush();
                if self.beyond == 0 && self.used < self.path.len() {
                    // An item without anything is seen all the same.
                    self.leaf(Kind::Paragraph);
                    self.flush();
                }
                self.leave();
            }
            TagEnd::Strong => self.look(0, false),
            TagEnd::Emphasis => self.look(1, false),
            TagEnd::Strikethrough => self.look(2, false),
            TagEnd::Link | TagEnd::Image => self.close_link(matches!(tag, TagEnd::Image)),
            _ => {}
        }
    }

    fn enter(&mut self, make: impl FnOnce(u32) -> Container) {
        self.flush();
        if self.path.len() == DEPTH_MAX {
            self.beyond += 1;
            return;
        }
        self.ids += 1;
        self.path.push(make(self.ids));
    }

    fn leave(&mut self) {
        self.flush();
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        self.path.pop();
        self.used = self.used.min(self.path.len());
    }

    fn item(&mut self) {
        let number = self.numbers.last_mut().and_then(|next| {
            let number = *next;
            *next = next.map(|number| number.saturating_add(1));
            number
        });
        self.enter(|id| Container::Item { id, number });
    }

    fn row(&mut self) {
        if self.current.as_ref().is_some_and(|(_, spans)| !spans.is_empty()) {
            self.push("\n", Style::default());
        }
        self.cells = 0;
    }

    fn cell(&mut self) {
        if self.cells > 0 {
            self.push(" | ", Style::default());
        }
        self.cells += 1;
    }

    fn look(&mut self, which: usize, open: bool) {
        let count = &mut self.open[which];
        *count = if open { *count + 1 } else { count.saturating_sub(1) };
        let look = Style::ALL[which];
        self.style = if *count > 0 { self.style.with(look) } else { self.style.without(look) };
    }

    fn leaf(&mut self, kind: Kind) {
        self.flush();
        let is_rule = kind == Kind::Rule;
        self.current = Some((kind, Vec::new()));
        if is_rule {
            self.flush();
        }
    }

    /// Text without a leaf around it, as in a tight list, begins a paragraph.
    fn text(&mut self, text: &str, style: Style) {
        if self.current.is_none() {
            self.current = Some((Kind::Paragraph, Vec::new()));
        }
        self.push(&clean(text), self.style.with(style));
    }

    fn push(&mut self, text: &str, style: Style) {
        let Some((_, spans)) = &mut self.current else { return };
        let from = self.link.as_ref().map_or(0, |link| link.from);
        let inside = spans.len() > from;
        match spans.last_mut() {
            Some(last) if inside && last.style == style && last.link.is_none() => last.text.push_str(text),
            _ if text.is_empty() => {}
            _ => spans.push(Span { style, ..Span::plain(text) }),
        }
    }

    /// A link within the text of an image, or the other way round, is its text alone.
    fn open_link(&mut self, kind: LinkType, raw: &str, image: bool) {
        if self.link.is_some() {
            return;
        }
        if self.current.is_none() {
            self.current = Some((Kind::Paragraph, Vec::new()));
        }
        let raw = if kind == LinkType::Email { format!("mailto:{raw}") } else { raw.to_owned() };
        let from = self.current.as_ref().map_or(0, |(_, spans)| spans.len());
        self.link = Some(OpenLink { target: target(&raw), raw: clean_line(&raw), from, image });
    }

    fn close_link(&mut self, image: bool) {
        let Some(link) = self.link.take_if(|link| link.image == image) else { return };
        let Some((_, spans)) = &mut self.current else { return };
        let label: String = spans[link.from..].iter().map(|span| span.text.as_str()).collect();
        if label.trim().is_empty() {
            spans.truncate(link.from);
            spans.push(Span { style: self.style, ..Span::plain(if image { "image" } else { &link.raw }) });
        }
        let bare = label.trim().is_empty() && !image || shows(&label, &link.raw);
        let shown = match link.target {
            Some(target) if bare || !pretends(&label) => Some(Arc::new(Link { target, bare })),
            // The text of a link that names another place, or a link that is not allowed: both are text.
            _ => None,
        };
        if shown.is_none() && !bare {
            spans.push(Span { style: self.style, ..Span::plain(&format!(" ({})", link.raw)) });
        }
        for span in &mut spans[link.from..] {
            span.link.clone_from(&shown);
        }
    }

    fn flush(&mut self) {
        let Some((kind, mut spans)) = self.current.take() else { return };
        self.link = None;
        let kind = finish(kind, &mut spans);
        let starts = self.used.min(self.path.len());
        self.used = self.path.len();
        self.blocks.push(Block { path: self.path.clone(), starts, kind, spans });
    }
}

/// Whether a link's text is its target.
fn shows(label: &str, raw: &str) -> bool {
    label == raw || raw.strip_prefix("mailto:") == Some(label)
}

/// Whether a link's text looks like an address of its own.
fn pretends(label: &str) -> bool {
    let label = label.trim().to_lowercase();
    label.contains("://")
        || label.starts_with("www.")
        || (!label.contains(char::is_whitespace) && label.contains('@'))
}

fn language(kind: &CodeBlockKind<'_>) -> String {
    let CodeBlockKind::Fenced(info) = kind else { return String::new() };
    let info = clean_line(info);
    let word = info.split_whitespace().next().unwrap_or_default();
    word.chars().filter(|c| !matches!(c, '`' | '~')).take(LANGUAGE_CHARS_MAX).collect()
}

/// A leaf's text without the line ends around it, and for code a fence that it cannot close.
fn finish(kind: Kind, spans: &mut Vec<Span>) -> Kind {
    if let Some(last) = spans.last_mut() {
        let kept = last.text.trim_end_matches('\n').len();
        last.text.truncate(kept);
    }
    spans.retain(|span| !span.text.is_empty());
    let Kind::Code { language, .. } = kind else { return kind };
    let text: String = spans.iter().map(|span| span.text.as_str()).collect();
    for mark in ['`', '~'] {
        let run = longest_run(&text, mark);
        if run < FENCE_MAX {
            return Kind::Code { language, fence: mark.to_string().repeat((run + 1).max(3)) };
        }
    }
    Kind::Paragraph
}

fn longest_run(text: &str, mark: char) -> usize {
    text.split(|c| c != mark).map(str::len).max().unwrap_or(0)
}

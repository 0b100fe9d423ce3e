//! What holds for every document and every dialect.

use super::slack::{BREAK, GLUE, Mrkdwn, tame};
use super::*;
use proptest::prelude::*;
use std::fmt::Write as _;
use switchboard_core::port::channel::LengthUnit;

const DIALECTS: [&dyn Dialect; 7] = [&Plain, &Html, &Matrix, &MatrixEvent, &Mrkdwn, &Telegram, &Discord];
const DISCORD: usize = 6;
const UNITS: [LengthUnit; 3] = [LengthUnit::Bytes, LengthUnit::Chars, LengthUnit::Utf16];

/// What a reader of HTML sees; fails unless every element is closed in order.
fn seen(html: &str) -> String {
    let text = texts(html);
    assert!(!text.contains('"'), "unescaped: {text}");
    unescaped(&text)
}

fn unescaped(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    plain.replace("&amp;", "&")
}

/// What stands between tags, as it is written; fails unless every element is closed in order.
fn texts(html: &str) -> String {
    let (mut open, mut text, mut rest) = (Vec::new(), String::new(), html);
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        let end = rest[at..].find('>').expect("a tag ends") + at;
        let tag = &rest[at + 1..end];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{html}");
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().expect("a name"));
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} stay open: {html}");
    text.push_str(rest);
    assert!(!text.contains('>'), "unescaped: {text}");
    text
}

/// mrkdwn without what lists, quotations and fences look like, which a reader could not tell from text.
struct Bare;

impl Dialect for Bare {
    fn text(&self, text: &str, place: Place, out: &mut String) {
        Mrkdwn.text(text, place, out);
    }
    fn line_end(&self, place: Place, out: &mut String) {
        Mrkdwn.line_end(place, out);
    }
    fn open(&self, style: Style, out: &mut String) {
        Mrkdwn.open(style, out);
    }
    fn close(&self, style: Style, out: &mut String) {
        Mrkdwn.close(style, out);
    }
    fn open_link(&self, link: &Link, out: &mut String) {
        Mrkdwn.open_link(link, out);
    }
    fn close_link(&self, link: &Link, out: &mut String) {
        Mrkdwn.close_link(link, out);
    }
    fn enter(&self, _: &[Container], _: usize, _: &mut String) {}
    fn leave(&self, _: &Container, _: &mut String) {}
    fn prefix(&self, _: &[Container], _: usize, _: &mut String) {}
    fn start(&self, _: &Kind, _: &str, _: &mut String) {}
    fn end(&self, _: &Kind, _: &str, _: &mut String) {}
    fn between(&self, _: &[Container], _: bool, out: &mut String) {
        out.push('\n');
    }
}

/// What a reader of [`Bare`] sees; fails on anything between angle brackets but a link, and unless looks end in order within their line.
fn seen_in_slack(mrkdwn: &str) -> String {
    let (mut open, mut text) = (Vec::new(), String::new());
    let mut rest = mrkdwn.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            GLUE => open.push(rest.next().expect("a mark")),
            '*' | '_' | '~' | '`' if rest.peek() == Some(&GLUE) && open.last() == Some(&c) => {
                open.pop();
                rest.next();
            }
            '<' => {
                let link: String = rest.by_ref().take_while(|c| *c != '>').collect();
                let (target, label) = link.split_once('|').expect("a link has a label");
                assert!(
                    ["http:", "https:", "mailto:"].iter().any(|s| target.to_lowercase().starts_with(s)),
                    "{link}"
                );
                assert!(!target.contains('<') && !label.contains('<'), "{link}");
                text.push_str(label);
            }
            '>' => panic!("unescaped: {mrkdwn}"),
            '\n' => {
                assert!(open.is_empty(), "{open:?} stay open: {mrkdwn}");
                text.push(c);
            }
            BREAK => {}
            c => text.push(c),
        }
    }
    assert!(open.is_empty(), "{open:?} stay open: {mrkdwn}");
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// What the dialect `which` renders of it.
fn document(source: &str, which: usize) -> Document {
    let document = Document::parse(source);
    if which == DISCORD { discord::adapted(document) } else { document }
}

/// Without white space, which a cut may take.
fn dense(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn visible(parts: &[Document]) -> String {
    parts.iter().map(|part| dense(&part.visible())).collect()
}

/// What must hold of the parts of `document`; the parts.
fn hold(document: &Document, dialect: &dyn Dialect, limit: Limit, max: usize) -> Vec<Document> {
    let parts = split(document, dialect, limit, false);
    for part in &parts {
        let text = render(part, dialect);
        assert!(limit.measure(&text) <= max, "{} of {max}: {text}", limit.measure(&text));
        for html in [&Html as &dyn Dialect, &Matrix] {
            assert_eq!(dense(&seen(&render(part, html))), dense(&part.visible()));
        }
        assert_eq!(dense(&seen_in_telegram(part)), dense(&part.visible()));
    }
    parts
}

/// What a reader of Telegram sees of the leaves of a part; fails on markup that is not well formed, and on quotations within one.
fn seen_in_telegram(part: &Document) -> String {
    let html = render(part, &Telegram);
    texts(&html);
    let within = html.split("<blockquote>").skip(1).map(|quote| quote.matches("</blockquote>").count());
    assert!(within.into_iter().all(|ends| ends == 1), "quotations nest: {html}");
    let mut leaves = part.clone();
    leaves.blocks.retain(|block| block.kind != Kind::Rule);
    for block in &mut leaves.blocks {
        block.path.clear();
        block.spans.iter_mut().for_each(|span| span.link = None);
    }
    unescaped(&texts(&render(&leaves, &Telegram))).replace(telegram::JOINER, "")
}

/// The lines that are fences of a part with code alone.
fn fences(part: &Document) -> Vec<String> {
    let text = render(part, &Plain);
    text.lines()
        .filter(|line| line.trim_start_matches("> ").trim().starts_with("```"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn it_reads_what_people_write() {
    let source = "# Plan\n\nDo **this** and *that*, see [the page](https://x.test/a_(b)).\n\n1. one\n2. two\n   - deep\n\n> said\n> twice\n\n\
        ```rust\nfn main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n![chart](https://x.test/c.png) <b>bold</b>\n";
    let document = Document::parse(source);
    assert_eq!(
        render(&document, &Plain),
        "Plan\n\nDo this and that, see the page (https://x.test/a_(b)).\n\n1. one\n2. two\n   - deep\n\n> said\n> twice\n\n\
         ```rust\nfn main() {}\n```\n\na | b\n1 | 2\n\n---\n\nchart (https://x.test/c.png) <b>bold</b>"
    );
    let html = render(&document, &Html);
    assert_eq!(dense(&seen(&html)), dense(&document.visible()));
    for part in [
        "<strong>this</strong>",
        "<a href=\"https://x.test/a_(b)\">the page</a>",
        "<ol start=\"1\"><li>",
        "<blockquote><p dir=\"auto\">said<br />\ntwice</p></blockquote>",
        "<pre><code>fn main() {}</code></pre>",
        "&lt;b&gt;bold&lt;/b&gt;",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
}

#[test]
fn only_links_that_are_what_they_say_are_links() {
    let html = |source: &str| render(&Document::parse(source), &Html);
    for source in [
        "[x](javascript:alert(1))",
        "[x](data:text/html;base64,AAAA)",
        "[x](<//evil.test>)",
        "[https://bank.test](https://evil.test)",
        "[www.bank.test](https://evil.test)",
        "<img src=https://evil.test/pixel>",
    ] {
        assert!(
            !html(source).contains("<a ") && !html(source).contains("<img"),
            "{source}: {}",
            html(source)
        );
    }
    let pretended = render(&Document::parse("[https://bank.test](https://evil.test)"), &Plain);
    assert_eq!(pretended, "https://bank.test (https://evil.test)");
    assert!(html("<https://x.test/?a=1&b=%22>").contains("href=\"https://x.test/?a=1&amp;b=%22\""));
    assert!(html("<ada@example.org>").contains("href=\"mailto:ada@example.org\""));
}

#[test]
fn what_hides_in_entities_is_made_harmless_too() {
    assert_eq!(render(&Document::parse("a&#x202E;b&#8203;c 👩‍👩‍👧‍👦"), &Plain), "abc 👩‍👩‍👧‍👦");
}

#[test]
fn o08_a_long_italic_paragraph_with_a_link_is_well_formed_in_every_part() {
    let mut source = String::from("*");
    while source.len() < 4050 {
        source.push_str("words in a row **and bold** ");
    }
    source.push_str("[a link](https://x.test/the/whole/way)");
    while source.len() < 9000 {
        source.push_str(" and more of them.");
    }
    source.push('*');
    let document = Document::parse(&source);
    let parts = hold(&document, &Html, Limit::new(4096, LengthUnit::Utf16), 4096);
    assert!(parts.len() >= 3);
    assert_eq!(visible(&parts), dense(&document.visible()));
    let all: String = parts.iter().map(|part| render(part, &Html)).collect();
    assert_eq!(all.matches("href=\"https://x.test/the/whole/way\"").count(), all.matches("href").count());
    assert!(parts.iter().all(|part| render(part, &Html).contains("<em>")));
}

#[test]
fn o09_a_fence_with_an_endless_language_leaves_room_for_its_code() {
    let source = format!("```{}\n{}\n```", "l".repeat(1990), "code \n".repeat(500));
    let document = Document::parse(&source);
    let parts = hold(&document, &Plain, Limit::new(2000, LengthUnit::Chars), 2000);
    assert_eq!(visible(&parts), dense(&document.visible()));
    assert!(parts.iter().all(|part| fences(part).len() == 2));
}

#[test]
fn o10_every_part_of_a_long_fence_is_fenced_and_keeps_its_language() {
    let lines: Vec<String> = (1..=300).map(|line| format!("let line_{line} = \"{line}\";")).collect();
    let document = Document::parse(&format!("```rust\n{}\n```", lines.join("\n")));
    for max in [2000, 3000] {
        let parts = hold(&document, &Plain, Limit::new(max, LengthUnit::Chars), max);
        let texts: Vec<String> = parts.iter().map(|part| render(part, &Plain)).collect();
        assert!(
            texts.len() > 1
                && texts.iter().all(|text| text.starts_with("```rust\n") && text.ends_with("\n```"))
        );
        let inside: Vec<&str> =
            texts.iter().flat_map(|text| text.lines()).filter(|l| !l.starts_with("```")).collect();
        assert_eq!(inside, lines, "whole lines in order");
    }
}

#[test]
fn o13_what_is_escaped_counts_as_it_is_sent() {
    let document = Document::parse(&"a < b && c > \"d\" ".repeat(400));
    let parts = hold(&document, &Html, Limit::new(1000, LengthUnit::Bytes), 1000);
    assert_eq!(visible(&parts), dense(&document.visible()));
    for part in &parts {
        let html = render(part, &Html);
        assert!(html.rfind('&').is_none_or(|at| html[at..].contains(';')), "no entity is cut: {html}");
    }
}

#[test]
fn o14_no_grapheme_is_cut_and_units_are_the_services_own() {
    let families = "👩‍👩‍👧‍👦".repeat(300);
    let document = Document::parse(&families);
    for (unit, one) in [(LengthUnit::Bytes, 25), (LengthUnit::Chars, 7), (LengthUnit::Utf16, 11)] {
        let parts = hold(&document, &Plain, Limit::new(600, unit), 600);
        assert_eq!(parts.len(), 300_usize.div_ceil(600 / one), "{unit:?}");
        assert!(parts.iter().all(|part| part.visible().replace("👩‍👩‍👧‍👦", "").is_empty()));
    }
    let accents = format!("a{}", "\u{301}".repeat(5000));
    let parts = hold(&Document::parse(&accents), &Plain, Limit::new(600, LengthUnit::Bytes), 600);
    assert_eq!(visible(&parts), accents, "a letter longer than a part is cut all the same");
}

#[test]
fn o28_nested_lists_links_and_right_to_left_text_are_seen_as_written() {
    let source = "- a (1)\n  - [x (y)](https://x.test/p_(q)) `co`de``\n    1. **שלום** _עולם_\n- ||spoiler|| ~~gone~~\n\n> - quoted\n>\n>   | h | i |\n>   |---|---|\n>   | (j) | k |\n";
    let document = Document::parse(source);
    assert_eq!(dense(&seen(&render(&document, &Html))), dense(&document.visible()));
    for expected in ["x(y)", "שלוםעולם", "||spoiler||gone", "(j)|k"] {
        assert!(dense(&document.visible()).contains(expected), "{expected}");
    }
}

#[test]
fn parts_are_cut_behind_leaves_sentences_and_words() {
    let limit = Limit::new(512, LengthUnit::Chars);
    let ends = |source: &str| {
        let parts = hold(&Document::parse(source), &Plain, limit, 512);
        parts.iter().map(|part| render(part, &Plain)).collect::<Vec<_>>()
    };
    let sentences = ends(&"This is one sentence of several. ".repeat(40));
    assert!(
        sentences.len() > 2 && sentences.iter().all(|part| part.ends_with('.') && part.starts_with("This"))
    );
    let words = ends(&"word ".repeat(300));
    assert!(words.iter().all(|part| part.split(' ').all(|word| word == "word")), "{words:?}");
    let leaves = ends(&format!("{}\n\n{}", "a".repeat(300), "b".repeat(300)));
    assert_eq!(leaves, ["a".repeat(300), "b".repeat(300)]);
    let url = format!("https://x.test/{}", "p".repeat(300));
    let moved = ends(&format!("{} {url} end", "word ".repeat(60)));
    assert!(moved.iter().any(|part| part.contains(&url)), "an address moves as a whole: {moved:?}");
}

#[test]
fn containers_are_opened_again_and_numbers_stand_only_if_asked_for() {
    let source = format!("> 1. first\n> 2. {}\n", "Second goes on and on. ".repeat(60));
    let document = Document::parse(&source);
    let parts = split(&document, &Plain, Limit::new(512, LengthUnit::Bytes), true);
    let texts: Vec<String> = parts.iter().map(|part| render(part, &Plain)).collect();
    assert!(texts.len() > 2 && texts[0].contains("> 2. Second"), "{texts:?}");
    assert!(texts[1].starts_with(">    Second"), "the item goes on without its number: {}", texts[1]);
    for (at, text) in texts.iter().enumerate() {
        assert!(text.ends_with(&format!("\n\n({}/{})", at + 1, texts.len())) && text.len() <= 512, "{text}");
    }
    assert!(
        !render(&split(&document, &Plain, Limit::new(9999, LengthUnit::Bytes), true)[0], &Plain)
            .contains("(1/1)")
    );
}

#[test]
fn long_bodies_take_time_in_proportion() {
    let shapes = [
        "word and ",
        "x",
        "> ",
        "- a\n",
        "*a* ",
        "**",
        "[",
        "`a` ",
        "<b>",
        "\n\n",
        "é\u{301}",
        "a. ",
        "|a|b|\n|-|-|\n",
    ];
    for shape in shapes {
        let source = shape.repeat(200_000 / shape.chars().count());
        let document = Document::parse(&source);
        for dialect in DIALECTS {
            hold(&document, dialect, Limit::new(2000, LengthUnit::Chars), 2000);
            assert_eq!(split(&document, dialect, Limit::new(8 << 20, LengthUnit::Bytes), false).len(), 1);
        }
    }
}

fn leaf() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(
        prop_oneof![
            "[a-zA-Z0-9.,!?'\"&<>()_~|#+-]{1,12}",
            Just("👩‍👩‍👧‍👦".to_owned()),
            Just("مرحبا".to_owned()),
            Just("**bold**".to_owned()),
            Just("*it `co` de*".to_owned()),
            Just("[a (b)](https://x.test/(q)?a=1&b=2)".to_owned()),
            Just("![i](https://x.test/i.png)".to_owned()),
            Just("<script>alert(1)</script>".to_owned()),
            Just("\u{202E}@everyone".to_owned()),
            "[一-十。]{1,40}",
        ],
        1..60,
    );
    words.prop_map(|words| words.join(" "))
}

fn source() -> impl Strategy<Value = String> {
    let block = (leaf(), 0..7_u8, "[a-z`~ ]{0,40}").prop_map(|(leaf, shape, info)| match shape {
        0 => format!("## {leaf}"),
        1 => format!("- {leaf}\n- {leaf}\n  1. {leaf}"),
        2 => format!("> {leaf}\n>> {leaf}"),
        3 => format!("~~~~{info}\n{}\n~~~~", leaf.replace(' ', "\n")),
        4 => format!("| {leaf} | b |\n|---|---|\n| c | {leaf} |"),
        5 => format!("<div>\n{leaf}\n</div>"),
        _ => leaf,
    });
    prop::collection::vec(block, 0..8).prop_map(|blocks| blocks.join("\n\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn parts_are_whole_and_within_their_limit(source in source(), max in 512_usize..1200, unit in 0..3_usize, which in 0..DIALECTS.len()) {
        let document = document(&source, which);
        let parts = hold(&document, DIALECTS[which], Limit::new(max, UNITS[unit]), max);
        prop_assert_eq!(visible(&parts), dense(&document.visible()));
        for part in &parts {
            let mut code = part.clone();
            code.blocks.retain(Block::is_code);
            prop_assert_eq!(fences(&code).len() % 2, 0);
        }
    }

    #[test]
    fn discord_shows_what_was_written_and_nothing_else(source in source(), nested in "[>*_`~\\[\\]()!|#\n<@:. 1-]{0,300}", max in 512_usize..1200) {
        for text in [&source, &nested] {
            let document = document(text, DISCORD);
            for part in split(&document, &Discord, Limit::new(max, LengthUnit::Utf16), false) {
                let mut without_rules = part.clone();
                without_rules.blocks.retain(|block| block.kind != Kind::Rule);
                let seen = discord::seen(&render(&without_rules, &Discord));
                prop_assert_eq!(seen.map(|text| dense(&text)), Ok(dense(&part.visible())));
            }
        }
    }

    #[test]
    fn slack_shows_the_text_and_no_mention(source in source(), max in 512_usize..3000) {
        let document = Document::parse(&source);
        let parts = split(&tame(&document), &Mrkdwn, Limit::new(max, LengthUnit::Utf16), false);
        let mut shown = String::new();
        for part in &parts {
            prop_assert!(render(part, &Mrkdwn).encode_utf16().count() <= max);
            shown += &dense(&seen_in_slack(&render(part, &Bare)));
        }
        prop_assert_eq!(shown, dense(&document.visible()));
    }

    #[test]
    fn nothing_that_is_written_panics(source in ".{0,400}", nested in "[>*_`~\\[\\]()!|#\n -]{0,300}") {
        for text in [&source, &nested] {
            let document = Document::parse(text);
            hold(&document, &Html, Limit::new(512, LengthUnit::Bytes), 512);
            let parts = split(&tame(&document), &Mrkdwn, Limit::new(512, LengthUnit::Utf16), false);
            let shown: String = parts.iter().map(|part| dense(&seen_in_slack(&render(part, &Bare)))).collect();
            prop_assert_eq!(shown, dense(&document.visible()));
        }
    }

    #[test]
    fn cleaning_twice_changes_nothing(text in "\\PC{0,60}|[\u{200b}-\u{2070}👩🏴\u{E0067}\u{E007F}\u{FE0F}a]{0,20}") {
        let once = clean(&text).into_owned();
        let mut all = String::new();
        write!(all, "{}", clean(&once)).expect("a string takes it");
        prop_assert_eq!(all, once);
    }
}

//! Text as a reader sees it: what rules are matched against, so that lookalikes, invisible characters, marks, case and markup do
//! not slip a word past them.
//!
//! None of these forms is ever sent or stored: they only widen what a prohibition finds. What permits (an allowlist, a negated
//! pattern) is compared with the literal text, since a folded one would let lookalikes in.

use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Rounds until a text stays as it is. Two are enough for every text known; the bound is for the others.
const ROUNDS_MAX: usize = 6;
/// Longest entity or tag that is looked for in marked-up text, in bytes.
const MARKUP_BYTES_MAX: usize = 512;

/// Ranges of characters that have no shape of their own (Unicode: `Default_Ignorable_Code_Point`, and interlinear annotation),
/// ascending.
const IGNORABLE: [(char, char); 18] = [
    ('\u{AD}', '\u{AD}'),
    ('\u{34F}', '\u{34F}'),
    ('\u{61C}', '\u{61C}'),
    ('\u{115F}', '\u{1160}'),
    ('\u{17B4}', '\u{17B5}'),
    ('\u{180B}', '\u{180F}'),
    ('\u{200B}', '\u{200F}'),
    ('\u{202A}', '\u{202E}'),
    ('\u{2060}', '\u{206F}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{FE00}', '\u{FE0F}'),
    ('\u{FEFF}', '\u{FEFF}'),
    ('\u{FFA0}', '\u{FFA0}'),
    ('\u{FFF0}', '\u{FFFB}'),
    ('\u{13430}', '\u{1345F}'),
    ('\u{1BCA0}', '\u{1BCA3}'),
    ('\u{1D173}', '\u{1D17A}'),
    ('\u{E0000}', '\u{E0FFF}'),
];

/// Ranges of marks that decorate letters of any script; marks elsewhere are part of how a script spells (Indic vowels).
const DECORATION: [(char, char); 9] = [
    ('\u{300}', '\u{36F}'),
    ('\u{483}', '\u{489}'),
    ('\u{591}', '\u{5C7}'),
    ('\u{64B}', '\u{65F}'),
    ('\u{670}', '\u{670}'),
    ('\u{1AB0}', '\u{1AFF}'),
    ('\u{1DC0}', '\u{1DFF}'),
    ('\u{20D0}', '\u{20FF}'),
    ('\u{FE20}', '\u{FE2F}'),
];

fn within(ranges: &[(char, char)], c: char) -> bool {
    ranges.iter().any(|&(first, last)| (first..=last).contains(&c))
}

/// Whether nothing is seen of a character: default-ignorable, direction and control characters other than white space.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control() && !c.is_whitespace();
    }
    (c.is_control() && !c.is_whitespace()) || within(&IGNORABLE, c)
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{2800}' // the Braille pattern without dots
}

/// The text as a reader compares it: compatibility forms resolved (NFKC: full-width, mathematical, enclosed letters), case folded,
/// unseen characters and the marks on letters removed, lookalikes of Latin letters replaced by them, white space collapsed to single
/// spaces and trimmed.
///
/// Idempotent. Never longer than a small multiple of `text`. An empty result means that nothing is visible.
#[must_use]
pub fn normalise(text: &str) -> String {
    settle(text, &skeleton)
}

/// The gentler form: as [`normalise`], but marks and scripts stay. For patterns that speak of letters beyond ASCII.
#[must_use]
pub fn fold(text: &str) -> String {
    settle(text, &|text| {
        let mut out = Collapsed::with_capacity(text.len());
        for c in text.nfkc().filter(|c| !is_unseen(*c)) {
            c.to_lowercase().for_each(|c| out.push(c));
        }
        out.text.nfc().collect()
    })
}

/// Marked-up text as it is shown: emphasis, code, escapes, tags and link targets removed, entities decoded (once, as viewers do).
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| matches!(byte, b'*' | b'_' | b'~' | b'`' | b'\\' | b'&' | b'<' | b'[' | b'|'))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (shown, taken) = markup(rest, c);
        out.extend(shown);
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

/// What the beginning of `rest` shows, and how many bytes that takes.
fn markup(rest: &str, c: char) -> (Option<char>, usize) {
    match c {
        '*' | '_' | '~' | '`' | '[' | '|' => (None, 1),
        '\\' if rest[1..].starts_with(|c: char| c.is_ascii_punctuation()) => (rest[1..].chars().next(), 2),
        ']' => match rest[1..].starts_with('(').then(|| closing(&rest[1..], ')')).flatten() {
            Some(end) => (None, end + 2),
            None => (None, 1),
        },
        '<' if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!')) => {
            closing(rest, '>').map_or((Some(c), 1), |end| (None, end + 1))
        }
        '&' => entity(rest).unwrap_or((Some(c), 1)),
        _ => (Some(c), c.len_utf8()),
    }
}

/// Where `end` stands in the next bytes.
fn closing(text: &str, end: char) -> Option<usize> {
    text.bytes().take(MARKUP_BYTES_MAX).position(|byte| u32::from(byte) == u32::from(end))
}

fn entity(rest: &str) -> Option<(Option<char>, usize)> {
    let end = rest.bytes().take(12).position(|byte| byte == b';')?;
    let name = rest.get(1..end)?;
    let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    let c = match name.strip_prefix('#') {
        Some(digits) => match digits.strip_prefix(['x', 'X']) {
            Some(digits) => number(digits, 16)?,
            None => number(digits, 10)?,
        },
        None => named(name)?,
    };
    Some((Some(c), end + 1))
}

fn named(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{A0}',
        "shy" => '\u{AD}',
        "zwj" => '\u{200D}',
        "zwnj" => '\u{200C}',
        "commat" => '@',
        "lowbar" => '_',
        "ast" => '*',
        "num" => '#',
        "colon" => ':',
        "period" => '.',
        "sol" => '/',
        "plus" => '+',
        "hyphen" => '-',
        _ => return None,
    })
}

/// A telephone number without what people put between its digits, if `text` is one: `+43 (660) 12-34` and `0043660 1234` are
/// `+436601234`.
#[must_use]
pub fn telephone(text: &str) -> Option<String> {
    let text = normalise(text);
    let allowed = |c: char| c.is_ascii_digit() || matches!(c, '+' | ' ' | '(' | ')' | '-' | '.' | '/');
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if digits.len() < 5 || !text.chars().all(allowed) {
        return None;
    }
    let is_foreign = text.starts_with('+');
    Some(match digits.strip_prefix("00") {
        Some(rest) if !is_foreign => format!("+{rest}"),
        _ if is_foreign => format!("+{digits}"),
        _ => digits,
    })
}

/// Repeats `step` until the text stays as it is.
fn settle(text: &str, step: &impl Fn(&str) -> String) -> String {
    if text.is_ascii() {
        return ascii(text);
    }
    let mut now = step(text);
    for _ in 1..ROUNDS_MAX {
        if now.is_ascii() {
            return ascii(&now);
        }
        let next = step(&now);
        if next == now {
            break;
        }
        now = next;
    }
    now
}

/// What is left to do in ASCII: most texts by far.
fn ascii(text: &str) -> String {
    let mut out = Collapsed::with_capacity(text.len());
    for byte in text.bytes().filter(|byte| !is_unseen(char::from(*byte))) {
        out.push(char::from(byte.to_ascii_lowercase()));
    }
    out.text
}

fn skeleton(text: &str) -> String {
    let mut out = Collapsed::with_capacity(text.len());
    let mut after_plain = false;
    for c in text.chars().filter(|c| !is_unseen(*c)) {
        if c.is_ascii() {
            push_letter(&mut out, c);
            after_plain = c.is_ascii_alphanumeric();
            continue;
        }
        for c in std::iter::once(c).nfkd().filter(|c| !is_unseen(*c)) {
            if is_combining_mark(c) {
                if !after_plain && !within(&DECORATION, c) {
                    out.push(c);
                }
                continue;
            }
            c.to_lowercase().for_each(|c| push_letter(&mut out, c));
            after_plain = is_european(c);
        }
    }
    out.text.nfc().collect()
}

/// Letters of scripts whose marks are decoration.
fn is_european(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || (c.is_alphabetic() && matches!(c, '\u{80}'..='\u{52F}' | '\u{1D00}'..='\u{1FFF}'))
}

fn push_letter(out: &mut Collapsed, c: char) {
    if c.is_ascii() {
        return out.push(c.to_ascii_lowercase());
    }
    if let Some(letter) = emblem(c) {
        return out.push(letter);
    }
    match lookalike(c) {
        Some(text) => text.chars().for_each(|c| out.push(c)),
        None => out.push(c),
    }
}

/// What a lowercase character looks like, in the one or the other case, if that is Latin text. Ours, from looking at common fonts; where
/// the two cases of a letter look like different Latin ones, the lowercase counts.
fn lookalike(c: char) -> Option<&'static str> {
    Some(match c {
        'а' | 'α' | 'ɑ' | 'ᴀ' | 'ⲁ' => "a",
        'в' | 'β' | 'ь' | 'ʙ' | 'ƀ' => "b",
        'с' | 'ϲ' | 'ᴄ' | 'ⅽ' | 'ⲥ' => "c",
        'ԁ' | 'ᴅ' | 'đ' | 'ð' => "d",
        'е' | 'ε' | 'ᴇ' | 'ҽ' => "e",
        'ꜰ' | 'ƒ' => "f",
        'ɡ' | 'ɢ' | 'ց' | 'ԍ' => "g",
        'н' | 'η' | 'һ' | 'հ' | 'ʜ' | 'ħ' => "h",
        'і' | 'ι' | 'ı' | 'ɩ' | 'ɪ' | 'ꙇ' => "i",
        'ј' | 'ϳ' | 'ȷ' | 'ᴊ' | 'յ' => "j",
        'к' | 'κ' | 'ᴋ' => "k",
        'ӏ' | 'ʟ' | 'ł' | 'ǀ' => "l",
        'м' | 'μ' | 'ᴍ' => "m",
        'ո' | 'ɴ' => "n",
        'о' | 'ο' | 'օ' | 'ᴏ' | 'ø' | 'ⲟ' => "o",
        'р' | 'ρ' | 'ᴘ' | 'ƿ' | 'ⲣ' => "p",
        'ԛ' | 'զ' | 'ꞯ' => "q",
        'г' | 'ʀ' => "r",
        'ѕ' | 'ꜱ' => "s",
        'т' | 'τ' | 'ᴛ' | 'ŧ' => "t",
        'υ' | 'ս' | 'ᴜ' | 'ʋ' => "u",
        'ν' | 'ѵ' | 'ᴠ' => "v",
        'ω' | 'ԝ' | 'ѡ' | 'ᴡ' => "w",
        'х' | 'χ' => "x",
        'у' | 'γ' | 'ү' | 'ʏ' => "y",
        'ζ' | 'ᴢ' => "z",
        'ς' | 'ϛ' => "σ",
        'ß' => "ss",
        'æ' | 'ӕ' => "ae",
        'œ' => "oe",
        'ĳ' => "ij",
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' | '⁃' => "-",
        '’' | '‘' | '‛' | 'ʼ' | 'ʹ' | '′' | 'ˈ' => "'",
        '“' | '”' | '„' | '‟' | '″' => "\"",
        '∕' | '⁄' | '╱' => "/",
        '∖' => "\\",
        '∗' | '٭' => "*",
        '‚' => ",",
        '∶' | '꞉' | 'ː' => ":",
        '․' => ".",
        '⩵' => "=",
        'ǃ' => "!",
        '‹' => "<",
        '›' => ">",
        _ => return None,
    })
}

/// Letters as emblems, which have no compatibility form: negative circled and squared ones, regional indicators.
fn emblem(c: char) -> Option<char> {
    if c < '\u{1F150}' {
        return None;
    }
    let first = [0x1_F150, 0x1_F170, 0x1_F1E6]
        .into_iter()
        .find(|first| (*first..first + 26).contains(&u32::from(c)))?;
    u8::try_from(u32::from(c) - first).ok().map(|nth| char::from(b'a' + nth))
}

/// A text in which runs of white space are one space, without any at its ends.
struct Collapsed {
    text: String,
    blank: bool,
}

impl Collapsed {
    fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), blank: false }
    }

    fn push(&mut self, c: char) {
        if is_blank(c) {
            self.blank = !self.text.is_empty();
            return;
        }
        if std::mem::take(&mut self.blank) {
            self.text.push(' ');
        }
        self.text.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tricks_are_seen_through() {
        for (trick, text) in [
            ("  Two\u{A0}\n\tWords ", "two words"),
            ("ＰＡＳＳＷＯＲＤ", "password"),
            ("pa\u{AD}ss\u{200D}wo\u{200B}rd", "password"),
            ("pass\u{2060}\u{FEFF}word\u{202E}", "password"),
            ("p\u{E0061}assword", "password"),
            ("раѕѕԝоrd", "password"),
            ("ΡΑSSWORD", "password"),
            ("p\u{301}a\u{308}\u{323}ssword", "password"),
            ("pás\u{20D2}swörd", "password"),
            ("pa\u{941}ssword", "password"),
            ("𝓹𝓪𝓼𝓼𝔀𝓸𝓻𝓭", "password"),
            ("ⓟⓐⓢⓢⓦⓞⓡⓓ", "password"),
            ("🅿🅰🆂🆂🆆🅾🆁🅳", "password"),
            ("ᴘᴀꜱꜱᴡᴏʀᴅ", "password"),
            ("PASSWORD\u{0}", "password"),
            ("Straße", "strasse"),
            ("STRASSE", "strasse"),
            ("ﬁne", "fine"),
            ("İstanbul", "istanbul"),
            ("ΟΔΟΣ", "oδoσ"),
            ("οδος", "oδoσ"),
            ("2\u{2011}3 – 4", "2-3 - 4"),
            ("\u{200C}\u{202E}\u{3164}", ""),
        ] {
            assert_eq!(normalise(trick), text, "{trick:?}");
        }
        let stacked = format!("a{}b", "\u{310}".repeat(200));
        assert_eq!(normalise(&stacked), "ab");
    }

    #[test]
    fn spelling_of_other_scripts_stays() {
        for text in ["कुल", "ไทย", "한국어", "東京", "ქართული"] {
            assert_eq!(normalise(text), text.nfc().collect::<String>(), "{text}");
        }
        assert_ne!(normalise("कुल"), normalise("कल"));
    }

    #[test]
    fn folding_keeps_marks_and_scripts() {
        assert_eq!(fold("GEHA\u{308}LTER"), "gehälter");
        assert_eq!(fold("ПРИВЕТ"), "привет");
    }

    #[test]
    fn markup_is_shown_without_itself() {
        for (text, seen) in [
            ("plain (text) > x", "plain (text) > x"),
            ("pass**word** and `co`de ~~x~~", "password and code x"),
            ("\\*kept\\* \\n", "*kept* \\n"),
            ("&#64;every&#x6F;ne &amp;#64; &zwj;&bogus; & x", "@everyone &#64; \u{200D}&bogus; & x"),
            ("pa<b></b>ss<!-- x -->word a < b", "password a < b"),
            ("[pass](http://x)word [x] ||spoiler||", "password x spoiler"),
            ("unclosed <b and ](", "unclosed <b and ("),
        ] {
            assert_eq!(shown(text), seen, "{text}");
        }
    }

    #[test]
    fn removal_does_not_make_what_was_not_there() {
        // A filter that deletes would turn these into the forbidden word; a matcher finds what is shown.
        assert!(normalise("@every@everyoneone").contains("@everyone"));
        assert!(!shown("<!cha<!channel>nnel>").contains("<!channel>"));
    }

    #[test]
    fn telephone_numbers_are_compared_by_digits() {
        for (text, number) in [
            ("+43 (660) 123-45", Some("+4366012345")),
            ("0043 660/12345", Some("+4366012345")),
            ("+４３ 660\u{200B}12345", Some("+4366012345")),
            ("0660 12345", Some("066012345")),
            ("1234", None),
            ("ann@example.com", None),
            ("U0123456", None),
        ] {
            assert_eq!(telephone(text).as_deref(), number, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_second_time_changes_nothing(text in "\\PC{0,40}|[\\x00-\\u{3ff}\u{400}-\u{52f}\u{1e00}-\u{2fff}\u{fe00}-\u{ffff}]{0,40}") {
            for form in [normalise, fold] {
                let once = form(&text);
                prop_assert_eq!(form(&once), once.clone());
                prop_assert!(once.len() <= text.len() * 18 + 18);
            }
            let _ = (shown(&text), telephone(&text));
        }

        #[test]
        fn case_and_unseen_characters_never_matter(text in "[a-zA-Z0-9 ]{0,30}", at in 0usize..30) {
            let mut tricky = text.to_uppercase();
            tricky.insert(at.min(tricky.len()), '\u{200B}');
            prop_assert_eq!(normalise(&tricky), normalise(&text));
        }
    }
}

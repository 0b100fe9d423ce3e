//! Rust source as far as counting needs it: comments and literals blanked out, functions and test code found.
//!
//! No parser: a parser crate would be the heaviest dependency of the chores, and the questions asked here (how long is
//! this function, is this line test code) are answered by brackets alone once literals are out of the way.

use std::ops::Range;

/// Which parts of a source to replace by spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// Comments only.
    Comments,
    /// Comments and the contents of strings and characters.
    CommentsAndLiterals,
}

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of its `fn`, counted from 1.
    pub line: usize,
    /// Lines from `fn` to the closing bracket, both included.
    pub lines: usize,
}

/// The source with comments (and literals) replaced by spaces; every line break and every other byte stays in place.
pub fn blank(source: &str, what: Blank) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (end, is_comment) = match token(bytes, at) {
            Token::Comment(end) => (end, true),
            Token::Literal(end) => (end, false),
            Token::Other(end) => {
                at = end;
                continue;
            }
        };
        if is_comment || what == Blank::CommentsAndLiterals {
            spaces(&mut out[at..end]);
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn spaces(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

enum Token {
    Comment(usize),
    Literal(usize),
    Other(usize),
}

fn token(bytes: &[u8], at: usize) -> Token {
    let rest = &bytes[at..];
    match rest[0] {
        b'/' if rest.starts_with(b"//") => Token::Comment(at + line_end(rest)),
        b'/' if rest.starts_with(b"/*") => Token::Comment(at + block_comment_end(rest)),
        b'"' => Token::Literal(at + quoted_end(rest, b'"')),
        b'\'' => character_end(rest).map_or(Token::Other(at + 1), |end| Token::Literal(at + end)),
        byte if is_word(byte) => word_or_prefixed_string(bytes, at),
        _ => Token::Other(at + 1),
    }
}

/// A word is passed over as a whole, unless it is the prefix of a raw string: `r"…"`, `br#"…"#`.
fn word_or_prefixed_string(bytes: &[u8], at: usize) -> Token {
    let length = bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
    let after = &bytes[at + length..];
    if matches!(&bytes[at..at + length], b"r" | b"br" | b"cr") {
        let hashes = after.iter().take_while(|byte| **byte == b'#').count();
        if after.get(hashes) == Some(&b'"') {
            let closing: Vec<u8> = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
            let end = find(&after[hashes + 1..], &closing)
                .map_or(after.len(), |end| hashes + 1 + end + closing.len());
            return Token::Literal(at + length + end);
        }
    }
    Token::Other(at + length)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn line_end(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment_end(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn quoted_end(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The end of a character literal, or nothing when the quote starts a lifetime.
fn character_end(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return Some(quoted_end(rest, b'\''));
    }
    let width = std::str::from_utf8(&rest[1..rest.len().min(5)])
        .map_or_else(|error| error.valid_up_to(), str::len)
        .min(rest.len() - 1);
    let first = std::str::from_utf8(&rest[1..=width]).ok()?.chars().next()?;
    (rest.get(1 + first.len_utf8()) == Some(&b'\'')).then_some(2 + first.len_utf8())
}

/// The functions of a blanked source, nested ones included.
pub fn functions(blanked: &str) -> Vec<Function> {
    let bytes = blanked.as_bytes();
    let mut found = Vec::new();
    for start in words(blanked, "fn") {
        let name: String = blanked[start + 2..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let body = body_start(bytes, start).filter(|_| !name.is_empty());
        let Some(end) = body.and_then(|body| closing(bytes, body)) else { continue };
        let breaks = |part: &str| part.matches('\n').count();
        let (line, lines) = (breaks(&blanked[..start]) + 1, breaks(&blanked[start..end]) + 1);
        found.push(Function { name, line, lines });
    }
    found
}

/// Where `word` stands alone in a blanked source.
pub fn words(blanked: &str, word: &str) -> Vec<usize> {
    let bytes = blanked.as_bytes();
    let alone = |at: usize| {
        let before = at.checked_sub(1).is_some_and(|before| is_word(bytes[before]));
        let after = bytes.get(at + word.len()).is_some_and(|byte| is_word(*byte));
        !before && !after
    };
    blanked.match_indices(word).map(|(at, _)| at).filter(|at| alone(*at)).collect()
}

/// The `{` of an item that starts at `from`, or nothing when a `;` ends it first.
fn body_start(bytes: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in bytes[from..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b'{' if depth == 0 => return Some(from + offset),
            b';' | b'}' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The bracket that closes the one at `open`.
fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in bytes[open..].iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(open + offset);
                }
            }
            _ => {}
        }
    }
    None
}

/// The attributes of a blanked source as (place, text between the brackets).
pub fn attributes(blanked: &str) -> Vec<(usize, &str)> {
    let bytes = blanked.as_bytes();
    let starts = blanked.match_indices('#').map(|(at, _)| at);
    starts
        .filter_map(|at| {
            let open = if bytes.get(at + 1) == Some(&b'!') { at + 2 } else { at + 1 };
            let end = bytes.get(open).filter(|byte| **byte == b'[').and_then(|_| closing(bytes, open))?;
            Some((at, &blanked[open + 1..end]))
        })
        .collect()
}

/// The blanked source without the items marked `#[cfg(test)]`, `#[test]` or `#[…::test]`; their lines stay, empty.
pub fn without_tests(blanked: &str) -> String {
    erase(blanked, &test_items(blanked))
}

/// Where the items marked as tests lie in a blanked source.
pub fn test_items(blanked: &str) -> Vec<Range<usize>> {
    let marks = attributes(blanked).into_iter().filter(|(_, text)| marks_test(text));
    marks.map(|(at, text)| at..item_end(blanked.as_bytes(), at + text.len() + 3)).collect()
}

/// A text with some ranges replaced by spaces; line breaks stay.
pub fn erase(text: &str, ranges: &[Range<usize>]) -> String {
    let mut out = text.as_bytes().to_vec();
    for range in ranges {
        spaces(&mut out[range.clone()]);
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn marks_test(attribute: &str) -> bool {
    let bare: String = attribute.chars().filter(|c| !c.is_whitespace()).collect();
    let path = bare.split('(').next().unwrap_or_default();
    bare == "cfg(test)" || bare.starts_with("cfg(all(test") || path == "test" || path.ends_with("::test")
}

fn item_end(bytes: &[u8], from: usize) -> usize {
    if let Some(body) = body_start(bytes, from) {
        return closing(bytes, body).map_or(bytes.len(), |end| end + 1);
    }
    bytes[from..].iter().position(|byte| *byte == b';').map_or(bytes.len(), |end| from + end + 1)
}

#[cfg(test)]
mod tests {
    use super::{Blank, attributes, blank, functions, without_tests, words};

    fn blanked(source: &str) -> String {
        blank(source, Blank::CommentsAndLiterals)
    }

    #[test]
    fn comments_and_literals_go_and_places_stay() {
        let source = "a // x {\nb /* { /* { */ */ c \"{\\\"\" d r#\"{\"}\"# '{' '\\'' 'é' <'a> e";
        let text = blanked(source);
        assert_eq!(text.len(), source.len());
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "d", "<'a>", "e"]);
        assert_eq!(text.matches('\n').count(), 1);
    }

    #[test]
    fn strings_can_be_kept() {
        assert_eq!(blank("\"SB0001\" // SB0002", Blank::Comments).trim_end(), "\"SB0001\"");
    }

    #[test]
    fn an_open_literal_ends_with_the_file() {
        for source in ["\"abc", "/* abc", "r#\"abc", "'\\", "'", "\"\\"] {
            assert_eq!(blanked(source).len(), source.len(), "{source:?}");
        }
    }

    #[test]
    fn functions_are_measured_from_fn_to_bracket() {
        let source = "trait T { fn bare(&self); }\nfn one() {}\nfn two<F: Fn([u8; 3])>(f: fn(u8) -> u8)\nwhere F: Copy {\n  fn inner() {\n  }\n}\n";
        let found: Vec<_> =
            functions(&blanked(source)).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("one".into(), 2, 1), ("two".into(), 3, 5), ("inner".into(), 5, 2)]);
    }

    #[test]
    fn test_code_is_left_out() {
        let source = "fn a() { x.unwrap() }\n#[cfg(test)]\nmod tests {\n fn b() { y.unwrap() }\n}\n#[tokio::test(flavor = \"x\")]\nasync fn c() { z.unwrap() }\n#[cfg(test)]\nmod more;\nfn d() {}\n";
        let text = without_tests(&blanked(source));
        assert_eq!(text.matches("unwrap").count(), 1);
        assert_eq!(functions(&text).len(), 2);
        assert_eq!(text.matches('\n').count(), source.matches('\n').count());
    }

    #[test]
    fn attributes_are_found_with_their_text() {
        let text = blanked("#![allow(a)]\n#[expect(b, reason = \"c]\")]\nfn x() {}");
        let found: Vec<&str> = attributes(&text).into_iter().map(|(_, text)| text).collect();
        assert_eq!(found[0], "allow(a)");
        assert!(found[1].starts_with("expect(b, reason ="));
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(words("fn fnord my_fn fn", "fn"), [0, 15]);
    }
}

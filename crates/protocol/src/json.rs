//! The strict JSON check that runs before every typed read.
//!
//! serde accepts more than two implementations can agree on: duplicate keys in parts it skips, any depth in raw values, lone
//! surrogates in text nobody looks at. [`scan`] refuses all of that in one pass over the bytes, without recursion and, for
//! ordinary input, without allocation, and hands back the few top-level strings that routing needs.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;

use crate::de;
use crate::limits::{FRAME_BYTES_MAX, HTTP_BODY_BYTES_MAX, JSON_DEPTH_MAX};
use crate::text::Invalid;

/// Depth no limit can exceed: the scanner's frames live in an array of this size.
const DEPTH_HARD_MAX: usize = 64;
/// Keys held without allocation; a frame of the contract has about ten in all its open objects.
const KEYS_INLINE: usize = 32;
/// Objects up to this many keys are checked pair by pair, larger ones by sorting, so that no input is quadratic.
const KEYS_PAIRWISE_MAX: usize = 16;
/// A number without exponent and with at most this many bytes cannot overflow a double (largest is about 1.8e308).
const NUMBER_BYTES_SAFE: usize = 300;

/// Bounds of one scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest input, in bytes.
    pub bytes_max: usize,
    /// Deepest nesting of arrays and objects; a scalar has depth 0. Values above 64 count as 64.
    pub depth_max: usize,
}

impl Limits {
    /// For one text frame of the socket.
    pub const FRAME: Self = Self { bytes_max: FRAME_BYTES_MAX, depth_max: JSON_DEPTH_MAX };
    /// For one HTTP body.
    pub const HTTP_BODY: Self = Self { bytes_max: HTTP_BODY_BYTES_MAX, depth_max: JSON_DEPTH_MAX };
}

impl Default for Limits {
    fn default() -> Self {
        Self::FRAME
    }
}

/// What [`scan`] learned about a text it accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan<'a> {
    /// The input, now known to be UTF-8.
    pub text: &'a str,
    /// Whether the top level is an object.
    pub is_object: bool,
    /// Top-level `t`, the tag of a frame, when it is a string.
    pub t: Option<Cow<'a, str>>,
    /// Top-level `schema`, the tag of an HTTP body, when it is a string.
    pub schema: Option<Cow<'a, str>>,
    /// Top-level `client_msg_id`, when it is a string. Unchecked: any text.
    pub client_msg_id: Option<Cow<'a, str>>,
}

/// Why a text was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// More bytes than [`Limits::bytes_max`].
    TooLarge,
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The text ends inside a value, or is empty.
    Incomplete,
    /// A byte that the grammar does not allow here.
    Unexpected,
    /// Nested deeper than [`Limits::depth_max`].
    TooDeep,
    /// An object has the same key twice, compared after unescaping.
    DuplicateKey,
    /// A raw control character inside a string.
    ControlCharacter,
    /// An escape that JSON does not have.
    BadEscape,
    /// A `\u` escape that is half of a surrogate pair.
    LoneSurrogate,
    /// A number too large for a double.
    NumberRange,
    /// Something other than whitespace follows the value.
    TrailingBytes,
}

impl ErrorKind {
    const fn remedy(self) -> &'static str {
        match self {
            Self::TooLarge => "the text is larger than the limit; send less in one piece",
            Self::NotUtf8 => "the text is not UTF-8; encode it as UTF-8",
            Self::Incomplete => "the text ends too early; send one complete JSON value",
            Self::Unexpected => "the text is not JSON here; check quotes, commas and brackets",
            Self::TooDeep => "the value is nested too deeply; flatten it",
            Self::DuplicateKey => "a key appears twice in one object; keep one of them",
            Self::ControlCharacter => "a string contains a raw control character; escape it",
            Self::BadEscape => {
                "a string contains an unknown escape; JSON knows \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX"
            }
            Self::LoneSurrogate => {
                "a \\u escape is half of a surrogate pair; write both halves or the character itself"
            }
            Self::NumberRange => "a number is too large for a double; send it as a string",
            Self::TrailingBytes => "something follows the JSON value; send exactly one value",
        }
    }
}

/// A refused text: what is wrong and at which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonError {
    /// Byte offset where the fault was noticed, at most the length of the input.
    pub offset: usize,
    /// The fault.
    pub kind: ErrorKind,
}

impl fmt::Display for JsonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "invalid JSON at byte {}: {}", self.offset, self.kind.remedy())
    }
}

impl std::error::Error for JsonError {}

impl From<JsonError> for Invalid {
    fn from(error: JsonError) -> Self {
        Self::new("body", error.to_string())
    }
}

/// Check a whole text strictly and pick out the top-level strings `t`, `schema` and `client_msg_id`.
///
/// Work is proportional to the input (n log n in the keys of very large objects), stack use is constant.
pub fn scan(input: &[u8], limits: Limits) -> Result<Scan<'_>, JsonError> {
    if input.len() > limits.bytes_max || u32::try_from(input.len()).is_err() {
        return Err(JsonError { offset: limits.bytes_max.min(input.len()), kind: ErrorKind::TooLarge });
    }
    let text = std::str::from_utf8(input)
        .map_err(|error| JsonError { offset: error.valid_up_to(), kind: ErrorKind::NotUtf8 })?;
    Scanner::new(text, limits.depth_max.min(DEPTH_HARD_MAX)).run()
}

/// Scan `input`, then read it as `T`. The error names the field at fault, or `body` when the text is not strict JSON.
///
/// For HTTP bodies; `T` decides by its own `deny_unknown_fields` whether unknown fields are refused.
pub fn parse<'a, T: Deserialize<'a>>(input: &'a [u8], limits: Limits) -> Result<T, Invalid> {
    let scan = scan(input, limits)?;
    serde_json::from_str(scan.text).map_err(|error| de::invalid(scan.text, &error))
}

#[derive(Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
    escaped: bool,
}

impl Span {
    fn raw(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    fn bytes(self, text: &str) -> &[u8] {
        &text.as_bytes()[self.start as usize..self.end as usize]
    }

    fn unescaped(self, text: &str) -> Cow<'_, str> {
        if self.escaped { Cow::Owned(unescape(self.raw(text))) } else { Cow::Borrowed(self.raw(text)) }
    }
}

#[derive(Clone, Copy, Default)]
struct Frame {
    is_object: bool,
    /// Index of the object's first key in the key stack.
    first_key: u32,
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth_max: usize,
    depth: usize,
    frames: [Frame; DEPTH_HARD_MAX],
    keys: KeyStack,
    found: Scan<'a>,
    /// The wanted top-level key whose value comes next.
    wanted: Option<Wanted>,
}

#[derive(Clone, Copy)]
enum Wanted {
    T,
    Schema,
    ClientMsgId,
}

type Step = Result<(), JsonError>;

impl<'a> Scanner<'a> {
    fn new(text: &'a str, depth_max: usize) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            depth_max,
            depth: 0,
            frames: [Frame::default(); DEPTH_HARD_MAX],
            keys: KeyStack::default(),
            found: Scan { text, is_object: false, t: None, schema: None, client_msg_id: None },
            wanted: None,
        }
    }

    fn run(mut self) -> Result<Scan<'a>, JsonError> {
        self.skip_whitespace();
        self.found.is_object = self.peek() == Some(b'{');
        loop {
            self.skip_whitespace();
            let opened = self.value()?;
            if !opened && self.after_value()? {
                break;
            }
        }
        self.skip_whitespace();
        if self.at < self.bytes.len() {
            return Err(self.error(ErrorKind::TrailingBytes));
        }
        Ok(self.found)
    }

    /// Read one scalar, or open a container. True when a container was opened and another value must follow.
    fn value(&mut self) -> Result<bool, JsonError> {
        match self.peek() {
            Some(b'"') => {
                let span = self.string()?;
                self.keep(span);
            }
            Some(b'{') => return self.open(true),
            Some(b'[') => return self.open(false),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal(b"true")?,
            Some(b'f') => self.literal(b"false")?,
            Some(b'n') => self.literal(b"null")?,
            _ => return Err(self.unexpected()),
        }
        self.wanted = None;
        Ok(false)
    }

    fn open(&mut self, is_object: bool) -> Result<bool, JsonError> {
        if self.depth >= self.depth_max {
            return Err(self.error(ErrorKind::TooDeep));
        }
        self.wanted = None;
        self.at += 1;
        self.frames[self.depth] = Frame { is_object, first_key: self.keys.len };
        self.depth += 1;
        self.skip_whitespace();
        let empty = self.peek() == Some(if is_object { b'}' } else { b']' });
        if empty {
            self.close()?;
        } else if is_object {
            self.key()?;
        }
        Ok(!empty)
    }

    fn close(&mut self) -> Step {
        self.depth -= 1;
        let frame = self.frames[self.depth];
        if let Some(offset) = self.keys.duplicate(frame.first_key, self.text) {
            return Err(JsonError { offset, kind: ErrorKind::DuplicateKey });
        }
        self.keys.len = frame.first_key;
        self.at += 1;
        Ok(())
    }

    /// Close what ends here and step over a comma. True when the top-level value is complete.
    fn after_value(&mut self) -> Result<bool, JsonError> {
        while self.depth > 0 {
            self.skip_whitespace();
            let is_object = self.frames[self.depth - 1].is_object;
            match (self.peek(), is_object) {
                (Some(b','), _) => {
                    self.at += 1;
                    if is_object {
                        self.skip_whitespace();
                        self.key()?;
                    }
                    return Ok(false);
                }
                (Some(b'}'), true) | (Some(b']'), false) => self.close()?,
                _ => return Err(self.unexpected()),
            }
        }
        Ok(true)
    }

    fn key(&mut self) -> Step {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected());
        }
        let span = self.string()?;
        self.keys.push(span);
        if self.depth == 1 {
            self.wanted = self.wanted_key(span);
        }
        self.skip_whitespace();
        if self.peek() != Some(b':') {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(())
    }

    fn wanted_key(&self, span: Span) -> Option<Wanted> {
        let plain;
        let name = if span.escaped {
            plain = unescape(span.raw(self.text));
            plain.as_bytes()
        } else {
            span.bytes(self.text)
        };
        match name {
            b"t" => Some(Wanted::T),
            b"schema" => Some(Wanted::Schema),
            b"client_msg_id" => Some(Wanted::ClientMsgId),
            _ => None,
        }
    }

    fn keep(&mut self, span: Span) {
        let Some(wanted) = self.wanted else { return };
        let value = Some(span.unescaped(self.text));
        match wanted {
            Wanted::T => self.found.t = value,
            Wanted::Schema => self.found.schema = value,
            Wanted::ClientMsgId => self.found.client_msg_id = value,
        }
    }

    /// Read a string from its opening quote; the span excludes the quotes.
    fn string(&mut self) -> Result<Span, JsonError> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at = skip_plain(self.bytes, self.at);
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return Err(self.error(ErrorKind::ControlCharacter)),
                None => return Err(self.error(ErrorKind::Incomplete)),
            }
        }
        let span = Span { start: offset_u32(start), end: offset_u32(self.at), escaped };
        self.at += 1;
        Ok(span)
    }

    fn escape(&mut self) -> Step {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => return self.unicode_escape(),
            Some(_) => return Err(self.error(ErrorKind::BadEscape)),
            None => return Err(JsonError { offset: self.bytes.len(), kind: ErrorKind::Incomplete }),
        }
        Ok(())
    }

    fn unicode_escape(&mut self) -> Step {
        let unit = self.hex_unit()?;
        match unit {
            0xD800..=0xDBFF => {
                let low_follows = self.bytes.get(self.at..self.at + 2) == Some(b"\\u");
                let low = if low_follows { self.hex_unit()? } else { 0 };
                if (0xDC00..=0xDFFF).contains(&low) {
                    Ok(())
                } else {
                    Err(self.error(ErrorKind::LoneSurrogate))
                }
            }
            0xDC00..=0xDFFF => Err(self.error(ErrorKind::LoneSurrogate)),
            _ => Ok(()),
        }
    }

    /// Read `\uXXXX` and step over it.
    fn hex_unit(&mut self) -> Result<u16, JsonError> {
        let digits = self.bytes.get(self.at + 2..self.at + 6);
        let Some(unit) = digits.and_then(parse_hex) else {
            let kind = if digits.is_none() { ErrorKind::Incomplete } else { ErrorKind::BadEscape };
            return Err(self.error(kind));
        };
        self.at += 6;
        Ok(unit)
    }

    fn number(&mut self) -> Step {
        let start = self.at;
        self.at += usize::from(self.bytes[start] == b'-');
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        let mut unsafe_range = false;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            unsafe_range = true;
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        if unsafe_range || self.at - start > NUMBER_BYTES_SAFE {
            let finite = self.text[start..self.at].parse().is_ok_and(f64::is_finite);
            if !finite {
                return Err(JsonError { offset: start, kind: ErrorKind::NumberRange });
            }
        }
        Ok(())
    }

    /// At least one digit.
    fn digits(&mut self) -> Step {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.unexpected());
        }
        self.at += count;
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Step {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        let matching = rest.iter().zip(word).take_while(|(a, b)| a == b).count();
        self.at += matching;
        Err(self.unexpected())
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn unexpected(&self) -> JsonError {
        self.error(if self.at < self.bytes.len() { ErrorKind::Unexpected } else { ErrorKind::Incomplete })
    }

    fn error(&self, kind: ErrorKind) -> JsonError {
        JsonError { offset: self.at.min(self.bytes.len()), kind }
    }
}

/// Offsets fit: [`scan`] refuses inputs of 4 GiB and more.
fn offset_u32(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn parse_hex(digits: &[u8]) -> Option<u16> {
    digits
        .iter()
        .try_fold(0, |unit: u16, &byte| Some(unit << 4 | u16::try_from(char::from(byte).to_digit(16)?).ok()?))
}

/// Index of the first byte at or after `at` that ends the plain part of a string: quote, backslash or control.
///
/// Eight bytes at a time: subtracting a bound from every byte of a word borrows exactly where a byte is below it, and
/// `!word` masks the bytes of multi-byte characters. Only the lowest hit is exact, which is the one used.
fn skip_plain(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let hits = (below(word, 0x20) | quote | backslash) & HIGH;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let stop = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    at + bytes[at..].iter().position(stop).unwrap_or(bytes.len() - at)
}

/// The text a checked raw string stands for.
fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = &rest.as_bytes()[at + 1..];
        let (c, taken) = match escape.first() {
            Some(b'u') => unescape_unicode(escape),
            Some(b'b') => ('\u{8}', 1),
            Some(b'f') => ('\u{c}', 1),
            Some(b'n') => ('\n', 1),
            Some(b'r') => ('\r', 1),
            Some(b't') => ('\t', 1),
            Some(&other) => (char::from(other), 1),
            None => return out,
        };
        out.push(c);
        rest = rest.get(at + 1 + taken..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Character and length of `uXXXX` or `uXXXX\uXXXX`.
fn unescape_unicode(escape: &[u8]) -> (char, usize) {
    let unit = |from: usize| escape.get(from..from + 4).and_then(parse_hex).unwrap_or(0);
    let high = unit(1);
    if (0xD800..=0xDBFF).contains(&high) {
        let pair = char::decode_utf16([high, unit(7)]).next();
        return (pair.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER), 11);
    }
    (char::from_u32(u32::from(high)).unwrap_or(char::REPLACEMENT_CHARACTER), 5)
}

/// The keys of all open objects, innermost last; the first few without allocation.
struct KeyStack {
    len: u32,
    inline: [Span; KEYS_INLINE],
    spilled: Vec<Span>,
}

impl Default for KeyStack {
    fn default() -> Self {
        Self { len: 0, inline: [Span::default(); KEYS_INLINE], spilled: Vec::new() }
    }
}

impl KeyStack {
    fn push(&mut self, span: Span) {
        let at = self.len as usize;
        if at < KEYS_INLINE {
            self.inline[at] = span;
        } else {
            self.spilled.truncate(at - KEYS_INLINE);
            self.spilled.push(span);
        }
        self.len += 1;
    }

    fn get(&self, at: u32) -> Span {
        let at = at as usize;
        if at < KEYS_INLINE { self.inline[at] } else { self.spilled[at - KEYS_INLINE] }
    }

    /// Offset of a key that repeats an earlier one among those from `first` on.
    fn duplicate(&self, first: u32, text: &str) -> Option<usize> {
        if self.len - first > offset_u32(KEYS_PAIRWISE_MAX) {
            return self.duplicate_by_sorting(first, text);
        }
        (first..self.len).find_map(|later| {
            let key = self.get(later);
            let repeats = (first..later).any(|earlier| same_key(self.get(earlier), key, text));
            repeats.then_some(key.start as usize)
        })
    }

    fn duplicate_by_sorting(&self, first: u32, text: &str) -> Option<usize> {
        let mut keys: Vec<(Cow<'_, str>, u32)> =
            (first..self.len).map(|at| self.get(at)).map(|span| (span.unescaped(text), span.start)).collect();
        keys.sort_unstable();
        keys.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1 as usize)
    }
}

fn same_key(a: Span, b: Span, text: &str) -> bool {
    if a.escaped || b.escaped {
        return a.unescaped(text) == b.unescaped(text);
    }
    a.bytes(text) == b.bytes(text)
}

/// The keys that lead to byte `end` of a JSON text: where a typed read stopped, said in names. Only for error messages.
pub(crate) fn path_at(text: &str, end: usize) -> Vec<String> {
    let mut open: Vec<(bool, Option<String>)> = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < end.min(bytes.len()) {
        match bytes[at] {
            b'{' => open.push((true, None)),
            b'[' => open.push((false, None)),
            b'}' | b']' => drop(open.pop()),
            b',' => {
                if let Some((_, key)) = open.last_mut() {
                    *key = None;
                }
            }
            b'"' => {
                let start = at + 1;
                at = string_end(bytes, start);
                if let Some((true, key @ None)) = open.last_mut() {
                    *key = Some(unescape(text.get(start..at).unwrap_or_default()));
                }
            }
            _ => {}
        }
        at += 1;
    }
    open.into_iter().filter_map(|(_, key)| key).collect()
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = skip_plain(bytes, at);
        match bytes.get(at) {
            None | Some(b'"') => return at.min(bytes.len()),
            Some(b'\\') => at = (at + 2).min(bytes.len()),
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests;

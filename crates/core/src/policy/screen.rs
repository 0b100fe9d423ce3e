//! What rules look for in one parameter's text, compiled: each form of the text is gone through once for all rules together.

use super::fault::Fault;
use super::normalise::{fold, normalise, shown, telephone};
use super::rule::How;
use super::tools::Param;
use regex::{RegexBuilder, RegexSet, RegexSetBuilder};
use std::borrow::Cow;

/// Size of one compiled pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256 << 10;
/// Size of all patterns for one form of one parameter, in bytes.
const SIEVE_BYTES_MAX: usize = 64 << 20;

/// Patterns over one form of a text, and the rules they belong to.
#[derive(Debug, Default)]
struct Sieve {
    patterns: Vec<String>,
    rules: Vec<usize>,
    set: Option<RegexSet>,
}

impl Sieve {
    fn add(&mut self, pattern: String, rule: usize) {
        self.patterns.push(pattern);
        self.rules.push(rule);
    }

    fn compile(&mut self, any_case: bool) -> Result<(), regex::Error> {
        if !self.patterns.is_empty() {
            let mut builder = RegexSetBuilder::new(std::mem::take(&mut self.patterns));
            self.set = Some(builder.case_insensitive(any_case).size_limit(SIEVE_BYTES_MAX).build()?);
        }
        Ok(())
    }

    fn sift(&self, text: &str, found: &mut impl FnMut(usize)) {
        if let Some(set) = self.set.as_ref().filter(|set| set.is_match(text)) {
            set.matches(text).into_iter().for_each(|nth| found(self.rules[nth]));
        }
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// What is looked for in one parameter.
#[derive(Debug, Default)]
pub struct Screen {
    literal: Sieve,
    folded: Sieve,
    normal: Sieve,
    shown: Sieve,
    telephone: Sieve,
}

impl Screen {
    /// Looks for this as well. `only_literal`: for what permits, which no other form of a text may do.
    pub fn add(&mut self, param: &Param, how: &How, only_literal: bool, rule: usize) {
        match how {
            How::Equals(values) => {
                let whole = |value: &str| format!(r"\A(?:{})\z", regex::escape(value));
                values.iter().for_each(|value| self.add_text(param, value, whole, only_literal, rule));
            }
            How::Contains(values) => {
                values
                    .iter()
                    .for_each(|value| self.add_text(param, value, regex::escape, only_literal, rule));
            }
            How::Pattern(pattern) => self.add_pattern(param, pattern, only_literal, rule),
        }
    }

    fn add_text(
        &mut self,
        param: &Param,
        value: &str,
        regex: impl Fn(&str) -> String,
        only_literal: bool,
        rule: usize,
    ) {
        self.literal.add(regex(value), rule);
        if only_literal {
            return;
        }
        self.normal.add(regex(&normalise(value)), rule);
        let bare = normalise(&shown(value));
        if param.markdown && !bare.is_empty() {
            self.shown.add(regex(&bare), rule);
        }
        if let Some(number) = telephone(value).filter(|_| param.address) {
            self.telephone.add(regex(&number), rule);
        }
    }

    fn add_pattern(&mut self, param: &Param, pattern: &str, only_literal: bool, rule: usize) {
        self.literal.add(pattern.to_owned(), rule);
        if only_literal {
            return;
        }
        if !pattern.is_ascii() {
            self.folded.add(pattern.to_owned(), rule);
        }
        let plain = plain_pattern(pattern);
        if param.markdown {
            self.shown.add(plain.clone(), rule);
        }
        if param.address {
            self.telephone.add(plain.clone(), rule);
        }
        self.normal.add(plain, rule);
    }

    /// Compiles what was added.
    pub fn compile(&mut self) -> Result<(), regex::Error> {
        self.literal.compile(false)?;
        [&mut self.folded, &mut self.normal, &mut self.shown, &mut self.telephone]
            .into_iter()
            .try_for_each(|sieve| sieve.compile(true))
    }

    /// Whether nothing is looked for.
    pub fn is_empty(&self) -> bool {
        self.literal.is_empty()
    }

    /// Names the rules that find something in the text of `param`, which may be one that no tool has.
    pub fn sift(&self, param: Option<&Param>, text: &Forms<'_>, mut found: impl FnMut(usize)) {
        self.literal.sift(text.literal, &mut found);
        if !self.folded.is_empty() {
            self.folded.sift(&fold(text.literal), &mut found);
        }
        if !self.normal.is_empty() {
            self.normal.sift(text.normal(), &mut found);
        }
        if !self.shown.is_empty()
            && param.is_some_and(|param| param.markdown)
            && let Some(shown) = text.shown()
        {
            self.shown.sift(shown, &mut found);
        }
        if !self.telephone.is_empty()
            && param.is_some_and(|param| param.address)
            && let Some(number) = telephone(text.literal)
        {
            self.telephone.sift(&number, &mut found);
        }
    }
}

/// The forms of one text, each made once and only when a rule looks at it.
#[derive(Debug)]
pub struct Forms<'a> {
    literal: &'a str,
    normal: std::cell::OnceCell<String>,
    shown: std::cell::OnceCell<Option<String>>,
}

impl<'a> Forms<'a> {
    /// Of this text.
    pub fn of(literal: &'a str) -> Self {
        Self { literal, normal: std::cell::OnceCell::new(), shown: std::cell::OnceCell::new() }
    }

    fn normal(&self) -> &str {
        self.normal.get_or_init(|| normalise(self.literal))
    }

    /// Without its markup, if it has any.
    fn shown(&self) -> Option<&str> {
        let shown = self.shown.get_or_init(|| match shown(self.literal) {
            Cow::Borrowed(_) => None,
            Cow::Owned(shown) => Some(normalise(&shown)),
        });
        shown.as_deref()
    }
}

/// A pattern for normalised text: letters beyond ASCII stand there as what they look like. Within brackets they stay, since a range of
/// them would become another one.
fn plain_pattern(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let (mut depth, mut escaped) = (0usize, false);
    for c in pattern.chars() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' => escaped = true,
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let plain =
            if c.is_ascii() || depth > 0 { String::new() } else { normalise(c.encode_utf8(&mut [0; 4])) };
        if !plain.is_empty() && plain.chars().all(char::is_alphanumeric) {
            let is_one = plain.chars().count() == 1;
            out.extend(if is_one { [&plain, ""] } else { ["(?:", &plain] });
            out.push_str(if is_one { "" } else { ")" });
        } else {
            out.push(c);
        }
    }
    out
}

/// Why `pattern` cannot be used, in one line.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    let compile = |pattern: &str, any_case| {
        RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).case_insensitive(any_case).build()
    };
    let built = compile(pattern, false)
        .and_then(|_| compile(pattern, true))
        .and_then(|_| compile(&plain_pattern(pattern), true));
    built.map(drop).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            "the pattern is too large; write it with fewer repetitions".to_owned()
        }
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            format!("no regular expression: {}", last.trim_start_matches("error: "))
        }
    })
}

/// The fault of rules that are too large together.
pub fn too_large() -> Fault {
    Fault::of_file(
        "all files together",
        "The patterns are too large; write fewer of them, or with fewer repetitions.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_made_plain_outside_of_brackets() {
        assert_eq!(plain_pattern(r"geh[äa]lter\.Äö ß"), r"geh[äa]lter\.ao (?:ss)");
        assert_eq!(plain_pattern(r"\[é\]"), r"\[e\]");
    }

    #[test]
    fn bad_patterns_say_why_in_one_line() {
        for pattern in ["(", "[a", "a{2,1}", r"\8", "(?P<x>a", "*"] {
            let why = check_pattern(pattern).unwrap_err();
            assert!(why.starts_with("no regular expression: ") && !why.contains('\n'), "{pattern}: {why}");
        }
        assert!(check_pattern(r"(\w{500}){500}").unwrap_err().contains("too large"));
        assert_eq!(check_pattern(r"(?x) a # comment"), Ok(()));
    }
}

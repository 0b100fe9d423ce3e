//! `Authentication-Results` taken apart (RFC 8601, 2.2). Addresses of whoever sent the mail stand in it, and what is within their quotes or within
//! a comment must not pass for what the server says.

use std::iter::Peekable;
use std::str::Chars;

/// What one header says, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Results {
    /// The server that it says it is from.
    pub server: String,
    pub methods: Vec<Method>,
    /// Whether every quote and every comment has its end.
    pub whole: bool,
}

/// What one method found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Method {
    /// `dmarc`, without a version.
    pub name: String,
    /// `pass`
    pub result: String,
    properties: Vec<(String, String)>,
}

impl Method {
    /// The values of a property such as `header.from`; quotes around them are gone.
    pub fn values(&self, property: &str) -> impl Iterator<Item = &str> {
        self.properties.iter().filter(move |(name, _)| name == property).map(|(_, value)| value.as_str())
    }
}

/// Takes a header's value apart.
pub(super) fn read(header: &str) -> Results {
    let header = header.to_ascii_lowercase();
    let mut scanner = Scanner { rest: header.chars().peekable(), whole: true };
    scanner.gap();
    let server = scanner.word(Word::Value);
    // Perhaps a version.
    scanner.pairs();
    let mut methods = Vec::new();
    while scanner.rest.next_if_eq(&';').is_some() {
        let mut pairs = scanner.pairs().into_iter();
        // The method comes first: a word further back that looks like one is a property.
        if let Some((name, result)) = pairs.next() {
            let name = name.split('/').next().unwrap_or_default().to_owned();
            methods.push(Method { name, result, properties: pairs.collect() });
        }
    }
    Results { server, methods, whole: scanner.whole }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    /// Ends at `=`.
    Name,
    /// May have `=` in it, as the addresses of many senders do.
    Value,
}

struct Scanner<'h> {
    rest: Peekable<Chars<'h>>,
    whole: bool,
}

impl Scanner<'_> {
    /// `name=value` up to the next semicolon; the value of a bare word is empty.
    fn pairs(&mut self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        loop {
            self.gap();
            if matches!(self.rest.peek(), None | Some(';')) {
                return pairs;
            }
            let name = self.word(Word::Name);
            self.gap();
            let mut value = String::new();
            if self.rest.next_if_eq(&'=').is_some() {
                self.gap();
                value = self.word(Word::Value);
            }
            pairs.push((name, value));
        }
    }

    fn word(&mut self, kind: Word) -> String {
        let mut word = String::new();
        let ends = |c: char| c.is_whitespace() || c == ';' || c == '(' || c == '=' && kind == Word::Name;
        while let Some(c) = self.rest.next_if(|c| !ends(*c)) {
            match (c, kind) {
                ('"', Word::Value) => self.quoted(&mut word),
                ('"', Word::Name) => {
                    // No name is quoted: what is left is none that anybody asks for.
                    word.push('"');
                    self.quoted(&mut word);
                }
                _ => word.push(c),
            }
        }
        word
    }

    fn quoted(&mut self, word: &mut String) {
        while let Some(c) = self.rest.next() {
            match c {
                '"' => return,
                '\\' => word.extend(self.rest.next()),
                _ => word.push(c),
            }
        }
        self.whole = false;
    }

    /// White space and comments.
    fn gap(&mut self) {
        while let Some(c) = self.rest.next_if(|c| c.is_whitespace() || *c == '(') {
            if c == '(' {
                self.comment();
            }
        }
    }

    fn comment(&mut self) {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.rest.next() {
                Some('(') => depth += 1,
                Some(')') => depth -= 1,
                Some('\\') => drop(self.rest.next()),
                Some(_) => {}
                None => {
                    self.whole = false;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_comments_keep_together_what_they_hold() {
        let header = r#" (a \) b) "MX.ours.test" 1;
            spf (x (y; z)) = (c) Pass reason="a \"b\"; c" smtp.mailfrom="x; dmarc=pass (y"@evil.test;
            dkim/1=pass header.b=ab=cd header.i=a=b@c.test;; none"#;
        let found = read(header);
        assert!(found.whole && found.server == "mx.ours.test", "{found:?}");
        let names: Vec<_> = found.methods.iter().map(|m| (m.name.as_str(), m.result.as_str())).collect();
        assert_eq!(names, [("spf", "pass"), ("dkim", "pass"), ("none", "")]);
        assert!(found.methods[0].values("smtp.mailfrom").eq(["x; dmarc=pass (y@evil.test"]), "{found:?}");
        assert!(found.methods[0].values("reason").eq([r#"a "b"; c"#]), "{found:?}");
        assert!(found.methods[1].values("header.i").eq(["a=b@c.test"]), "{found:?}");
    }

    #[test]
    fn what_has_no_end_is_known_to_have_none() {
        for header in ["mx; spf=pass smtp.mailfrom=\"x@y; dmarc=fail", "mx; a=b (c", "mx (", "\"", "\"a\\"] {
            assert!(!read(header).whole, "{header}");
        }
        for header in ["", ";", "=", "mx; ==;=", "mx)"] {
            assert!(read(header).whole, "{header}");
        }
    }
}

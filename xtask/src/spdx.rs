//! SPDX licence expressions: `MIT OR (Apache-2.0 AND Zlib)`, with `WITH exception` and the older `MIT/Apache-2.0`.

use anyhow::{Result, bail};

/// Whether an expression can be met with licences that `allowed` accepts. A licence with an exception is asked for as
/// `Name WITH exception`, and counts as allowed when the bare licence is: exceptions only permit more.
pub fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    let met = parser.any()?;
    match parser.words {
        [] => Ok(met),
        [rest, ..] => bail!("unexpected {rest} in licence expression {expression:?}"),
    }
}

struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<bool> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Ok(met)
    }

    fn all(&mut self) -> Result<bool> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Ok(met)
    }

    fn one(&mut self) -> Result<bool> {
        if self.take("(") {
            let met = self.any()?;
            if !self.take(")") {
                bail!("a bracket is not closed");
            }
            return Ok(met);
        }
        let name = self.name()?;
        let met = (self.allowed)(name);
        if self.take("WITH") {
            let exception = self.name()?;
            return Ok(met || (self.allowed)(&format!("{name} WITH {exception}")));
        }
        Ok(met)
    }

    fn name(&mut self) -> Result<&'a str> {
        match self.words {
            [name, rest @ ..] if !["OR", "AND", "WITH", "(", ")"].contains(name) => {
                self.words = rest;
                Ok(name)
            }
            _ => bail!("a licence name is missing"),
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::satisfied;

    fn met(expression: &str) -> bool {
        satisfied(expression, &|name| ["MIT", "Apache-2.0", "ISC"].contains(&name)).expect("an expression")
    }

    #[test]
    fn or_needs_one_and_and_needs_all() {
        assert!(met("MIT"));
        assert!(met("GPL-3.0 OR MIT"));
        assert!(met("MIT/GPL-3.0"));
        assert!(met("ISC AND (Apache-2.0 OR GPL-3.0)"));
        assert!(!met("MIT AND GPL-3.0"));
        assert!(!met("GPL-3.0"));
        assert!(!met("(MIT OR ISC) AND GPL-3.0 OR BSL-1.0"));
    }

    #[test]
    fn and_binds_tighter_than_or() {
        assert!(met("GPL-3.0 AND MIT OR ISC"));
        assert!(!met("GPL-3.0 AND (MIT OR ISC)"));
    }

    #[test]
    fn an_exception_permits_more() {
        assert!(met("Apache-2.0 WITH LLVM-exception"));
        assert!(!met("GPL-2.0 WITH Classpath-exception-2.0"));
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT ISC", "MIT WITH"] {
            assert!(satisfied(wrong, &|_| true).is_err(), "{wrong:?}");
        }
    }
}

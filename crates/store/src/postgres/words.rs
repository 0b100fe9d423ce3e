//! Words, the same way the embedded store's index has them: runs of letters and digits, lower case, without accents. Made here and
//! not by the database, so that both find the same whatever the database's languages.

use std::fmt::Write as _;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Longest word that is indexed, in bytes: longer ones are cut, here and in queries.
const WORD_BYTES_MAX: usize = 500;
/// Words of one text that are indexed.
const WORDS_MAX: usize = 10_000;
/// Highest position PostgreSQL keeps.
const POSITION_MAX: usize = 16_383;
/// Words of a query that count.
const QUERY_WORDS_MAX: usize = 16;

/// The words of a text, in order.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_part = |c: char| c.is_alphanumeric() || is_combining_mark(c);
    text.split(move |c| !is_part(c)).map(folded).filter(|word| !word.is_empty())
}

fn folded(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let bare = word.nfd().filter(|c| !is_combining_mark(*c));
    for c in bare.flat_map(char::to_lowercase) {
        if out.len() + c.len_utf8() > WORD_BYTES_MAX {
            break;
        }
        out.push(c);
    }
    out
}

/// A text as PostgreSQL's `tsvector` is written; `None` when it has no words.
pub(crate) fn vector(text: &str) -> Option<String> {
    let mut out = String::new();
    for (at, word) in words(text).take(WORDS_MAX).enumerate() {
        let position = (at + 1).min(POSITION_MAX);
        // Writing into memory does not fail.
        let _ = write!(out, "'{word}':{position} ");
    }
    (!out.is_empty()).then_some(out)
}

/// What a user typed as a `tsquery` for all of its words; nothing in it is syntax. What stands between two spaces is a phrase.
pub(crate) fn query(typed: &str) -> String {
    let phrases =
        typed.split_whitespace().map(|part| words(part).map(|word| format!("'{word}'")).collect::<Vec<_>>());
    let phrases = phrases.filter(|phrase| !phrase.is_empty()).take(QUERY_WORDS_MAX);
    phrases.map(|phrase| format!("({})", phrase.join(" <-> "))).collect::<Vec<_>>().join(" & ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded() {
        assert_eq!(
            words("The Größe-Budget, ÉTÉ 42!").collect::<Vec<_>>(),
            ["the", "große", "budget", "ete", "42"]
        );
        assert_eq!(vector("a B a").as_deref(), Some("'a':1 'b':2 'a':3 "));
        assert_eq!(vector("... ''"), None);
    }

    #[test]
    fn nothing_a_user_types_is_syntax() {
        assert_eq!(query(r"retry | 'x & -y:* foo-bar"), "('retry') & ('x') & ('y') & ('foo' <-> 'bar')");
        assert_eq!(query(" -- ** \0 "), "");
    }
}

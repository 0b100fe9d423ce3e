//! The closed grammar of what people write: whatever comes in on whatever channel is one of these and nothing else. No text can change
//! configuration, policy or anybody else's consent, since there is no value that says so.

/// What a text asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Write to me no more.
    Stop,
    /// Write to me again.
    Start,
    /// A pairing code, in its stored form.
    Pair(String),
    /// A decision, perhaps with the short code of what is decided.
    Decide {
        /// Yes or no.
        approve: bool,
        /// Short code.
        code: Option<String>,
    },
    /// One of the choices that a question offered.
    Choose {
        /// The question's short code.
        code: String,
        /// Which of them, from 1.
        number: usize,
    },
    /// Anything else: an answer, perhaps led by the short code of what it answers.
    Answer {
        /// Short code.
        code: Option<String>,
        /// The text behind it.
        text: String,
    },
    /// Nothing at all.
    Nothing,
}

/// Letters of short codes and pairing codes: none looks like another.
pub const CODE_ALPHABET: &[u8; 30] = b"23456789ABCDEFGHJKLMNPQRSTVXYZ";
/// Length of a short code.
pub const CODE_LEN: usize = 6;
/// Length of a pairing code without its dashes: over 70 bits.
pub const PAIR_LEN: usize = 15;

/// A code of `len` letters out of random bytes.
#[must_use]
pub fn code(random: &[u8], len: usize) -> String {
    random
        .iter()
        .take(len)
        .map(|byte| char::from(CODE_ALPHABET[usize::from(*byte) % CODE_ALPHABET.len()]))
        .collect()
}

/// A pairing code as people read it: groups of five.
#[must_use]
pub fn show_pairing(code: &str) -> String {
    let groups: Vec<_> = code.as_bytes().chunks(5).map(String::from_utf8_lossy).collect();
    groups.join("-")
}

/// A typed code in its stored form: upper case, without dashes and spaces; `None` when it is no code of that length.
#[must_use]
pub fn typed_code(text: &str, len: usize) -> Option<String> {
    let code: String = text
        .chars()
        .filter(|c| !matches!(c, '-' | ' ' | '\u{2010}'..='\u{2015}'))
        .map(|c| c.to_ascii_uppercase())
        .collect();
    let fits = code.len() == len && code.bytes().all(|byte| CODE_ALPHABET.contains(&byte));
    fits.then_some(code)
}

const STOP: [&str; 12] = [
    "stop",
    "stopall",
    "unsubscribe",
    "quit",
    "opt out",
    "opt-out",
    "stopp",
    "arret",
    "arrêt",
    "basta",
    "alto",
    "停止",
];
const START: [&str; 3] = ["start", "unstop", "resume"];
const APPROVE: [&str; 3] = ["approve", "approved", "/approve"];
const DENY: [&str; 5] = ["deny", "denied", "reject", "/deny", "/reject"];

/// Reads a text.
#[must_use]
pub fn read(text: &str) -> Said {
    let clean: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    let clean = clean.trim();
    if clean.is_empty() {
        return Said::Nothing;
    }
    let word =
        clean.trim_matches(|c: char| matches!(c, '.' | '!' | '"' | '\'' | '*' | '/')).trim().to_lowercase();
    if STOP.contains(&word.as_str()) {
        return Said::Stop;
    }
    if START.contains(&word.as_str()) {
        return Said::Start;
    }
    if let Some(code) = pairing(clean) {
        return Said::Pair(code);
    }
    decision(clean).or_else(|| chosen(clean)).unwrap_or_else(|| answer(clean))
}

/// What the button of choice `number` of the question `code` brings back.
#[must_use]
pub fn choice_value(code: &str, number: usize) -> String {
    format!("SB-{code}.{number}")
}

// What a button brings back, and whoever types it means the same.
fn chosen(text: &str) -> Option<Said> {
    let (code, number) = text.split_once('.')?;
    let is_number = matches!(number.len(), 1..=2) && number.bytes().all(|byte| byte.is_ascii_digit());
    let (code, number) = (marked_code(code)?, number.parse().ok()?);
    is_number.then_some(Said::Choose { code, number })
}

// Without the word before it, only what nobody writes as an answer: one word with a dash or a digit in it.
fn pairing(text: &str) -> Option<String> {
    let rest = text.get(..5).filter(|word| word.eq_ignore_ascii_case("/pair")).and_then(|_| text.get(5..));
    let rest = rest.or_else(|| {
        text.get(..5).filter(|word| word.eq_ignore_ascii_case("pair ")).and_then(|_| text.get(5..))
    });
    if let Some(code) = rest {
        return typed_code(code, PAIR_LEN);
    }
    let marked = text.contains(|c: char| c.is_ascii_digit() || matches!(c, '-' | '\u{2010}'..='\u{2015}'));
    typed_code(text, PAIR_LEN).filter(|_| marked && !text.contains(char::is_whitespace))
}

// "approve", "approve K7QD3M", "K7QD3M approve": nothing else decides.
fn decision(text: &str) -> Option<Said> {
    let words: Vec<_> = text.split_whitespace().take(3).collect();
    let verdict = |word: &str| {
        let word = word.trim_matches(|c: char| matches!(c, '.' | '!' | ':' | ',')).to_lowercase();
        let approve = APPROVE.contains(&word.as_str());
        (approve || DENY.contains(&word.as_str())).then_some(approve)
    };
    let code = |word: &str| marked_code(word).or_else(|| typed_code(word, CODE_LEN));
    match words.as_slice() {
        [word] => verdict(word).map(|approve| Said::Decide { approve, code: None }),
        [one, other] => {
            let (approve, code) = match verdict(one) {
                Some(approve) => (approve, code(other)?),
                None => (verdict(other)?, code(one)?),
            };
            Some(Said::Decide { approve, code: Some(code) })
        }
        _ => None,
    }
}

fn answer(text: &str) -> Said {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let code = marked_code(first);
    match code {
        Some(code) if !rest.trim().is_empty() => {
            Said::Answer { code: Some(code), text: rest.trim().to_owned() }
        }
        _ => Said::Answer { code: None, text: text.to_owned() },
    }
}

// A code in front of free text is one only with its mark, so that a word that looks like one stays a word.
fn marked_code(word: &str) -> Option<String> {
    let word = word.trim_matches(|c: char| matches!(c, '[' | ']' | '(' | ')' | ':' | ',' | '#'));
    let rest = word.get(..3).filter(|mark| mark.eq_ignore_ascii_case("sb-")).and_then(|_| word.get(3..))?;
    typed_code(rest, CODE_LEN)
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{00AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str) -> Said {
        Said::Answer { code: None, text: text.into() }
    }

    #[test]
    fn words_are_what_they_say_and_nothing_more() {
        for stop in ["STOP", "stop.", " Stop! ", "s\u{200B}top", "Unsubscribe", "\"stop\""] {
            assert_eq!(read(stop), Said::Stop, "{stop}");
        }
        assert_eq!(read("START"), Said::Start);
        assert_eq!(read("please stop the deploy"), answered("please stop the deploy"));
        assert_eq!(read(" \u{200B} "), Said::Nothing);
    }

    #[test]
    fn a_decision_is_a_word_with_or_without_its_code() {
        let decide = |approve, code: Option<&str>| Said::Decide { approve, code: code.map(Into::into) };
        assert_eq!(read("Approve"), decide(true, None));
        assert_eq!(read("deny k7qd3m"), decide(false, Some("K7QD3M")));
        assert_eq!(read("[SB-K7QD3M] approve!"), decide(true, Some("K7QD3M")));
        assert_eq!(read("approve it if the tests pass"), answered("approve it if the tests pass"));
        assert_eq!(read("approve nonsense"), answered("approve nonsense"));
        assert_eq!(read("yes"), answered("yes"), "an everyday word decides nothing");
    }

    #[test]
    fn an_answer_names_its_question_only_with_the_mark() {
        let said = read("SB-K7QD3M: on Friday\nafter lunch");
        assert_eq!(said, Said::Answer { code: Some("K7QD3M".into()), text: "on Friday\nafter lunch".into() });
        assert_eq!(read("ABCDEF is the branch"), answered("ABCDEF is the branch"));
        assert_eq!(read("SB-K7QD3M"), answered("SB-K7QD3M"), "a code alone answers nothing");
    }

    #[test]
    fn a_button_brings_back_its_choice() {
        let chosen = |number| Said::Choose { code: "K7QD3M".into(), number };
        assert_eq!(read(&choice_value("K7QD3M", 2)), chosen(2));
        assert_eq!(read(" sb-k7qd3m.12 "), chosen(12));
        for other in ["SB-K7QD3M.", "SB-K7QD3M.+1", "SB-K7QD3M.123", "SB-K7QD3M.1 x", "K7QD3M.1"] {
            assert!(!matches!(read(other), Said::Choose { .. }), "{other}");
        }
    }

    #[test]
    fn pairing_codes_are_read_as_they_are_shown() {
        let made = code(&[7; 64], PAIR_LEN);
        assert_eq!(read(&show_pairing(&made)), Said::Pair(made.clone()));
        assert_eq!(read(&format!("Pair {}", show_pairing(&made))), Said::Pair(made.clone()));
        assert_eq!(
            read("SET BASE DAY GMT 42"),
            answered("SET BASE DAY GMT 42"),
            "an answer that could be one"
        );
        assert_eq!(read(&format!("/pair {}", show_pairing(&made).to_lowercase())), Said::Pair(made));
    }
}

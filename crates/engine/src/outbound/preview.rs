//! The beginning of a text, for listings: a page of them is bounded by its rows, not by what agents wrote.

use unicode_segmentation::UnicodeSegmentation as _;

/// Letters, as people count them, of a text in a listing.
const GRAPHEMES_MAX: usize = 280;
/// Bytes of it: a single letter can have any number of marks.
const BYTES_MAX: usize = 2048;
/// What stands where it was cut.
const MARK: char = '…';

/// The beginning of `text`, with a mark where it was cut; `None` when it is short enough as it is.
pub(super) fn cut(text: &str) -> Option<String> {
    let ends = text.grapheme_indices(true).map(|(at, letter)| at + letter.len());
    let end = ends.take(GRAPHEMES_MAX).take_while(|end| *end <= BYTES_MAX).last().unwrap_or(0);
    (end < text.len()).then(|| format!("{}{MARK}", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_letters_and_says_so() {
        let family = "👩\u{200D}👩\u{200D}👧";
        assert_eq!(cut(""), None);
        assert_eq!(cut(&"é".repeat(GRAPHEMES_MAX)), None);
        assert_eq!(cut(&"é".repeat(GRAPHEMES_MAX + 1)), Some(format!("{}…", "é".repeat(GRAPHEMES_MAX))));
        let long = cut(&family.repeat(200)).unwrap();
        assert_eq!(long.strip_suffix('…').unwrap().len() % family.len(), 0, "no letter is cut");
        assert!(long.len() <= BYTES_MAX + MARK.len_utf8());
        assert_eq!(cut(&format!("a{}", "\u{301}".repeat(5000))).unwrap(), "…", "one letter may be too much");
    }
}

//! Whose turn it is on a person's floor. The order is deadline, then age (contract section 4); so that short deadlines are no way to
//! keep others from ever being heard, nobody has the floor more than a few times in a row while somebody else waits.

/// How often one sender gets the floor in a row while another waits.
pub const IN_A_ROW_MAX: usize = 3;

/// The sender who lets others go first, if one has to: `last` are those who had the floor, the latest first.
#[must_use]
pub fn gives_way<T: PartialEq + Copy>(last: &[T]) -> Option<T> {
    let latest = last.get(..IN_A_ROW_MAX)?;
    latest.iter().all(|one| *one == latest[0]).then_some(latest[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_had_it_three_times_in_a_row_lets_others_go_first() {
        for (last, expected) in [
            ("", None),
            ("aa", None),
            ("aaa", Some('a')),
            ("aaaa", Some('a')),
            ("baaa", None),
            ("aba", None),
            ("aab", None),
            ("bbba", Some('b')),
        ] {
            let last: Vec<_> = last.chars().collect();
            assert_eq!(gives_way(&last), expected, "{last:?}");
        }
    }
}

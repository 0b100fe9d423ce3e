//! Keys that do not exist, and what was probably meant.

use super::channel;
use super::schema::{SECTIONS, Section};
use toml::de::{DeTable, DeValue};

/// The first unknown section or key of a file: where, and what to say.
pub(super) fn unknown_key(table: &DeTable<'_>) -> Option<(usize, String)> {
    let mut problems = Vec::new();
    for (name, value) in table {
        let at = name.span().start;
        if name.get_ref() == channel::SECTION {
            problems.extend(channel::problem(at, value.get_ref()));
            continue;
        }
        let Some(section) = section(name.get_ref()) else {
            problems.push((at, no_section(name.get_ref())));
            continue;
        };
        let DeValue::Table(keys) = value.get_ref() else {
            problems.push((at, format!("`{}` is a section; write [{}]", section.name, section.name)));
            continue;
        };
        let unknown = keys.keys().find(|key| !section.keys.iter().any(|known| known.name == key.get_ref()));
        problems.extend(unknown.map(|key| (key.span().start, no_key(section, key.get_ref()))));
    }
    problems.into_iter().min()
}

/// The section of this name.
pub(super) fn section(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name == name)
}

fn no_section(name: &str) -> String {
    let names = || SECTIONS.iter().map(|section| section.name).chain([channel::SECTION]);
    match nearest(name, names()) {
        Some(channel::SECTION) => format!("[{name}] is no section; did you mean [[channel]]?"),
        Some(meant) => format!("[{name}] is no section; did you mean [{meant}]?"),
        None => format!("[{name}] is no section; there are: {}", names().collect::<Vec<_>>().join(", ")),
    }
}

/// What to say of a key that `section` does not have.
pub(super) fn no_key(section: &Section, key: &str) -> String {
    let names = section.keys.iter().map(|key| key.name).collect::<Vec<_>>();
    format!("`{key}` is no key of [{}]; {}", section.name, meant(key, &names))
}

/// The name that was probably meant, or all there are.
pub(super) fn meant(typed: &str, names: &[&str]) -> String {
    match nearest(typed, names.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("it has: {}", names.join(", ")),
    }
}

/// The name that differs least, if it differs little enough to be meant.
pub(super) fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let close = |name: &&str| distance(typed, name) <= (name.len() / 3).max(1);
    names.filter(close).min_by_key(|name| distance(typed, name))
}

/// Letters to insert, remove or replace to get from one text to the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], line + 1);
        for (column, other) in other.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_edits() {
        for (one, other, edits) in
            [("", "abc", 3), ("listen", "lisen", 1), ("kitten", "sitting", 3), ("a", "a", 0)]
        {
            assert_eq!(distance(one, other), edits, "{one} {other}");
            assert_eq!(distance(other, one), edits, "{other} {one}");
        }
    }
}

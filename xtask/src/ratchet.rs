//! Numbers that may only fall.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::Problems;
use crate::tree::Repository;

/// The file of committed numbers, one `name number` a line.
pub const FILE: &str = "xtask/ratchet.txt";

/// What to do when a number has fallen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Fail, so that the committed number follows and the gain is kept.
    Compare,
    /// Write the lower number.
    Lower,
}

/// Numbers by name.
pub type Numbers = BTreeMap<String, usize>;

/// Compares measured numbers with the committed ones. A number may never rise; how it is lowered, `mode` says.
pub fn check(repository: &Repository, measured: &Numbers, mode: Mode) -> Result<Problems> {
    let text = repository.read(FILE)?;
    let committed = parse(&text)?;
    let problems = compare(measured, &committed, mode);
    if mode == Mode::Lower {
        repository.write(FILE, &rendered(&text, &lowered(measured, &committed)))?;
    }
    Ok(problems)
}

fn compare(measured: &Numbers, committed: &Numbers, mode: Mode) -> Problems {
    let mut problems = Problems::new();
    for (name, now) in measured {
        match committed.get(name) {
            None => problems.push(format!("{FILE}: {name} {now} is missing")),
            Some(before) if now > before => {
                problems.push(format!("{name} rose from {before} to {now}; it may only fall"));
            }
            Some(before) if now < before && mode == Mode::Compare => {
                problems.push(format!(
                    "{name} fell from {before} to {now}: `cargo xtask sizes --lower` keeps the gain"
                ));
            }
            Some(_) => {}
        }
    }
    let unknown = committed.keys().filter(|name| !measured.contains_key(*name));
    problems.extend(unknown.map(|name| format!("{FILE}: nothing measures {name}")));
    problems
}

fn lowered(measured: &Numbers, committed: &Numbers) -> Numbers {
    let lower = |(name, before): (&String, &usize)| {
        (name.clone(), measured.get(name).map_or(*before, |now| *now.min(before)))
    };
    committed.iter().map(lower).collect()
}

fn parse(text: &str) -> Result<Numbers> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, number) = line.trim().split_once(' ').with_context(|| format!("{FILE}: {line:?}"))?;
            Ok((name.to_owned(), number.trim().parse().with_context(|| format!("{FILE}: {line:?}"))?))
        })
        .collect()
}

/// The file with new numbers; its comments stay.
fn rendered(text: &str, numbers: &Numbers) -> String {
    let line = |line: &str| match line.split_once(' ').and_then(|(name, _)| Some((name, numbers.get(name)?)))
    {
        Some((name, number)) => format!("{name} {number}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{Mode, Numbers, compare, lowered, parse, rendered};

    fn numbers(text: &str) -> Numbers {
        parse(text).expect("numbers")
    }

    #[test]
    fn a_number_may_not_rise() {
        assert_eq!(compare(&numbers("a 3"), &numbers("a 2"), Mode::Compare).len(), 1);
        assert_eq!(compare(&numbers("a 3"), &numbers("a 2"), Mode::Lower).len(), 1);
        assert_eq!(lowered(&numbers("a 3"), &numbers("a 2")), numbers("a 2"));
    }

    #[test]
    fn a_number_that_fell_must_be_kept() {
        assert_eq!(compare(&numbers("a 1"), &numbers("a 2"), Mode::Compare).len(), 1);
        assert_eq!(compare(&numbers("a 1"), &numbers("a 2"), Mode::Lower).len(), 0);
        assert_eq!(rendered("# why\n\na 2\n", &lowered(&numbers("a 1"), &numbers("a 2"))), "# why\n\na 1\n");
    }

    #[test]
    fn names_on_one_side_only_fail() {
        assert_eq!(compare(&numbers("a 1"), &numbers("b 1"), Mode::Compare).len(), 2);
        assert!(parse("a").is_err());
        assert!(parse("a x").is_err());
    }
}

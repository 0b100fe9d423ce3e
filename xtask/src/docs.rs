//! Documents that describe code, held to it.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::Problems;
use crate::rust_text::{Blank, blank, erase, test_items};
use crate::sizes::is_test_file;
use crate::tree::Repository;

const ARCHITECTURE_LINES_MAX: usize = 300;

/// Checks the map of crates, the pages of error codes and the links between documents.
pub fn check(repository: &Repository) -> Result<Problems> {
    let mut problems = architecture(repository)?;
    problems.extend(error_pages(repository)?);
    for path in repository.files("md")? {
        problems.extend(broken_links(repository, &path, &repository.read(&path)?));
    }
    Ok(problems)
}

fn architecture(repository: &Repository) -> Result<Problems> {
    let page = repository.read("ARCHITECTURE.md")?;
    let mut problems = Problems::new();
    for manifest in repository.files("toml")?.iter().filter(|path| path.ends_with("/Cargo.toml")) {
        let folder = manifest.trim_end_matches("/Cargo.toml");
        let is_crate = repository.read(manifest)?.contains("[package]");
        if is_crate && !page.contains(&format!("`{folder}`")) {
            problems.push(format!("ARCHITECTURE.md does not name the crate `{folder}`"));
        }
    }
    let places = places(&page).filter(|place| !repository.has(place.trim_end_matches('/')));
    problems.extend(places.map(|place| format!("ARCHITECTURE.md names `{place}`, which is not there")));
    if page.lines().count() > ARCHITECTURE_LINES_MAX {
        problems.push(format!("ARCHITECTURE.md is longer than {ARCHITECTURE_LINES_MAX} lines"));
    }
    Ok(problems)
}

/// The files and folders of the repository that a page names in code spans.
fn places(page: &str) -> impl Iterator<Item = &str> {
    let spans = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| {
        ["crates/", "docs/", "interop/", "xtask/"].iter().any(|folder| span.starts_with(folder))
    })
}

fn error_pages(repository: &Repository) -> Result<Problems> {
    let mut coded = BTreeSet::new();
    for path in
        repository.files("rs")?.iter().filter(|path| path.starts_with("crates/") && !is_test_file(path))
    {
        let source = repository.read(path)?;
        // Test code is found in the text without literals, and cut from the text with them.
        let tests = test_items(&blank(&source, Blank::CommentsAndLiterals));
        coded.extend(codes(&erase(&blank(&source, Blank::Comments), &tests)));
    }
    let pages = repository.files("md")?;
    let pages = pages.iter().filter_map(|path| path.strip_prefix("docs/errors/")?.strip_suffix(".md"));
    let described: BTreeSet<String> = pages.flat_map(codes).collect();
    let missing =
        coded.difference(&described).map(|code| format!("{code} has no page docs/errors/{code}.md"));
    let unused =
        described.difference(&coded).map(|code| format!("docs/errors/{code}.md: no code says {code}"));
    Ok(missing.chain(unused).collect())
}

/// The error codes (`SB` and four digits, standing alone) in a text.
fn codes(text: &str) -> Vec<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !word(c));
    let is_code = |word: &&str| {
        word.strip_prefix("SB")
            .is_some_and(|number| number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit()))
    };
    words.filter(is_code).map(str::to_owned).collect()
}

fn broken_links(repository: &Repository, path: &str, text: &str) -> Problems {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut problems = Problems::new();
    for target in links(text) {
        let file = target.split('#').next().unwrap_or_default();
        let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
        if file.is_empty() || is_elsewhere {
            continue;
        }
        let place = file.strip_prefix('/').map_or_else(|| format!("{folder}/{file}"), str::to_owned);
        if !repository.has(place.trim_start_matches('/')) {
            problems.push(format!("{path}: the link to {target} leads nowhere"));
        }
    }
    problems
}

/// The targets of a Markdown text's links; code blocks and code spans hold none.
fn links(text: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let prose = line.split('`').step_by(2);
            targets.extend(
                prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split(')').next()),
            );
            targets.extend(line.strip_prefix('[').and_then(|rest| Some(rest.split_once("]: ")?.1.trim())));
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::{codes, links, places};

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a](b.md) and `[c](d.md)` and [`e`](f.md#g)\n```\n[h](i.md)\n```\n[j]: k.md\n";
        assert_eq!(links(text), ["b.md", "f.md#g", "k.md"]);
    }

    #[test]
    fn places_are_paths_in_code_spans() {
        let page = "see `crates/core/src/gid.rs` and `Store`, not crates/x\nbut `docs/errors/`";
        assert_eq!(places(page).collect::<Vec<_>>(), ["crates/core/src/gid.rs", "docs/errors/"]);
    }

    #[test]
    fn codes_stand_alone() {
        assert_eq!(codes("\"SB0042\", SB123 SB12345 XSB0001 SB00x1 (SB0007)"), ["SB0042", "SB0007"]);
    }
}

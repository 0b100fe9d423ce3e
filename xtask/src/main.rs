//! `cargo xtask arrows | licences | sizes [--lower]`: the checks of the library, from a terminal.

use std::process::ExitCode;

use anyhow::{Result, bail};
use xtask::{
    Problems, arrows, docs, duplicates, licences, metadata::Graph, ratchet::Mode, sizes, tree::Repository,
};

const USAGE: &str = "usage: cargo xtask arrows | licences | sizes [--lower]

  arrows     which crate may depend on which, and where heavy libraries may be used
  licences   licences of all normal and build dependencies; duplicate versions against xtask/duplicates.txt
  sizes      lengths of files and functions, unwraps, lint allowances, documents that describe code
             --lower writes improved numbers to xtask/ratchet.txt";

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let repository = Repository::open()?;
    let problems = match arguments.as_slice() {
        ["arrows"] => arrows::check(&Graph::load(&repository)?),
        ["licences"] => dependencies(&repository)?,
        ["sizes"] => texts(&repository, Mode::Compare)?,
        ["sizes", "--lower"] => texts(&repository, Mode::Lower)?,
        _ => bail!(USAGE),
    };
    for problem in &problems {
        eprintln!("{problem}");
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn dependencies(repository: &Repository) -> Result<Problems> {
    let graph = Graph::load(repository)?;
    let mut problems = licences::check(&graph);
    problems.extend(duplicates::check(&graph, &repository.read("xtask/duplicates.txt")?)?);
    Ok(problems)
}

fn texts(repository: &Repository, mode: Mode) -> Result<Problems> {
    let mut problems = sizes::check(repository, mode)?;
    problems.extend(docs::check(repository)?);
    Ok(problems)
}

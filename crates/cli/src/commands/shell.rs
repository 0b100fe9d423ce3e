//! `switchboard completions` and `switchboard man`: made from the definitions of the commands.

use crate::args::Cli;
use crate::failure::Failure;
use crate::terminal::{Output, print};
use clap::CommandFactory as _;
use std::path::Path;

/// Prints completions.
pub fn completions(shell: clap_complete::Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "switchboard", &mut script);
    let _ = print(&String::from_utf8_lossy(&script));
}

/// Writes a manual page for every command.
pub fn man(output: Output, dir: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::file(dir, &error);
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(failed)?;
    output.done(&format!(
        "The pages are in {}; read one with: man -l {}",
        dir.display(),
        dir.join("switchboard.1").display()
    ));
    Ok(())
}

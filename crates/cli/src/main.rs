//! The `switchboard` binary: everything is in the library beside it, so that tests can reach it.

fn main() -> std::process::ExitCode {
    switchboard_cli::main()
}

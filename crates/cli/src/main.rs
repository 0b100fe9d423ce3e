//! The `switchboard` binary: everything is in the library beside it, so that tests can reach it.

/// Messages are many small allocations on several threads; the system's allocator took a sixth of the processor for them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    switchboard_cli::main()
}

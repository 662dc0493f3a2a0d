//! The `mullion` program: [`mullion::cli`] does the work.

use std::process::ExitCode;

/// As ripgrep does: musl's own is slow, above all where several threads share it.
#[cfg(all(target_env = "musl", target_pointer_width = "64"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    mullion::cli::run(std::env::args_os())
}

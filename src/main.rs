//! The `mullion` program: [`mullion::cli`] does the work.

use std::process::ExitCode;

/// The same allocator as in ripgrep, because that of musl is slow, above all if several threads
/// share it.
#[cfg(all(target_env = "musl", target_pointer_width = "64"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    mullion::cli::run(std::env::args_os())
}

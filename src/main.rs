//! The `mullion` program: [`mullion::cli`] does the work.

use std::process::ExitCode;

fn main() -> ExitCode {
    mullion::cli::run(std::env::args_os())
}

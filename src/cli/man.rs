//! `mullion man`: manual pages.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;
use mullion_engine::model::text::counted;

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;

/// Arguments of `man`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion man\n\
    \x20 mullion man man1/\n\n\
    mullion man | man -l -    reads the page of mullion itself\n\
    mullion man ~/.local/share/man/man1    installs all pages: man mullion, man mullion-check")]
pub struct ManArgs {
    /// Directory for one page of each command, created if it does not exist; without it, mullion's own page is printed
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// Prints the first page, or writes them all.
pub(crate) fn run(args: &ManArgs, program: Command, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let pages = pages(program);
    if let Some(directory) = &args.directory {
        let hint =
            || format!("{}: cannot write the manual; name a directory that you can write to", directory.display());
        let written = fs::create_dir_all(directory)
            .and_then(|()| pages.iter().try_for_each(|page| page.generate_to(directory).map(drop)));
        written.with_context(hint)?;
        io.eprintln(format_args!("{} written to {}", counted(pages.len(), "page"), directory.display()))?;
    } else if let Some(first) = pages.first() {
        first.render(io.stdout)?;
    }
    Ok(Outcome::Clean)
}

/// The page of `program`, and one of each command.
fn pages(program: Command) -> Vec<Man> {
    // `help` is left out, because the pages contain what it prints.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add(&program, &mut pages);
    pages
}

fn add(command: &Command, pages: &mut Vec<Man>) {
    // An empty date would not be an argument, and the next argument would take its place.
    let source = format!("mullion {}", env!("CARGO_PKG_VERSION"));
    pages.push(Man::new(command.clone()).date(" ").source(source).manual("Mullion"));
    command.get_subcommands().filter(|command| !command.is_hide_set()).for_each(|command| add(command, pages));
}

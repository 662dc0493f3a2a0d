//! `mullion man`: the manual.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;
use mullion_engine::model::text::counted;

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;

/// Arguments of `man`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "mullion man | man -l -    reads the page of mullion itself\n\
    mullion man ~/.local/share/man/man1    installs all pages: man mullion, man mullion-check")]
pub struct Manual {
    /// Directory for a page of each command, made where it is missing; without it, mullion's own page is printed
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// Prints the first page, or writes them all.
pub fn run(args: &Manual, program: Command, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let pages = pages(program);
    if let Some(directory) = &args.directory {
        let advice = || format!("{}: cannot write the manual; name a directory of yours", directory.display());
        write(&pages, directory).with_context(advice)?;
        io.say(format_args!("{} written to {}", counted(pages.len(), "page"), directory.display()))?;
    } else if let Some(first) = pages.first() {
        first.render(io.stdout)?;
    }
    Ok(Outcome::Clean)
}

fn write(pages: &[Man], directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    pages.iter().try_for_each(|page| page.generate_to(directory).map(drop))
}

/// The page of `program`, and one of each command.
pub fn pages(program: Command) -> Vec<Man> {
    // `help` is for the terminal: there is a page of what it would show.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add(&program, &mut pages);
    pages
}

fn add(command: &Command, pages: &mut Vec<Man>) {
    pages.push(page(command));
    command.get_subcommands().filter(|command| !command.is_hide_set()).for_each(|command| add(command, pages));
}

fn page(command: &Command) -> Man {
    // An empty date would be no argument at all, and what follows would stand in its place.
    let source = format!("mullion {}", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).date(" ").source(source).manual("Mullion")
}

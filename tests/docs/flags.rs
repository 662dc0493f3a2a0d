//! `docs/reference/flags.md`: every command with its arguments and flags, generated from the command line.

use std::fmt::Write;

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory as _};
use mullion::cli::Cli;

use crate::golden;

const PAGE: &str = "docs/reference/flags.md";

const HEAD: &str = "# Flags of every command\n\n\
    This page is for people who look up a flag of `mullion`. After reading it you know the arguments and flags of each command, their values and their\n\
    defaults. [Command line](cli.md) explains what each command does, with examples and exit codes. `mullion COMMAND --help` prints the same flags.\n\n\
    Every command also has `-h` and `--help`, which print the help, and `-V` and `--version`, which print the version.\n\n\
    `make rules` generates this page from the program. Do not edit it.\n";

/// Visible commands without commands below them, in the order of the help.
fn commands() -> Vec<Command> {
    fn add(command: &Command, all: &mut Vec<Command>) {
        let below: Vec<_> = command.get_subcommands().filter(|inner| !inner.is_hide_set()).collect();
        for inner in &below {
            add(inner, all);
        }
        if below.is_empty() {
            all.push(command.clone());
        }
    }
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut all = Vec::new();
    add(&program, &mut all);
    all
}

/// The visible arguments and flags of a command, without those that every command has.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str()))
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for mut command in commands() {
        let usage = command.render_usage().to_string();
        let usage: Vec<&str> = usage.trim_start_matches("Usage:").split_whitespace().collect();
        let about = sentence(command.get_about());
        let name = command.get_bin_name().unwrap().to_owned();
        write!(page, "\n## {name}\n\n{about}\n\n`{}`\n", usage.join(" ")).unwrap();
        let mut headings: Vec<Option<&str>> = arguments(&command).map(heading).collect();
        headings.dedup();
        let mut written: Vec<Option<&str>> = Vec::new();
        for title in headings {
            if written.contains(&title) {
                continue;
            }
            written.push(title);
            page.push('\n');
            if let Some(title) = title {
                write!(page, "{title}:\n\n").unwrap();
            }
            for arg in arguments(&command).filter(|arg| heading(arg) == title) {
                writeln!(page, "- {}", described(arg)).unwrap();
            }
        }
        if written.is_empty() {
            page.push_str("\nIt has no arguments or flags of its own.\n");
        }
    }
    page
}

/// The heading of the help above an argument; `None` above those that only this command has.
fn heading(arg: &Arg) -> Option<&str> {
    arg.get_help_heading()
}

fn described(arg: &Arg) -> String {
    let value = arg.get_value_names().filter(|_| arg.get_action().takes_values()).unwrap_or_default().join(" ");
    let long = arg.get_long().map(|long| format!("`--{long} {value}`").replace(" `", "`"));
    let short = arg.get_short().map(|short| format!("`-{short}`"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let names = if names.is_empty() { format!("`{value}`") } else { names.join(", ") };
    let mut text = format!("{names}: {}", sentence(arg.get_help()));
    if arg.is_required_set() {
        text.push_str(" Required.");
    }
    if let Some(variable) = arg.get_env() {
        write!(text, " Environment variable: `{}`.", variable.to_str().unwrap()).unwrap();
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_str().unwrap()).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        write!(text, " Default: `{}`.", defaults.join(" ")).unwrap();
    }
    if arg.get_action().takes_values() && !arg.is_hide_possible_values_set() {
        for value in arg.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
            let help = value.get_help().map_or_else(String::new, |help| format!(": {}", plain(help)));
            write!(text, "\n  - `{}`{help}", value.get_name()).unwrap();
        }
    }
    text
}

/// A help text as one line.
fn plain(help: &StyledStr) -> String {
    help.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A help text as a sentence, with the full stop that the help leaves out.
fn sentence(help: Option<&StyledStr>) -> String {
    let text = plain(help.expect("every command and every argument has a help text"));
    if text.ends_with('.') { text } else { format!("{text}.") }
}

#[test]
fn the_page_of_flags_is_made_from_the_program() {
    golden::file(PAGE, &page()).unwrap_or_else(|complaint| panic!("{complaint}"));
}

/// Each flag is on the page under its command, and no hidden one is.
#[test]
fn every_flag_is_on_the_page() {
    let text = std::fs::read_to_string(golden::path(PAGE)).unwrap();
    let mut flags = 0;
    for command in commands() {
        let name = command.get_bin_name().unwrap();
        let section = text.split_once(&format!("\n## {name}\n")).unwrap_or_else(|| panic!("no section {name}")).1;
        let section = section.split("\n## ").next().unwrap();
        for arg in command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str())) {
            let Some(long) = arg.get_long() else { continue };
            let found = [format!("`--{long}`: "), format!("`--{long} ")].iter().any(|flag| section.contains(flag));
            assert_eq!(found, !arg.is_hide_set(), "{name} --{long}");
            flags += 1;
        }
    }
    assert!(flags > 80, "{flags} flags");
}

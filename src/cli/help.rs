//! The help of the program, with its commands in groups.

use std::fmt::Write as _;

use clap::Subcommand as _;
use clap::builder::{StyledStr, Styles};

use crate::cli::command_line::Command;

/// The groups, and their commands in the order of the help. A test finds a command that is missing.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Manifests", &["check", "mutate", "explain"]),
    ("Clusters", &["survey", "plan", "status", "withdraw"]),
    ("Rules and policies", &["rules", "policy"]),
    ("Images and releases", &["image", "compat", "facts"]),
    ("Processes in a cluster", &["webhook", "controller"]),
    ("This program", &["completions", "man", "version", "help"]),
];

/// What `help` does; clap adds this command later.
const HELP: &str = "Print this message or the help of the given subcommand(s)";

/// The template of `mullion --help`.
pub(crate) fn template() -> StyledStr {
    let program = Command::augment_subcommands(clap::Command::new("mullion"));
    let about = |name: &str| {
        let command = program.find_subcommand(name).filter(|command| !command.is_hide_set());
        command.and_then(clap::Command::get_about).map_or_else(|| HELP.to_owned(), ToString::to_string)
    };
    let styles = Styles::default();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let longest = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        let _infallible = write!(text, "\n{header}{title}:{header:#}\n");
        for name in names {
            let _infallible = writeln!(text, "  {literal}{name:longest$}{literal:#}  {}", about(name));
        }
    }
    let _infallible = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    StyledStr::from(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::command_line::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let mut program = Cli::command();
        program.build();
        let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
        let names: BTreeSet<&str> = visible.map(clap::Command::get_name).collect();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(listed.len(), names.len());
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
        let help = program.render_help().to_string();
        for command in program.get_subcommands() {
            let about = command.get_about().unwrap().to_string();
            let line = help.lines().find(|line| line.trim_start().starts_with(&format!("{} ", command.get_name())));
            assert!(line.unwrap().ends_with(&about), "{}: {help}", command.get_name());
        }
    }
}

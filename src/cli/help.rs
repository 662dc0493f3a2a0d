//! The help of the program, with its commands in groups.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::{StyledStr, Styles};

/// The groups, and their commands in the order of the help. A test finds a command that is missing.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Manifests", &["check", "mutate", "explain"]),
    ("Clusters", &["survey", "plan", "repair", "status", "verify", "withdraw"]),
    ("Rules and policies", &["rules", "policy"]),
    ("Images and releases", &["image", "compat", "facts"]),
    ("Processes in a cluster", &["webhook", "controller"]),
    ("This program", &["completions", "man", "version", "help"]),
];

/// What `help` does; clap adds this command later.
const HELP: &str = "Print this message or the help of the given subcommand(s)";

/// The template of `mullion --help`. `program`: with its commands.
pub(crate) fn template(program: &Command) -> StyledStr {
    let about = |name: &str| {
        let command = program.find_subcommand(name).filter(|command| !command.is_hide_set());
        command.and_then(Command::get_about).map_or_else(|| HELP.to_owned(), ToString::to_string)
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

//! `mullion rules`: the rule catalogue, or one rule's page.

use anyhow::anyhow;
use clap::Args;
use mullion_engine::rules::{Rule, catalogue, find};
use serde::Serialize;
use similar::get_close_matches;

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_format::OutputFormat;
use crate::report::{action_name, page, table, write_line};

/// Arguments of `rules`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit code: 0; 2 for an unknown rule.")]
pub struct RulesArgs {
    /// One rule, by code (MUL201) or name (run-as-user)
    #[arg(value_name = "CODE|NAME")]
    pub rule: Option<String>,
    /// Output format; JSON is one object per line
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
}

/// One line of `rules -o json`.
#[derive(Debug, Serialize)]
struct Record<'r> {
    #[serde(flatten)]
    rule: &'r Rule,
    page: String,
}

/// Prints the rules in order of code.
pub(crate) fn run(args: &RulesArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let rules: Vec<&Rule> = match &args.rule {
        Some(named) => vec![find(named).ok_or_else(|| unknown(named))?],
        None => catalogue().collect(),
    };
    match args.output {
        OutputFormat::Json => {
            rules.iter().try_for_each(|rule| write_line(io.stdout, &Record { rule, page: page(rule) }))?;
        }
        OutputFormat::Text => match rules.as_slice() {
            [rule] if args.rule.is_some() => io.stdout.write_all(page(rule).as_bytes())?,
            _ => {
                let row = |rule: &&Rule| [rule.code, rule.name, action_name(rule.default), rule.summary];
                let rows = rules.iter().map(|rule| row(rule).map(str::to_owned));
                table::write(io.stdout, Some(["CODE", "NAME", "DEFAULT", "SUMMARY"]), rows)?;
            }
        },
    }
    Ok(Outcome::Clean)
}

fn unknown(named: &str) -> anyhow::Error {
    let known: Vec<&str> = catalogue().flat_map(|rule| [rule.name, rule.code]).collect();
    let hint = match get_close_matches(named, &known, 1, 0.6).as_slice() {
        [near, ..] => format!("did you mean {near}?"),
        [] => "mullion rules lists them".to_owned(),
    };
    anyhow!("there is no rule {named}; {hint}")
}

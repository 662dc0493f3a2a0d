//! `mullion rules`: the rule catalogue, or one rule's page.

use clap::Args;
use mullion_engine::model::settings::rule_actions::Action;
use mullion_engine::rules::catalogue::{catalogue, find};
use mullion_engine::rules::rule::Rule;
use serde::Serialize;
use similar::get_close_matches;

use crate::cli::check::Output;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::usage_error::UsageError;
use crate::report::json::write_line;
use crate::report::rule_page::{action_name, page};
use crate::report::table;

/// Arguments of `rules`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit code: 0; 2 for a rule that there is not.")]
pub struct Rules {
    /// One rule, by code (MUL201) or name (run-as-user)
    #[arg(value_name = "CODE|NAME")]
    pub rule: Option<String>,
    /// How rules are written; JSON is one object per line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// One line of `rules -o json`.
#[derive(Debug, Serialize)]
struct Record {
    code: &'static str,
    name: &'static str,
    summary: &'static str,
    action: Action,
    repair: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    translation: Option<&'static str>,
    advice: bool,
    why: &'static str,
    instead: &'static str,
    since: &'static str,
    page: String,
}

/// Prints the rules in order of code.
pub fn run(args: &Rules, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let rules: Vec<&Rule> = match &args.rule {
        Some(named) => vec![find(named).ok_or_else(|| unknown(named))?],
        None => catalogue().collect(),
    };
    match args.output {
        Output::Json => {
            rules.iter().try_for_each(|rule| write_line(io.stdout, &Record::from(*rule)))?;
        }
        Output::Text => {
            match rules.as_slice() {
                [rule] if args.rule.is_some() => io.stdout.write_all(page(rule).as_bytes())?,
                _ => {
                    let mut rows = vec![["CODE", "NAME", "DEFAULT", "SUMMARY"].map(str::to_owned)];
                    rows.extend(rules.iter().map(|rule| {
                        [rule.code, rule.name, action_name(rule.default), rule.summary].map(str::to_owned)
                    }));
                    table::write(io.stdout, &rows)?;
                }
            }
        }
    }
    Ok(Outcome::Clean)
}

impl From<&Rule> for Record {
    fn from(rule: &Rule) -> Self {
        let Rule { code, name, summary, default, repair, translation, hint, why, instead, since, page: _ } = *rule;
        Self {
            code,
            name,
            summary,
            action: default,
            repair,
            translation,
            advice: hint,
            why,
            instead,
            since,
            page: page(rule),
        }
    }
}

fn unknown(named: &str) -> UsageError {
    let known: Vec<&str> = catalogue().flat_map(|rule| [rule.name, rule.code]).collect();
    let advice = match get_close_matches(named, &known, 1, 0.6).as_slice() {
        [near, ..] => format!("did you mean {near}?"),
        [] => "mullion rules lists them".to_owned(),
    };
    UsageError(format!("there is no rule {named}; {advice}"))
}

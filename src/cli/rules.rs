//! `mullion rules`: the rule catalogue, a part of it, or one rule's page; and the pages of the findings of a survey.

use std::collections::BTreeSet;

use anyhow::anyhow;
use clap::Args;
use mullion_engine::model::text::list_with;
use mullion_engine::rules::{Rule, catalogue, find};
use mullion_survey::catalogue::{self as survey_catalogue, FINDINGS, FindingKind, find_kind};
use serde::Serialize;
use similar::get_close_matches;

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_format::OutputFormat;
use crate::report::{action_name, page, table, write_line};

/// Arguments of `rules`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit code: 0; 2 for an unknown rule or family.")]
pub struct RulesArgs {
    /// One rule, by code (MUL201) or name (run-as-user), or the rules whose codes begin with this (MUL2); findings of mullion survey in the same way (SUR201, SUR2)
    #[arg(value_name = "CODE|NAME|PREFIX")]
    pub rule: Option<String>,
    /// The rules of one family: the first digit of their codes
    #[arg(long, value_name = "DIGIT", conflicts_with = "rule")]
    pub family: Option<String>,
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

/// One line of `rules SUR -o json`.
#[derive(Debug, Serialize)]
struct SurveyRecord {
    #[serde(flatten)]
    kind: &'static FindingKind,
    page: String,
}

/// Prints the rules in order of code. If one rule is selected, prints its page.
pub(crate) fn run(args: &RulesArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    if let Some(kinds) = args.rule.as_deref().and_then(survey_kinds) {
        write_kinds(&kinds, args, io)?;
        return Ok(Outcome::Clean);
    }
    let named = args.rule.as_deref().and_then(find);
    let rules: Vec<&Rule> = match (named, &args.rule, &args.family) {
        (Some(rule), ..) => vec![rule],
        (None, Some(prefix), _) => with_prefix(prefix).ok_or_else(|| unknown(prefix))?,
        (None, None, Some(family)) => of_family(family).ok_or_else(|| unknown_family(family))?,
        (None, None, None) => catalogue().collect(),
    };
    match (args.output, named) {
        (OutputFormat::Json, _) => {
            rules.iter().try_for_each(|rule| write_line(io.stdout, &Record { rule, page: page(rule) }))?;
        }
        (OutputFormat::Text, Some(rule)) => io.stdout.write_all(page(rule).as_bytes())?,
        (OutputFormat::Text, None) => {
            let row = |rule: &&Rule| [rule.code, rule.name, action_name(rule.default), rule.summary];
            let rows = rules.iter().map(|rule| row(rule).map(str::to_owned));
            table::write(io.stdout, Some(["CODE", "NAME", "DEFAULT", "SUMMARY"]), rows)?;
        }
    }
    Ok(Outcome::Clean)
}

/// The findings of a survey with that code or name, or whose codes begin with it.
fn survey_kinds(named: &str) -> Option<Vec<&'static FindingKind>> {
    if let Some(kind) = find_kind(named) {
        return Some(vec![kind]);
    }
    let prefix = named.to_ascii_uppercase();
    let kinds: Vec<&FindingKind> =
        FINDINGS.iter().filter(|kind| prefix.starts_with("SUR") && kind.code.starts_with(&prefix)).collect();
    (!kinds.is_empty()).then_some(kinds)
}

fn write_kinds(kinds: &[&'static FindingKind], args: &RulesArgs, io: &mut Io<'_>) -> anyhow::Result<()> {
    let page = |kind| survey_catalogue::page(kind, 1);
    match (args.output, kinds) {
        (OutputFormat::Json, _) => {
            let record = |kind: &&'static FindingKind| SurveyRecord { kind, page: page(kind) };
            kinds.iter().map(record).try_for_each(|record| write_line(io.stdout, &record))?;
        }
        (OutputFormat::Text, [kind]) => io.stdout.write_all(page(kind).as_bytes())?,
        (OutputFormat::Text, _) => {
            let row = |kind: &&FindingKind| [kind.code, kind.name, kind.severity.name(), kind.what].map(str::to_owned);
            table::write(io.stdout, Some(["CODE", "NAME", "SEVERITY", "SUMMARY"]), kinds.iter().map(row))?;
        }
    }
    Ok(())
}

/// The start of every code; a digit for the family and two more follow.
const CODES: &str = "MUL";

/// The rules whose codes begin with `prefix`, in any letter case; `None` if there are none.
fn with_prefix(prefix: &str) -> Option<Vec<&'static Rule>> {
    let prefix = prefix.to_ascii_uppercase();
    let rules: Vec<&Rule> =
        catalogue().filter(|rule| prefix.starts_with(CODES) && rule.code.starts_with(&prefix)).collect();
    (!rules.is_empty()).then_some(rules)
}

fn of_family(digit: &str) -> Option<Vec<&'static Rule>> {
    with_prefix(&format!("{CODES}{digit}")).filter(|_| digit.len() == 1)
}

fn unknown(named: &str) -> anyhow::Error {
    let known: Vec<&str> = catalogue().flat_map(|rule| [rule.name, rule.code]).collect();
    let hint = match get_close_matches(named, &known, 1, 0.6).as_slice() {
        [near, ..] => format!("did you mean {near}?"),
        [] => "mullion rules lists them".to_owned(),
    };
    anyhow!("there is no rule {named}; {hint}")
}

fn unknown_family(named: &str) -> anyhow::Error {
    let digits: BTreeSet<&str> =
        catalogue().filter_map(|rule| rule.code.strip_prefix(CODES)).filter_map(|digits| digits.get(..1)).collect();
    anyhow!("there is no family {named}; write {}", list_with(digits, "or"))
}

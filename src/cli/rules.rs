//! `mullion rules`: the rule catalogue, a part of it, or one rule's page; and the pages of the findings of a survey.

use std::collections::BTreeSet;

use anyhow::anyhow;
use clap::Args;
use mullion_engine::model::settings::Action;
use mullion_engine::model::text::{list_with, nearest};
use mullion_engine::rules::{CatalogueEntry, Rule, RuleDetails, catalogue, find};
use mullion_survey::catalogue::{
    self as survey_catalogue, FINDINGS, FindingDetails, FindingGroup, FindingKind, find_kind,
};
use mullion_survey::report::Severity;
use serde::Serialize;

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::output_format::OutputFormat;
use crate::report::{action_name, page, table, write_line};

/// Arguments of `rules`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion rules\n\
    \x20 mullion rules run-as-user\n\
    \x20 mullion rules MUL2 -o json\n\n\
    Exit code: 0; 2 for an unknown rule or family.")]
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
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// One line of `rules -o json`.
#[derive(Debug, Serialize)]
struct RuleRecord {
    code: &'static str,
    name: &'static str,
    summary: &'static str,
    action: Action,
    repair: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    translation: Option<&'static str>,
    hint: bool,
    why: &'static str,
    instead: &'static str,
    since: &'static str,
    page: String,
}

/// One line of `rules SUR -o json`.
#[derive(Debug, Serialize)]
struct FindingRecord {
    code: &'static str,
    name: &'static str,
    severity: Severity,
    group: FindingGroup,
    needs: &'static [&'static str],
    what: &'static str,
    why: &'static str,
    fix: &'static str,
    sources: &'static [&'static str],
    page: String,
}

/// What distinguishes the output of one catalogue from that of another.
trait Printed: Sized {
    /// The column with the action or severity.
    const LEVEL: &'static str;

    fn level(&self) -> &'static str;
    fn page(entry: &CatalogueEntry<Self>) -> String;
    fn record(entry: &CatalogueEntry<Self>) -> impl Serialize;
}

impl Printed for RuleDetails {
    const LEVEL: &'static str = "DEFAULT";

    fn level(&self) -> &'static str {
        action_name(self.default)
    }

    fn page(entry: &Rule) -> String {
        page(entry)
    }

    fn record(entry: &Rule) -> impl Serialize {
        let Rule { code, name, summary, why, instead, details } = *entry;
        let Self { default: action, repair, translation, hint, since, .. } = details;
        RuleRecord { code, name, summary, action, repair, translation, hint, why, instead, since, page: page(entry) }
    }
}

impl Printed for FindingDetails {
    const LEVEL: &'static str = "SEVERITY";

    fn level(&self) -> &'static str {
        self.severity.name()
    }

    fn page(entry: &FindingKind) -> String {
        survey_catalogue::page(entry, 1)
    }

    fn record(entry: &FindingKind) -> impl Serialize {
        let FindingKind { code, name, summary: what, why, instead: fix, details } = *entry;
        let Self { severity, group, needs, sources } = details;
        FindingRecord { code, name, severity, group, needs, what, why, fix, sources, page: Self::page(entry) }
    }
}

/// Prints the rules in order of code. If one rule is selected, prints its page.
pub(crate) fn run(args: &RulesArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    if let Some(named) = &args.rule {
        if let Some(kind) = find_kind(named) {
            return write_entries(&[kind], true, args.output, io);
        }
        if let Some(kinds) = with_prefix(FINDINGS.iter(), FINDING_CODES, named) {
            return write_entries(&kinds, kinds.len() == 1, args.output, io);
        }
        if let Some(rule) = find(named) {
            return write_entries(&[rule], true, args.output, io);
        }
        let rules = with_prefix(catalogue(), CODES, named).ok_or_else(|| unknown(named))?;
        return write_entries(&rules, false, args.output, io);
    }
    let rules = match &args.family {
        Some(family) => of_family(family).ok_or_else(|| unknown_family(family))?,
        None => catalogue().collect(),
    };
    write_entries(&rules, false, args.output, io)
}

/// Prints entries in order of code; as text, the page of one that is `alone`.
fn write_entries<T: Printed>(
    entries: &[&CatalogueEntry<T>],
    alone: bool,
    output: OutputFormat,
    io: &mut Io<'_>,
) -> anyhow::Result<Outcome> {
    match (output, entries) {
        (OutputFormat::Json, _) => entries.iter().try_for_each(|entry| write_line(io.stdout, &T::record(entry)))?,
        (OutputFormat::Text, [entry]) if alone => {
            let mut is_code = false;
            for line in T::page(entry).lines() {
                is_code ^= line.trim_start().starts_with("```");
                // A broken line of code or of a table is another one.
                if is_code || line.starts_with(['`', '|']) {
                    writeln!(io.stdout, "{line}")?;
                } else {
                    io.print_folded(line)?;
                }
            }
        }
        (OutputFormat::Text, _) => {
            let row = |entry: &&CatalogueEntry<T>| [entry.code, entry.name, entry.level(), entry.summary];
            let rows = entries.iter().map(|entry| row(entry).map(str::to_owned));
            table::write(io.stdout, io.width, Some(["CODE", "NAME", T::LEVEL, "SUMMARY"]), rows)?;
        }
    }
    Ok(Outcome::Clean)
}

/// The start of the codes of rules; a digit for the family and two more follow.
const CODES: &str = "MUL";

/// The start of the codes of findings of a survey.
const FINDING_CODES: &str = "SUR";

/// The entries whose codes begin with `prefix`, in any letter case, which begins with `start`; `None` if there are none.
fn with_prefix<T: 'static>(
    all: impl Iterator<Item = &'static CatalogueEntry<T>>,
    start: &str,
    prefix: &str,
) -> Option<Vec<&'static CatalogueEntry<T>>> {
    let prefix = prefix.to_ascii_uppercase();
    let found: Vec<_> = all.filter(|entry| prefix.starts_with(start) && entry.code.starts_with(&prefix)).collect();
    (!found.is_empty()).then_some(found)
}

fn of_family(digit: &str) -> Option<Vec<&'static Rule>> {
    with_prefix(catalogue(), CODES, &format!("{CODES}{digit}")).filter(|_| digit.len() == 1)
}

fn unknown(named: &str) -> anyhow::Error {
    let near = nearest(named, catalogue().flat_map(|rule| [rule.name, rule.code]));
    let hint = near.map_or("mullion rules lists them".to_owned(), |near| format!("did you mean {near}?"));
    anyhow!("there is no rule {named}; {hint}")
}

fn unknown_family(named: &str) -> anyhow::Error {
    let digits: BTreeSet<&str> =
        catalogue().filter_map(|rule| rule.code.strip_prefix(CODES)).filter_map(|digits| digits.get(..1)).collect();
    anyhow!("there is no family {named}; write {}", list_with(digits, "or"))
}

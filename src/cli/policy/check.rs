//! `mullion policy check`: problems, warnings and notes of policy files, and a list of the policies.

use std::io;
use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use mullion_engine::model::settings::{Mode, Origin};
use mullion_engine::model::text::counted;
use mullion_manifest::Problem;
use mullion_policy::warnings::{notes, warnings};
use mullion_policy::{PolicySet, is_test_file};
use serde::Serialize;

use crate::cli::file_patterns::expanded;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::policy_files;
use crate::report::{DiagnosticSeverity, PolicySources, table, write_line};

/// Arguments of `policy check`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion policy check policies/\n\
    \x20 mullion policy check policies/ -o github\n\n\
    Exit code: 0; 1 for warnings with --fail-on warn; 2 for files that cannot be used. The highest that applies.")]
pub struct PolicyCheckArgs {
    /// Policy files, directories of them (*.yaml, *.yml, *.json), manifests of ConfigMaps that contain some, or - for
    /// standard input: all together are one set
    #[arg(value_name = "FILE|DIR|-", required_unless_present = "filenames")]
    pub paths: Vec<PathBuf>,
    /// Policy files, as with kubectl: the same as without -f; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    pub filenames: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ProblemsFormat::Text)]
    pub output: ProblemsFormat,
    /// Minimum severity that causes an exit code other than 0
    #[arg(long, value_enum, default_value_t = FailOnProblem::Problem, value_name = "WHAT")]
    pub fail_on: FailOnProblem,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// The output formats of `policy check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProblemsFormat {
    /// For people
    Text,
    /// JSON Lines: records of type problem (errors, warnings and notes), policy and summary
    Json,
    /// Annotations of a GitHub Actions workflow
    Github,
}

/// The minimum severity that causes an exit code other than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOnProblem {
    /// Problems, which make the files unusable
    Problem,
    /// Also warnings
    Warn,
}

/// The record at the end.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "summary")]
struct Summary {
    files: usize,
    policies: usize,
    problems: usize,
    warnings: usize,
    notes: usize,
}

/// The record of one policy.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "policy")]
struct PolicyRecord<'a> {
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    #[serde(flatten)]
    origin: Origin,
    /// What it matches, as text.
    matches: String,
}

/// Checks policy files and lists the policies.
pub fn run(args: &PolicyCheckArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let files = policy_files::read_with_stdin("policy check", &policies_of(args, io)?, io.stdin)?;
    let sources = PolicySources::new(&files.texts);
    let now = Timestamp::now().as_second();
    let loaded = PolicySet::load(&files).map(|set| set.at(now));
    let problems = loaded.as_ref().err().map_or(&[][..], Vec::as_slice);
    let warned: Vec<Problem> = loaded.iter().flat_map(warnings).map(|warning| sources.problem_of(&warning)).collect();
    let noted: Vec<Problem> =
        loaded.iter().flat_map(|set| notes(set, now)).map(|note| sources.problem_of(&note)).collect();
    for (severity, all) in [
        (DiagnosticSeverity::Error, problems),
        (DiagnosticSeverity::Warning, &warned),
        (DiagnosticSeverity::Note, &noted),
    ] {
        for problem in all {
            write(problem, severity, &sources, args.output, io)?;
        }
    }
    let policies = loaded.as_ref().map(records).unwrap_or_default();
    match args.output {
        ProblemsFormat::Text if !policies.is_empty() => list(&policies, io)?,
        ProblemsFormat::Json => policies.iter().try_for_each(|policy| write_line(io.stdout, policy))?,
        ProblemsFormat::Text | ProblemsFormat::Github => {}
    }
    let summary = Summary {
        files: files.texts.len(),
        policies: policies.len(),
        problems: problems.len(),
        warnings: warned.len(),
        notes: noted.len(),
    };
    if args.output == ProblemsFormat::Json {
        write_line(io.stdout, &summary)?;
    }
    let files = counted(summary.files, "file");
    if problems.is_empty() {
        let warned = match warned.len() {
            0 => String::new(),
            count => format!(", {}", counted(count, "warning")),
        };
        let policies = counted(policies.len(), "policy");
        io.eprintln(format_args!("{files}, {policies}, no problem{warned}"))?;
    } else {
        let found = counted(problems.len(), "problem");
        io.eprintln(format_args!(
            "{files}, {found}: the policies cannot be used, and a running Mullion stays with its last good ones"
        ))?;
    }
    Ok(match (problems.is_empty(), warned.is_empty(), args.fail_on) {
        (false, _, _) => Outcome::Unreadable,
        (true, false, FailOnProblem::Warn) => Outcome::Findings,
        (true, _, _) => Outcome::Clean,
    })
}

/// The paths without test cases, because Git hooks pass every changed file.
fn policies_of(args: &PolicyCheckArgs, io: &mut Io<'_>) -> anyhow::Result<Vec<PathBuf>> {
    let paths = expanded(args.paths.iter().chain(&args.filenames).cloned().collect()).map_err(anyhow::Error::msg)?;
    let (tests, others): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.into_iter().partition(|path| is_test_file(path) && !path.is_dir());
    for test in &tests {
        io.eprintln(format_args!(
            "{}: left out, because it contains test cases; run them with mullion policy test",
            test.display()
        ))?;
    }
    ensure!(!others.is_empty(), "policy check: there are only test cases; run them with mullion policy test");
    Ok(others)
}

fn write(
    problem: &Problem,
    severity: DiagnosticSeverity,
    sources: &PolicySources<'_>,
    format: ProblemsFormat,
    io: &mut Io<'_>,
) -> anyhow::Result<()> {
    match format {
        ProblemsFormat::Text => {
            let message = sources.message(problem, severity).render(io.colour_stdout);
            io.stdout.write_all(message.as_bytes())?;
        }
        ProblemsFormat::Json => write_line(io.stdout, &sources.record(problem, severity))?,
        ProblemsFormat::Github => io.stdout.write_all(sources.command(problem, severity).as_bytes())?,
    }
    Ok(())
}

/// The `PodPolicy` records of the files, the highest priority first, then the others.
fn records(set: &PolicySet) -> Vec<PolicyRecord<'_>> {
    let pods = set.own().chain(&set.ended).map(|policy| PolicyRecord {
        kind: "PodPolicy",
        name: &policy.name,
        priority: policy.priority,
        mode: policy.mode(),
        origin: policy.origin(""),
        matches: match &policy.until {
            Some(until) => format!("{}, until {}", policy.matches, until.text),
            None => policy.matches.to_string(),
        },
    });
    let others = set.documents.iter().filter(|document| document.kind != "PodPolicy").map(|document| {
        let (mode, matches) = match document.kind {
            "NodePolicy" => (Some(set.nodes.mode), "every Windows node"),
            _ => (None, "every registry"),
        };
        PolicyRecord {
            kind: document.kind,
            name: &document.name,
            priority: None,
            mode,
            origin: document.origin.clone(),
            matches: matches.to_owned(),
        }
    });
    pods.chain(others).collect()
}

fn list(policies: &[PolicyRecord<'_>], io: &mut Io<'_>) -> io::Result<()> {
    let rows = policies.iter().map(|policy| {
        let PolicyRecord { kind, name, priority, mode, origin, matches } = policy;
        let priority = priority.map_or_else(|| "-".to_owned(), |priority| priority.to_string());
        let mode = mode.map_or_else(|| "-".to_owned(), |mode| format!("{mode:?}"));
        [(*kind).to_owned(), priority, (*name).to_owned(), mode, origin.to_string(), matches.clone()]
    });
    table::write(io.stdout, io.width, Some(["KIND", "PRIORITY", "NAME", "MODE", "WHERE", "MATCHES"]), rows)
}

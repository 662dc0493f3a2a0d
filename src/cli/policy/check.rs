//! `mullion policy check`: everything that is wrong with policy files, and what there is if nothing is.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::workload_settings::Mode;
use mullion_engine::model::text::counted;
use mullion_manifest::problem::Problem;
use mullion_policy::file_names::is_test_file;
use mullion_policy::policy_file::PolicyDocument;
use mullion_policy::policy_set::PolicySet;
use mullion_policy::warnings::all_warnings::warnings;
use serde::Serialize;

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::policy_files;
use crate::cli::usage_error::UsageError;
use crate::report::json::write_line;
use crate::report::problem::Sources;
use crate::report::table;
use crate::report::text::Severity;

/// Arguments of `policy check`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit code: 0; 1 for warnings with --fail-on warn; 2 for files that cannot be used. The highest that applies."
)]
pub struct Check {
    /// Policy files, directories of them (*.yaml, *.yml, *.json), manifests of ConfigMaps that hold some, or - for standard
    /// input: all together are one set
    #[arg(value_name = "FILE|DIR|-", required = true)]
    pub paths: Vec<PathBuf>,
    /// How problems are written
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// From what on the exit code is not 0
    #[arg(long, value_enum, default_value_t = FailOn::Problem, value_name = "WHAT")]
    pub fail_on: FailOn,
}

/// How problems are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// JSON Lines: records of type problem, policy and summary
    Json,
    /// Annotations of a GitHub Actions workflow
    Github,
}

/// From what on the exit code is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// What makes the files unusable
    Problem,
    /// Warnings, too
    Warn,
}

/// The last line.
#[derive(Debug, Serialize)]
struct Summary {
    r#type: &'static str,
    files: usize,
    policies: usize,
    problems: usize,
    warnings: usize,
}

/// One policy, in the order in which they decide.
#[derive(Debug, Serialize)]
struct PolicyRecord<'a> {
    r#type: &'static str,
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    file: &'a str,
    line: u32,
    /// In words.
    matches: String,
}

/// Checks.
pub fn run(args: &Check, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let files = policy_files::read_with_stdin("policy check", &policies_of(args, io)?, io.stdin)?;
    let sources = Sources::new(&files.texts);
    let loaded = PolicySet::load(&files);
    let problems = loaded.as_ref().err().map_or(&[][..], Vec::as_slice);
    let warned: Vec<Problem> = loaded.iter().flat_map(warnings).map(|warning| sources.warned(&warning)).collect();
    for (severity, all) in [(Severity::Error, problems), (Severity::Warning, &warned)] {
        for problem in all {
            write(problem, severity, &sources, args.output, io)?;
        }
    }
    let policies = loaded.as_ref().map(records).unwrap_or_default();
    match args.output {
        Format::Text if !policies.is_empty() => list(&policies, io)?,
        Format::Json => policies.iter().try_for_each(|policy| write_line(io.stdout, policy))?,
        Format::Text | Format::Github => {}
    }
    let summary = Summary {
        r#type: "summary",
        files: files.texts.len(),
        policies: policies.len(),
        problems: problems.len(),
        warnings: warned.len(),
    };
    if args.output == Format::Json {
        write_line(io.stdout, &summary)?;
    }
    let files = counted(summary.files, "file");
    if problems.is_empty() {
        let warned = match warned.len() {
            0 => String::new(),
            count => format!(", {}", counted(count, "warning")),
        };
        let policies = counted(policies.len(), "policy");
        io.say(format_args!("{files}, {policies}, no problem{warned}"))?;
    } else {
        let found = counted(problems.len(), "problem");
        io.say(format_args!(
            "{files}, {found}: the policies cannot be used, and a running Mullion stays with its last good ones"
        ))?;
    }
    Ok(match (problems.is_empty(), warned.is_empty(), args.fail_on) {
        (false, _, _) => Outcome::Unreadable,
        (true, false, FailOn::Warn) => Outcome::Findings,
        (true, _, _) => Outcome::Clean,
    })
}

/// The paths without test cases: hooks of Git name each file that changed.
fn policies_of(args: &Check, io: &mut Io<'_>) -> anyhow::Result<Vec<PathBuf>> {
    let (tests, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.paths.iter().partition(|path| is_test_file(path) && !path.is_dir());
    for test in &tests {
        io.say(format_args!("{}: left out, it holds test cases; run them with mullion policy test", test.display()))?;
    }
    if others.is_empty() {
        return Err(UsageError("policy check: there is nothing to check but test cases".to_owned()).into());
    }
    Ok(others.into_iter().cloned().collect())
}

fn write(
    problem: &Problem,
    severity: Severity,
    sources: &Sources<'_>,
    format: Format,
    io: &mut Io<'_>,
) -> anyhow::Result<()> {
    match format {
        Format::Text => {
            let message = sources.message(problem, severity).render(io.colour_stdout);
            io.stdout.write_all(message.as_bytes())?;
        }
        Format::Json => write_line(io.stdout, &sources.record(problem, severity))?,
        Format::Github => io.stdout.write_all(sources.command(problem, severity).as_bytes())?,
    }
    Ok(())
}

/// Those for pods in the order in which they decide, then the others.
fn records<'a>(set: &'a PolicySet) -> Vec<PolicyRecord<'a>> {
    let of_pods = |document: &&PolicyDocument| document.kind == "PodPolicy";
    let places: BTreeMap<&str, &Origin> =
        set.documents.iter().filter(of_pods).map(|document| (&*document.name, &document.origin)).collect();
    let record = |kind, name, origin: &'a Origin| PolicyRecord {
        r#type: "policy",
        kind,
        name,
        priority: None,
        mode: None,
        file: &origin.file,
        line: origin.line,
        matches: String::new(),
    };
    let pods = set.pods.iter().filter_map(|policy| {
        Some(PolicyRecord {
            priority: Some(policy.priority),
            mode: policy.mode(),
            matches: policy.matches.to_string(),
            ..record("PodPolicy", &policy.name, places.get(&*policy.name)?)
        })
    });
    let others = set.documents.iter().filter(|document| !of_pods(document)).map(|document| {
        let (mode, matches) = match document.kind {
            "NodePolicy" => (Some(set.nodes.mode), "every Windows node"),
            _ => (None, "every registry"),
        };
        let matches = matches.to_owned();
        PolicyRecord { mode, matches, ..record(document.kind, &document.name, &document.origin) }
    });
    pods.chain(others).collect()
}

fn list(policies: &[PolicyRecord<'_>], io: &mut Io<'_>) -> io::Result<()> {
    let head = ["KIND", "PRIORITY", "NAME", "MODE", "WHERE", "MATCHES"].map(str::to_owned);
    let rows = policies.iter().map(|policy| {
        let PolicyRecord { kind, name, priority, mode, file, line, matches, .. } = policy;
        let priority = priority.map_or_else(|| "-".to_owned(), |priority| priority.to_string());
        let mode = mode.map_or_else(|| "-".to_owned(), |mode| format!("{mode:?}"));
        [(*kind).to_owned(), priority, (*name).to_owned(), mode, format!("{file}:{line}"), matches.clone()]
    });
    table::write(io.stdout, &std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

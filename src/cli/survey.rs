//! Arguments of `mullion survey`, and the command.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use mullion_survey::facts::SURVEY_TABLES;
use mullion_survey::report::Severity;
use mullion_survey::{Redaction, SurveyReport, compare, read_report, survey};

use crate::cli::async_runtime::block_on;
use crate::cli::input::read_file;
use crate::cli::inventory;
use crate::cli::inventory::InventoryArgs;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::report::ReportFormat;
use crate::report::survey::write;

/// Arguments of `survey`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion survey --context prod\n\
    \x20 mullion survey cluster.json -n shop\n\
    \x20 mullion survey cluster.json -o html --output-file survey.html\n\n\
    Without FILE, the cluster of the current context is read. You can also pass one dump:

  kubectl get nodes,pods,namespaces,events,deployments,replicasets,statefulsets,daemonsets,jobs,cronjobs,\
replicationcontrollers,runtimeclasses,poddisruptionbudgets,horizontalpodautoscalers,csinodes,networkpolicies,\
persistentvolumeclaims,persistentvolumes,storageclasses,csidrivers -A -o json | mullion survey -

Exit code: 0 for a report; 1 for what --fail-on names; 2 for input or policies that cannot be read. The highest that applies.")]
pub struct SurveyArgs {
    /// What to survey.
    #[command(flatten)]
    pub input: InventoryArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    /// Print every finding and every workload (with -o text or markdown)
    #[arg(long)]
    pub details: bool,
    /// Also report what improved, got worse or moved since an earlier report (JSON)
    #[arg(long, value_name = "EARLIER.json")]
    pub against: Option<PathBuf>,
    /// Replace the names of objects, images and clusters, each by the same replacement everywhere
    #[arg(long, conflicts_with = "save")]
    pub redact: bool,
    /// What causes exit code 1: a minimum severity, a list that was not read; may be given more than once
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub fail_on: Vec<FailOnSurvey>,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// What causes exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOnSurvey {
    /// Findings about what does not work now
    #[value(alias = "deny")]
    Problem,
    /// Also findings about what works only by chance
    #[value(alias = "warn")]
    Warning,
    /// A list that was not read, or that is not in a dump
    Unread,
}

/// Surveys the inputs and writes the report.
pub(crate) fn run(args: &SurveyArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let earlier = args.against.as_deref().map(read_earlier).transpose()?;
    let read = block_on(inventory::read_inventory("survey", &args.input, io))?;
    let Some(read) = read else { return Ok(Outcome::Unreadable) };
    let report = survey(&read.inventory, read.context());
    print(&report, earlier.as_ref(), args, io)?;
    read.print_age(&SURVEY_TABLES, args.output, io)?;
    Ok(if read.unreadable > 0 { Outcome::Unreadable } else { outcome(&report, &args.fail_on) })
}

/// The report of `--against`.
fn read_earlier(path: &Path) -> anyhow::Result<SurveyReport> {
    let name = path.display();
    let bytes = read_file(path).with_context(|| format!("{name}: the earlier report cannot be read"))?;
    let text = String::from_utf8(bytes).with_context(|| format!("{name}: the earlier report is not UTF-8"))?;
    read_report(&text).with_context(|| name.to_string())
}

/// Writes the report to stdout, redacted and compared if the arguments require it.
fn print(
    report: &SurveyReport,
    earlier: Option<&SurveyReport>,
    args: &SurveyArgs,
    io: &mut Io<'_>,
) -> anyhow::Result<()> {
    let reports: Vec<&SurveyReport> = [report].into_iter().chain(earlier).collect();
    let redaction = args.redact.then(|| Redaction::of(&reports)).transpose()?;
    let shown = |report: &SurveyReport| match &redaction {
        Some(redaction) => redaction.apply(report),
        None => Ok(report.clone()),
    };
    let report = shown(report)?;
    let comparison = earlier.map(shown).transpose()?.map(|earlier| compare(&earlier, &report));
    Ok(write(&report, comparison.as_ref(), args.output, io.render_options(args.details), io.stdout)?)
}

fn outcome(report: &SurveyReport, fail_on: &[FailOnSurvey]) -> Outcome {
    // The most important severity is the smallest value.
    let has = |least: Severity| report.findings.iter().any(|finding| finding.severity <= least);
    let fails = fail_on.iter().any(|what| match what {
        FailOnSurvey::Problem => has(Severity::Problem),
        FailOnSurvey::Warning => has(Severity::Warning),
        FailOnSurvey::Unread => report.coverage.is_partial(),
    });
    if fails { Outcome::Findings } else { Outcome::Clean }
}

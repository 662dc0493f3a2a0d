//! Arguments of `mullion survey`, and the command.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use mullion_engine::model::text::list_first;
use mullion_survey::report::{Severity, Source};
use mullion_survey::{
    InventoryReader, Lifecycle, Redaction, SurveyContext, SurveyReport, catalogue, compare, read_report, survey,
};

use crate::cli::cluster_arguments::ClusterArguments;
use crate::cli::input::read_file;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::policy_files;
use crate::cli::survey::saved::SavedInventory;
use crate::cli::survey::{dumps, live};
use crate::report::survey::{Explanation, SurveyFormat, SurveyOptions, write};

/// Arguments of `survey`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Without FILE, the cluster of the current context is read. One dump is enough as well:

  kubectl get nodes,pods,namespaces,events,deployments,replicasets,statefulsets,daemonsets,jobs,cronjobs,\
replicationcontrollers,runtimeclasses,poddisruptionbudgets,horizontalpodautoscalers -A -o json | mullion survey -

Exit code: 0 for a report; 1 for findings at --fail-on; 2 for input or policies that cannot be read. The highest that applies.")]
pub struct SurveyArgs {
    /// Dumps of a cluster, JSON or YAML, also packed with gzip: files, directories (*.json, *.yaml, *.yml, *.gz, recursive), or - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    pub paths: Vec<PathBuf>,
    /// Policies: files or directories; may be given more than once. Default: the built-in ones
    #[arg(long, value_name = "FILE|DIR")]
    pub policies: Vec<PathBuf>,
    /// Write what was read to a file, without values of environment variables and command lines; survey reads it again
    #[arg(long, value_name = "FILE.gz")]
    pub save: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = SurveyFormat::Text)]
    pub output: SurveyFormat,
    /// Print every finding and every workload (with -o text or markdown)
    #[arg(long)]
    pub details: bool,
    /// Also report what is better, worse or elsewhere than in an earlier report (JSON)
    #[arg(long, value_name = "EARLIER.json")]
    pub against: Option<PathBuf>,
    /// Replace the names of objects, images and clusters, each by the same word everywhere
    #[arg(long, conflicts_with = "save")]
    pub redact: bool,
    /// Day on which dates count as passed: 2027-04-01. Default: the current day
    #[arg(long, value_name = "DATE")]
    pub today: Option<Date>,
    /// Minimum severity that causes exit code 1
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub fail_on: Option<FailOnSeverity>,
    /// The cluster, if no file is named.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// The minimum severity that causes exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOnSeverity {
    /// What does not work now
    Problem,
    /// What works by luck, too
    Warning,
}

/// The most inputs that the report names.
const NAMED: usize = 3;

/// Surveys the inputs and writes the report.
pub(crate) fn run(args: &SurveyArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let is_live = args.paths.is_empty();
    let ClusterArguments { context, kubeconfig, impersonated_user, impersonated_groups: _ } = &args.cluster;
    ensure!(
        is_live || (context.is_none() && kubeconfig.is_none() && impersonated_user.is_none()),
        "survey: either files or a cluster; without files, --context and the like name the cluster"
    );
    let earlier = args.against.as_deref().map(read_earlier).transpose()?;
    let policies = policy_files::load(&args.policies)?;
    let mut saved = args.save.as_deref().map(SavedInventory::create).transpose()?;
    let mut reader = InventoryReader::default();
    let (cluster, unreadable) = if is_live {
        (live::read(&args.cluster, &mut reader, &mut saved, io)?, 0)
    } else {
        let names: Vec<String> = args.paths.iter().map(|path| shown_name(path)).collect();
        (list_first(&names, NAMED), dumps::read(&args.paths, &mut reader, &mut saved, io)?)
    };
    if reader.is_empty() {
        io.eprintln("nothing to survey: there is no object of a cluster in the input")?;
        return Ok(Outcome::Unreadable);
    }
    if let Some(saved) = saved {
        saved.finish(&reader.saved_end())?;
    }
    let inventory = reader.finish();
    let lifecycle = Lifecycle::built_in();
    let report = survey(
        &inventory,
        SurveyContext {
            cluster: &cluster,
            source: if is_live { Source::Cluster } else { Source::Dump },
            today: args.today.unwrap_or_else(|| Timestamp::now().to_zoned(TimeZone::UTC).date()),
            mullion: env!("CARGO_PKG_VERSION"),
            policies: &policies,
            lifecycle: &lifecycle,
        },
    );
    print(&report, earlier.as_ref(), args, io)?;
    Ok(if unreadable > 0 { Outcome::Unreadable } else { outcome(&report, args.fail_on) })
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
    let explanations = explanations();
    let options = SurveyOptions {
        details: args.details,
        colour: io.colour_stdout,
        width: width(),
        comparison: comparison.as_ref(),
        explanations: &explanations,
    };
    Ok(write(&report, args.output, &options, io.stdout)?)
}

/// The pages of all findings.
fn explanations() -> Vec<Explanation> {
    let page = |kind: &catalogue::FindingKind| Explanation {
        code: kind.code.to_owned(),
        name: kind.name.to_owned(),
        what: kind.what.to_owned(),
        why: kind.why.to_owned(),
        fix: kind.fix.to_owned(),
        sources: kind.sources.iter().map(|&source| source.to_owned()).collect(),
    };
    catalogue::FINDINGS.iter().map(page).collect()
}

/// The width of text, in characters: that of the terminal.
fn width() -> usize {
    let stdout = io::stdout();
    let columns = stdout.is_terminal().then(|| terminal_size::terminal_size_of(&stdout)).flatten();
    columns.map_or(SurveyOptions::default().width, |(width, _)| usize::from(width.0))
}

fn shown_name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}

fn outcome(report: &SurveyReport, fail_on: Option<FailOnSeverity>) -> Outcome {
    let least = match fail_on {
        None => return Outcome::Clean,
        Some(FailOnSeverity::Problem) => Severity::Problem,
        Some(FailOnSeverity::Warning) => Severity::Warning,
    };
    // The most important severity is the least of them.
    if report.findings.iter().any(|finding| finding.severity <= least) { Outcome::Findings } else { Outcome::Clean }
}

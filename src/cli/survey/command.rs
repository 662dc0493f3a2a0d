//! Arguments of `mullion survey`, and the command.

use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use mullion_engine::model::text::list_first;
use mullion_survey::report::{Severity, Source};
use mullion_survey::{InventoryReader, Lifecycle, SurveyContext, SurveyReport, survey};

use crate::cli::cluster_arguments::ClusterArguments;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::policy_files;
use crate::cli::survey::saved::SavedInventory;
use crate::cli::survey::{dumps, live};

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
    #[arg(short, long, value_enum, default_value_t = SurveyFormat::Json)]
    pub output: SurveyFormat,
    /// Minimum severity that causes exit code 1
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub fail_on: Option<FailOnSeverity>,
    /// The cluster, if no file is named.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// The formats of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SurveyFormat {
    /// The whole report
    Json,
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
            today: Timestamp::now().to_zoned(TimeZone::UTC).date(),
            mullion: env!("CARGO_PKG_VERSION"),
            policies: &policies,
            lifecycle: &lifecycle,
        },
    );
    write(&report, args.output, io.stdout)?;
    Ok(if unreadable > 0 { Outcome::Unreadable } else { outcome(&report, args.fail_on) })
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

fn write(report: &SurveyReport, format: SurveyFormat, out: &mut dyn Write) -> io::Result<()> {
    match format {
        SurveyFormat::Json => {
            serde_json::to_writer_pretty(&mut *out, report)?;
            writeln!(out)
        }
    }
}

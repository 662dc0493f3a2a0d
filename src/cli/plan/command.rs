//! Arguments of `mullion plan`, and the command.

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use mullion_engine::model::text::list_with;
use mullion_engine::model::windows::{Build, known_host_builds, release_name};
use mullion_plan::report::{ConstraintState, PlanReport, Verdict};
use mullion_plan::{PlanContext, plan};
use mullion_survey::facts::FactsTable;

use crate::cli::async_runtime::block_on;
use crate::cli::inventory;
use crate::cli::inventory::InventoryArgs;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::plan::registry;
use crate::cli::plan::registry_cache::RegistryCache;
use crate::cli::plan::script::{ScriptShell, write_scripts};
use crate::cli::plan::write_files::write_files;
use crate::cli::release_argument::release_argument;
use crate::report::ReportFormat;
use crate::report::plan::write;

/// Arguments of `plan`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion plan --to ltsc2025 --context prod\n\
    \x20 mullion plan --to ltsc2025 cluster.json -o html --output-file plan.html\n\n\
    Without FILE, the cluster of the current context is read; you can also pass a dump that `mullion survey` reads.

A look-up without a result is part of the report and does not change the exit code.

Exit code: 0 for a report; 1 for what --fail-on names; 2 for input or policies that cannot be read. The highest that applies.")]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct PlanArgs {
    /// What to plan for.
    #[command(flatten)]
    pub input: InventoryArgs,
    /// The release to which the fleet moves: ltsc2025, 2025, 26100 or 10.0.26100
    #[arg(long, value_name = "RELEASE")]
    pub to: String,
    /// The release that is replaced, in the same forms. Default: all older releases
    #[arg(long, value_name = "RELEASE")]
    pub from: Option<String>,
    /// The provider whose limits and commands apply. Default: detected from the labels of the nodes
    #[arg(long, value_enum)]
    pub provider: Option<ProviderName>,
    /// The minor version of Kubernetes at the end of the move: 1.36. Default: the current versions
    #[arg(long, value_name = "VERSION")]
    pub kubernetes: Option<String>,
    /// Require images of exactly the target's build, as some vendors recommend
    #[arg(long)]
    pub strict_match: bool,
    /// Look up the images of the affected workloads and the proposed tags in their registries, with the logins of ~/.docker/config.json
    #[arg(long)]
    pub registry: bool,
    /// A file that caches results of registries. Without --registry, only this file is used
    #[arg(long, value_name = "FILE")]
    pub registry_cache: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    pub output: ReportFormat,
    /// Print every workload, edit and source (with -o text or markdown)
    #[arg(long)]
    pub details: bool,
    /// Write the edits into the manifests below a directory (*.yaml, *.yml, *.json), and change nothing else
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
    /// Also write tags that neither a registry nor the table of images confirms
    #[arg(long, requires = "write")]
    pub include_guesses: bool,
    /// Write a script for each step and one for its undo into a directory. They ask before they run anything, and
    /// commands that delete, drain or upgrade are comments in them. No file is replaced
    #[arg(long, value_name = "DIR")]
    pub script: Option<PathBuf>,
    /// The shell of the scripts
    #[arg(long, value_enum, default_value_t, value_name = "SHELL", requires = "script")]
    pub shell: ScriptShell,
    /// What causes exit code 1; may be given more than once
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub fail_on: Vec<FailOnPlan>,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// A provider of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "names of products")]
pub enum ProviderName {
    Aks,
    Eks,
    Gke,
    Rke2,
    Openshift,
    /// No provider: only what Kubernetes itself limits
    None,
}

impl ProviderName {
    /// As in the tables; empty: none.
    fn name(self) -> &'static str {
        match self {
            Self::Aks => "AKS",
            Self::Eks => "EKS",
            Self::Gke => "GKE",
            Self::Rke2 => "RKE2",
            Self::Openshift => "OpenShift",
            Self::None => "",
        }
    }
}

/// What causes exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOnPlan {
    /// What blocks the move: a constraint that is not met, a rebuild, an unknown image
    Blocked,
    /// Also every change of a tag
    Change,
    /// A list that was not read, or that is not in a dump
    Unread,
}

/// Plans the move and writes the report.
pub(crate) fn run(args: &PlanArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let target = target_release(&args.to)?;
    let from = args.from.as_deref().map(|name| release_argument("--from", name, &[])).transpose()?;
    ensure!(
        from != Some(target),
        "--from and --to name the same release; name the release that the fleet has now in --from"
    );
    let kubernetes = args.kubernetes.as_deref().map(minor_version).transpose()?;
    let mut cache = args.registry_cache.as_deref().map(|path| RegistryCache::open(path, args.registry)).transpose()?;
    let read = block_on(inventory::read_inventory("plan", &args.input, io))?;
    let Some(mut read) = read else { return Ok(Outcome::Unreadable) };
    let mut inventory = std::mem::take(&mut read.inventory);
    let context = PlanContext {
        survey: read.context(),
        policies_given: read.policies_given,
        facts_file: read.facts_file.as_deref(),
        target,
        from,
        provider: args.provider.map(ProviderName::name),
        kubernetes,
        strict_match: args.strict_match,
    };
    if let Some(cache) = cache.as_ref().filter(|_| args.registry) {
        inventory.add_images(cache.found());
    }
    if args.registry {
        registry::ask(&mut inventory, context, cache.as_mut(), io)?;
    }
    if let Some(cache) = cache {
        inventory.add_images(cache.into_reported());
    }
    let report = plan(&inventory, context);
    write(&report, args.output, io.render_options(args.details), io.stdout)?;
    read.print_age(&FactsTable::ALL, args.output, io)?;
    let mut unwritten = 0;
    if let Some(directory) = &args.write {
        unwritten = write_files(&report, directory, args.include_guesses, io)?;
    }
    if let Some(directory) = &args.script {
        write_scripts(&report, directory, args.shell, io)?;
    }
    Ok(if read.unreadable + unwritten > 0 { Outcome::Unreadable } else { outcome(&report, &args.fail_on) })
}

/// The build of the release to which the fleet moves: a Windows Server release with a name.
fn target_release(text: &str) -> anyhow::Result<Build> {
    let build = release_argument("--to", text, &[])?;
    let named = || known_host_builds().map(|build| (build, release_name(build, &[])));
    let named = || named().filter(|(_, name)| !name.starts_with("build-"));
    ensure!(
        named().any(|(known, _)| known == build),
        "--to {text}: {build} is not a release to which a fleet moves; write one of {}",
        list_with(named().map(|(_, name)| name), "or")
    );
    Ok(build)
}

/// `1.36`, also of `v1.36.2`.
fn minor_version(text: &str) -> anyhow::Result<&str> {
    let version = text.strip_prefix('v').unwrap_or(text);
    let mut parts = version.splitn(3, '.');
    let is_number = |part: Option<&str>| part.is_some_and(|part| part.len() < 4 && part.parse::<u16>().is_ok());
    ensure!(
        is_number(parts.next()) && is_number(parts.next()),
        "--kubernetes: `{text}` is not a version; write a minor version, as 1.36"
    );
    let end = version.match_indices('.').nth(1).map_or(version.len(), |(at, _)| at);
    Ok(version.get(..end).unwrap_or(version))
}

fn outcome(report: &PlanReport, fail_on: &[FailOnPlan]) -> Outcome {
    let is_unmet = report.constraints.iter().any(|constraint| constraint.state == ConstraintState::NotMet);
    let moving = report.workloads.iter().filter(|workload| workload.step.is_some());
    let worst = moving.map(|workload| workload.verdict).max();
    let fails = fail_on.iter().any(|what| match what {
        FailOnPlan::Blocked => is_unmet || worst >= Some(Verdict::Unknown),
        FailOnPlan::Change => is_unmet || worst >= Some(Verdict::AnotherTag),
        FailOnPlan::Unread => report.coverage.is_partial(),
    });
    if fails { Outcome::Findings } else { Outcome::Clean }
}

//! The command: reads, checks, prints, and with `--wait` repeats that until Mullion works.

use std::time::Duration;

use clap::Args;
use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use crate::cli::async_runtime::block_on;
use crate::cli::cluster_arguments::ClusterArguments;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::output_format::OutputFormat;
use crate::cli::status::checks::{checks, not_installed};
use crate::cli::status::gather::{Gathered, gather};
use crate::cli::status::output::StatusReport;
use crate::cli::time_limit::time_limit;
use crate::cluster::connect::ClusterConnection;
use crate::cluster::reading::ClusterReader;

/// The interval at which `--wait` repeats the checks.
const INTERVAL: Duration = Duration::from_secs(2);

/// Arguments of `status`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion status\n\
    \x20 mullion status --context prod --wait --timeout 2m\n\n\
    The command reads no Secrets. The rights that it needs are in ClusterRole mullion-reader of the chart; \
    with fewer rights, it prints which checks are not known.\n\nExit code: 0 if nothing needs attention; 1 if something does, or \
    is not known; 2 if the cluster cannot be read, or for wrong usage.")]
pub struct StatusArgs {
    /// Namespace of Mullion. Default: the namespace of the Service that the webhook configurations named mullion call
    #[arg(short, long, value_name = "NS")]
    pub namespace: Option<String>,
    /// Wait until Mullion works, for scripts. The section Workloads, which only people can correct, is printed, but does
    /// not extend the wait or change the exit code
    #[arg(long)]
    pub wait: bool,
    /// Time limit of --wait: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time_limit, requires = "wait")]
    pub timeout: Duration,
    /// Output format; JSON is one object
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// Prints the status of Mullion in the cluster.
pub(crate) fn run(args: &StatusArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    block_on(start(args, io))
}

async fn start(args: &StatusArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let connection = args.cluster.connect().await?;
    let read = || read_status(args, &connection).boxed_local();
    // If the cluster does not respond at the start, there is nothing to wait for.
    let mut report = Ok(read().await?);
    if args.wait {
        let end = Instant::now() + args.timeout;
        let mut printed = String::new();
        loop {
            let waited_for = match &report {
                Ok(report) => report.waited_for(),
                Err(error) => format!("{error:#}"),
            };
            if waited_for.is_empty() {
                break;
            }
            if waited_for != printed {
                io.eprintln(format_args!("waiting for {waited_for}"))?;
                printed = waited_for;
            }
            if Instant::now() + INTERVAL > end {
                io.eprintln(format_args!("not done within {} s", args.timeout.as_secs_f64()))?;
                break;
            }
            sleep(INTERVAL).await;
            report = read().await;
        }
    }
    let report = report?;
    match args.output {
        OutputFormat::Text => report.write_text(io)?,
        OutputFormat::Json => report.write_json(io)?,
    }
    let is_good = if args.wait { report.waited_for().is_empty() } else { !report.needs_a_person() };
    Ok(if is_good { Outcome::Clean } else { Outcome::Findings })
}

async fn read_status(args: &StatusArgs, connection: &ClusterConnection) -> anyhow::Result<StatusReport> {
    let gathered = gather(&ClusterReader::new(connection), args.namespace.as_deref()).await?;
    let (context, now) = (&connection.context, Timestamp::now());
    Ok(match gathered {
        Gathered::Installed(facts) => StatusReport::new(context, Some(&facts.namespace), checks(&facts, now), now),
        Gathered::NotInstalled(unread) => {
            StatusReport::new(context, None, vec![not_installed(args.namespace.as_deref(), &unread)], now)
        }
    })
}

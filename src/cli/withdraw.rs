//! `mullion withdraw`: removes Mullion's labels and taints from the nodes of a cluster; the chart's pre-delete Job.
//!
//! [`crate::controller::withdraw`] lists the permissions that it needs.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use mullion_engine::model::settings::NodeSettings;
use mullion_engine::model::text::counted;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::cli::async_runtime::block_on;
use crate::cli::cluster_arguments::ClusterArguments;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_format::OutputFormat;
use crate::cli::policy_files::PolicySelection;
use crate::cli::progress::Progress;
use crate::cli::time_limit::time_limit;
use crate::cluster::connect;
use crate::cluster::reading::{ClusterReader, ListQuery, NODES};
use crate::controller::withdraw::{
    ClassUsers, ControllerStatus, Remainder, WithdrawOptions, WithdrawProgress, WithdrawReport, undo, withdraw,
};
use crate::report::write_line;
use crate::server::tls::install_crypto;
use crate::shutdown_signals::Signals;

/// The number of nodes and remainders that text shows; JSON contains all.
const SHOWN: usize = 20;

/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 100;

/// Arguments of `withdraw`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion withdraw --context prod --dry-run\n\
    \x20 mullion withdraw --context prod\n\n\
    Controllers stop changing nodes, RuntimeClasses and pods until --undo, until ConfigMap \
    mullion-state is deleted, or until they are installed again.\n\nExit code: 0 if everything is removed; 1 if something remains that should be removed; 2 if nothing could be done.")]
pub struct WithdrawArgs {
    /// Directory with the policies that were in use. Needed if their taint differs from the built-in one and ConfigMap
    /// mullion-state is gone: only known taints are removed. May be given more than once
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// Namespace of Mullion. Default: the namespace of the Service that the webhook configurations named mullion call. Needed
    /// if these are deleted, or call a URL
    #[arg(short, long, value_name = "NS", alias = "lease-namespace")]
    pub namespace: Option<String>,
    /// Only print what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Let the controllers resume
    #[arg(long)]
    pub undo: bool,
    /// Do not ask on a terminal. Without a terminal, the command never asks
    #[arg(short, long)]
    pub yes: bool,
    /// Time limit: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time_limit)]
    pub timeout: Duration,
    /// Output format; JSON is one object per line
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
    /// The cluster. Without a terminal and without an argument that names one, it is that of the pod.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// Withdraws Mullion from the cluster, or undoes the withdrawal.
pub(crate) fn run(args: &WithdrawArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    install_crypto();
    block_on(start(args, io))
}

/// Why the command ended early.
#[derive(Clone, Copy)]
enum Early {
    Interrupted,
    Late,
}

async fn start(args: &WithdrawArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let policies = policies(args, io)?;
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    let client = if is_terminal || args.cluster.names_a_cluster() {
        let connection = args.cluster.connect().await?;
        if is_terminal || args.cluster.context.is_some() {
            let nodes = node_count(&ClusterReader::new(&connection)).await?;
            io.eprintln(format_args!("context {}, {nodes}", connection.context))?;
        }
        if is_terminal && !(args.yes || args.dry_run || args.undo) && !confirmed(io)? {
            io.eprintln("nothing was changed")?;
            return Ok(Outcome::Unreadable);
        }
        connection.client
    } else {
        // The Job of the chart.
        connect::client(None)?
    };
    let mut signals = Signals::install().context("cannot listen for signals")?;
    let options = WithdrawOptions { policies, namespace: args.namespace.clone(), dry_run: args.dry_run };
    let stop = CancellationToken::new();
    let mut progress = Progress::new("nodes");
    let mut show = |progressed| {
        // If progress cannot be displayed, the work continues.
        match progressed {
            WithdrawProgress::Nodes { done, all } => progress.at(io, done, all).ok(),
            WithdrawProgress::Note(note) => progress.end(io).and_then(|()| io.eprintln(note)).ok(),
        };
    };
    let mut early = None;
    let report = {
        let work = async {
            if args.undo {
                undo(client, &options, &stop).await
            } else {
                withdraw(client, &options, &stop, &mut show).await
            }
        };
        let too_late = sleep(args.timeout);
        tokio::pin!(work, too_late);
        loop {
            let why = tokio::select! {
                report = &mut work => break report?,
                _ = signals.next(), if early.is_none() => Early::Interrupted,
                () = &mut too_late, if early.is_none() => Early::Late,
            };
            early = Some(why);
            stop.cancel();
        }
    };
    progress.end(io)?;
    match args.output {
        OutputFormat::Text => text(args, &report, io)?,
        OutputFormat::Json => lines(args, &report, io)?,
    }
    match early {
        Some(Early::Interrupted) => io.eprintln("interrupted; run mullion withdraw again for the rest")?,
        Some(Early::Late) => {
            let seconds = args.timeout.as_secs_f64();
            io.eprintln(format_args!("not done within {seconds} s; run it again, with a longer --timeout"))?;
        }
        None => {}
    }
    Ok(if report.left.is_empty() && early.is_none() { Outcome::Clean } else { Outcome::Findings })
}

/// `12 nodes`.
async fn node_count(reader: &ClusterReader<'_>) -> anyhow::Result<String> {
    let read = reader.list(&NODES, ListQuery::default(), &mut |_| Ok(()), &mut |_, _| Ok(())).await?;
    Ok(read.map_or_else(|unread| format!("nodes not known: {unread}"), |count| counted(count, "node")))
}

/// Asks whether to go on.
fn confirmed(io: &mut Io<'_>) -> io::Result<bool> {
    write!(
        io.stderr,
        "mullion: Mullion's labels and taints are removed from all of them, its unused RuntimeClasses are deleted, and its \
         controllers stop. Go on? [y/N] "
    )?;
    io.stderr.flush()?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while answer.len() < MAX_ANSWER && io.stdin.read(&mut byte)? > 0 && byte != *b"\n" {
        answer.extend(byte);
    }
    Ok(["y", "yes"].contains(&String::from_utf8_lossy(&answer).trim().to_lowercase().as_str()))
}

/// Policies only identify Mullion's taints, so bad policies must not stop an uninstallation.
/// Those of the cluster and the built-in ones are known without them.
fn policies(args: &WithdrawArgs, io: &mut Io<'_>) -> anyhow::Result<Vec<NodeSettings>> {
    let selection = PolicySelection::new("withdraw", &args.policies)?;
    if !matches!(selection, PolicySelection::Paths(_)) {
        return Ok(Vec::new());
    }
    match selection.load() {
        Ok(set) => Ok(vec![set.nodes]),
        Err(bad) => {
            io.eprintln(format_args!("{bad}; continuing without these policies"))?;
            Ok(Vec::new())
        }
    }
}

fn text(args: &WithdrawArgs, report: &WithdrawReport, io: &mut Io<'_>) -> io::Result<()> {
    let would = if args.dry_run { "would be " } else { "" };
    io.println(format_args!("namespace {}: {}", report.namespace, status_text(report.controller)))?;
    if !args.undo {
        let cleaned = report.cleaned.len();
        io.println(format_args!("nodes: {cleaned} of {} {would}freed of Mullion", report.nodes))?;
        if args.dry_run {
            for (name, removed) in report.cleaned.iter().take(SHOWN) {
                io.println(format_args!("  {name}: {}", removed.join(", ")))?;
            }
            more(io, cleaned)?;
        }
        for (name, users) in &report.classes {
            io.println(format_args!("RuntimeClass {name}: {}", class_text(users, would)))?;
        }
        if is_nothing(report) {
            io.println("there is nothing to withdraw")?;
        }
    }
    for Remainder { what, why, help } in report.left.iter().take(SHOWN) {
        io.println(format_args!("left: {what}: {why}; {help}"))?;
    }
    more(io, report.left.len())
}

/// Whether no object of Mullion was found: it was never installed, or this is the wrong cluster.
fn is_nothing(report: &WithdrawReport) -> bool {
    report.controller == ControllerStatus::NeverWorked
        && report.cleaned.is_empty()
        && report.classes.is_empty()
        && report.left.is_empty()
}

fn more(io: &mut Io<'_>, all: usize) -> io::Result<()> {
    match all.saturating_sub(SHOWN) {
        0 => Ok(()),
        more => io.println(format_args!("  and {more} more, shown by -o json")),
    }
}

fn status_text(status: ControllerStatus) -> &'static str {
    match status {
        ControllerStatus::Stopped => "the controller has stopped",
        ControllerStatus::NoLeader => "no controller holds the lease",
        ControllerStatus::NeverWorked => "no controller of Mullion has worked here",
        ControllerStatus::Silent => "the controller did not report that it has stopped",
        ControllerStatus::NotNotified => "the controller could not be notified",
        ControllerStatus::DryRun => "the controller would be notified",
        ControllerStatus::Resumed => "controllers work again",
        ControllerStatus::AtWork => "was not withdrawn",
    }
}

fn class_text(ClassUsers { named_by, names }: &ClassUsers, would: &str) -> String {
    if *names == 0 {
        return format!("{would}deleted");
    }
    let more = names.saturating_sub(named_by.len());
    let more = if more == 0 { String::new() } else { format!(" and {}", counted(more, "other")) };
    format!("stays, named by {}{more}", named_by.join(", "))
}

/// An object per controller, node, RuntimeClass and remainder, and a summary at the end.
fn lines(args: &WithdrawArgs, report: &WithdrawReport, io: &mut Io<'_>) -> io::Result<()> {
    let WithdrawReport { namespace, controller, nodes, cleaned, classes, left } = report;
    write_line(io.stdout, &json!({"type": "controller", "namespace": namespace, "controller": controller}))?;
    for (name, removed) in cleaned {
        write_line(io.stdout, &json!({"type": "node", "name": name, "removed": removed}))?;
    }
    for (name, ClassUsers { named_by, names }) in classes {
        let class = json!({"type": "runtimeClass", "name": name, "deleted": *names == 0, "namedBy": named_by,
            "names": names});
        write_line(io.stdout, &class)?;
    }
    for Remainder { what, why, help } in left {
        write_line(io.stdout, &json!({"type": "left", "what": what, "why": why, "help": help}))?;
    }
    let deleted = classes.values().filter(|users| users.names == 0).count();
    let summary = json!({
        "type": "summary",
        "dryRun": args.dry_run,
        "nodes": nodes,
        "cleaned": cleaned.len(),
        "classesDeleted": deleted,
        "classesKept": classes.len() - deleted,
        "left": left.len(),
    });
    write_line(io.stdout, &summary)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::collections::BTreeMap;

    use clap::Parser as _;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_class_that_stays_is_shown_with_its_users() {
        let users = |named_by: &[&str], names| ClassUsers {
            named_by: named_by.iter().map(|&name| name.to_owned()).collect(),
            names,
        };
        assert_eq!(class_text(&users(&[], 0), "would be "), "would be deleted");
        assert_eq!(class_text(&users(&["Pod a/b"], 1), ""), "stays, named by Pod a/b");
        assert_eq!(class_text(&users(&["Pod a/b"], 3), ""), "stays, named by Pod a/b and 2 others");
    }

    /// The output about a report with `arguments`.
    fn shown(arguments: &[&str], report: &WithdrawReport) -> String {
        let cli =
            crate::cli::command_line::Cli::try_parse_from(["mullion", "withdraw"].iter().chain(arguments)).unwrap();
        let crate::cli::command_line::Command::Withdraw(args) = cli.command else { return String::new() };
        let mut stdout = Vec::new();
        let stdin = &mut io::empty();
        let io = &mut Io { stdin, stdout: &mut stdout, stderr: &mut io::sink(), colour_stdout: false, width: None };
        match args.output {
            OutputFormat::Text => text(&args, report, io).unwrap(),
            OutputFormat::Json => lines(&args, report, io).unwrap(),
        }
        String::from_utf8(stdout).unwrap()
    }

    #[test]
    fn only_yes_is_a_confirmation() {
        for (answer, expected) in [("y\nmore", true), (" YES \r\n", true), ("\n", false), ("", false), ("no\n", false)]
        {
            let (mut stdin, mut stderr) = (answer.as_bytes(), Vec::new());
            let (stdout, stderr) = (&mut io::sink(), &mut stderr);
            let mut io = Io { stdin: &mut stdin, stdout, stderr, colour_stdout: false, width: None };
            assert_eq!(confirmed(&mut io).unwrap(), expected, "{answer:?}");
        }
    }

    fn cleaned(name: &str, removed: &[&str]) -> BTreeMap<String, Vec<String>> {
        [(name.to_owned(), removed.iter().map(|&text| text.to_owned()).collect())].into()
    }

    #[test]
    fn an_empty_cluster_is_reported() {
        let mut report = WithdrawReport { nodes: 5, ..WithdrawReport::of("a") };
        let words = "namespace a: no controller of Mullion has worked here\n";
        let end = "there is nothing to withdraw\n";
        assert_eq!(shown(&[], &report), format!("{words}nodes: 0 of 5 freed of Mullion\n{end}"));
        assert_eq!(shown(&["--dry-run"], &report), format!("{words}nodes: 0 of 5 would be freed of Mullion\n{end}"));
        // A node that an earlier controller left unchanged, and a controller that has nothing left to do.
        report.cleaned = cleaned("w1", &["label a"]);
        assert!(!shown(&[], &report).contains("nothing"));
        report = WithdrawReport { controller: ControllerStatus::Stopped, ..WithdrawReport::of("a") };
        assert!(!shown(&[], &report).contains("nothing"));
    }

    #[test]
    fn the_text_shows_what_was_done_and_what_remains() {
        let left = |n| Remainder { what: format!("node w{n}"), why: "rejected".to_owned(), help: "ask".to_owned() };
        let report = WithdrawReport {
            namespace: "mullion".to_owned(),
            controller: ControllerStatus::Stopped,
            nodes: 9,
            cleaned: cleaned("w1", &["label a", "taint b"]),
            classes: [("c".to_owned(), ClassUsers::default())].into(),
            left: (0..22).map(left).collect(),
        };
        let done = shown(&[], &report);
        let head: Vec<&str> = done.lines().take(4).collect();
        assert_eq!(
            head,
            [
                "namespace mullion: the controller has stopped",
                "nodes: 1 of 9 freed of Mullion",
                "RuntimeClass c: deleted",
                "left: node w0: rejected; ask",
            ]
        );
        assert_eq!(done.lines().last(), Some("  and 2 more, shown by -o json"));
        assert!(shown(&["--dry-run"], &report).contains("1 of 9 would be freed of Mullion\n  w1: label a, taint b\n"));
        assert!(!shown(&["--undo"], &report).contains("nodes"));
        let json = shown(&["-o", "json"], &report);
        assert_eq!(json.lines().count(), 1 + 1 + 1 + 22 + 1);
        let last: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
        assert_eq!((&last["type"], &last["left"], &last["classesDeleted"]), (&json!("summary"), &json!(22), &json!(1)));
        // Messages of the API server quote what others wrote.
        let what = "node ##vso[x]\u{1b}[2J\u{202e}\n::error::x".to_owned();
        let left = Remainder { what: what.clone(), why: String::new(), help: String::new() };
        let report = WithdrawReport { left: vec![left], ..WithdrawReport::of("mullion") };
        assert!(shown(&[], &report).contains("left: node #\\u{23}vso[x]\\u{1b}[2J\\u{202e}\\n:\\u{3a}error::x: ; \n"));
        let json = shown(&["-o", "json"], &report);
        assert!(!json.contains("##vso") && json.is_ascii(), "{json}");
        assert_eq!(serde_json::from_str::<Value>(json.lines().nth(1).unwrap()).unwrap()["what"], what);
    }
}

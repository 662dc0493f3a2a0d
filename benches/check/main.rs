//! `mullion check` compared with its budget, 2,000 Deployments in under a second: `cargo bench --bench check`, some
//! seconds.
//!
//! | part | what it prints |
//! |---|---|
//! | stages | time to read, to review and to write 2,000 Deployments as Helm prints them (about 1 MB), each alone |
//! | commands | time of the whole `check` in every format, and of `mutate --templates`, on the same text |
//! | sizes | time of `check` on more Deployments, and on the same objects as one List in JSON |
//!
//! `cargo bench --bench check -- stages` runs only the parts on the command line. Each figure is the median of some
//! runs, all in memory. Figures are printed and not asserted, because they depend on the machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark: it ends where it cannot go on, and prints rounded figures"
)]
#![allow(unreachable_pub, reason = "modules of one program")]

mod manifests;
#[path = "../support/parts.rs"]
mod parts;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mullion::cli::{
    CheckArgs, FailOnFinding, FindingsFormat, Inputs, Io, LinkArgs, LiveArguments, MutateArgs, Outcome,
    ReviewSourceArgs, check, mutate,
};
use mullion_engine::admission::review;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_manifest::{ManifestDocuments, documents, objects};
use mullion_policy::PolicySet;
use parts::Parts;

/// The number of Deployments in the budget.
const DEPLOYMENTS: usize = 2000;

fn main() {
    let wanted = Parts::wanted();
    let text = manifests::helm(DEPLOYMENTS);
    println!("{DEPLOYMENTS} Deployments, {:.2} MB\n", text.len() as f64 / 1e6);
    if wanted.has("stages") {
        stages(&text);
    }
    if wanted.has("commands") {
        commands(&text);
    }
    if wanted.has("sizes") {
        sizes();
    }
}

fn stages(text: &str) {
    heading("stages");
    row("read documents", text, || ManifestDocuments::new("bench.yaml", text).flatten().count());
    let read: Vec<_> = documents("bench.yaml", text).into_iter().flatten().collect();
    row("find objects", text, || read.iter().map(|document| objects(document).len()).sum::<usize>());
    let found: Vec<_> = read.iter().flat_map(objects).flatten().collect();
    let (snapshot, policies) = (ClusterSnapshot::default(), PolicySet::built_in());
    let judge = || {
        let workloads = found.iter().filter_map(|object| Some((WorkloadKind::from_name(&object.kind)?, object)));
        let reviews = workloads.map(|(kind, object)| {
            let workload = WorkloadObject { kind, namespace: "default", object: &object.value };
            let request = ReviewRequest::creation(workload);
            review(&request, &snapshot, &policies.resolve(&request, &snapshot))
        });
        reviews.map(|review| review.findings.len()).sum::<usize>()
    };
    println!("  ({} findings)", judge());
    row("judge", text, judge);
    println!();
}

fn commands(text: &str) {
    heading("commands");
    let formats = [
        ("text", FindingsFormat::Text),
        ("json", FindingsFormat::Json),
        ("sarif", FindingsFormat::Sarif),
        ("github", FindingsFormat::Github),
    ];
    for (name, format) in formats {
        row(&format!("check -o {name}"), text, || checked(text, format));
    }
    row("mutate --templates", text, || mutated(text));
    println!();
}

fn sizes() {
    heading("sizes");
    for deployments in [DEPLOYMENTS, 5 * DEPLOYMENTS, 20 * DEPLOYMENTS] {
        let text = manifests::helm(deployments);
        row(&format!("check {deployments}, YAML"), &text, || checked(&text, FindingsFormat::Text));
        let text = manifests::kubectl(deployments);
        row(&format!("check {deployments}, JSON"), &text, || checked(&text, FindingsFormat::Text));
    }
}

/// Runs `mullion check -` on `text`; returns the number of bytes that it prints.
fn checked(text: &str, output: FindingsFormat) -> usize {
    let args = CheckArgs {
        output_file: mullion::cli::OutputFileArgs::default(),
        inputs: stdin(),
        live: LiveArguments::default(),
        sources: ReviewSourceArgs::default(),
        output,
        show_changes: false,
        fail_on: vec![FailOnFinding::Deny],
    };
    printed(text, |io| check::run(&args, io))
}

/// Runs `mullion mutate --templates -` on `text`; returns the number of bytes that it prints.
fn mutated(text: &str) -> usize {
    let args = MutateArgs {
        output_file: mullion::cli::OutputFileArgs::default(),
        in_place: false,
        inputs: stdin(),
        live: LiveArguments::default(),
        sources: ReviewSourceArgs::default(),
        templates: true,
        diff: false,
    };
    printed(text, |io| mutate::run(&args, io))
}

fn stdin() -> Inputs {
    Inputs { paths: vec![PathBuf::from("-")], namespace: None, links: LinkArgs::default() }
}

fn printed(text: &str, command: impl FnOnce(&mut Io<'_>) -> anyhow::Result<Outcome>) -> usize {
    let (mut stdin, mut stdout, mut stderr) = (text.as_bytes(), Vec::new(), Vec::new());
    let mut io = Io { stdin: &mut stdin, stdout: &mut stdout, stderr: &mut stderr, colour_stdout: false, width: None };
    let outcome = command(&mut io).expect("the command runs");
    // Unreadable input would take no time.
    assert_ne!(outcome, Outcome::Unreadable, "{}", String::from_utf8_lossy(&stderr));
    stdout.len()
}

fn heading(part: &str) {
    println!("{part:<24}{:>10}{:>10}", "ms", "MB/s");
}

/// Prints the median of some runs over `text`.
fn row<T>(name: &str, text: &str, mut work: impl FnMut() -> T) {
    let mut times: Vec<Duration> = (0..7)
        .map(|_| {
            let start = Instant::now();
            black_box(work());
            start.elapsed()
        })
        .collect();
    times.sort();
    let median = times.get(times.len() / 2).expect("some runs").as_secs_f64();
    println!("  {name:<22}{:>10.1}{:>10.1}", median * 1e3, text.len() as f64 / 1e6 / median);
}

//! `mullion compat`: the compatibility table of Windows builds, or one row of it.

use std::io;
use std::path::PathBuf;

use clap::Args;
use mullion_engine::model::text;
use mullion_engine::model::windows::{
    Build, ExtraRelease, Generation, RELEASES, STABLE_ABI_FROM, floor, known_host_builds, release_name, runs,
    table as compat_table,
};
use mullion_survey::Facts;

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::policy_files::load_without_cluster;
use crate::cli::release_argument::release_argument;
use crate::report::table;

/// Arguments of `compat`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion compat\n\
    \x20 mullion compat --image-build ltsc2022 --host-build ltsc2025\n\n\
    Exit code: 0; 1 if the node cannot run the image; 2 for an invalid build, and for policies that cannot be \
    read.")]
pub struct CompatArgs {
    /// Build of the image: a release (ltsc2022), or a build with or without revision (20348, 10.0.20348.2655)
    #[arg(long, value_name = "RELEASE|BUILD")]
    pub image_build: Option<String>,
    /// Build of the node, in the same forms; its label node.kubernetes.io/windows-build contains it
    #[arg(long, value_name = "RELEASE|BUILD")]
    pub host_build: Option<String>,
    /// Rule of the container runtime: R1 (containerd up to 2.1.5), R2 (up to 2.3.4), R3 (newer)
    #[arg(long, default_value_t = Generation::default(), value_name = "R1|R2|R3")]
    pub generation: Generation,
    /// Directory of policy files, for the releases that its `NodePolicy` adds; may be given more than once. Or built-in: the built-in policies, which are the default
    #[arg(long, value_name = "DIR|built-in")]
    pub policies: Vec<PathBuf>,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// Prints the table; with both builds `yes` or `no`, and the reason on stderr; with one of them its compatible builds, one
/// per line.
pub(crate) fn run(args: &CompatArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let policies = load_without_cluster("compat", &args.policies)?;
    let extra = policies.nodes.releases.as_slice();
    let build =
        |option, text: &Option<String>| text.as_deref().map(|text| release_argument(option, text, extra)).transpose();
    let (host, image) = (build("--host-build", &args.host_build)?, build("--image-build", &args.image_build)?);
    let is_compatible = |host, image| runs(host, image, args.generation, extra);
    match (host, image) {
        (Some(host), Some(image)) => {
            let compatible = is_compatible(host, image);
            writeln!(io.stdout, "{}", yes_or_no(compatible))?;
            reasons(host, image, args.generation, extra).iter().try_for_each(|reason| io.eprintln(reason))?;
            return Ok(if compatible { Outcome::Clean } else { Outcome::Findings });
        }
        (None, Some(image)) => {
            let stated = extra.iter().map(|release| release.build);
            let mut hosts: Vec<Build> =
                known_host_builds().chain(stated).filter(|host| is_compatible(*host, image)).collect();
            hosts.sort_unstable();
            hosts.dedup();
            list(io, &hosts, extra)?;
        }
        (Some(host), None) => {
            let mut images = compat_table(args.generation, extra).images;
            images.retain(|image| is_compatible(host, *image));
            list(io, &images, extra)?;
        }
        (None, None) => write_table(args.generation, extra, io)?,
    }
    Ok(Outcome::Clean)
}

/// The only host that also needs an image of its own revision (MicrosoftDocs/Virtualization-Documentation
/// `deploy-containers/version-compatibility.md`).
const SAME_REVISION: Build = Build::new(14393);

/// Why a host runs an image or does not, one sentence each: what the host runs; then the rule, if it is not the same
/// for all runtimes; then the other rules that have another result.
fn reasons(host: Build, image: Build, generation: Generation, extra: &[ExtraRelease]) -> Vec<String> {
    let named = |build: Build| format!("{build} ({})", release_name(build, extra));
    let node = format!("a node of {}", named(host));
    if host == image {
        let revision = if host == SAME_REVISION { ", of the same revision only" } else { "; revisions do not matter" };
        return vec![format!("{node} runs images of its own build, by every rule{revision}")];
    }
    if host < image {
        return vec![format!("{node} cannot run images of {}: no node runs images of a newer build", named(image))];
    }
    if host < STABLE_ABI_FROM {
        let from = named(STABLE_ABI_FROM);
        return vec![format!("{node} runs images of its own build only, as all nodes before {from}")];
    }
    let from = floor(host, generation, extra).unwrap_or(host);
    let range =
        if from < host { format!("{} to {}", named(from), named(host)) } else { "its own build only".to_owned() };
    let but = if image < from { format!(", not of {}", named(image)) } else { String::new() };
    let mut reasons = vec![format!("{node} runs images of {range}{but}")];
    if floor(host, generation, &[]) != Some(from) {
        reasons.push("a NodePolicy sets this in releases, for every runtime".to_owned());
        return reasons;
    }
    reasons.push(format!("rule {}: {}", generation_with_runtimes(generation), images_of(generation, extra)));
    let compatible = image >= from;
    let others = Generation::ALL.into_iter().filter(|other| runs(host, image, *other, extra) != compatible);
    reasons.extend(others.map(|other| {
        let verb = if compatible { "does not run" } else { "runs" };
        format!("by rule {} the node {verb} it: {}", generation_with_runtimes(other), images_of(other, extra))
    }));
    reasons
}

/// `R2 (containerd 2.1.6 to 2.3.4)`.
fn generation_with_runtimes(generation: Generation) -> String {
    let runtimes = match generation {
        Generation::R1 => "up to 2.1.5",
        Generation::R2 => "2.1.6 to 2.3.4",
        Generation::R3 => "2.3.5 and newer",
    };
    format!("{generation} (containerd {runtimes})")
}

/// The images that a node from [`STABLE_ABI_FROM`] on runs by a rule, as text.
fn images_of(generation: Generation, extra: &[ExtraRelease]) -> String {
    let earliest = format!("{STABLE_ABI_FROM} ({})", release_name(STABLE_ABI_FROM, extra));
    let from = match generation {
        Generation::R1 => earliest,
        Generation::R2 => {
            format!("the newest LTSC release older than its build, at the earliest {earliest},")
        }
        Generation::R3 => {
            format!("the LTSC release before the newest one that is not newer than it, at the earliest {earliest},")
        }
    };
    format!("a node runs images from {from} up to its own build")
}

fn yes_or_no(compatible: bool) -> &'static str {
    if compatible { "yes" } else { "no" }
}

fn list(io: &mut Io<'_>, builds: &[Build], extra: &[ExtraRelease]) -> io::Result<()> {
    let rows = builds.iter().map(|build| [build.to_string(), release_name(*build, extra).into_owned()]);
    table::write(io.stdout, io.width, None, rows)
}

pub(crate) fn write_table(generation: Generation, extra: &[ExtraRelease], io: &mut Io<'_>) -> io::Result<()> {
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let facts = Facts::built_in();
    let header = ["HOST", "RELEASE", "RUNS IMAGES", "UPDATES UNTIL", "PRODUCT"];
    let rows = compat_table(generation, extra).rows.into_iter().map(|row| {
        let images: Vec<String> = row.runs.iter().map(ToString::to_string).collect();
        let products = RELEASES.iter().filter(|release| release.build == row.host).map(|release| release.product);
        let products = text::list(products);
        let until = facts.end_of_host(row.host).map_or_else(String::new, |date| date.to_string());
        [row.host.to_string(), row.name, or_dash(images.join(" ")), or_dash(until), or_dash(products)]
    });
    table::write(io.stdout, io.width, Some(header), rows)
}

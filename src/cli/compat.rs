//! `mullion compat`: the compatibility table of Windows builds, or one row of it.

use std::io;
use std::path::PathBuf;

use clap::Args;
use mullion_engine::model::text;
use mullion_engine::model::windows::{
    Build, ExtraRelease, Generation, RELEASES, STABLE_ABI_FROM, floor, known_host_builds, release_name, runs,
    support_of, table as compat_table,
};

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::policy_files;
use crate::report::table;

/// Arguments of `compat`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit code: 0; 2 for policies that cannot be read.")]
pub struct CompatArgs {
    /// Build of the image: 10.0.20348, or 20348
    #[arg(long, value_name = "BUILD", value_parser = build)]
    pub image_build: Option<Build>,
    /// Build of the node, label node.kubernetes.io/windows-build
    #[arg(long, value_name = "BUILD", value_parser = build)]
    pub host_build: Option<Build>,
    /// Rule of the container runtime: R1 (containerd to 2.1.5), R2 (to 2.3.4), R3 (newer)
    #[arg(long, default_value_t = Generation::default(), value_name = "R1|R2|R3")]
    pub generation: Generation,
    /// Directory of policy files, for the releases that its `NodePolicy` adds; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
}

/// Prints the table; with both builds `yes` or `no`, and the reason on stderr; with one of them its compatible builds, one
/// per line.
pub(crate) fn run(args: &CompatArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let policies = policy_files::load(&args.policies)?;
    let extra = policies.nodes.releases.as_slice();
    let is_compatible = |host, image| runs(host, image, args.generation, extra);
    match (args.host_build, args.image_build) {
        (Some(host), Some(image)) => {
            writeln!(io.stdout, "{}", if is_compatible(host, image) { "yes" } else { "no" })?;
            io.eprintln(reason(host, args.generation, extra))?;
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

/// `10.0.26100 (ltsc2025) runs images of 10.0.20348 to 10.0.26100`.
fn reason(host: Build, generation: Generation, extra: &[ExtraRelease]) -> String {
    let name = release_name(host, extra);
    match floor(host, generation, extra).filter(|floor| *floor < host) {
        Some(floor) => format!("{host} ({name}) runs images of {floor} to {host}, by rule {generation}"),
        None if host < STABLE_ABI_FROM => {
            format!("{host} ({name}) runs images of its own build alone, like all hosts before {STABLE_ABI_FROM}")
        }
        None => format!("{host} ({name}) runs images of its own build alone"),
    }
}

fn list(io: &mut Io<'_>, builds: &[Build], extra: &[ExtraRelease]) -> io::Result<()> {
    let rows = builds.iter().map(|build| [build.to_string(), release_name(*build, extra).into_owned()]);
    table::write(io.stdout, None, rows)
}

pub(crate) fn write_table(generation: Generation, extra: &[ExtraRelease], io: &mut Io<'_>) -> io::Result<()> {
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let header = ["HOST", "RELEASE", "RUNS IMAGES", "UPDATES UNTIL", "PRODUCT"];
    let rows = compat_table(generation, extra).rows.into_iter().map(|row| {
        let images: Vec<String> = row.runs.iter().map(ToString::to_string).collect();
        let products = RELEASES.iter().filter(|release| release.build == row.host).map(|release| release.product);
        let products = text::list(products);
        let until = support_of(row.host).map_or_else(String::new, |support| support.end.to_owned());
        [row.host.to_string(), row.name, or_dash(images.join(" ")), or_dash(until), or_dash(products)]
    });
    table::write(io.stdout, Some(header), rows)
}

/// Parses `10.0.20348`, with or without a revision, or the bare number.
fn build(text: &str) -> Result<Build, String> {
    let bare = text.parse().ok().map(Build::new);
    let parsed = bare.or_else(|| Build::from_os_version(text).map(|(build, _)| build));
    parsed.ok_or_else(|| "not a Windows build; write 10.0.20348 or 20348".to_owned())
}

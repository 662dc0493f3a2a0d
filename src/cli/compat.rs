//! `mullion compat`: the compatibility table of Windows builds, or one answer from it.

use std::io;

use clap::Args;

use super::{Io, Outcome};
use crate::engine::windows::{Build, Generation, known_host_builds, release_name, runs, table as compat_table};
use crate::report::table;

/// Arguments of `compat`.
#[derive(Debug, Clone, Args)]
pub struct Compat {
    /// Build of the image: 10.0.20348, or 20348
    #[arg(long, value_name = "BUILD", value_parser = build)]
    pub image_build: Option<Build>,
    /// Build of the node, label node.kubernetes.io/windows-build
    #[arg(long, value_name = "BUILD", value_parser = build)]
    pub host_build: Option<Build>,
    /// Rule of the container runtime: R1 (containerd to 2.1.5), R2 (to 2.3.4), R3 (newer)
    #[arg(long, default_value_t = Generation::default(), value_name = "R1|R2|R3")]
    pub generation: Generation,
}

/// Prints the table; with both builds `yes` or `no`; with one of them what it goes with, one build per line.
pub fn run(args: &Compat, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let goes = |host, image| runs(host, image, args.generation, &[]);
    match (args.host_build, args.image_build) {
        (Some(host), Some(image)) => writeln!(io.stdout, "{}", if goes(host, image) { "yes" } else { "no" })?,
        (None, Some(image)) => list(io, known_host_builds().filter(|host| goes(*host, image)))?,
        (Some(host), None) => {
            let images = compat_table(args.generation, &[]).images;
            list(io, images.into_iter().filter(|image| goes(host, *image)))?;
        }
        (None, None) => write_table(args.generation, io)?,
    }
    Ok(Outcome::Clean)
}

fn list(io: &mut Io<'_>, builds: impl Iterator<Item = Build>) -> io::Result<()> {
    let rows: Vec<[String; 2]> =
        builds.map(|build| [build.to_string(), release_name(build, &[]).into_owned()]).collect();
    table::write(io.stdout, &rows)
}

fn write_table(generation: Generation, io: &mut Io<'_>) -> io::Result<()> {
    let mut rows = vec![["HOST", "RELEASE", "RUNS IMAGES"].map(str::to_owned)];
    rows.extend(compat_table(generation, &[]).rows.into_iter().map(|row| {
        let images: Vec<String> = row.runs.iter().map(ToString::to_string).collect();
        [row.host.to_string(), row.name, if images.is_empty() { "-".to_owned() } else { images.join(" ") }]
    }));
    table::write(io.stdout, &rows)
}

/// `10.0.20348`, with or without a revision, or the bare number.
fn build(text: &str) -> Result<Build, String> {
    let bare = text.parse().ok().map(Build::new);
    let found = bare.or_else(|| Build::from_os_version(text).map(|(build, _)| build));
    found.ok_or_else(|| "not a Windows build; write 10.0.20348 or 20348".to_owned())
}

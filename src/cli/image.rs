//! `mullion image`: the operating system and builds of an image, from policies, its registry and its name.

use std::cmp::Reverse;
use std::io;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use mullion_engine::detect::image_names::ImageRow;
use mullion_engine::detect::{ImageFacts, image_facts};
use mullion_engine::model::image::ImageRef;
use mullion_engine::model::settings::ImagePatterns;
use mullion_manifest::MAX_BYTES;
use mullion_policy::PolicySet;

use crate::cli::input::{check_stdin_once, is_stdin, read_to};
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::output_format::OutputFormat;
use crate::cli::policy_files::load_without_cluster;
use crate::cli::registry;
use crate::cli::registry::LookedUp;
use crate::report::{STDIN, table, write_line};

/// Arguments of `image`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion image mcr.microsoft.com/windows/nanoserver:ltsc2022\n\
    \x20 mullion image -o json nginx mcr.microsoft.com/windows/servercore/iis\n\n\
    Exit code: 0; 2 for policies that cannot be read, invalid image references and failed look-ups.")]
pub struct ImageArgs {
    /// Image references, or - to read one per line from standard input
    #[arg(value_name = "REF|-", required = true)]
    pub references: Vec<String>,
    /// Directory of policy files whose image patterns take precedence over names; may be given more than once. Or built-in: the built-in policies, which are the default
    #[arg(long, value_name = "DIR|built-in")]
    pub policies: Vec<PathBuf>,
    /// Look up images in their registries if no pattern matches, with the logins of ~/.docker/config.json
    #[arg(long)]
    pub registry: bool,
    /// Output format; JSON is one object per line
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// Prints the facts of each reference in order. An invalid reference and a failed look-up are reported on stderr; the
/// other references are still printed, and after a failed look-up the facts from the name.
pub(crate) fn run(args: &ImageArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let policies = load_without_cluster("image", &args.policies)?;
    let patterns = patterns(&policies);
    let mut outcome = Outcome::Clean;
    let mut good = Vec::new();
    for reference in references(&args.references, io)? {
        match ImageRef::parse(&reference) {
            Ok(_) => good.push(reference),
            Err(error) => {
                io.eprintln(format_args!("{reference}: not an image reference: {error}"))?;
                outcome = Outcome::Unreadable;
            }
        }
    }
    let known = look_up_open(args, &policies, &patterns, &good, io)?;
    if !known.failed.is_empty() {
        outcome = Outcome::Unreadable;
    }
    let rows: Vec<ImageRow<'_>> = good
        .iter()
        .map(|reference| {
            let ImageFacts { os, builds, source, .. } = image_facts(reference, &patterns, known.images.get(reference));
            ImageRow { reference, os, builds, source }
        })
        .collect();
    match args.output {
        OutputFormat::Json => rows.iter().try_for_each(|row| write_line(io.stdout, row))?,
        OutputFormat::Text if rows.is_empty() => {}
        OutputFormat::Text => write_table(io.stdout, &rows)?,
    }
    Ok(outcome)
}

/// Looks up the images that no pattern matches, if `--registry` is set.
fn look_up_open(
    args: &ImageArgs,
    policies: &PolicySet,
    patterns: &ImagePatterns,
    references: &[String],
    io: &mut Io<'_>,
) -> anyhow::Result<LookedUp> {
    let open = references.iter().filter(|reference| args.registry && image_facts(reference, patterns, None).open);
    let mut open: Vec<String> = open.cloned().collect();
    open.sort_unstable();
    open.dedup();
    registry::look_up(open, None, &policies.registries, io)
}

/// The patterns of every policy, highest priority first, because it is not known which workload runs the image.
fn patterns(policies: &PolicySet) -> ImagePatterns {
    let mut pods: Vec<_> = policies.pods.iter().collect();
    pods.sort_by_key(|policy| Reverse(policy.priority));
    let mut patterns = ImagePatterns::default();
    for policy in pods {
        patterns.extend(&policy.settings.images);
    }
    patterns
}

fn references(named: &[String], io: &mut Io<'_>) -> anyhow::Result<Vec<String>> {
    check_stdin_once("image", named)?;
    let mut references = Vec::new();
    for name in named {
        if is_stdin(name) {
            let bytes = read_to(MAX_BYTES, io.stdin).context(STDIN)?;
            let text = String::from_utf8(bytes)
                .map_err(|error| anyhow!("{STDIN}: {error}; write one reference per line, as UTF-8"))?;
            let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|line| !line.is_empty());
            references.extend(lines.map(str::to_owned));
        } else {
            references.push(name.clone());
        }
    }
    Ok(references)
}

fn write_table(out: &mut dyn Write, rows: &[ImageRow<'_>]) -> io::Result<()> {
    let cells = rows.iter().map(|row| {
        let builds: Vec<String> = row.builds.iter().map(ToString::to_string).collect();
        let builds = if builds.is_empty() { "-".to_owned() } else { builds.join(",") };
        [row.reference.to_owned(), word(&row.os), builds, word(&row.source)]
    });
    table::write(out, None, Some(["IMAGE", "OS", "BUILDS", "SOURCE"]), cells)
}

/// The word for `value` in JSON, so that both outputs have the same words.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

//! `mullion image`: what policies, the registry (if it is to be asked) and the name say of an image.

use std::cmp::Reverse;
use std::io;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use mullion_engine::detect::container_images::{ImageFacts, image_facts};
use mullion_engine::detect::image_names::name::ImageRow;
use mullion_engine::model::image::platform::KnownImages;
use mullion_engine::model::image::reference::ImageRef;
use mullion_engine::model::settings::image_patterns::ImagePatterns;
use mullion_policy::policy_set::PolicySet;

use crate::cli::check::Output;
use crate::cli::input::read_bounded;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::policy_files;
use crate::cli::usage_error::UsageError;
use crate::report::json::write_line;
use crate::report::{STDIN, table};

/// Arguments of `image`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit code: 0; 2 for policies that cannot be read, and for what is no image reference or has no answer."
)]
pub struct Image {
    /// Image references, or - for one per line of standard input
    #[arg(value_name = "REF|-", required = true)]
    pub references: Vec<String>,
    /// Directory of policy files whose image patterns go before names; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// Ask each image's registry, after the patterns and before the name, with the logins of ~/.docker/config.json
    #[arg(long)]
    pub registry: bool,
    /// How answers are written; JSON is one object per line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Answers for each reference in the order given. A text that is no reference, and an image of which its registry says
/// nothing, is said on stderr; the others are still answered, and the latter by its name.
pub fn run(args: &Image, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let policies = policy_files::load(&args.policies)?;
    let patterns = patterns(&policies);
    let mut outcome = Outcome::Clean;
    let mut good = Vec::new();
    for reference in references(&args.references, io)? {
        match ImageRef::parse(&reference) {
            Ok(_) => good.push(reference),
            Err(error) => {
                io.say(format_args!("{reference}: not an image reference: {error}"))?;
                outcome = Outcome::Unreadable;
            }
        }
    }
    let (known, failed) = ask(args, &policies, &patterns, &good, io)?;
    if failed > 0 {
        outcome = Outcome::Unreadable;
    }
    let rows: Vec<ImageRow<'_>> = good
        .iter()
        .map(|reference| {
            let ImageFacts { os, builds, source, .. } = image_facts(reference, &patterns, known.get(reference));
            ImageRow { reference, os, builds, source }
        })
        .collect();
    match args.output {
        Output::Json => rows.iter().try_for_each(|row| write_line(io.stdout, row))?,
        Output::Text if rows.is_empty() => {}
        Output::Text => write_table(io.stdout, &rows)?,
    }
    Ok(outcome)
}

/// Asks registries of what patterns leave open; how many said nothing comes second.
fn ask(
    args: &Image,
    policies: &PolicySet,
    patterns: &ImagePatterns,
    references: &[String],
    io: &mut Io<'_>,
) -> anyhow::Result<(KnownImages, usize)> {
    let open = references.iter().filter(|reference| args.registry && image_facts(reference, patterns, None).open);
    let mut open: Vec<String> = open.cloned().collect();
    open.sort_unstable();
    open.dedup();
    crate::cli::registry::ask(open, &policies.registries, io)
}

/// The patterns of every policy, those of higher priority first: which subject runs the image is not known here.
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
    if named.iter().filter(|name| *name == "-").count() > 1 {
        return Err(UsageError("image: standard input (-) can be read only once".to_owned()).into());
    }
    let mut references = Vec::new();
    for name in named {
        if name == "-" {
            let bytes = read_bounded(io.stdin).map_err(|error| UsageError(format!("{STDIN}: {error}")))?;
            let text = String::from_utf8(bytes)
                .map_err(|error| UsageError(format!("{STDIN}: {error}; write one reference per line, as UTF-8")))?;
            let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|line| !line.is_empty());
            references.extend(lines.map(str::to_owned));
        } else {
            references.push(name.clone());
        }
    }
    Ok(references)
}

fn write_table(out: &mut dyn Write, rows: &[ImageRow<'_>]) -> io::Result<()> {
    let mut cells = vec![["IMAGE", "OS", "BUILDS", "SOURCE"].map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        let builds: Vec<String> = row.builds.iter().map(ToString::to_string).collect();
        let builds = if builds.is_empty() { "-".to_owned() } else { builds.join(",") };
        [row.reference.to_owned(), word(&row.os), builds, word(&row.source)]
    }));
    table::write(out, &cells)
}

/// The word that JSON has for `value`, so that both outputs say the same.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

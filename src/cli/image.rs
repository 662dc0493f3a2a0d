//! `mullion image`: what is known of an image without asking a registry.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use super::check::Output;
use super::input::read_bounded;
use super::knowledge::load_policies;
use super::{Io, Outcome, UsageError};
use crate::engine::image::{ImageOs, ImageRef, ImageRow, ImageSource, from_name};
use crate::policy::{ImagePattern, ImagePatterns, PatternOs};
use crate::report::{STDIN, table};

/// Arguments of `image`.
#[derive(Debug, Clone, Args)]
pub struct Image {
    /// Image references, or - for one per line of standard input
    #[arg(value_name = "REF|-", required = true)]
    pub references: Vec<String>,
    /// Directory of policy files whose image patterns go before names; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// How answers are written; JSON is one object per line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Answers for each reference in the order given. A text that is no reference is said on stderr, and the others are
/// still answered.
pub fn run(args: &Image, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let patterns = patterns(&args.policies)?;
    let references = references(&args.references, io)?;
    let mut outcome = Outcome::Clean;
    let mut rows = Vec::new();
    for reference in &references {
        match ImageRef::parse(reference) {
            Ok(image) => rows.push(match patterns.find(reference) {
                Some(pattern) => from_pattern(reference, pattern),
                None => ImageRow::from_name(reference, from_name(&image)),
            }),
            Err(error) => {
                io.say(format_args!("{reference}: not an image reference: {error}"))?;
                outcome = Outcome::Unreadable;
            }
        }
    }
    match args.output {
        Output::Json => rows.iter().try_for_each(|row| write_json(io.stdout, row))?,
        Output::Text if rows.is_empty() => {}
        Output::Text => write_table(io.stdout, &rows)?,
    }
    Ok(outcome)
}

/// The patterns of every policy, those of higher priority first: which subject runs the image is not known here.
fn patterns(directories: &[PathBuf]) -> anyhow::Result<ImagePatterns> {
    let mut policies = load_policies(directories)?.pods;
    policies.sort_by_key(|policy| Reverse(policy.spec.priority));
    let mut patterns = ImagePatterns::default();
    for images in policies.iter().filter_map(|policy| policy.spec.detect.as_ref()?.images.as_ref()) {
        patterns.extend(images);
    }
    Ok(patterns)
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

fn from_pattern<'a>(reference: &'a str, pattern: &ImagePattern) -> ImageRow<'a> {
    let os = match pattern.os {
        PatternOs::Windows => ImageOs::Windows,
        PatternOs::Linux => ImageOs::Linux,
        PatternOs::Multi => ImageOs::Multi,
    };
    ImageRow { reference, os, builds: pattern.builds.clone(), source: ImageSource::Policy }
}

fn write_json(out: &mut dyn Write, row: &ImageRow<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, row)?;
    out.write_all(b"\n")
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

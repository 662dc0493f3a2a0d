//! `mullion mutate`: the input as the webhook would leave it.

use std::io;

use clap::Args;
use json_patch::PatchOperation;
use mullion_engine::admission::response::Denial;
use mullion_manifest::edit::replacement::Replacement;
use mullion_manifest::edit::text_patch;
use mullion_manifest::edit::text_patch::ObjectPatch;
use similar::TextDiff;

use crate::cli::documents::{File, ManifestObject, ManifestWorkload, Parsed, report_skipped};
use crate::cli::input::Inputs;
use crate::cli::io_handles::Io;
use crate::cli::knowledge::{Knowledge, KnowledgeArgs};
use crate::cli::outcome::Outcome;
use crate::report::admission::Admission;

/// Arguments of `mutate`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit code: 0; 1 if something is refused, which then stays as it is; 2 for input that cannot be read, and \
    nothing is printed then."
)]
pub struct Mutate {
    /// What to change.
    #[command(flatten)]
    pub inputs: Inputs,
    /// By which policies, in which cluster.
    #[command(flatten)]
    pub knowledge: KnowledgeArgs,
    /// Write placement and repairs into every pod template, for Git and for Helm post-rendering; admission leaves most
    /// of them to the pods
    #[arg(long)]
    pub templates: bool,
    /// Print what would change as a unified diff instead
    #[arg(long)]
    pub diff: bool,
}

/// Prints the changed input. Nothing is printed before everything has been read.
pub fn run(args: &Mutate, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let texts = args.inputs.read("mutate", io.stdin)?;
    let mut knowledge = args.knowledge.load()?;
    let files: Vec<File<'_>> = texts.sources.iter().map(File::new).collect();
    knowledge.add_namespaces(&files);

    texts.report(io)?;
    let mut unreadable = texts.unreadable.len();
    let mut all = Vec::new();
    for file in &files {
        let mut changed = Changed::default();
        unreadable += file.each(|document| {
            match document {
                Ok(parsed) => changed.document(file, parsed, args, &knowledge),
                Err(failure) => io.say(failure)?,
            }
            Ok(())
        })?;
        all.push((file, changed));
    }
    if unreadable > 0 {
        io.say("nothing was changed or printed; correct the input first")?;
        return Ok(Outcome::Unreadable);
    }
    report_skipped(all.iter().map(|(_, changed)| changed.skipped).sum(), io)?;

    let mut outcome = Outcome::Clean;
    let mut stream = Stream::default();
    for (file, changed) in all {
        for refused in &changed.refused {
            outcome = outcome.max(Outcome::Findings);
            refused.report(io)?;
        }
        let (name, old) = (&file.source.name, file.source.text.as_str());
        let new = text_patch::splice(old, &changed.replacements);
        if args.diff {
            TextDiff::from_lines(old, &new).unified_diff().header(name, name).to_writer(&mut *io.stdout)?;
        } else {
            stream.append(&new, io)?;
        }
    }
    Ok(outcome)
}

/// What becomes of one file.
#[derive(Default)]
struct Changed {
    replacements: Vec<Replacement>,
    refused: Vec<Refused>,
    /// Documents that are no Kubernetes object.
    skipped: usize,
}

/// What stays as it was, and why.
struct Refused {
    what: String,
    why: Vec<String>,
}

impl Changed {
    /// Adds the document of `file`.
    fn document(&mut self, file: &File<'_>, parsed: Parsed, args: &Mutate, knowledge: &Knowledge) {
        self.skipped += parsed.objects().filter(|found| matches!(found, ManifestObject::Skipped)).count();
        let patches = patches(file, &parsed, args, knowledge, &mut self.refused);
        // The objects are copies; a large document is not to be edited beside them.
        let document = parsed.document;
        let patches: Vec<ObjectPatch<'_>> =
            patches.iter().map(|(prefix, operations)| ObjectPatch { pointer_prefix: prefix, operations }).collect();
        match text_patch::edit(&file.source.text, &document, &patches) {
            Ok(replacement) => self.replacements.extend(replacement),
            Err(error) => self.refused.push(Refused {
                what: format!("{}: the patch cannot be written and the document stays as it is", file.source.name),
                why: vec![error.to_string()],
            }),
        }
    }
}

/// The patch of each object of a document that is not refused, with the object's pointer.
fn patches(
    file: &File<'_>,
    parsed: &Parsed,
    args: &Mutate,
    knowledge: &Knowledge,
    refused: &mut Vec<Refused>,
) -> Vec<(String, Vec<PatchOperation>)> {
    let mut patches = Vec::new();
    for found in parsed.objects() {
        let ManifestObject::Workload(workload) = found else { continue };
        match patch(&workload, args, knowledge) {
            Ok(operations) => patches.push((workload.object.pointer_prefix.clone(), operations)),
            Err(denial) => refused.push(Refused::new(file, &workload, &args.inputs.namespace, &denial)),
        }
    }
    patches
}

/// The webhook's patch, unless either of its endpoints refuses.
fn patch(workload: &ManifestWorkload<'_>, args: &Mutate, knowledge: &Knowledge) -> Result<Vec<PatchOperation>, Denial> {
    let mut request = workload.creation(&args.inputs.namespace);
    request.into_templates = args.templates;
    let Admission { denial, patch, .. } = Admission::new(&request, &knowledge.snapshot, &knowledge.policies);
    denial.map_or(Ok(patch), Err)
}

impl Refused {
    fn new(file: &File<'_>, workload: &ManifestWorkload<'_>, default_namespace: &str, denial: &Denial) -> Self {
        let at = file.line_column(workload.object.span.start);
        let name = workload.name(default_namespace);
        let what = format!("{}:{}:{}: {name} is refused and stays as it is", file.source.name, at.line, at.column);
        let causes = denial.causes.iter().map(|cause| format!("{} {}: {}", cause.reason, cause.field, cause.message));
        let mut why: Vec<String> = causes.collect();
        if why.is_empty() {
            why.push(denial.message.clone());
        }
        Self { what, why }
    }

    fn report(&self, io: &mut Io<'_>) -> io::Result<()> {
        io.say(format_args!("{}:", self.what))?;
        self.why.iter().try_for_each(|why| io.say(format_args!("  {why}")))
    }
}

/// Several files as one stream of documents.
#[derive(Default)]
struct Stream {
    /// Something other than white space was written, and this is how it ended.
    tail: Option<Tail>,
}

#[derive(Clone, Copy)]
struct Tail {
    /// Its last line is ended.
    ended: bool,
    /// By this.
    line_break: &'static str,
    /// A marker already stands at the end.
    marked: bool,
    /// So far all was JSON, of which values may follow each other without a marker.
    json: bool,
}

impl Stream {
    fn append(&mut self, text: &str, io: &mut Io<'_>) -> io::Result<()> {
        let Some(tail) = self.tail else {
            self.tail = Tail::of(text, true);
            return io.stdout.write_all(text.as_bytes());
        };
        // A byte-order mark belongs at the start of a stream only.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let Some(next) = Tail::of(text, tail.json) else { return Ok(()) };
        if !tail.ended {
            io.stdout.write_all(tail.line_break.as_bytes())?;
        }
        let marker = if tail.marked || next.json { None } else { marker_before(text) };
        if let Some(marker) = marker {
            io.stdout.write_all(marker.as_bytes())?;
            io.stdout.write_all(tail.line_break.as_bytes())?;
        }
        self.tail = Some(next);
        io.stdout.write_all(text.as_bytes())
    }
}

impl Tail {
    /// How `text` ends; `None` if it holds nothing. `json`: whether all before it was JSON.
    fn of(text: &str, json: bool) -> Option<Self> {
        let content = text.trim_start_matches('\u{feff}').trim();
        let last = content.lines().next_back()?;
        Some(Self {
            ended: text.ends_with('\n'),
            line_break: if text.contains("\r\n") { "\r\n" } else { "\n" },
            marked: matches!(last.trim_end(), "---" | "..."),
            json: json && content.starts_with(['{', '[']),
        })
    }
}

/// What must stand between a document and `text` for the two to stay two.
fn marker_before(text: &str) -> Option<&'static str> {
    for (at, line) in text.lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            return None;
        }
        if line.starts_with('%') {
            // Directives may follow the end of a document only.
            return Some("...");
        }
        // A blank first line could become part of a block scalar that ends the document before; a comment ends that.
        if !line.starts_with('#') && (at == 0 || !line.trim().is_empty()) {
            return Some("---");
        }
    }
    Some("---")
}

//! `mullion mutate`: the input, or live objects, with the changes of the webhook.

use std::io;

use clap::Args;
use json_patch::PatchOperation;
use mullion_engine::admission::Denial;
use mullion_engine::model::foreign_text::{visible, visible_lines};
use mullion_manifest::TextEncoding;
use mullion_manifest::edit::{ObjectPatch, Replacement, text_patch};
use similar::TextDiff;

use crate::cli::documents::{ClassifiedObject, ManifestFile, ManifestWorkload, ParsedDocument, report_skipped};
use crate::cli::input::{Inputs, SourceText};
use crate::cli::io_handles::Io;
use crate::cli::live;
use crate::cli::live::{LiveArguments, ReadRequest};
use crate::cli::outcome::Outcome;
use crate::cli::parts_of_objects::{PartsOfObjects, inline_part};
use crate::cli::review_sources::{ReviewSourceArgs, ReviewSources};
use crate::report::{Admission, NotReviewedWorkloads};

/// Arguments of `mutate`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit code: 0; 1 if an object is denied, which is then printed unchanged; 2 for input that cannot be read, and \
    then nothing is printed."
)]
pub struct MutateArgs {
    /// Manifests.
    #[command(flatten)]
    pub inputs: Inputs,
    /// Objects of a cluster.
    #[command(flatten)]
    pub live: LiveArguments,
    /// Policies, and a cluster snapshot.
    #[command(flatten)]
    pub sources: ReviewSourceArgs,
    /// Write placement and repairs into every pod template, for Git and for Helm post-rendering; admission changes most
    /// of them only in the pods
    #[arg(long)]
    pub templates: bool,
    /// Print the changes as a unified diff instead
    #[arg(long)]
    pub diff: bool,
}

/// Prints the changed input, after all of it has been read.
pub fn run(args: &MutateArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let selection = args.sources.selection("mutate")?;
    let request = ReadRequest::manifests("mutate", &selection, args.sources.snapshot.is_some());
    let input = live::read(&args.live, &args.inputs, request, io)?;
    let texts = &input.texts;
    let (files, kustomizations) = ManifestFile::all(&texts.sources);
    let sources = args.sources.load(&files, &selection, input.live)?;
    let context = MutateContext { namespace: &input.namespace, templates: args.templates, sources: &sources };

    texts.report(io)?;
    let mut unreadable = texts.unreadable.len();
    let mut all = Vec::new();
    for file in &files {
        let mut changed = Changed::default();
        unreadable += file.each(|document| {
            match document {
                Ok(parsed) => changed.document(file, parsed, &context),
                Err(failure) => io.eprintln(failure)?,
            }
            Ok(())
        })?;
        all.push((file, changed));
    }
    if unreadable > 0 {
        io.eprintln("nothing was changed or printed; correct the input first")?;
        return Ok(Outcome::Unreadable);
    }
    let (mut not_reviewed, mut parts) = (NotReviewedWorkloads::default(), PartsOfObjects::default());
    for (_, changed) in &mut all {
        for (why, what) in changed.not_reviewed.drain(..) {
            not_reviewed.add(why, what);
        }
        for (why, what) in changed.parts.drain(..) {
            parts.add("not changed", why, what);
        }
    }
    not_reviewed.lines().try_for_each(|line| io.eprintln(line))?;
    parts.report(io)?;
    kustomizations.lines("mutate").iter().try_for_each(|line| io.eprintln(line))?;
    report_skipped(all.iter().map(|(_, changed)| changed.skipped).sum(), io)?;

    let mut outcome = Outcome::Clean;
    let mut stream = Stream { encoding: common_encoding(&texts.sources), tail: None };
    for (file, changed) in all {
        for unchanged in &changed.unchanged {
            outcome = outcome.max(Outcome::Findings);
            unchanged.report(io)?;
        }
        let (name, old) = (&file.source.name, file.source.text.as_str());
        let new = text_patch::splice(old, &changed.replacements);
        if args.diff {
            let name = visible(name);
            let diff = TextDiff::from_lines(old, &new).unified_diff().header(&name, &name).to_string();
            io.stdout.write_all(visible_lines(&diff).as_bytes())?;
        } else {
            // In UTF-8 nothing needs the mark of UTF-16.
            let is_changed = file.source.encoding != stream.encoding;
            let new = new.strip_prefix('\u{feff}').filter(|_| is_changed).unwrap_or(&new);
            stream.append(new, io)?;
        }
    }
    Ok(outcome)
}

/// How objects are changed.
struct MutateContext<'a> {
    /// The namespace of objects that set none.
    namespace: &'a str,
    templates: bool,
    sources: &'a ReviewSources,
}

/// The changes of one file.
#[derive(Default)]
struct Changed {
    replacements: Vec<Replacement>,
    unchanged: Vec<Unchanged>,
    /// Objects that are not reviewed, with the reason first.
    not_reviewed: Vec<(String, String)>,
    /// Parts of objects, which stay as they are, with the reason first.
    parts: Vec<(String, String)>,
    /// Documents that are not a Kubernetes object.
    skipped: usize,
}

/// An object or document that stays as it was, with the reasons.
struct Unchanged {
    what: String,
    reasons: Vec<String>,
}

impl Changed {
    /// Adds the document of `file`.
    fn document(&mut self, file: &ManifestFile<'_>, parsed: ParsedDocument, context: &MutateContext<'_>) {
        self.skipped += parsed.objects().filter(|found| matches!(found, ClassifiedObject::Skipped)).count();
        let patches = self.patches(file, &parsed, context);
        // Frees the objects, which are copies, before the document is edited.
        let document = parsed.document;
        let patches: Vec<ObjectPatch<'_>> =
            patches.iter().map(|(prefix, operations)| ObjectPatch { pointer_prefix: prefix, operations }).collect();
        match text_patch::edit(&file.source.text, &document, &patches) {
            Ok(replacement) => self.replacements.extend(replacement),
            Err(error) => self.unchanged.push(Unchanged {
                what: format!("{}: the patch cannot be written and the document stays as it is", file.source.name),
                reasons: vec![error.to_string()],
            }),
        }
    }

    /// The patch of each admitted object of a document, with the object's pointer.
    fn patches(
        &mut self,
        file: &ManifestFile<'_>,
        parsed: &ParsedDocument,
        context: &MutateContext<'_>,
    ) -> Vec<(String, Vec<PatchOperation>)> {
        let MutateContext { namespace, templates, sources } = *context;
        let mut patches = Vec::new();
        for found in parsed.objects() {
            let workload = match found {
                ClassifiedObject::Workload(workload) => workload,
                ClassifiedObject::Part(part) => {
                    self.parts.push((part.evidence.to_string(), part.title(file, namespace)));
                    continue;
                }
                ClassifiedObject::Kustomization(kustomization) => {
                    self.parts.extend(inline_part(kustomization, file));
                    continue;
                }
                _ => continue,
            };
            let mut creation = sources.creation(&workload, namespace);
            creation.request.into_templates = templates;
            // What the webhook does, at both of its endpoints.
            let Admission { review, denial, patch, .. } =
                Admission::new(&creation.request, &sources.snapshot, &sources.policies);
            if let Some(why) = creation.not_reviewed(&review) {
                self.not_reviewed.push((why, workload.title(file, &workload.name(namespace))));
            }
            match denial {
                None => patches.push((workload.object.pointer_prefix.clone(), patch)),
                Some(denial) => self.unchanged.push(Unchanged::denied(file, &workload, namespace, &denial)),
            }
        }
        patches
    }
}

impl Unchanged {
    fn denied(
        file: &ManifestFile<'_>,
        workload: &ManifestWorkload<'_>,
        default_namespace: &str,
        denial: &Denial,
    ) -> Self {
        let at = file.line_column(workload.object.span.start);
        let name = workload.name(default_namespace);
        let what = format!("{}:{}:{}: {name} is denied and stays as it is", file.source.name, at.line, at.column);
        Self { what, reasons: denial.message.lines().map(str::to_owned).collect() }
    }

    fn report(&self, io: &mut Io<'_>) -> io::Result<()> {
        io.eprintln(format_args!("{}:", self.what))?;
        self.reasons.iter().try_for_each(|reason| io.eprintln(format_args!("  {reason}")))
    }
}

/// The encoding that all files have; UTF-8 if they differ, because a stream has one.
fn common_encoding(sources: &[SourceText]) -> TextEncoding {
    let mut encodings = sources.iter().map(|source| source.encoding);
    let first = encodings.next().unwrap_or_default();
    if encodings.all(|encoding| encoding == first) { first } else { TextEncoding::Utf8 }
}

/// Several files as one stream of documents.
struct Stream {
    encoding: TextEncoding,
    /// The end of the output, if something other than white space was written.
    tail: Option<Tail>,
}

#[derive(Clone, Copy)]
struct Tail {
    /// Whether the last line has a line break.
    ended: bool,
    /// The line break of the text.
    line_break: &'static str,
    /// Whether the last line is a marker.
    marked: bool,
    /// Whether everything so far was JSON: JSON values may follow each other without a marker.
    json: bool,
}

impl Stream {
    fn append(&mut self, text: &str, io: &mut Io<'_>) -> io::Result<()> {
        let Some(tail) = self.tail else {
            self.tail = Tail::of(text, true);
            return self.write(text, io);
        };
        // A byte-order mark is valid only at the start of a stream.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let Some(next) = Tail::of(text, tail.json) else { return Ok(()) };
        if !tail.ended {
            self.write(tail.line_break, io)?;
        }
        let marker = if tail.marked || next.json { None } else { marker_before(text) };
        if let Some(marker) = marker {
            self.write(marker, io)?;
            self.write(tail.line_break, io)?;
        }
        self.tail = Some(next);
        self.write(text, io)
    }

    fn write(&self, text: &str, io: &mut Io<'_>) -> io::Result<()> {
        io.stdout.write_all(&self.encoding.encode(text))
    }
}

impl Tail {
    /// The end of `text`; `None` if it is empty. `json`: whether everything before it was JSON.
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

/// The marker that must separate a document from `text`.
fn marker_before(text: &str) -> Option<&'static str> {
    for (at, line) in text.lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            return None;
        }
        if line.starts_with('%') {
            // Directives may follow only the end of a document.
            return Some("...");
        }
        // A blank first line could become part of a block scalar at the end of the previous document; a comment ends
        // it.
        if !line.starts_with('#') && (at == 0 || !line.trim().is_empty()) {
            return Some("---");
        }
    }
    Some("---")
}

//! `mullion mutate`: the input, or live objects, with the changes of the webhook.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use json_patch::PatchOperation;
use mullion_engine::admission::Denial;
use mullion_engine::model::foreign_text::{visible, visible_lines};
use mullion_engine::model::text::{counted, list_within};
use mullion_manifest::TextEncoding;
use mullion_manifest::edit::{ObjectPatch, Replacement, text_patch};
use similar::TextDiff;

use crate::cli::documents::{ClassifiedObject, ManifestFile, ManifestWorkload, ParsedDocument, report_skipped};
use crate::cli::in_place::{FileReplacement, check_writable};
use crate::cli::input::{Inputs, SourceText};
use crate::cli::io_handles::Io;
use crate::cli::live;
use crate::cli::live::{LiveArguments, ReadRequest};
use crate::cli::other_namespaces::OtherNamespaces;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::parts_of_objects::{PartsOfObjects, inline_part};
use crate::cli::review_sources::{ReviewSourceArgs, ReviewSources};
use crate::cli::template_patch::template_patch;
use crate::cli::template_workload::TemplateObject;
use crate::report::{Admission, NotReviewedWorkloads, WorkloadChanges};

/// The maximum length of the names of templates that stay as they are.
const NAMES: usize = 300;

/// Arguments of `mutate`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion mutate --templates --diff manifests/\n\
    \x20 mullion mutate --templates --in-place manifests/\n\n\
    Exit code: 0; 1 if an object is denied, which is then printed unchanged; 2 for input that cannot be read, and \
    then nothing is printed.")]
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
    /// Write the changes into the files, and print nothing. No file changes if an input cannot be read
    #[arg(short, long, conflicts_with = "diff")]
    pub in_place: bool,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// Prints the changed input, after all of it has been read.
pub fn run(args: &MutateArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    if args.in_place {
        check_writable("mutate", "--in-place", &args.inputs, &args.live)?;
    }
    let selection = args.sources.selection("mutate")?;
    let request = ReadRequest::manifests("mutate", &selection, args.sources.snapshot.is_some());
    let input = live::read_input(&args.live, &args.inputs, request, io)?;
    let texts = &input.texts;
    let (files, kustomizations) = ManifestFile::all(&texts.sources);
    let sources = args.sources.load(&files, &selection, input.live)?;
    let names_templates = args.diff && !args.templates;
    let context =
        MutateContext { namespace: &input.namespace, templates: args.templates, names_templates, sources: &sources };
    let mut other_namespaces = OtherNamespaces::besides(&args.inputs, &args.live);

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
        changed.namespaces.iter().for_each(|namespace| other_namespaces.add(namespace));
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
    other_namespaces.report(io)?;
    if names_templates {
        report_unchanged_templates(all.iter().flat_map(|(_, changed)| &changed.templates), io)?;
    }
    report_skipped(all.iter().map(|(_, changed)| changed.skipped).sum(), io)?;

    for line in all.iter().flat_map(|(_, changed)| &changed.left) {
        io.eprintln(line)?;
    }
    let mut outcome = Outcome::Clean;
    let mut stream = Stream { encoding: common_encoding(&texts.sources), tail: None };
    let mut replacements = Vec::new();
    for (file, changed) in all {
        for unchanged in &changed.unchanged {
            outcome = outcome.max(Outcome::Findings);
            unchanged.report(io)?;
        }
        let (name, old) = (&file.source.name, file.source.text.as_str());
        let new = text_patch::splice(old, &changed.replacements);
        if args.in_place {
            if new != old {
                let replacement = FileReplacement::prepare(Path::new(name), &file.source.encoding.encode(&new));
                replacements.push((
                    name,
                    replacement.with_context(|| format!("{name}: it cannot be written, and no file was changed"))?,
                ));
            }
        } else if args.diff {
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
    if args.in_place {
        let count = replacements.len();
        for (name, replacement) in replacements {
            replacement.finish().with_context(|| format!("{name}: it cannot be replaced"))?;
        }
        io.eprintln(format_args!("{} of {} changed", count, counted(files.len(), "file")))?;
    }
    Ok(outcome)
}

/// How objects are changed.
struct MutateContext<'a> {
    /// The namespace of objects that set none.
    namespace: &'a str,
    templates: bool,
    /// Whether templates that stay as they are are named.
    names_templates: bool,
    sources: &'a ReviewSources,
}

/// The changes of one file.
#[derive(Default)]
struct Changed {
    replacements: Vec<Replacement>,
    unchanged: Vec<Unchanged>,
    /// The namespaces of its workloads.
    namespaces: Vec<String>,
    /// Templates that stay as they are although their pods are changed.
    templates: Vec<String>,
    /// Objects that are not reviewed, with the reason first.
    not_reviewed: Vec<(String, String)>,
    /// Parts of objects, which stay as they are, with the reason first.
    parts: Vec<(String, String)>,
    /// Documents that are not a Kubernetes object.
    skipped: usize,
    /// Objects of other kinds whose pod templates stay as they are, each with the reason.
    left: Vec<String>,
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
        let MutateContext { namespace, templates, names_templates, sources } = *context;
        let mut patches = Vec::new();
        for found in parsed.objects() {
            let workload = match found {
                ClassifiedObject::Workload(workload) => workload,
                ClassifiedObject::Templates(object) if templates => {
                    patches.push(self.template_patches(file, object, context));
                    continue;
                }
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
            self.namespaces.push(workload.namespace(namespace).to_owned());
            if names_templates && denial.is_none() && patch.is_empty() {
                let changes = WorkloadChanges::new(&creation.request, &review, &sources.snapshot, &sources.policies);
                if !changes.pods.is_empty() {
                    self.templates.push(workload.title(file, &workload.name(namespace)));
                }
            }
            match denial {
                None => patches.push((workload.object.pointer_prefix.clone(), patch)),
                Some(denial) => self.unchanged.push(Unchanged::denied(file, &workload, namespace, &denial)),
            }
        }
        patches
    }

    /// The patch of the pod templates of an object of another kind, with the object's pointer.
    fn template_patches(
        &mut self,
        file: &ManifestFile<'_>,
        object: TemplateObject<'_>,
        context: &MutateContext<'_>,
    ) -> (String, Vec<PatchOperation>) {
        let MutateContext { namespace, sources, .. } = *context;
        let line = file.line_column(object.object.span.start).line;
        let mut operations = Vec::new();
        let mut left = None;
        for workload in object.workloads() {
            let Some(template) = workload.template else { continue };
            if let Some(why) = object.pods.not_written(template.pod) {
                left.get_or_insert((why.to_owned(), template.site()));
                continue;
            }
            let creation = sources.creation(&workload, namespace);
            let Admission { review, denial, .. } =
                Admission::new(&creation.request, &sources.snapshot, &sources.policies);
            if let Some(why) = creation.not_reviewed(&review) {
                self.not_reviewed.push((why, workload.title(file, &workload.name(namespace))));
            }
            match denial {
                Some(denial) if template.denies(&review.settings) => {
                    self.unchanged.push(Unchanged::denied(file, &workload, namespace, &denial));
                }
                _ => operations.extend(template_patch(object.object, template.pod, &creation.request, sources)),
            }
        }
        let left = left.or_else(|| Some((object.unread_text()?, None)));
        self.left.extend(left.map(|(why, site)| {
            let site = site.map(|site| format!(" {site}")).unwrap_or_default();
            format!("{}:{line}: {}{site} stays as it is: {why}", file.source.name, object.name())
        }));
        (object.object.pointer_prefix.clone(), operations)
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

/// Reports templates that stay as they are.
fn report_unchanged_templates<'c>(templates: impl Iterator<Item = &'c String>, io: &mut Io<'_>) -> io::Result<()> {
    let templates: Vec<&str> = templates.map(String::as_str).collect();
    match templates.len() {
        0 => Ok(()),
        all => io.eprintln(format_args!(
            "{} as {}, because admission changes the pods: {}; --templates writes the changes into them",
            if all == 1 { "1 template stays".to_owned() } else { format!("{all} templates stay") },
            if all == 1 { "it is" } else { "they are" },
            list_within(&templates, all, ", ", NAMES)
        )),
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

//! `mullion plan --write DIR`: the edits of the plan, written into the manifests below a directory.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::ensure;
use json_patch::PatchOperation;
use mullion_engine::model::WorkloadKind;
use mullion_engine::model::text::{counted, list_first};
use mullion_manifest::edit::{ObjectPatch, text_patch};
use mullion_plan::PlanReport;
use mullion_plan::report::{PlannedContainer, PlannedWorkload, ProposalConfidence, Verdict};

use crate::cli::documents::{ManifestFile, ManifestWorkload, ParsedDocument};
use crate::cli::in_place::FileReplacement;
use crate::cli::input::{SourceText, is_manifest, read_file, source_text};
use crate::cli::io_handles::Io;
use crate::cli::plan::field_edits::object_edits;
use crate::directory_walk::{LeavingLinks, files_below};
use crate::report::InputFailure;

/// The most workloads without a document, or documents of one workload, that are named.
const NAMED: usize = 20;

/// The workloads of a plan with the documents that describe them.
struct Matches<'r> {
    workloads: Vec<MatchedWorkload<'r>>,
    /// By kind and name: indexes into `workloads`.
    by_name: BTreeMap<(&'r str, &'r str), Vec<usize>>,
}

/// A workload of the plan with edits.
struct MatchedWorkload<'r> {
    planned: &'r PlannedWorkload,
    /// Why nothing is written for it.
    refusal: Option<String>,
    /// The documents that describe it, as `FILE:LINE`.
    documents: Vec<String>,
}

/// Writes the edits, and reports on stderr what was written and what was not. Returns the number of files that could not be
/// written.
pub(super) fn write_files(
    report: &PlanReport,
    directory: &Path,
    include_guesses: bool,
    io: &mut Io<'_>,
) -> anyhow::Result<usize> {
    let shown = directory.display();
    ensure!(directory.is_dir(), "plan: --write {shown}: it is not a directory; name the directory with your manifests");
    // What is behind a link that leaves the directory is not the user's to change, also if it may be read.
    let (files, problems) = files_below(directory, is_manifest, LeavingLinks::Skipped);
    for (path, problem) in problems {
        io.eprintln(InputFailure::of_file(path.display().to_string(), format!("not written: {problem}")))?;
    }
    let mut matches = Matches::new(report, include_guesses);
    let mut wanted = Vec::new();
    for path in files {
        match read_source(&path) {
            Ok(source) => match matches.find(&source) {
                Ok(0) => {}
                Ok(_) => wanted.push(path),
                Err(failure) => io.eprintln(format_args!("{failure} (not written)"))?,
            },
            Err(failure) => io.eprintln(format_args!("{failure} (not written)"))?,
        }
    }
    let mut unwritten = 0;
    for path in wanted {
        let changed = match read_source(&path) {
            Ok(source) => matches.edit(&source, io)?.map(|text| {
                FileReplacement::prepare(&path, &source.encoding.encode(&text)).and_then(FileReplacement::finish)
            }),
            Err(failure) => Some(Err(io::Error::other(failure.message))),
        };
        if let Some(Err(error)) = changed {
            unwritten += 1;
            io.eprintln(InputFailure::of_file(path.display().to_string(), format!("it cannot be written: {error}")))?;
        }
    }
    matches.report_rest(directory, io)?;
    Ok(unwritten)
}

impl<'r> Matches<'r> {
    fn new(report: &'r PlanReport, include_guesses: bool) -> Self {
        let mut matches = Self { workloads: Vec::new(), by_name: BTreeMap::new() };
        for planned in report.workloads.iter().filter(|planned| !planned.edits.is_empty()) {
            let key = (planned.object.kind.as_str(), planned.object.name.as_str());
            matches.by_name.entry(key).or_default().push(matches.workloads.len());
            let refusal = refusal(planned, &report.target.release, include_guesses);
            matches.workloads.push(MatchedWorkload { planned, refusal, documents: Vec::new() });
        }
        matches
    }

    /// The workload that an object describes. A manifest without a namespace describes the only one of its kind and name.
    fn of(&self, workload: &ManifestWorkload<'_>) -> Option<Result<usize, String>> {
        let name = workload.object.name.as_deref()?;
        let found = self.by_name.get(&(workload.kind.name(), name))?;
        // A part of a manifest, as overlays of Kustomize contain them, does not show what the whole contains.
        let pod = workload.object.value.pointer(workload.kind.pod_pointer());
        let is_whole = pod.is_some_and(|pod| pod.pointer("/spec/containers/0/image").is_some());
        let namespace = |at: &&usize| self.workloads.get(**at).map(|one| one.planned.object.namespace.as_str());
        let at = match (&workload.object.namespace, found.as_slice()) {
            (Some(wanted), found) => *found.iter().find(|at| namespace(at) == Some(wanted))?,
            (None, [only]) => *only,
            (None, several) => {
                let namespaces: Vec<&str> = several.iter().filter_map(|at| namespace(&at)).collect();
                return Some(Err(format!(
                    "it has no namespace, and workloads of this name move in {}",
                    list_first(&namespaces, NAMED)
                )));
            }
        };
        if is_whole { Some(Ok(at)) } else { Some(Err("it has no containers: it is a part of a manifest".to_owned())) }
    }

    /// Notes the documents of a file, and returns how many objects of it concern the plan.
    fn find(&mut self, source: &SourceText) -> Result<usize, InputFailure> {
        let file = ManifestFile::new(source);
        let mut found = Vec::new();
        for document in file.documents() {
            let parsed = ParsedDocument::new(document.map_err(InputFailure::from)?);
            for object in parsed.objects() {
                if let Some(workload) = object.workload() {
                    let line = file.line_column(workload.object.span.start).line;
                    found.extend(self.of(&workload).map(|at| (at, format!("{}:{line}", source.name))));
                }
            }
        }
        let all = found.len();
        for (at, place) in found {
            if let Some(one) = at.ok().and_then(|at| self.workloads.get_mut(at)) {
                one.documents.push(place);
            }
        }
        Ok(all)
    }

    /// The text of a file with the edits of its objects; `None` if nothing changes.
    fn edit(&self, source: &SourceText, io: &mut Io<'_>) -> anyhow::Result<Option<String>> {
        let file = ManifestFile::new(source);
        let mut replacements = Vec::new();
        let mut messages = Vec::new();
        file.each(|document| {
            let Ok(parsed) = document else { return Ok(()) };
            let mut patches: Vec<(String, Vec<PatchOperation>)> = Vec::new();
            let mut written = Vec::new();
            for object in parsed.objects() {
                let Some(workload) = object.workload() else { continue };
                let Some(found) = self.of(&workload) else { continue };
                let line = file.line_column(workload.object.span.start).line;
                let name = workload.object.name.as_deref().unwrap_or_default();
                let place = format!("{}:{line}: {name}", source.name);
                let one = match found.map(|at| self.workloads.get(at)) {
                    Ok(Some(one)) => one,
                    Ok(None) => continue,
                    Err(reason) => {
                        messages.push(format!("{place} ({}): not written: {reason}", workload.kind.name()));
                        continue;
                    }
                };
                let place = format!("{place} ({})", one.planned.object);
                if let Some(reason) = one.refusal() {
                    messages.push(format!("{place}: not written: {reason}"));
                    continue;
                }
                let edits = object_edits(&workload.object.value, &one.planned.edits);
                let skipped = edits.skipped.iter().map(|reason| format!("{place}: not written: {reason}"));
                let skipped: Vec<String> = skipped.collect();
                if edits.changed == 0 && skipped.is_empty() {
                    written.push(format!("{place}: nothing to change"));
                } else if edits.changed > 0 {
                    written.push(format!("{place}: {}", counted(edits.changed, "field")));
                }
                written.extend(skipped);
                patches.push((workload.object.pointer_prefix.clone(), edits.operations));
            }
            let patches: Vec<ObjectPatch<'_>> =
                patches.iter().map(|(prefix, operations)| ObjectPatch { pointer_prefix: prefix, operations }).collect();
            match text_patch::edit(&source.text, &parsed.document, &patches) {
                Ok(replacement) => {
                    replacements.extend(replacement);
                    messages.append(&mut written);
                }
                Err(error) => messages.push(format!("{}: not written: {error}", source.name)),
            }
            Ok(())
        })?;
        messages.iter().try_for_each(|message| io.eprintln(message))?;
        Ok((!replacements.is_empty()).then(|| text_patch::splice(&source.text, &replacements)))
    }

    /// Names the workloads that no document describes.
    fn report_rest(&self, directory: &Path, io: &mut Io<'_>) -> io::Result<()> {
        let rest = self.workloads.iter().filter(|one| one.documents.is_empty());
        let names: Vec<String> = rest.map(|one| one.planned.object.to_string()).collect();
        if names.is_empty() {
            return Ok(());
        }
        io.eprintln(format_args!(
            "{}: no document describes {}; change them in their source",
            directory.display(),
            list_first(&names, NAMED)
        ))
    }
}

impl MatchedWorkload<'_> {
    fn refusal(&self) -> Option<String> {
        if self.documents.len() > 1 {
            return Some(format!(
                "several documents describe it: {}; change the right one",
                list_first(&self.documents, NAMED)
            ));
        }
        self.refusal.clone()
    }
}

/// Why nothing is written for a workload: without its image, its pods would move and fail.
fn refusal(planned: &PlannedWorkload, release: &str, include_guesses: bool) -> Option<String> {
    let written = |planned_image: &PlannedContainer| {
        let image = planned_image.proposal.as_ref().map(|proposal| proposal.image.as_str());
        let mut edits = planned.edits.iter().filter(|edit| edit.confidence.is_some());
        image.is_some() && edits.any(|edit| edit.after.as_ref().and_then(|after| after.as_str()) == image)
    };
    let mut open = planned.images().filter(|(_, one)| one.injected_by.is_none() && one.verdict != Verdict::RunsAsIs);
    if let Some((of, one)) = open.find(|(_, one)| !written(one)) {
        let (of, PlannedContainer { name, image, .. }) = (of.name(), one);
        return Some(match one.verdict {
            Verdict::Unknown => format!("it is unknown whether image {image} of {of} {name} runs on {release}"),
            _ if planned.object.kind == WorkloadKind::DaemonSet.name() => {
                format!("image {image} of {of} {name} must run in the old and in the new pools")
            }
            _ => format!("the image of {of} {name} must be built for {release} first"),
        });
    }
    let mut guesses = planned.edits.iter().filter(|edit| edit.confidence == Some(ProposalConfidence::Guess));
    let guess = guesses.next().filter(|_| !include_guesses)?;
    let image = guess.after.as_ref().and_then(|after| after.as_str()).unwrap_or_default();
    Some(format!("image {image} is a guess; confirm it with --registry, or add --include-guesses"))
}

fn read_source(path: &Path) -> Result<SourceText, InputFailure> {
    let name = path.display().to_string();
    let bytes = read_file(path).map_err(|error| InputFailure::of_file(name.as_str(), error.to_string()))?;
    source_text(name, bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    /// A workload with one container, and one edit of its image.
    fn planned(kind: &str, verdict: &str, injected: bool, proposal: Option<&str>) -> PlannedWorkload {
        let image = "registry.example.com/web:windows-ltsc2025";
        let proposed = proposal.map(
            |confidence| json!({"image": image, "confidence": confidence, "product": "", "otherRepository": false}),
        );
        let edit = |confidence| json!({"path": "spec.template.spec.containers[0].image", "after": image, "why": "", "confidence": confidence});
        let edits: Vec<_> = proposal.filter(|_| kind != "DaemonSet").map(edit).into_iter().collect();
        let container = json!({"name": "web", "image": "registry.example.com/web:1", "builds": [], "knownFrom": "unknown",
            "verdict": verdict, "because": "", "proposal": proposed, "notes": [], "findOut": "",
            "injectedBy": injected.then_some("a webhook")});
        serde_json::from_value(json!({"namespace": "shop", "kind": kind, "name": "web", "verdict": verdict,
            "containers": [container], "pods": 1, "pools": [], "risks": [], "edits": edits, "instead": "",
            "commands": [], "back": [], "hold": []}))
        .unwrap()
    }

    #[test]
    fn nothing_is_written_without_the_image() {
        let built = Some("the image of container web must be built for ltsc2025 first");
        let guess = Some(
            "image registry.example.com/web:windows-ltsc2025 is a guess; confirm it with --registry, or add --include-guesses",
        );
        let table = [
            (planned("Deployment", "runsAsIs", false, None), false, None),
            (planned("Deployment", "rebuild", false, None), true, built),
            (planned("Deployment", "rebuild", true, None), false, None),
            (
                planned("Deployment", "unknown", false, None),
                true,
                Some("it is unknown whether image registry.example.com/web:1 of container web runs on ltsc2025"),
            ),
            (planned("Deployment", "anotherTag", false, Some("table")), false, None),
            (planned("Deployment", "anotherTag", false, Some("registry")), false, None),
            (planned("Deployment", "anotherTag", false, Some("guess")), false, guess),
            (planned("Deployment", "anotherTag", false, Some("guess")), true, None),
            (
                planned("DaemonSet", "anotherTag", false, Some("table")),
                true,
                Some("image registry.example.com/web:1 of container web must run in the old and in the new pools"),
            ),
        ];
        for (planned, include_guesses, expected) in table {
            let found = refusal(&planned, "ltsc2025", include_guesses);
            assert_eq!(found.as_deref(), expected, "{planned:?}");
        }
    }
}

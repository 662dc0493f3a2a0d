//! Parts of objects in files: patches, and workloads without a field that the API server requires.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::partial_object::{find_directive, missing_field, without_directives};
use mullion_engine::model::text::list_within;
use mullion_manifest::{ManifestDocument, ManifestNode, ManifestObject, NodeValue, NotAnObject};

use crate::cli::documents::{ManifestFile, ManifestWorkload};
use crate::cli::io_handles::Io;
use crate::cli::kustomization::Kustomization;

/// The maximum length of the names of the parts with one reason.
const NAMES: usize = 300;

/// Why something is a part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartEvidence {
    reason: PartReason,
    /// The kustomization in its directory.
    beside: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PartReason {
    /// A kustomization names its file as a patch.
    PatchOf(String),
    /// It has a directive of strategic merge patches.
    Directive(String),
    /// It has no field of that name, which the API server requires.
    Missing(&'static str),
    /// It is a list of JSON 6902 operations.
    JsonPatch,
}

/// A part of an object in its document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartOfObject<'d> {
    /// The part, if it is of a pod or of an object with a pod template; without directives.
    pub(crate) workload: Option<ManifestWorkload<'d>>,
    /// Its place, and its kind and name if it has them.
    pub(crate) object: Result<&'d ManifestObject, &'d NotAnObject>,
    /// Why it is a part.
    pub(crate) evidence: &'d PartEvidence,
}

/// Why `object` is a part; `None` if it is complete. Removes the directives from a part.
pub(crate) fn part_evidence(
    object: &mut Result<ManifestObject, NotAnObject>,
    document: &ManifestDocument,
    patch_of: Option<&str>,
    beside: Option<&str>,
) -> Option<PartEvidence> {
    let reason = match (patch_of, &*object) {
        (Some(file), _) => PartReason::PatchOf(file.to_owned()),
        (None, Err(NotAnObject { pointer_prefix, .. })) => {
            let node = document.node.at_pointer(pointer_prefix)?;
            is_json_patch(node).then_some(PartReason::JsonPatch)?
        }
        (None, Ok(object)) => {
            let missing = || {
                let kind = WorkloadKind::of_object(&object.api_version, &object.kind)?;
                missing_field(&object.api_version, kind, &object.value).map(PartReason::Missing)
            };
            let directive = find_directive(&object.value).map(|key| PartReason::Directive(key.to_owned()));
            directive.or_else(missing)?
        }
    };
    if let Ok(object) = object {
        object.value = without_directives(&object.value);
    }
    Some(PartEvidence { reason, beside: beside.map(str::to_owned) })
}

/// Whether a value is a list of JSON 6902 operations.
fn is_json_patch(node: &ManifestNode) -> bool {
    let text = |item: &ManifestNode, key: &str| item.get(key).is_some_and(|entry| entry.value.as_str().is_some());
    match &node.value {
        NodeValue::List(items) => !items.is_empty() && items.iter().all(|item| text(item, "op") && text(item, "path")),
        _ => false,
    }
}

impl<'d> PartOfObject<'d> {
    /// The workload that the part sets values of, if rules apply to them. The patches of a kustomization are judged in
    /// its result only.
    pub(crate) fn judged(&self) -> Option<ManifestWorkload<'d>> {
        let PartEvidence { reason, beside } = self.evidence;
        let alone = beside.is_none() && matches!(reason, PartReason::Directive(_) | PartReason::Missing(_));
        self.workload.filter(|_| alone)
    }

    /// Its name, if it has one, with its place in `file`: `Deployment default/web (a.yaml:3)`.
    pub(crate) fn title(&self, file: &ManifestFile<'_>, default_namespace: &str) -> String {
        let line = |span: mullion_manifest::Span| file.line_column(span.start).line;
        match (&self.workload, self.object) {
            (Some(workload), _) => workload.title(file, &workload.name(default_namespace)),
            (None, Ok(object)) => {
                let name = object.name.as_deref().unwrap_or("(no name)");
                format!("{} {name} ({}:{})", object.kind, file.source.name, line(object.span))
            }
            (None, Err(part)) => format!("{}:{}", file.source.name, line(part.span)),
        }
    }
}

impl fmt::Display for PartEvidence {
    /// A clause: `it has no spec.selector`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            PartReason::PatchOf(file) => write!(f, "{file} names it as a patch")?,
            PartReason::Directive(key) => write!(f, "it has {key}")?,
            PartReason::Missing(field) => write!(f, "it has no {field}")?,
            PartReason::JsonPatch => write!(f, "it is a list of JSON 6902 operations")?,
        }
        match &self.beside {
            Some(file) if !matches!(self.reason, PartReason::PatchOf(_)) => write!(f, ", beside {file}"),
            _ => Ok(()),
        }
    }
}

/// Why the patches in the text of a kustomization are parts, and their number and place; `None` if it has none.
pub(crate) fn inline_part(kustomization: &Kustomization, file: &ManifestFile<'_>) -> Option<(String, String)> {
    let patches = match kustomization.inline {
        0 => return None,
        1 => "1 patch".to_owned(),
        count => format!("{count} patches"),
    };
    Some(("it is text in a kustomization".to_owned(), format!("{patches} ({})", file.source.name)))
}

/// Parts of objects, by what is done with them and why they are parts.
#[derive(Debug, Default)]
pub(crate) struct PartsOfObjects(BTreeMap<(&'static str, String), Vec<String>>);

impl PartsOfObjects {
    /// Adds a part. `done`: a clause, `not changed`.
    pub(crate) fn add(&mut self, done: &'static str, evidence: String, title: String) {
        self.0.entry((done, evidence)).or_default().push(title);
    }

    /// Adds the patches in the text of a kustomization, if it has any.
    pub(crate) fn add_inline(&mut self, done: &'static str, kustomization: &Kustomization, file: &ManifestFile<'_>) {
        if let Some((evidence, title)) = inline_part(kustomization, file) {
            self.add(done, evidence, title);
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Prints a line on stderr for each reason: `part of an object, not changed: it has no spec.selector: Deployment
    /// default/web (a.yaml:3)`.
    pub(crate) fn report(&self, io: &mut Io<'_>) -> io::Result<()> {
        self.0.iter().try_for_each(|((done, evidence), titles)| {
            let titles = list_within(titles, titles.len(), ", ", NAMES);
            io.eprintln(format_args!("part of an object, {done}: {evidence}: {titles}"))
        })
    }
}

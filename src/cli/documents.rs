//! Documents of texts, and the objects in them.

use std::cell::OnceCell;
use std::io;

use mullion_engine::admission::Review;
use mullion_engine::model::json_pointer::unescape;
use mullion_engine::model::text::counted;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::pod_templates::{TemplatePods, template_pods};
use mullion_manifest::{
    LineColumn, LineIndex, ManifestDocument, ManifestDocuments, ManifestNode, ManifestObject, NotAnObject, Problem,
    Span, object,
};

use serde_json::Value;

use crate::cli::helm_source::template_of;
use crate::cli::input::SourceText;
use crate::cli::io_handles::Io;
use crate::cli::kustomization::{Kustomization, Kustomizations};
use crate::cli::part_evidence::{PartEvidence, part_evidence};
use crate::cli::template_workload::{TemplateObject, TemplateWorkload};
use crate::report::{InputFailure, ObjectName, ReviewNotes, SourcePlace, os_text};

/// A file with manifests.
#[derive(Debug)]
pub(crate) struct ManifestFile<'t> {
    /// Its name and text.
    pub source: &'t SourceText,
    lines: LineIndex<'t>,
    place: KustomizationPlace,
}

/// Where a file is for the kustomizations among the inputs.
#[derive(Debug, Clone, Default)]
struct KustomizationPlace {
    /// The kustomization that names it as a patch.
    patch_of: Option<String>,
    /// The kustomization in its directory.
    beside: Option<String>,
}

/// One document and the objects in it: one, or the items of a List.
#[derive(Debug)]
pub(crate) struct ParsedDocument {
    /// The document.
    pub document: ManifestDocument,
    objects: Vec<ParsedObject>,
    kustomization: Option<Kustomization>,
}

/// One object, and why it is a part of one.
#[derive(Debug)]
struct ParsedObject {
    object: Result<ManifestObject, NotAnObject>,
    part: Option<PartEvidence>,
    /// The pods of an object that is not a workload of Kubernetes, once it is classified.
    template_pods: OnceCell<Option<TemplatePods>>,
}

/// One object of a document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClassifiedObject<'d> {
    /// A pod, or an object with a pod template.
    Workload(ManifestWorkload<'d>),
    /// An object of another kind with pods that its controller creates.
    Templates(TemplateObject<'d>),
    /// A Namespace.
    Namespace(&'d ManifestObject),
    /// A RuntimeClass.
    RuntimeClass(&'d ManifestObject),
    /// A part of an object: a patch, or a workload without a field that every workload has.
    Part(PartOfObject<'d>),
    /// The input of `kustomize`.
    Kustomization(&'d Kustomization),
    /// Any other Kubernetes object.
    Other,
    /// Not a Kubernetes object.
    Skipped,
}

/// A pod, or an object with a pod template, in its document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ManifestWorkload<'d> {
    /// Its kind; Pod for one that a controller creates from an object of another kind.
    pub kind: WorkloadKind,
    /// The object.
    pub object: &'d ManifestObject,
    /// The pod, if a controller creates it from an object of another kind.
    pub template: Option<TemplateWorkload<'d>>,
    document: &'d ManifestDocument,
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

impl<'d> PartOfObject<'d> {
    /// The workload that the part sets values of, if rules apply to them.
    pub(crate) fn judged(&self) -> Option<ManifestWorkload<'d>> {
        self.workload.filter(|_| self.evidence.permits_rules())
    }

    /// Its name, if it has one, with its place in `file`: `Deployment default/web (a.yaml:3)`.
    pub(crate) fn title(&self, file: &ManifestFile<'_>, default_namespace: &str) -> String {
        let line = |span: Span| file.line_column(span.start).line;
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

impl<'d> ClassifiedObject<'d> {
    /// The pod or the object with a pod template of Kubernetes, complete or a part.
    pub(crate) fn workload(&self) -> Option<ManifestWorkload<'d>> {
        match self {
            Self::Workload(workload) => Some(*workload),
            Self::Part(part) => part.workload,
            _ => None,
        }
    }

    /// The pod or the object with a pod template, complete or a part; for an object of another kind its pods.
    pub(crate) fn workloads(&self) -> Vec<ManifestWorkload<'d>> {
        match self {
            Self::Templates(object) => object.workloads().collect(),
            _ => self.workload().into_iter().collect(),
        }
    }
}

impl<'t> ManifestFile<'t> {
    /// Creates the file without reading its documents.
    pub(crate) fn new(source: &'t SourceText) -> Self {
        Self { lines: LineIndex::new(&source.text), source, place: KustomizationPlace::default() }
    }

    /// Creates all files of an input, and finds the kustomizations among them.
    pub(crate) fn all(sources: &'t [SourceText]) -> (Vec<Self>, Kustomizations) {
        let kustomizations = Kustomizations::find(sources);
        let file = |source: &'t SourceText| {
            let place = KustomizationPlace {
                patch_of: kustomizations.of_patch(&source.name).map(str::to_owned),
                beside: kustomizations.beside(&source.name).map(str::to_owned),
            };
            Self { place, ..Self::new(source) }
        };
        (sources.iter().map(file).collect(), kustomizations)
    }

    /// The objects of a document of this file.
    fn parsed(&self, document: ManifestDocument) -> ParsedDocument {
        let KustomizationPlace { patch_of, beside } = &self.place;
        ParsedDocument::in_place(document, &self.source.name, patch_of.as_deref(), beside.as_deref())
    }

    /// Its documents in order, each read on demand.
    pub(crate) fn documents(&self) -> ManifestDocuments<'t> {
        ManifestDocuments::new(&self.source.name, &self.source.text)
    }

    /// Calls `visit` for each document in order, and returns the number of broken ones. Only the visited document is in
    /// memory, because its values and places take about 20 times the memory of its text.
    pub(crate) fn each(
        &self,
        mut visit: impl FnMut(Result<ParsedDocument, InputFailure>) -> anyhow::Result<()>,
    ) -> anyhow::Result<usize> {
        let mut broken = 0;
        for document in self.documents() {
            match document {
                Ok(document) => visit(Ok(self.parsed(document)))?,
                Err(problem) => {
                    broken += 1;
                    if broken <= NAMED {
                        visit(Err(problem.into()))?;
                    }
                }
            }
        }
        if broken > NAMED {
            let message =
                format!("{}; correct the first ones and try again", counted(broken - NAMED, "more broken document"));
            visit(Err(InputFailure::of_file(self.source.name.as_str(), message)))?;
        }
        Ok(broken)
    }

    /// Line and column of a byte.
    pub(crate) fn line_column(&self, offset: usize) -> LineColumn {
        self.lines.line_column(offset)
    }

    /// What is wrong with the text of a document, and changes nothing about its values.
    pub(crate) fn warnings(&self, document: &ManifestDocument) -> impl Iterator<Item = Problem> {
        document.warnings(&self.source.name, &self.lines)
    }

    /// The place of `span` in this file.
    pub(crate) fn place(&self, span: Span) -> SourcePlace<'_> {
        let LineColumn { line, column } = self.line_column(span.start);
        SourcePlace { file: &self.source.name, text: &self.source.text, span: span.range(), line, column }
    }
}

/// The number of broken documents of a file that are reported individually; the others are counted. A file of another
/// kind with the extension of a manifest may contain millions.
const NAMED: usize = 20;

/// Calls `visit` for each object of all files in order, and reports broken and skipped documents on stderr. Returns the
/// number of broken documents.
pub(crate) fn each_object(
    files: &[ManifestFile<'_>],
    io: &mut Io<'_>,
    mut visit: impl FnMut(&ClassifiedObject<'_>, &ManifestFile<'_>, &mut Io<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let (mut broken, mut skipped) = (0, 0);
    for file in files {
        broken += file.each(|document| {
            let parsed = match document {
                Ok(parsed) => parsed,
                Err(failure) => return Ok(io.eprintln(failure)?),
            };
            for found in parsed.objects() {
                skipped += usize::from(matches!(found, ClassifiedObject::Skipped));
                visit(&found, file, io)?;
            }
            Ok(())
        })?;
    }
    report_skipped(skipped, io)?;
    Ok(broken)
}

/// Reports on stderr the number of documents that are not Kubernetes objects, if there are any.
pub(crate) fn report_skipped(skipped: usize, io: &mut Io<'_>) -> io::Result<()> {
    match skipped {
        0 => Ok(()),
        _ => io.eprintln(format_args!("{}: no apiVersion or no kind", counted(skipped, "skipped document"))),
    }
}

impl ParsedDocument {
    /// Finds the objects of `document`, which is alone.
    pub(crate) fn new(document: ManifestDocument) -> Self {
        Self::in_place(document, "", None, None)
    }

    /// Finds the objects of a document of `file`. `patch_of`: the kustomization that names the file as a patch;
    /// `beside`: the one in its directory.
    fn in_place(document: ManifestDocument, file: &str, patch_of: Option<&str>, beside: Option<&str>) -> Self {
        let kustomization = Kustomization::of(file, &document.node);
        let parsed = |mut object| {
            let part = part_evidence(&mut object, &document, patch_of, beside);
            ParsedObject { object, part, template_pods: OnceCell::new() }
        };
        Self { objects: object::objects(&document).into_iter().map(parsed).collect(), kustomization, document }
    }

    /// Its objects in order.
    pub(crate) fn objects(&self) -> impl Iterator<Item = ClassifiedObject<'_>> {
        let kustomization = self.kustomization.as_ref().map(ClassifiedObject::Kustomization);
        let objects = self.objects.iter().map(|ParsedObject { object, part, template_pods }| match (object, part) {
            (_, Some(evidence)) => ClassifiedObject::Part(PartOfObject {
                workload: object.as_ref().ok().and_then(|object| self.workload(object)),
                object: object.as_ref(),
                evidence,
            }),
            (Err(_), None) => ClassifiedObject::Skipped,
            (Ok(object), None) if object.kind == "Namespace" && object.api_version == "v1" => {
                ClassifiedObject::Namespace(object)
            }
            (Ok(object), None) if object.kind == "RuntimeClass" && object.api_version.starts_with("node.k8s.io/") => {
                ClassifiedObject::RuntimeClass(object)
            }
            (Ok(object), None) => match self.workload(object) {
                Some(workload) => ClassifiedObject::Workload(workload),
                None => match template_pods.get_or_init(|| read_pods(object)) {
                    Some(pods) => {
                        ClassifiedObject::Templates(TemplateObject { object, pods, document: &self.document })
                    }
                    None => ClassifiedObject::Other,
                },
            },
        });
        let objects = objects.filter(move |_| kustomization.is_none());
        kustomization.into_iter().chain(objects)
    }

    /// `object`, if it is a pod or has a pod template.
    fn workload<'d>(&'d self, object: &'d ManifestObject) -> Option<ManifestWorkload<'d>> {
        let kind = WorkloadKind::of_object(&object.api_version, &object.kind)?;
        Some(ManifestWorkload { kind, object, template: None, document: &self.document })
    }
}

fn read_pods(object: &ManifestObject) -> Option<TemplatePods> {
    template_pods(&object.api_version, &object.kind, &object.value)
}

impl<'d> TemplateObject<'d> {
    /// Its pods.
    pub(crate) fn workloads(self) -> impl Iterator<Item = ManifestWorkload<'d>> {
        let Self { object, pods, document } = self;
        pods.pods.iter().map(move |pod| {
            let template = Some(TemplateWorkload { pods, pod });
            ManifestWorkload { kind: WorkloadKind::Pod, object, template, document }
        })
    }

    /// Its place with its name, and why its pods could not be read; `None` if all were.
    pub(crate) fn not_read(self, file: &ManifestFile<'_>) -> Option<(String, String)> {
        let message = self.unread_text()?;
        let line = file.line_column(self.object.span.start).line;
        Some((format!("{}:{line}: {}", file.source.name, self.name()), message))
    }
}

impl<'d> ManifestWorkload<'d> {
    /// What is reviewed: the object, or the pod that its controller creates.
    pub(crate) fn value(&self) -> &'d Value {
        self.template.map_or(&self.object.value, |template| &template.pod.pod)
    }

    /// Its namespace; `default` if it does not set one.
    pub(crate) fn namespace(&self, default: &'d str) -> &'d str {
        self.object.namespace.as_deref().unwrap_or(default)
    }

    /// Its kind, namespace and name.
    pub(crate) fn name(&self, default_namespace: &str) -> ObjectName {
        let name = self.object.name.as_ref().or(self.object.generate_name.as_ref());
        let namespace = self.namespace(default_namespace).to_owned();
        let name = name.cloned().unwrap_or_default();
        match self.template {
            None => ObjectName { kind: self.kind.name().into(), namespace, name, pod: None },
            Some(template) => {
                ObjectName { kind: self.object.kind.clone().into(), namespace, name, pod: template.site() }
            }
        }
    }

    /// The request that creates it.
    pub(crate) fn creation(&self, default_namespace: &'d str) -> ReviewRequest<'d> {
        let namespace = self.namespace(default_namespace);
        let is_partly_unknown = self.template.is_some_and(|template| template.pod.unknown.is_some());
        let workload = WorkloadObject { kind: self.kind, namespace, object: self.value() };
        ReviewRequest { is_partly_unknown, ..ReviewRequest::creation(workload) }
    }

    /// Its name with its place in `file`: `Pod shop/web (a.yaml:3)`.
    pub(crate) fn title(&self, file: &ManifestFile<'_>, name: &ObjectName) -> String {
        format!("{name} ({}:{})", file.source.name, file.line_column(self.object.span.start).line)
    }

    /// The first lines of a text about it: its name with its place in `file`, and its operating system, or why it is not
    /// reviewed.
    pub(crate) fn heading(
        &self,
        file: &ManifestFile<'_>,
        name: &ObjectName,
        review: &Review,
        notes: &ReviewNotes,
    ) -> Vec<String> {
        let second = match &notes.not_reviewed {
            Some(why) => format!("  not reviewed: {why}"),
            None => format!("  os: {}", os_text(&review.decision)),
        };
        vec![self.title(file, name), second]
    }

    /// JSON pointer to where the object has the labels and annotations of its pod.
    pub(crate) fn metadata_pointer(&self) -> String {
        match self.template {
            None => format!("{}/metadata", self.kind.pod_pointer()),
            Some(template) => template.pod.metadata_pointer.clone(),
        }
    }

    /// The template of its document in `file`, if Helm rendered it.
    pub(crate) fn helm_template<'t>(&self, file: &ManifestFile<'t>) -> Option<&'t str> {
        template_of(&file.source.text, self.document)
    }

    /// The span to show for `pointer`, which starts at the object.
    pub(crate) fn span_of(&self, pointer: &str) -> Span {
        span_of(&self.document.node, &self.object.pointer_prefix, pointer)
    }
}

/// The span to show for `pointer` in the object at `prefix`: key and value of a member of a map, otherwise the value. If
/// the pointer does not exist, the span of its nearest existing ancestor, at most that of the object.
fn span_of(root: &ManifestNode, prefix: &str, pointer: &str) -> Span {
    let object = root.nearest(prefix);
    let mut pointer = pointer;
    while let Some((parent, token)) = pointer.rsplit_once('/') {
        if let Some(node) = object.at_pointer(pointer) {
            return match object.at_pointer(parent).and_then(|parent| parent.get(&unescape(token))) {
                // The key of a value from an alias or a merge key is elsewhere, possibly below.
                Some(entry) if entry.key_span.start <= node.span.start => {
                    Span::new(entry.key_span.start, node.span.end)
                }
                _ => node.span,
            };
        }
        pointer = parent;
    }
    object.span
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use mullion_manifest::document;

    use super::*;

    fn shown<'t>(text: &'t str, prefix: &str, pointer: &str) -> &'t str {
        let document = document::documents("t.yaml", text).remove(0).unwrap();
        &text[span_of(&document.node, prefix, pointer).range()]
    }

    #[test]
    fn a_custom_resource_of_a_known_name_is_no_workload() {
        for (api_version, workload) in
            [("batch/v1", true), ("extensions/v1beta1", true), ("v1", true), ("batch.volcano.sh/v1alpha1", false)]
        {
            let text = format!("apiVersion: {api_version}\nkind: Job\nmetadata: {{name: a}}\n");
            let parsed = ParsedDocument::new(document::documents("t.yaml", &text).remove(0).unwrap());
            let is_workload = parsed.objects().map(|found| found.workload().is_some());
            assert_eq!(is_workload.collect::<Vec<_>>(), [workload], "{api_version}");
        }
    }

    #[test]
    fn a_pointer_shows_key_and_value_or_the_nearest_ancestor() {
        let text = "spec:\n  containers:\n  - name: a\n    image: b # c\n  x: {a/b: 1}\n  y: &y\n    z: 2\n  w: *y\n";
        let table = [
            ("/spec/containers/0/image", "image: b"),
            ("/spec/containers/0", "name: a\n    image: b"),
            ("/spec/containers/0/securityContext/runAsUser", "name: a\n    image: b"),
            ("/spec/x/a~1b", "a/b: 1"),
            ("/spec/x/nothing", "x: {a/b: 1}"),
            ("/spec/w", "w: *y"),
            ("/spec/w/z", "z: 2"),
            ("/spec/containers/7/image", "containers:\n  - name: a\n    image: b"),
        ];
        for (pointer, expected) in table {
            assert!(shown(text, "", pointer).starts_with(expected), "{pointer}: {:?}", shown(text, "", pointer));
        }
        assert!(shown(text, "", "/status").starts_with("spec:"));
        assert!(shown(text, "", "").starts_with("spec:"));
        assert_eq!(shown(text, "/spec/containers/0", "/name"), "name: a");
        assert!(shown(text, "/spec/containers/0", "/nothing").starts_with("name: a"), "never outside the object");
    }
}

//! From texts to the objects in them.

use std::io;

use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::text::counted;
use mullion_engine::model::workload::{WorkloadKind, WorkloadObject};
use mullion_manifest::document::{Document, Documents};
use mullion_manifest::node::Node;
use mullion_manifest::object;
use mullion_manifest::object::{NotAnObject, Object};
use mullion_manifest::span::{LineColumn, LineIndex, Span};

use crate::cli::input::SourceText;
use crate::cli::io_handles::Io;
use crate::report::Failure;
use crate::report::json::ObjectName;
use crate::report::text::Place;

/// One file.
#[derive(Debug)]
pub struct File<'t> {
    /// Its name and text.
    pub source: &'t SourceText,
    lines: LineIndex<'t>,
}

/// One document and the objects in it: one, or the items of a List.
#[derive(Debug)]
pub struct Parsed {
    /// The document.
    pub document: Document,
    objects: Vec<Result<Object, NotAnObject>>,
}

/// One object of a document.
#[derive(Debug, Clone, Copy)]
pub enum ManifestObject<'d> {
    /// It is, or carries, a pod.
    Workload(ManifestWorkload<'d>),
    /// A Namespace.
    Namespace(&'d Object),
    /// Any other Kubernetes object.
    Other,
    /// Not a Kubernetes object.
    Skipped,
}

/// A subject in its document.
#[derive(Debug, Clone, Copy)]
pub struct ManifestWorkload<'d> {
    /// What it is.
    pub kind: WorkloadKind,
    /// The object.
    pub object: &'d Object,
    document: &'d Document,
}

impl<'t> File<'t> {
    /// Of `source`, of which no document is read yet.
    pub fn new(source: &'t SourceText) -> Self {
        Self { lines: LineIndex::new(&source.text), source }
    }

    /// Its documents in order, each read when it is asked for.
    pub fn documents(&self) -> Documents<'t> {
        Documents::new(&self.source.name, &self.source.text)
    }

    /// Shows `see` its documents in order, and how many are broken is returned. A document is in memory only while it is
    /// seen: its values and places take some 20 times the memory of its text.
    pub fn each(&self, mut see: impl FnMut(Result<Parsed, Failure>) -> anyhow::Result<()>) -> anyhow::Result<usize> {
        let mut broken = 0;
        for document in self.documents() {
            match document {
                Ok(document) => see(Ok(Parsed::new(document)))?,
                Err(problem) => {
                    broken += 1;
                    if broken <= NAMED {
                        see(Err(problem.into()))?;
                    }
                }
            }
        }
        if broken > NAMED {
            let message =
                format!("{}; correct the first ones and look again", counted(broken - NAMED, "more broken document"));
            see(Err(Failure { file: self.source.name.clone(), place: None, message }))?;
        }
        Ok(broken)
    }

    /// Line and column of a byte.
    pub fn line_column(&self, offset: usize) -> LineColumn {
        self.lines.line_column(offset)
    }

    /// `span` as a place in this file.
    pub fn place(&self, span: Span) -> Place<'_> {
        let LineColumn { line, column } = self.line_column(span.start);
        Place { file: &self.source.name, text: &self.source.text, span: span.range(), line, column }
    }
}

/// How many broken documents of a file are named; the others are counted. A file of another kind under a manifest's
/// name may hold millions.
const NAMED: usize = 20;

/// Shows `see` the subjects of all files in order, and says on stderr what is broken and what is skipped. Returns how many
/// documents are broken.
pub fn each_workload(
    files: &[File<'_>],
    io: &mut Io<'_>,
    mut see: impl FnMut(&ManifestWorkload<'_>, &File<'_>, &mut Io<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let (mut broken, mut skipped) = (0, 0);
    for file in files {
        broken += file.each(|document| {
            let parsed = match document {
                Ok(parsed) => parsed,
                Err(failure) => return Ok(io.say(failure)?),
            };
            for found in parsed.objects() {
                match found {
                    ManifestObject::Workload(workload) => see(&workload, file, io)?,
                    ManifestObject::Skipped => skipped += 1,
                    ManifestObject::Namespace(_) | ManifestObject::Other => {}
                }
            }
            Ok(())
        })?;
    }
    report_skipped(skipped, io)?;
    Ok(broken)
}

/// Says on stderr how many documents are no Kubernetes objects, if any.
pub fn report_skipped(skipped: usize, io: &mut Io<'_>) -> io::Result<()> {
    match skipped {
        0 => Ok(()),
        _ => io.say(format_args!("{}: no apiVersion or no kind", counted(skipped, "skipped document"))),
    }
}

impl Parsed {
    /// With the objects of `document`.
    pub fn new(document: Document) -> Self {
        Self { objects: object::objects(&document), document }
    }

    /// What it holds, in order.
    pub fn objects(&self) -> impl Iterator<Item = ManifestObject<'_>> {
        self.objects.iter().map(|object| match object {
            Err(_) => ManifestObject::Skipped,
            Ok(object) if object.kind == "Namespace" && object.api_version == "v1" => ManifestObject::Namespace(object),
            Ok(object) => match WorkloadKind::of_object(&object.api_version, &object.kind) {
                Some(kind) => ManifestObject::Workload(ManifestWorkload { kind, object, document: &self.document }),
                None => ManifestObject::Other,
            },
        })
    }
}

impl<'d> ManifestWorkload<'d> {
    /// Its namespace; `default` where it names none.
    pub fn namespace(&self, default: &'d str) -> &'d str {
        self.object.namespace.as_deref().unwrap_or(default)
    }

    /// What it is called.
    pub fn name(&self, default_namespace: &str) -> ObjectName {
        let name = self.object.name.as_ref().or(self.object.generate_name.as_ref());
        ObjectName {
            kind: self.kind.name(),
            namespace: self.namespace(default_namespace).to_owned(),
            name: name.cloned().unwrap_or_default(),
        }
    }

    /// The question whether it may be created.
    pub fn creation(&self, default_namespace: &'d str) -> ReviewRequest<'d> {
        let namespace = self.namespace(default_namespace);
        ReviewRequest::creation(WorkloadObject { kind: self.kind, namespace, object: &self.object.value })
    }

    /// What to show for `pointer`, which counts from the object.
    pub fn span_of(&self, pointer: &str) -> Span {
        span_of(&self.document.node, &self.object.pointer_prefix, pointer)
    }
}

/// What to show for `pointer` in the object at `prefix`: key and value where it is a member of a map, else the value;
/// for one that does not exist its nearest ancestor that does, at most the object.
fn span_of(root: &Node, prefix: &str, pointer: &str) -> Span {
    let object = root.nearest(prefix);
    let mut pointer = pointer;
    while let Some((parent, token)) = pointer.rsplit_once('/') {
        if let Some(node) = object.at_pointer(pointer) {
            let key = token.replace("~1", "/").replace("~0", "~");
            return match object.at_pointer(parent).and_then(|parent| parent.get(&key)) {
                // The key of what an alias or a merge key brings in stands elsewhere, perhaps below.
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
            let parsed = Parsed::new(document::documents("t.yaml", &text).remove(0).unwrap());
            let is_workload = parsed.objects().map(|found| matches!(found, ManifestObject::Workload(_)));
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

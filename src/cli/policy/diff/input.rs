//! The input of `mullion policy diff`: sources with objects, and the cluster snapshot and the nodes that they contain.

use std::collections::BTreeSet;
use std::path::Path;

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::node::NodeFacts;
use mullion_snapshot::{dump as snapshot_dump, objects};

use crate::cli::input::{InputTexts, SourceText};
use crate::cli::io_handles::Io;
use crate::cli::policy::diff::dump::{DumpObject, DumpSource, ObjectHead};
use crate::cli::review_sources::read_snapshot_file;
use crate::report::InputFailure;

/// Kind, namespace and name of a workload.
type WorkloadKey = (WorkloadKind, String, String);

/// The sources, and what they contain besides workloads.
#[derive(Default)]
pub(crate) struct DiffInput<'t> {
    pub(crate) sources: Vec<DumpSource<'t>>,
    pub(crate) snapshot: ClusterSnapshot,
    pub(crate) nodes: Vec<NodeFacts>,
    /// Every workload of the input.
    workloads: BTreeSet<WorkloadKey>,
    /// The number of workloads that are judged by themselves.
    pub(crate) judged: usize,
    /// The number of workloads that are judged with their owner.
    pub(crate) judged_with_owner: usize,
    pub(crate) skipped: usize,
    pub(crate) unreadable: usize,
}

impl<'t> DiffInput<'t> {
    /// Reads `texts`; what the file `snapshot` contains takes precedence.
    pub(crate) fn read(
        texts: &'t InputTexts,
        namespace: &str,
        snapshot: Option<&Path>,
        io: &mut Io<'_>,
    ) -> anyhow::Result<Self> {
        let mut input = Self::default();
        for text in &texts.sources {
            match DumpSource::new(text) {
                Ok(source) => input.sources.push(source),
                Err(failure) => {
                    input.unreadable += 1;
                    io.eprintln(failure)?;
                }
            }
        }
        input.survey(namespace, io)?;
        if let Some(path) = snapshot {
            input.prefer(path)?;
        }
        Ok(input)
    }

    /// A first pass: collects the cluster snapshot and the keys of all workloads.
    fn survey(&mut self, namespace: &str, io: &mut Io<'_>) -> anyhow::Result<()> {
        let mut reader = snapshot_dump::DumpReader::new("");
        let mut owned = Vec::new();
        let mut failures = Vec::new();
        for source in &self.sources {
            let name = source.file.source.name.as_str();
            let mut visit = |object: DumpObject<'_>| {
                let start = object.start;
                match object.head.kind.as_str() {
                    "" => self.skipped += 1,
                    kind @ ("Node" | "RuntimeClass" | "Namespace" | "ImagePlatforms") => {
                        let kind = kind.to_owned();
                        let value = object.value();
                        if let Err(problem) = reader.object(&value, &kind) {
                            let at = source.file.line_column(start);
                            let place = Some((at.line, at.column));
                            failures.push(InputFailure { file: name.to_owned(), place, message: problem.message });
                        } else if kind == "Node" {
                            self.nodes.extend(objects::facts_from_json(&value));
                        }
                    }
                    _ => {
                        if let Some(kind) = object.head.workload_kind() {
                            owned.push(object.head.owner.is_some().then(|| object.head.clone()));
                            self.workloads.insert(object.head.key(kind, namespace));
                        }
                    }
                }
                Ok(())
            };
            let mut broken = Vec::new();
            source.each(&mut visit, &mut |failure| {
                broken.push(failure);
                Ok(())
            })?;
            failures.append(&mut broken);
        }
        self.unreadable += failures.len();
        failures.iter().try_for_each(|failure| io.eprintln(failure))?;
        self.judged_with_owner = owned.iter().flatten().filter(|head| self.has_owner(head, namespace)).count();
        self.judged = owned.len() - self.judged_with_owner;
        self.snapshot = reader.finish().snapshot;
        Ok(())
    }

    /// Replaces parts of the snapshot with those that a file contains.
    fn prefer(&mut self, path: &Path) -> anyhow::Result<()> {
        let (name, bytes) = read_snapshot_file(path)?;
        let preferred = snapshot_dump::from_text(&name, &bytes)?;
        let ClusterSnapshot { nodes, runtime_classes, namespaces, images, .. } = preferred;
        if nodes.is_some() {
            self.snapshot.nodes = nodes;
            self.nodes.clear();
            let text = SourceText { name, text: String::from_utf8_lossy(&bytes).into_owned() };
            if let Ok(source) = DumpSource::new(&text) {
                let mut visit = |object: DumpObject<'_>| {
                    if object.head.kind == "Node" {
                        self.nodes.extend(objects::facts_from_json(&object.value()));
                    }
                    Ok(())
                };
                source.each(&mut visit, &mut |_| Ok(()))?;
            }
        }
        self.snapshot.runtime_classes = runtime_classes.or(self.snapshot.runtime_classes.take());
        self.snapshot.namespaces.extend(namespaces);
        self.snapshot.images.extend(images);
        Ok(())
    }

    /// Whether the input contains the controller of an object, so that the object is judged by its controller's template.
    pub(crate) fn has_owner(&self, head: &ObjectHead, namespace: &str) -> bool {
        let Some((kind, name)) = &head.owner else { return false };
        let namespace = head.namespace.as_deref().unwrap_or(namespace);
        let is_here =
            |kind: WorkloadKind, name: &str| self.workloads.contains(&(kind, namespace.to_owned(), name.to_owned()));
        let Some(kind) = WorkloadKind::from_name(kind) else { return false };
        if is_here(kind, name) {
            return true;
        }
        // ReplicaSets are seldom dumped: that of a Deployment is named after the Deployment and the hash.
        let hash = head.hash.as_deref().filter(|_| kind == WorkloadKind::ReplicaSet);
        let above = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
        above.is_some_and(|name| is_here(WorkloadKind::Deployment, name))
    }
}

impl ObjectHead {
    fn key(&self, kind: WorkloadKind, namespace: &str) -> WorkloadKey {
        (kind, self.namespace.as_deref().unwrap_or(namespace).to_owned(), self.name.clone())
    }
}

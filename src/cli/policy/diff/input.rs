//! The input of `mullion policy diff`: sources with objects, and the cluster snapshot and the nodes that they contain.

use std::path::Path;

use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::node::NodeFacts;
use mullion_snapshot::{dump as snapshot_dump, objects};

use crate::cli::input::{InputTexts, SourceText};
use crate::cli::io_handles::Io;
use crate::cli::live::LiveFacts;
use crate::cli::object_head::OwnerIndex;
use crate::cli::policy::diff::dump::{DumpObject, DumpSource};
use crate::cli::review_sources::read_snapshot_file;
use crate::report::InputFailure;

/// The sources, and what they contain besides workloads.
#[derive(Default)]
pub(crate) struct DiffInput<'t> {
    pub(crate) sources: Vec<DumpSource<'t>>,
    pub(crate) snapshot: ClusterSnapshot,
    pub(crate) nodes: Vec<NodeFacts>,
    /// Every workload of the input.
    pub(crate) owners: OwnerIndex,
    /// The number of workloads that are reviewed by themselves.
    pub(crate) reviewed: usize,
    /// The number of workloads that are reviewed with their owner.
    pub(crate) reviewed_with_owner: usize,
    pub(crate) skipped: usize,
    pub(crate) unreadable: usize,
}

impl<'t> DiffInput<'t> {
    /// Reads `texts`. What the cluster reports, or the file `snapshot` contains, takes precedence.
    pub(crate) fn of_texts(
        texts: &'t InputTexts,
        namespace: &str,
        live: Option<LiveFacts>,
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
        if let Some(LiveFacts { snapshot, nodes, reviewed_with_owner, .. }) = live {
            if snapshot.nodes.is_some() {
                input.nodes = nodes;
            }
            input.prefer(snapshot);
            input.reviewed_with_owner += reviewed_with_owner;
        }
        if let Some(path) = snapshot {
            input.prefer_file(path)?;
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
                            self.owners.insert(kind, &object.head, namespace);
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
        self.reviewed_with_owner = owned.iter().flatten().filter(|head| self.owners.has_owner(head, namespace)).count();
        self.reviewed = owned.len() - self.reviewed_with_owner;
        self.snapshot = reader.finish().snapshot;
        Ok(())
    }

    /// Replaces parts of the snapshot with those that a file contains.
    fn prefer_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let (name, bytes) = read_snapshot_file(path)?;
        let preferred = snapshot_dump::from_text(&name, &bytes)?;
        if preferred.nodes.is_some() {
            self.nodes.clear();
            let text = SourceText::new(name, String::from_utf8_lossy(&bytes).into_owned());
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
        self.prefer(preferred);
        Ok(())
    }

    /// Replaces parts of the snapshot with those that `preferred` contains.
    fn prefer(&mut self, preferred: ClusterSnapshot) {
        let ClusterSnapshot { api_server, nodes, runtime_classes, namespaces, images, .. } = preferred;
        self.snapshot.api_server = api_server.or(self.snapshot.api_server);
        self.snapshot.nodes = nodes.or(self.snapshot.nodes.take());
        self.snapshot.runtime_classes = runtime_classes.or(self.snapshot.runtime_classes.take());
        self.snapshot.namespaces.extend(namespaces);
        self.snapshot.images.extend(images);
    }
}

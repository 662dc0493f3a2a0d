//! Policies, a cluster snapshot and registered webhooks: the input of a review besides the workload.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use mullion_engine::admission::Review;
use mullion_engine::model::ReviewRequest;
use mullion_engine::model::cluster::{ClusterSnapshot, Nodes};
use mullion_policy::PolicySet;
use mullion_snapshot::dump::LoadedDump;
use mullion_snapshot::{dump, objects};
use mullion_survey::report::{Coverage, KindCount};

use crate::cli::documents::{ClassifiedObject, ManifestFile, ManifestWorkload, ParsedDocument};
use crate::cli::input::read_file;
use crate::cli::live::{LiveFacts, Registration, WebhookCall};
use crate::cli::policy_files::PolicySelection;
use crate::cli::workload_statement::WorkloadStatement;
use crate::report::{ReviewNotes, no_default, not_reviewed};

/// Arguments that name policies and a cluster snapshot.
#[derive(Debug, Clone, Default, Args)]
pub struct ReviewSourceArgs {
    /// Directory of policy files, or one file; may be given more than once. Or cluster: the policies in force in the cluster that is read; built-in: the built-in ones. Default: cluster if a cluster is read and has policies that can be read, else built-in
    #[arg(long, value_name = "DIR|cluster|built-in")]
    pub policies: Vec<PathBuf>,
    /// Cluster snapshot: `kubectl get nodes,runtimeclasses,namespaces -o json`. Default: that of the cluster, if one is read
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
}

/// Everything that decides about a workload.
#[derive(Debug)]
pub(crate) struct ReviewSources {
    /// The policies.
    pub(crate) policies: PolicySet,
    /// The snapshot of the file, with the namespaces and RuntimeClasses of the input.
    pub(crate) snapshot: ClusterSnapshot,
    /// The webhooks that are registered in the cluster; `None` without a cluster, or if it has none.
    pub(crate) registration: Option<Registration>,
    /// What was read of the cluster, or is in the file of its snapshot; `None` without both.
    pub(crate) coverage: Option<Coverage>,
}

/// The request that creates a workload of the input.
#[derive(Debug)]
pub(crate) struct Creation<'d> {
    pub(crate) request: ReviewRequest<'d>,
    call: WebhookCall,
}

impl ReviewSourceArgs {
    /// The policies that the command line selects.
    pub(crate) fn selection(&self, command: &str) -> anyhow::Result<PolicySelection> {
        PolicySelection::new(command, &self.policies)
    }

    /// Loads policies and the snapshot: those of the files, else the `live` ones of a cluster. Adds the namespaces and
    /// RuntimeClasses of the input, because they exist when its pods are created.
    pub(crate) fn load(
        &self,
        files: &[ManifestFile<'_>],
        selection: &PolicySelection,
        live: Option<LiveFacts>,
    ) -> anyhow::Result<ReviewSources> {
        let is_live = live.is_some();
        let LiveFacts { snapshot, policies, registration, coverage, .. } = live.unwrap_or_default();
        let (mut snapshot, coverage) = match &self.snapshot {
            None => (snapshot, is_live.then_some(coverage)),
            Some(path) => {
                let (name, bytes) = read_snapshot_file(path)?;
                let loaded = dump::load(&name, &bytes)?;
                let coverage = coverage_of(&loaded);
                (loaded.snapshot, Some(coverage))
            }
        };
        let policies = match policies {
            Some(in_force) => in_force.set,
            None => selection.load()?,
        };
        // This is a pass of its own, because the order of files is not the order of creation.
        let all = || files.iter().map(ManifestFile::documents);
        let declaring = all().flat_map(|documents| documents.mentioning("Namespace"));
        let declaring = declaring.chain(all().flat_map(|documents| documents.mentioning("RuntimeClass")));
        for document in declaring.flatten() {
            for object in ParsedDocument::new(document).objects() {
                match object {
                    ClassifiedObject::Namespace(object) => {
                        snapshot.namespaces.extend(objects::namespace_from_json(&object.value));
                    }
                    ClassifiedObject::RuntimeClass(object) => {
                        snapshot.declared_classes.extend(objects::runtime_class_from_json(&object.value));
                    }
                    _ => {}
                }
            }
        }
        Ok(ReviewSources { policies, snapshot, registration, coverage })
    }
}

impl ReviewSources {
    /// The request that creates the workload; `default`: the namespace of objects that set none.
    pub(crate) fn creation<'d>(&self, workload: &ManifestWorkload<'d>, default: &'d str) -> Creation<'d> {
        let request = workload.creation(default);
        let registration = self.registration.as_ref();
        let call = registration.map_or(WebhookCall::Called, |registration| {
            registration.call(&request.workload, &self.snapshot.namespaces)
        });
        let is_called = !matches!(call, WebhookCall::NotCalled(_));
        Creation { request: ReviewRequest { is_called, ..request }, call }
    }

    /// Why a kind of statement is not known, or known in part, if a cluster was named.
    pub(crate) fn not_known(&self, statement: WorkloadStatement) -> Option<String> {
        self.coverage.as_ref().and_then(|coverage| statement.not_known(coverage))
    }

    /// What explains the review of a request.
    pub(crate) fn notes(&self, creation: &Creation<'_>, review: &Review) -> ReviewNotes {
        let not_reviewed = creation.not_reviewed(review);
        let not_known = match &creation.call {
            WebhookCall::Unknown(why) => Some(why.clone()),
            _ => self.not_known(WorkloadStatement::Review).filter(|_| review.namespace_unknown),
        };
        let not_known = not_known.filter(|_| not_reviewed.is_none());
        let no_default = no_default(review, &self.snapshot, &self.policies);
        ReviewNotes { review_not_known: not_known, not_reviewed, no_default, only_warns: None }
    }
}

impl Creation<'_> {
    /// Why the request is not reviewed; `None` if it is.
    pub(crate) fn not_reviewed(&self, review: &Review) -> Option<String> {
        let not_called = match &self.call {
            WebhookCall::NotCalled(why) => Some(why.as_str()),
            WebhookCall::Called | WebhookCall::Unknown(_) => None,
        };
        not_reviewed(review, &self.request.workload, not_called)
    }
}

/// The lists in a snapshot file.
fn coverage_of(dump: &LoadedDump) -> Coverage {
    let LoadedDump { snapshot, has_namespaces, .. } = dump;
    let lists = [
        ("nodes", snapshot.nodes.as_ref().map(Nodes::len)),
        ("runtimeclasses", snapshot.runtime_classes.as_ref().map(BTreeMap::len)),
        ("namespaces", has_namespaces.then(|| snapshot.namespaces.len())),
    ];
    let read =
        lists.into_iter().filter_map(|(kind, objects)| Some(KindCount { kind: kind.to_owned(), objects: objects? }));
    Coverage { read: read.collect(), unread: Vec::new() }
}

/// The name and the bytes of a snapshot file.
pub(crate) fn read_snapshot_file(path: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let name = path.display().to_string();
    let bytes = read_file(path).with_context(|| format!("{name}: the cluster snapshot file cannot be read"))?;
    Ok((name, bytes))
}

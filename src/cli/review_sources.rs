//! Policies and a cluster snapshot from files: the input of a review besides the workload.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::PolicySet;
use mullion_snapshot::{dump, objects};

use crate::cli::documents::{ClassifiedObject, ManifestFile, ParsedDocument};
use crate::cli::input::read_file;
use crate::cli::policy_files;

/// Arguments that name policies and a cluster snapshot.
#[derive(Debug, Clone, Default, Args)]
pub struct ReviewSourceArgs {
    /// Directory of policy files, or one file; may be given more than once. Default: the built-in policies, also for objects of a cluster
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// Cluster snapshot: `kubectl get nodes,runtimeclasses,namespaces -o json`. Default: that of the cluster, if one is read
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
}

/// Policies and a cluster snapshot.
#[derive(Debug, Clone)]
pub struct ReviewSources {
    /// The policies.
    pub policies: PolicySet,
    /// The snapshot of the file, with the namespaces and RuntimeClasses of the input.
    pub snapshot: ClusterSnapshot,
}

impl ReviewSourceArgs {
    /// Loads policies and the snapshot: that of the file, else the `live` one of a cluster. Adds the namespaces and
    /// RuntimeClasses of the input, because they exist when its pods are created.
    pub fn load(&self, files: &[ManifestFile<'_>], live: Option<ClusterSnapshot>) -> anyhow::Result<ReviewSources> {
        let mut snapshot = match &self.snapshot {
            None => live.unwrap_or_default(),
            Some(path) => {
                let (name, bytes) = read_snapshot_file(path)?;
                dump::from_text(&name, &bytes)?
            }
        };
        let policies = policy_files::load(&self.policies)?;
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
                    ClassifiedObject::Workload(_) | ClassifiedObject::Skipped | ClassifiedObject::Other => {}
                }
            }
        }
        Ok(ReviewSources { policies, snapshot })
    }
}

/// The name and the bytes of a snapshot file.
pub(crate) fn read_snapshot_file(path: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let name = path.display().to_string();
    let bytes = read_file(path).with_context(|| format!("{name}: the cluster snapshot file cannot be read"))?;
    Ok((name, bytes))
}

//! What a review needs beside the subject: policies and a snapshot, from files.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_policy::policy_set::PolicySet;
use mullion_snapshot::{dump, objects};

use crate::cli::documents::{File, ManifestObject, Parsed};
use crate::cli::input::read_file;
use crate::cli::policy_files;

/// Where policies and the snapshot come from.
#[derive(Debug, Clone, Default, Args)]
pub struct KnowledgeArgs {
    /// Directory of policy files, or one file; may be given more than once. Without: Mullion's defaults
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// What is known of the cluster: `kubectl get nodes,runtimeclasses,namespaces -o json`
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
}

/// Policies and a snapshot.
#[derive(Debug, Clone)]
pub struct Knowledge {
    /// In force.
    pub policies: PolicySet,
    /// Of the file, with the namespaces of the input.
    pub snapshot: ClusterSnapshot,
}

impl KnowledgeArgs {
    /// Reads policies and snapshot.
    pub fn load(&self) -> anyhow::Result<Knowledge> {
        let snapshot = match &self.snapshot {
            None => ClusterSnapshot::default(),
            Some(path) => {
                let name = path.display().to_string();
                let bytes =
                    read_file(path).with_context(|| format!("{name}: the cluster snapshot file cannot be read"))?;
                dump::from_text(&name, &bytes)?
            }
        };
        Ok(Knowledge { policies: policy_files::load(&self.policies)?, snapshot })
    }
}

impl Knowledge {
    /// Adds the Namespace objects of the input, which stand for what will be there when its pods are.
    pub fn add_namespaces(&mut self, files: &[File<'_>]) {
        // A first pass of its own: a file order is no creation order.
        for document in files.iter().flat_map(|file| file.documents().mentioning("Namespace")).flatten() {
            for found in Parsed::new(document).objects() {
                if let ManifestObject::Namespace(object) = found {
                    self.snapshot.namespaces.extend(objects::namespace_from_json(&object.value));
                }
            }
        }
    }
}

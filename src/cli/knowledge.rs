//! What a review needs beside the subject: policies and a world, from files.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::documents::{File, Found, Parsed};
use super::input::read_file;
use super::policy_files;
use crate::engine::world::World;
use crate::policy::PolicySet;
use crate::world::{file, objects};

/// Where policies and the world come from.
#[derive(Debug, Clone, Default, Args)]
pub struct KnowledgeArgs {
    /// Directory of policy files, or one file; may be given more than once. Without: Mullion's defaults
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// What is known of the cluster: `kubectl get nodes,runtimeclasses,namespaces -o json`
    #[arg(long, value_name = "FILE")]
    pub world: Option<PathBuf>,
}

/// Policies and a world.
#[derive(Debug, Clone)]
pub struct Knowledge {
    /// In force.
    pub policies: PolicySet,
    /// Of the file, with the namespaces of the input.
    pub world: World,
}

impl KnowledgeArgs {
    /// Reads policies and world.
    pub fn load(&self) -> anyhow::Result<Knowledge> {
        let world = match &self.world {
            None => World::default(),
            Some(path) => {
                let name = path.display().to_string();
                let bytes = read_file(path).with_context(|| format!("{name}: the world file cannot be read"))?;
                file::from_text(&name, &bytes)?
            }
        };
        Ok(Knowledge { policies: policy_files::load(&self.policies)?, world })
    }
}

impl Knowledge {
    /// Adds the Namespace objects of the input, which stand for what will be there when its pods are.
    pub fn add_namespaces(&mut self, files: &[File<'_>]) {
        // A first pass of its own: a file order is no creation order.
        for document in files.iter().flat_map(|file| file.documents().mentioning("Namespace")).flatten() {
            for found in Parsed::new(document).objects() {
                if let Found::Namespace(object) = found {
                    self.world.namespaces.extend(objects::namespace_from_json(&object.value));
                }
            }
        }
    }
}

//! What a review needs beside the subject: policies and a world, from files.

use std::fmt;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::documents::{File, Found, Parsed};
use super::input::read_file;
use crate::engine::world::World;
use crate::manifest::Problem;
use crate::policy::{PolicySet, directory};
use crate::report::counted;
use crate::world::{file, objects};

/// Where policies and the world come from.
#[derive(Debug, Clone, Default, Args)]
pub struct KnowledgeArgs {
    /// Directory of policy files; may be given more than once. Without: Mullion's defaults
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
        Ok(Knowledge { policies: load_policies(&self.policies)?, world })
    }
}

/// The policies of all `directories` together; of none, the built-in ones. Fails with every problem there is.
pub fn load_policies(directories: &[PathBuf]) -> Result<PolicySet, BadPolicies> {
    if directories.is_empty() {
        return Ok(PolicySet::built_in());
    }
    PolicySet::load(&directory::read(directories)).map_err(BadPolicies)
}

/// Everything that is wrong with a set of policies.
#[derive(Debug, Clone)]
pub struct BadPolicies(pub Vec<Problem>);

impl fmt::Display for BadPolicies {
    /// One line for the first; `mullion policy check` shows all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("the policies cannot be read"),
            [only] => write!(f, "{only}"),
            [first, rest @ ..] => {
                let rest = counted(rest.len(), "more problem");
                write!(f, "{first}; and {rest}, shown by mullion policy check")
            }
        }
    }
}

impl std::error::Error for BadPolicies {}

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

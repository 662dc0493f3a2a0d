//! The kinds of policies, each with its table.

use crate::schema::node::NODE_POLICY;
use crate::schema::pod::POD_POLICY;
use crate::schema::registry::REGISTRY_POLICY;
use crate::schema::types::SchemaObject;

/// The kinds of documents in a policy file.
pub const KINDS: [(&str, &SchemaObject); 3] =
    [("PodPolicy", &POD_POLICY), ("NodePolicy", &NODE_POLICY), ("RegistryPolicy", &REGISTRY_POLICY)];

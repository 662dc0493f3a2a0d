//! The kinds of policies.

use crate::schema::node::NODE_POLICY;
use crate::schema::pod::POD_POLICY;
use crate::schema::registry::REGISTRY_POLICY;
use crate::schema::types::Object;

/// The kinds of document.
pub const KINDS: [(&str, &Object); 3] =
    [("PodPolicy", &POD_POLICY), ("NodePolicy", &NODE_POLICY), ("RegistryPolicy", &REGISTRY_POLICY)];

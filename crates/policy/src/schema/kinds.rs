//! The kinds of policies, and how their values are layered.

use crate::schema::node::NODE_POLICY;
use crate::schema::pod::POD_POLICY;
use crate::schema::registry::REGISTRY_POLICY;
use crate::schema::types::{Layers, Object, Shape};

/// The kinds of document.
pub const KINDS: [(&str, &Object); 3] =
    [("PodPolicy", &POD_POLICY), ("NodePolicy", &NODE_POLICY), ("RegistryPolicy", &REGISTRY_POLICY)];

/// Keys of a PodPolicy's `spec` that are its own.
pub(crate) const OWN_KEYS: [&str; 2] = ["priority", "match"];

/// How the values of the key at `path` (`spec.detect.images`; `[]` stands for an entry of a list) are layered.
pub fn layers(kind: &str, path: &str, shape: &Shape) -> Layers {
    let own = |below: &str| OWN_KEYS.contains(&below.split('.').next().unwrap_or(below));
    match (path.strip_prefix("spec."), shape) {
        _ if kind != "PodPolicy" => Layers::Not,
        (None, _) | (_, Shape::Object(_)) => Layers::Not,
        (Some(below), _) if own(below) || below.contains("[]") => Layers::Not,
        (_, Shape::List(_)) => Layers::Together,
        _ => Layers::Highest,
    }
}

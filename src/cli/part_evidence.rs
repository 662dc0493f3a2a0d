//! Why an object in a file is a part: a patch, or a workload without a field that the API server requires.

use std::fmt;

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::partial_object::{find_directive, missing_field, without_directives};
use mullion_manifest::{ManifestDocument, ManifestNode, ManifestObject, NodeValue, NotAnObject};

/// Why something is a part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartEvidence {
    reason: PartReason,
    /// The kustomization in its directory.
    beside: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PartReason {
    /// A kustomization names its file as a patch.
    PatchOf(String),
    /// It has a directive of strategic merge patches.
    Directive(String),
    /// It has no field of that name, which the API server requires.
    Missing(&'static str),
    /// It is a list of JSON 6902 operations.
    JsonPatch,
}

/// Why `object` is a part; `None` if it is complete. Removes the directives from a part.
pub(crate) fn part_evidence(
    object: &mut Result<ManifestObject, NotAnObject>,
    document: &ManifestDocument,
    patch_of: Option<&str>,
    beside: Option<&str>,
) -> Option<PartEvidence> {
    let reason = match (patch_of, &*object) {
        (Some(file), _) => PartReason::PatchOf(file.to_owned()),
        (None, Err(NotAnObject { pointer_prefix, .. })) => {
            let node = document.node.at_pointer(pointer_prefix)?;
            is_json_patch(node).then_some(PartReason::JsonPatch)?
        }
        (None, Ok(object)) => {
            let missing = || {
                let kind = WorkloadKind::of_object(&object.api_version, &object.kind)?;
                missing_field(&object.api_version, kind, &object.value).map(PartReason::Missing)
            };
            let directive = find_directive(&object.value).map(|key| PartReason::Directive(key.to_owned()));
            directive.or_else(missing)?
        }
    };
    if let Ok(object) = object {
        object.value = without_directives(&object.value);
    }
    Some(PartEvidence { reason, beside: beside.map(str::to_owned) })
}

/// Whether a value is a list of JSON 6902 operations.
fn is_json_patch(node: &ManifestNode) -> bool {
    let text = |item: &ManifestNode, key: &str| item.get(key).is_some_and(|entry| entry.value.as_str().is_some());
    match &node.value {
        NodeValue::List(items) => !items.is_empty() && items.iter().all(|item| text(item, "op") && text(item, "path")),
        _ => false,
    }
}

impl PartEvidence {
    /// Whether it is a part only because it has no field that the API server requires.
    pub(crate) fn lacks_a_field(&self) -> bool {
        matches!(self.reason, PartReason::Missing(_))
    }

    /// Whether rules apply to what the part sets. The patches of a kustomization are judged in its result only.
    pub(crate) fn permits_rules(&self) -> bool {
        self.beside.is_none() && matches!(self.reason, PartReason::Directive(_) | PartReason::Missing(_))
    }
}

impl fmt::Display for PartEvidence {
    /// A clause: `it has no spec.selector`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            PartReason::PatchOf(file) => write!(f, "{file} names it as a patch")?,
            PartReason::Directive(key) => write!(f, "it has {key}")?,
            PartReason::Missing(field) => write!(f, "it has no {field}")?,
            PartReason::JsonPatch => write!(f, "it is a list of JSON 6902 operations")?,
        }
        match &self.beside {
            Some(file) if !matches!(self.reason, PartReason::PatchOf(_)) => write!(f, ", beside {file}"),
            _ => Ok(()),
        }
    }
}

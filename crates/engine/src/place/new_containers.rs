//! The ephemeral containers that a request adds to a pod.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::pod_view::{Container, Pod};

/// The ephemeral containers of `pod` that `old`, the pod before the request, lacks. The API server identifies them by
/// name, in any order.
pub(crate) fn new_ephemeral_containers<'a>(pod: &Pod<'a>, old: Option<&Pod<'_>>) -> Vec<Container<'a>> {
    let ephemeral = |container: &Container<'_>| container.list == "ephemeralContainers";
    // As text, because JSON values have no hash.
    let name = |container: &Container<'_>| container.get("/name").map(Value::to_string);
    let known: HashSet<Option<String>> =
        old.into_iter().flat_map(Pod::containers).filter(ephemeral).map(|container| name(&container)).collect();
    pod.containers().filter(|container| ephemeral(container) && !known.contains(&name(container))).collect()
}

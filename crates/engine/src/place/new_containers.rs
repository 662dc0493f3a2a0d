//! The ephemeral containers that a request adds to a pod.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::pod_view::{Container, Pod};

/// The ephemeral containers of `pod` that are missing in `old`, the pod before the request. The API server identifies
/// them by name, in any order.
pub(crate) fn new_ephemeral_containers<'a>(pod: &Pod<'a>, old: Option<&Pod<'_>>) -> Vec<Container<'a>> {
    let ephemeral = |container: &Container<'_>| container.list == "ephemeralContainers";
    // Compared as text, because JSON values have no hash.
    let name = |container: &Container<'_>| container.get("/name").map(Value::to_string);
    let known: HashSet<Option<String>> =
        old.into_iter().flat_map(Pod::containers).filter(ephemeral).map(|container| name(&container)).collect();
    pod.containers().filter(|container| ephemeral(container) && !known.contains(&name(container))).collect()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::expect_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::WorkloadKind;

    fn containers() -> impl Strategy<Value = Value> {
        let names =
            vec![json!("a"), json!("b"), json!("c\"d"), json!(""), json!(1), json!(1.0), json!({"a": 1}), Value::Null];
        let other = (0..40_u8).prop_map(|number| json!(format!("n{number}")));
        let container_of_name = prop_oneof![prop::sample::select(names), other].prop_map(|name| json!({"name": name}));
        let container = prop_oneof![9 => container_of_name, 1 => Just(json!({})), 1 => Just(json!("a"))];
        prop_oneof![9 => prop::collection::vec(container, 0..60).prop_map(Value::from), 1 => Just(json!({"a": {}}))]
    }

    fn pod() -> impl Strategy<Value = Value> {
        (containers(), containers()).prop_map(
            |(ephemeral, containers)| json!({"spec": {"ephemeralContainers": ephemeral, "containers": containers}}),
        )
    }

    proptest! {
        #[test]
        fn those_are_new_that_equal_none_of_the_old(old in prop::option::of(pod()), new in pod()) {
            let old = old.as_ref().map(|old| Pod::of(WorkloadKind::Pod, old).expect("a pod"));
            let new = Pod::of(WorkloadKind::Pod, &new).expect("a pod");
            let is_known = |container: &Container<'_>| {
                let same = |old: Container<'_>| old.list == container.list && old.get("/name") == container.get("/name");
                old.iter().flat_map(Pod::containers).any(same)
            };
            let expected: Vec<usize> = new
                .containers()
                .filter(|container| container.list == "ephemeralContainers" && !is_known(container))
                .map(|container| container.index)
                .collect();
            let found = new_ephemeral_containers(&new, old.as_ref());
            prop_assert!(found.iter().all(|container| container.list == "ephemeralContainers"));
            prop_assert_eq!(found.iter().map(|container| container.index).collect::<Vec<_>>(), expected);
        }
    }
}

//! Values that OpenShift's admission of Security Context Constraints adds to every pod, and that no author wrote.
//!
//! The plugin takes the values from annotations of the namespace (openshift/apiserver-library-go,
//! `pkg/securitycontextconstraints/sccmatching/matcher.go`), and annotates the pod with the constraint.

use serde_json::Value;

use crate::model::cluster::Namespace;
use crate::model::pod_view::Pod;

/// Annotation of a pod: the constraint that admitted it.
const SCC: &str = "openshift.io/scc";

/// Whether OpenShift added `value`, which the rule of that name reports.
pub(crate) fn stamped(rule: &str, value: &Value, pod: &Pod<'_>, namespace: Option<&Namespace>) -> bool {
    let id = value.as_u64();
    let given = || match rule {
        "run-as-user" => id.zip(namespace?.user_ids()).map(|(id, ranges)| ranges.contains(id)),
        "fs-group" => id.zip(namespace?.group_ids()).map(|(id, ranges)| ranges.contains(id)),
        "se-linux-options" => {
            let level = value.get("level").and_then(Value::as_str);
            Some(level? == namespace?.level()? && value.as_object().is_some_and(|all| all.len() == 1))
        }
        _ => None,
    };
    pod.annotation(SCC).is_some() && given() == Some(true)
}

#[cfg(test)]
mod tests {

    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::model::WorkloadKind;
    use crate::model::names::{
        OPENSHIFT_GROUPS_ANNOTATION, OPENSHIFT_LEVEL_ANNOTATION, OPENSHIFT_UID_RANGE_ANNOTATION,
    };

    #[test]
    fn only_values_of_the_namespace_are_stamped() {
        let range = |groups: Option<&str>| {
            let groups = groups.map(|groups| (OPENSHIFT_GROUPS_ANNOTATION.to_owned(), groups.to_owned()));
            let rest = [
                (OPENSHIFT_UID_RANGE_ANNOTATION.to_owned(), "1000650000/10000".to_owned()),
                (OPENSHIFT_LEVEL_ANNOTATION.to_owned(), "s0:c26,c5".to_owned()),
            ];
            Namespace::new(BTreeMap::new(), &rest.into_iter().chain(groups).collect())
        };
        let cases = [
            ("run-as-user", json!(1_000_650_000), None, true),
            ("run-as-user", json!(1_000_659_999), None, true),
            ("run-as-user", json!(1_000_660_000), None, false),
            ("run-as-user", json!(0), None, false),
            ("run-as-user", json!("1000650000"), None, false),
            ("fs-group", json!(1_000_650_000), None, true),
            ("fs-group", json!(1_000_650_000), Some("5-9,20/2"), false),
            ("fs-group", json!(9), Some("5-9,20/2"), true),
            ("fs-group", json!(21), Some("5-9,20/2"), true),
            ("fs-group", json!(22), Some("5-9,20/2"), false),
            ("fs-group", json!(9), Some("5,x/1,-"), false),
            ("se-linux-options", json!({"level": "s0:c26,c5"}), None, true),
            ("se-linux-options", json!({"level": "s0:c26,c5", "type": "spc_t"}), None, false),
            ("se-linux-options", json!({"level": "s0"}), None, false),
            ("se-linux-options", json!({}), None, false),
            ("run-as-group", json!(1_000_650_000), None, false),
        ];
        let by_scc = json!({"metadata": {"annotations": {SCC: "restricted-v2"}}});
        let by_hand = json!({"metadata": {}});
        for (rule, value, groups, expected) in cases {
            let namespace = range(groups);
            let judge = |object: &Value, namespace| {
                Pod::of(WorkloadKind::Pod, object).is_some_and(|pod| stamped(rule, &value, &pod, namespace))
            };
            assert_eq!(judge(&by_scc, Some(&namespace)), expected, "{rule} {value} {groups:?}");
            assert!(!judge(&by_hand, Some(&namespace)) && !judge(&by_scc, None), "{rule} {value}");
        }
    }
}

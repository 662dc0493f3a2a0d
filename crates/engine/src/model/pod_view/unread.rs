//! Members of a workload that no review reads. They are most of the bytes of a pod, and the webhook skips them.
//!
//! The command line reads whole manifests. If a review read these members, the webhook and the command line would
//! differ. Therefore reading one panics in builds with debug assertions, which all tests use.

use serde_json::Value;

use crate::model::names::CONTAINER_LISTS;
use crate::model::review_request::Operation;

/// The decision annotation in the `fieldsV1` of the manager that wrote it. Whatever it contains, only its presence counts.
pub(crate) const MANAGED_DECISION: &str = "f:mullion.dev/decision";

/// Members that no review reads.
#[derive(Debug)]
pub struct UnreadMembers {
    /// The members that contain them, directly or in an item; empty for the object itself. Each is in one row only.
    parents: &'static [&'static str],
    names: Names,
    /// Whether an UPDATE needs them.
    on_update: bool,
}

/// Names of members.
#[derive(Debug)]
enum Names {
    These(&'static [&'static str]),
    /// All members except this one. A list in place of such a map is not read either.
    AllBut(&'static str),
}

const UNREAD: [UnreadMembers; 6] = [
    // An UPDATE needs the status of a DaemonSet before it: whether all of its pods are ready.
    UnreadMembers { parents: &[""], names: Names::These(&["status"]), on_update: true },
    // The field owners of a pod take more bytes than the pod, and they are the only member that the API server stores
    // whatever its depth (`FieldsV1` in apimachinery pkg/apis/meta/v1/types.go). Mullion reads one of them.
    UnreadMembers { parents: &["fieldsV1"], names: Names::AllBut("f:metadata"), on_update: false },
    UnreadMembers { parents: &["f:metadata"], names: Names::AllBut("f:annotations"), on_update: false },
    UnreadMembers { parents: &["f:annotations"], names: Names::AllBut(MANAGED_DECISION), on_update: false },
    UnreadMembers { parents: &[MANAGED_DECISION], names: Names::AllBut(""), on_update: false },
    // An UPDATE compares whole templates.
    UnreadMembers { parents: &CONTAINER_LISTS, names: Names::These(&["env", "envFrom"]), on_update: true },
];

/// The members in the member `parent`, or in an item of it, that no review of that operation reads, if there are any;
/// `parent` is "" for the object itself.
pub fn unread_members(operation: Operation, parent: &str) -> Option<&'static UnreadMembers> {
    let row = UNREAD.iter().find(|row| row.parents.contains(&parent))?;
    (!row.on_update || operation != Operation::Update).then_some(row)
}

/// Whether no review of that operation reads `member` in the member `parent`, or in an item of it.
pub fn is_unread(operation: Operation, parent: &str, member: &str) -> bool {
    unread_members(operation, parent).is_some_and(|unread| unread.have(member))
}

/// Whether no review reads the items of a list in the member `parent`: it should be a map.
pub fn is_unread_list(parent: &str) -> bool {
    UNREAD.iter().any(|row| matches!(row.names, Names::AllBut(_)) && row.parents.contains(&parent))
}

impl UnreadMembers {
    /// Whether `member` is one of them.
    pub fn have(&self, member: &str) -> bool {
        match self.names {
            Names::These(names) => names.contains(&member),
            Names::AllBut(name) => name != member,
        }
    }
}

/// Whether the value was parsed with all its members: none of them may be skipped.
pub(crate) fn is_read_whole(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(is_read_whole),
        Value::Object(members) => members.iter().all(|(name, value)| {
            !UNREAD.iter().any(|row| row.parents.contains(&name.as_str())) && is_read_whole(value)
        }),
        _ => true,
    }
}

/// Whether reviews may read the value at `pointer`, which is relative to the member `parent`: the value is read, and so are
/// all its members.
pub(crate) fn is_read(parent: &str, pointer: &str) -> bool {
    let is_index = |token: &&str| token.bytes().all(|byte| byte.is_ascii_digit());
    let mut last = parent.to_owned();
    for token in pointer.split('/').skip(1).filter(|token| !is_index(token)) {
        let member = token.replace("~1", "/");
        if is_unread(Operation::Create, &last, &member) {
            return false;
        }
        last = member;
    }
    let whole = last.is_empty() || last == MANAGED_DECISION;
    whole || !UNREAD.iter().any(|row| row.parents.contains(&last.as_str()))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::panic::catch_unwind;

    use serde_json::json;

    use super::*;
    use crate::model::json_pointer::member;
    use crate::model::pod_view::Pod;
    use crate::model::workload::WorkloadKind;

    #[test]
    fn an_update_needs_the_status_and_environments() {
        for (parent, name, on_create, on_update) in [
            ("", "status", true, false),
            ("", "spec", false, false),
            ("labels", "status", false, false),
            ("fieldsV1", "f:spec", true, true),
            ("fieldsV1", "f:metadata", false, false),
            ("fieldsV1", "v:1", true, true),
            ("f:metadata", "f:labels", true, true),
            ("f:annotations", "f:a", true, true),
            ("f:annotations", "f:mullion.dev/decision", false, false),
            ("f:mullion.dev/decision", "f:a", true, true),
            ("containers", "env", true, false),
            ("initContainers", "envFrom", true, false),
            ("nodeSelector", "env", false, false),
            ("containers", "image", false, false),
        ] {
            let unread = [Operation::Create, Operation::Update].map(|operation| is_unread(operation, parent, name));
            assert_eq!(unread, [on_create, on_update], "{name} in {parent:?}");
        }
    }

    #[test]
    fn each_parent_is_in_one_row() {
        let parents: Vec<&str> = UNREAD.iter().flat_map(|row| row.parents).copied().collect();
        let different: std::collections::BTreeSet<&str> = parents.iter().copied().collect();
        assert_eq!(different.len(), parents.len(), "{parents:?}");
    }

    #[test]
    fn a_value_is_read_whole_unless_a_member_of_it_may_be_skipped() {
        for (value, expected) in [
            (json!({"runAsUser": 1, "capabilities": {"add": ["A"]}}), true),
            (json!([{"key": "a", "env": []}]), true),
            (json!({"metadata": {"fieldsV1": {}}}), false),
            (json!([{"containers": []}]), false),
            (json!([[{"initContainers": [{"name": "a"}]}]]), false),
        ] {
            assert_eq!(is_read_whole(&value), expected, "{value}");
        }
    }

    #[test]
    fn a_read_of_an_unread_member_panics() {
        let object = json!({"metadata": {"labels": {"status": "a"}}, "status": {"phase": "Running"},
            "spec": {"containers": [{"name": "c", "env": []}], "nodeSelector": {"env": "prod"}}});
        for (pointer, allowed) in [
            ("", true),
            ("/metadata/labels/status", true),
            ("/spec", true),
            ("/spec/nodeSelector/env", true),
            ("/spec/containers/0/name", true),
            ("/metadata/managedFields/0/fieldsV1/f:metadata/f:annotations/f:mullion.dev~1decision", true),
            ("/metadata/managedFields/0/fieldsV1/f:metadata/f:annotations", false),
            ("/metadata/managedFields/0/fieldsV1/f:metadata/f:annotations/f:a", false),
            ("/status", false),
            ("/status/phase", false),
            ("/metadata/managedFields/0/fieldsV1", false),
            ("/metadata/managedFields/0/fieldsV1/f:spec", false),
            ("/spec/containers", false),
            ("/spec/containers/0", false),
            ("/spec/containers/0/env", false),
            ("/spec/ephemeralContainers/0/envFrom/1/prefix", false),
        ] {
            assert_eq!(catch_unwind(|| member(&object, pointer).is_some()).is_ok(), allowed, "{pointer}");
            let pod = Pod::of(WorkloadKind::Pod, &object).unwrap();
            assert_eq!(catch_unwind(|| pod.get(pointer).is_some()).is_ok(), allowed, "{pointer} of a pod");
        }
        let container = Pod::of(WorkloadKind::Pod, &object).unwrap().containers().next().unwrap();
        for (pointer, allowed) in [("/name", true), ("/resources/limits", true), ("", false), ("/env/0/name", false)] {
            assert_eq!(catch_unwind(|| container.get(pointer).is_some()).is_ok(), allowed, "{pointer} of a container");
        }
    }
}

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{Cause, Change, Edit};
use crate::patch::compile::compile;

/// The same operations, found by searches through lists: the reference for [`compile`].
mod naive {
    use json_patch::jsonptr::PointerBuf;
    use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
    use serde_json::{Value, json};

    use crate::model::json_pointer::member;
    use crate::model::{Change, Edit};

    pub(super) fn compile(object: &Value, changes: &[Change]) -> Vec<PatchOperation> {
        let (mut made, mut operations) = (Vec::new(), Vec::new());
        for change in changes {
            match &change.edit {
                Edit::Set { pointer, value } => set(object, pointer, value, &mut made, &mut operations),
                Edit::Append { pointer, value } => append(object, pointer, value, &mut made, &mut operations),
                Edit::Remove { .. } => {}
            }
        }
        let key = |pointer: &str| -> Vec<(u64, String)> {
            pointer.split('/').map(|token| (token.parse().unwrap_or(0), token.to_owned())).collect()
        };
        let removals = changes.iter().filter(|change| matches!(change.edit, Edit::Remove { .. }));
        let mut removals: Vec<&str> = removals.map(|change| change.edit.pointer()).collect();
        removals.sort_by_key(|pointer| std::cmp::Reverse(key(pointer)));
        removals.dedup();
        for pointer in removals.into_iter().filter(|pointer| member(object, pointer).is_some()) {
            operations.push(PatchOperation::Remove(RemoveOperation { path: path(pointer) }));
        }
        operations
    }

    fn path(pointer: &str) -> PointerBuf {
        PointerBuf::parse(pointer).unwrap()
    }

    fn add(pointer: &str, value: Value) -> PatchOperation {
        PatchOperation::Add(AddOperation { path: path(pointer), value })
    }

    fn set(object: &Value, pointer: &str, value: &Value, made: &mut Vec<String>, operations: &mut Vec<PatchOperation>) {
        let (parent, _) = pointer.rsplit_once('/').unwrap();
        if !make_object(object, parent, made, operations) {
            return;
        }
        let present = member(object, pointer);
        if value.is_array() && !present.is_some_and(Value::is_array) {
            made.push(pointer.to_owned());
        }
        let (path, value) = (path(pointer), value.clone());
        match present {
            Some(present) if *present == value => {}
            Some(_) => operations.push(PatchOperation::Replace(ReplaceOperation { path, value })),
            None => operations.push(PatchOperation::Add(AddOperation { path, value })),
        }
    }

    fn append(
        object: &Value,
        pointer: &str,
        value: &Value,
        made: &mut Vec<String>,
        operations: &mut Vec<PatchOperation>,
    ) {
        let present = member(object, pointer);
        if present.is_some_and(Value::is_array) || made.iter().any(|made| made == pointer) {
            operations.push(add(&format!("{pointer}/-"), value.clone()));
            return;
        }
        let (parent, _) = pointer.rsplit_once('/').unwrap();
        if present.is_none_or(Value::is_null) && make_object(object, parent, made, operations) {
            operations.push(add(pointer, json!([value])));
            made.push(pointer.to_owned());
        }
    }

    fn make_object(
        object: &Value,
        pointer: &str,
        made: &mut Vec<String>,
        operations: &mut Vec<PatchOperation>,
    ) -> bool {
        match member(object, pointer) {
            Some(Value::Object(_)) => return true,
            Some(Value::Null) | None => {}
            Some(_) => return false,
        }
        if made.iter().any(|made| made == pointer) {
            return true;
        }
        let Some((parent, _)) = pointer.rsplit_once('/') else { return false };
        if !make_object(object, parent, made, operations) {
            return false;
        }
        operations.push(add(pointer, json!({})));
        made.push(pointer.to_owned());
        true
    }
}

fn change(edit: Edit) -> Change {
    Change { cause: Cause::Rule("MUL201"), edit }
}

fn set(pointer: &str, value: Value) -> Change {
    change(Edit::Set { pointer: pointer.to_owned(), value })
}

fn append(pointer: &str, value: Value) -> Change {
    change(Edit::Append { pointer: pointer.to_owned(), value })
}

fn remove(pointer: impl Into<String>) -> Change {
    change(Edit::Remove { pointer: pointer.into() })
}

/// The compacted patch as JSON.
fn patch(object: &Value, changes: &[Change]) -> Value {
    serde_json::to_value(compact(object, compile(object, changes))).unwrap()
}

#[test]
fn several_edits_of_one_security_context_are_one_operation() {
    let object = json!({"spec": {
        "securityContext": {"runAsUser": 1, "fsGroup": 2, "runAsNonRoot": true},
        "containers": [
            {"securityContext": {"runAsUser": 1, "privileged": false}},
            {"securityContext": {"runAsUser": 1, "privileged": false}, "name": "b"},
            {"name": "c", "securityContext": {}},
        ],
    }});
    let options = "/spec/containers/1/securityContext/windowsOptions/runAsUserName";
    let changes = [
        remove("/spec/securityContext/runAsUser"),
        remove("/spec/securityContext/fsGroup"),
        remove("/spec/containers/0/securityContext/runAsUser"),
        remove("/spec/containers/0/securityContext/privileged"),
        set(options, json!("ContainerUser")),
        remove("/spec/containers/1/securityContext/runAsUser"),
        set("/spec/containers/2/securityContext/windowsOptions/runAsUserName", json!("a")),
        set("/spec/os", json!({"name": "windows"})),
    ];
    assert_eq!(
        patch(&object, &changes),
        json!([
            {"op": "replace", "path": "/spec/containers/1/securityContext",
                "value": {"privileged": false, "windowsOptions": {"runAsUserName": "ContainerUser"}}},
            {"op": "replace", "path": "/spec/containers/2/securityContext", "value": {"windowsOptions": {"runAsUserName": "a"}}},
            {"op": "add", "path": "/spec/os", "value": {"name": "windows"}},
            {"op": "replace", "path": "/spec/securityContext", "value": {"runAsNonRoot": true}},
            {"op": "replace", "path": "/spec/containers/0/securityContext", "value": {}},
        ]),
        "an object that loses all its members stays"
    );
}

#[test]
fn one_edit_stays_one_operation() {
    let object = json!({"spec": {"securityContext": {"runAsUser": 1}, "tolerations": [{"key": "a"}]}});
    let changes = [remove("/spec/securityContext/runAsUser"), append("/spec/tolerations", json!({"key": "b"}))];
    assert_eq!(
        patch(&object, &changes),
        json!([
            {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "b"}},
            {"op": "remove", "path": "/spec/securityContext/runAsUser"},
        ])
    );
    assert_eq!(patch(&object, &[]), json!([]));
}

#[test]
fn several_edits_of_tolerations_are_one_operation() {
    let two = [append("/spec/tolerations", json!("c")), append("/spec/tolerations", json!("d"))];
    for (present, changes, expected) in [
        (json!({}), two.to_vec(), json!([{"op": "add", "path": "/spec/tolerations", "value": ["c", "d"]}])),
        (
            json!({"tolerations": null}),
            two.to_vec(),
            json!([{"op": "replace", "path": "/spec/tolerations", "value": ["c", "d"]}]),
        ),
        (
            json!({"tolerations": ["a", "b"]}),
            [two.to_vec(), vec![remove("/spec/tolerations/0")]].concat(),
            json!([{"op": "replace", "path": "/spec/tolerations", "value": ["b", "c", "d"]}]),
        ),
        (
            json!({"tolerations": ["a", "b"]}),
            vec![remove("/spec/tolerations/0"), remove("/spec/tolerations/1")],
            json!([{"op": "replace", "path": "/spec/tolerations", "value": []}]),
        ),
        // The API server itself rejects a list of another type.
        (json!({"tolerations": "x"}), two.to_vec(), json!([])),
    ] {
        assert_eq!(patch(&json!({"spec": present.clone()}), &changes), expected, "{present}");
    }
}

/// Each member, and whether several edits of it are written as one.
#[test]
fn only_what_is_parsed_whole_is_replaced() {
    let removed = |around: &str| ["a", "b"].map(|name| remove(format!("{around}/{name}")));
    let both = json!({"a": 1, "b": 2});
    for (pointer, object, compacted) in [
        ("/spec/securityContext", json!({"spec": {"securityContext": both}}), true),
        (
            "/spec/template/spec/securityContext",
            json!({"spec": {"template": {"spec": {"securityContext": both}}}}),
            true,
        ),
        (
            "/spec/ephemeralContainers/0/securityContext",
            json!({"spec": {"ephemeralContainers": [{"securityContext": both}]}}),
            true,
        ),
        ("/spec/containers/0", json!({"spec": {"containers": [both]}}), false),
        ("/spec", json!({"spec": both}), false),
        ("/spec/nodeSelector", json!({"spec": {"nodeSelector": both}}), false),
        ("/metadata/annotations", json!({"metadata": {"annotations": both}}), false),
        ("/spec/volumes/0/securityContext", json!({"spec": {"volumes": [{"securityContext": both}]}}), false),
        // The webhook skips `env` in any object with the member's name.
        (
            "/spec/securityContext",
            json!({"spec": {"securityContext": {"a": {"containers": [{}]}, "b": 1, "c": 2}}}),
            false,
        ),
    ] {
        let operations = patch(&object, &removed(pointer));
        assert_eq!(operations.as_array().unwrap().len(), if compacted { 1 } else { 2 }, "{object}");
        assert_eq!(operations[0]["op"], if compacted { "replace" } else { "remove" }, "{operations}");
    }
}

#[test]
fn shared_lists_are_replaced_only_for_many_edits() {
    let mounts = |count: usize| vec![json!({"name": "v", "mountPropagation": "HostToContainer"}); count];
    let annotations = |count: usize| -> Value {
        Value::Object(
            (0..count).map(|at| (format!("a.io/{at}"), json!("x"))).chain([("b".into(), json!("y"))]).collect(),
        )
    };
    for (count, operations) in [(MANY - 1, 2 * (MANY - 1)), (MANY, 2)] {
        let object = json!({"metadata": {"annotations": annotations(count)},
            "spec": {"containers": [{"volumeMounts": mounts(count)}]}});
        let of_mounts = (0..count).map(|at| remove(format!("/spec/containers/0/volumeMounts/{at}/mountPropagation")));
        let of_annotations = (0..count).map(|at| remove(format!("/metadata/annotations/a.io~1{at}")));
        let changes: Vec<Change> = of_mounts.chain(of_annotations).collect();
        let compacted = compact(&object, compile(&object, &changes));
        assert_eq!(compacted.len(), operations, "{count}");
        let mut after = object.clone();
        json_patch::patch(&mut after, &compacted).unwrap();
        let expected = json!({"metadata": {"annotations": {"b": "y"}},
            "spec": {"containers": [{"volumeMounts": vec![json!({"name": "v"}); count]}]}});
        assert_eq!(after, expected, "{count}");
    }
}

// === properties ===

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
        (0..5_u8).prop_map(Value::from),
        Just(json!({"a": 1, "b/c": {"d": 2}, "windowsOptions": {"hostProcess": true}})),
        Just(json!({"containers": [{"name": "nested"}], "a": 1})),
    ]
}

fn security_context() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => any_value(),
        4 => prop::collection::btree_map("[a-f]", any_value(), 0..7)
            .prop_map(|members| Value::Object(members.into_iter().collect())),
    ]
}

fn any_list(most: usize) -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => any_value(),
        4 => prop::collection::vec(0..9_u8, 0..most)
            .prop_map(|keys| keys.into_iter().map(|key| json!({"key": key, "mountPropagation": "None"})).collect()),
    ]
}

fn container() -> impl Strategy<Value = Value> {
    (prop::option::of(security_context()), prop::option::of(any_list(MANY + 20))).prop_map(|(security, mounts)| {
        let mut container = json!({"name": "c"});
        container.as_object_mut().unwrap().extend(security.map(|value| ("securityContext".to_owned(), value)));
        container.as_object_mut().unwrap().extend(mounts.map(|value| ("volumeMounts".to_owned(), value)));
        container
    })
}

fn any_pod() -> impl Strategy<Value = Value> {
    let spec = (
        prop::option::of(security_context()),
        prop::option::of(any_list(40)),
        prop::collection::vec(container(), 0..5),
        prop::option::of(prop::collection::btree_map("[a-z/~]{1,3}", "[a-z]", 0..MANY + 20)),
    );
    spec.prop_map(|(security, tolerations, containers, annotations)| {
        let mut pod = json!({"spec": {"containers": containers}});
        let spec = pod["spec"].as_object_mut().unwrap();
        spec.extend(security.map(|value| ("securityContext".to_owned(), value)));
        spec.extend(tolerations.map(|value| ("tolerations".to_owned(), value)));
        if let Some(annotations) = annotations {
            pod["metadata"] = json!({"annotations": annotations});
        }
        pod
    })
}

/// Pointers of every member and item in the object except containers, which no review removes, and some pointers that
/// lead nowhere.
fn pointers(at: &str, value: &Value, out: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (format!("{at}/{}", crate::model::json_pointer::escape(name)), value))
            .collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (format!("{at}/{index}"), value)).collect()
        }
        _ => Vec::new(),
    };
    // Any other member with that name may have members that are not parsed.
    let is_parsed = |pointer: &str| pointer == "/spec/containers" || !pointer.ends_with("/containers");
    for (pointer, value) in below.into_iter().filter(|(pointer, _)| is_parsed(pointer)) {
        let around = ["/metadata", "/spec", "/metadata/annotations", "/spec/containers"].contains(&pointer.as_str());
        if !around && at != "/spec/containers" {
            out.push(pointer.clone());
        }
        pointers(&pointer, value, out);
    }
}

fn any_changes(object: &Value) -> BoxedStrategy<Vec<Change>> {
    let mut present = Vec::new();
    pointers("", object, &mut present);
    let is_object = |at: usize| object["spec"]["containers"][at]["securityContext"].is_object();
    let containers = object["spec"]["containers"].as_array().map_or(0, Vec::len);
    let of_containers = (0..containers).filter(|at| is_object(*at)).flat_map(|at| {
        ["x", "windowsOptions/runAsUserName"].map(|name| format!("/spec/containers/{at}/securityContext/{name}"))
    });
    let absent =
        ["/spec/securityContext/x", "/spec/securityContext/windowsOptions/y", "/metadata/annotations/new", "/spec/os"]
            .map(str::to_owned);
    // Members of containers themselves are never set, because containers are not parsed whole.
    let of_container = |pointer: &&String| pointer.starts_with("/spec/containers") && pointer.split('/').count() < 6;
    let members = present.iter().filter(|pointer| !of_container(pointer)).cloned();
    let set = prop::sample::select(of_containers.chain(absent).chain(members).collect::<Vec<_>>());
    let set = (set, any_value()).prop_map(|(pointer, value)| change(Edit::Set { pointer, value }));
    let lists = prop::sample::select(vec!["/spec/tolerations", "/spec/other"]);
    let append = (lists, any_value()).prop_map(|(pointer, value)| append(pointer, value));
    let removals = prop::collection::vec(any::<bool>(), present.len());
    let removals = (removals, any::<bool>()).prop_map(move |(removed, many)| {
        let removed = removed.into_iter().enumerate().filter(|(at, removed)| *removed && (many || at % 7 == 0));
        removed.map(|(at, _)| remove(present[at].clone())).collect::<Vec<_>>()
    });
    let added = prop::collection::vec(prop_oneof![set, append], 0..8);
    (added, removals).prop_map(|(added, removals)| [added, removals].concat()).boxed()
}

fn apply(object: &Value, operations: &[PatchOperation]) -> Option<Value> {
    let mut object = object.clone();
    json_patch::patch(&mut object, operations).ok().map(|()| object)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_compacted_patch_has_the_same_result(
        (object, changes) in any_pod().prop_flat_map(|pod| {
            let changes = any_changes(&pod);
            (Just(pod), changes)
        }),
    ) {
        let operations = compile(&object, &changes);
        prop_assert_eq!(&operations, &naive::compile(&object, &changes));
        let compacted = compact(&object, operations.clone());
        prop_assert!(compacted.len() <= operations.len());
        // If changes contradict each other, which those of a review do not, neither patch is right.
        if let Some(expected) = apply(&object, &operations) {
            prop_assert_eq!(apply(&object, &compacted), Some(expected), "{:#?}\n{:#?}", operations, compacted);
        }
    }
}

//! Properties of every request, including updates and subresources, whatever its objects and their annotations contain.

use mullion_engine::admission::{Endpoint, RequestCategory, respond, respond_in_full};
use mullion_engine::model::{Operation, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::declared_fields::declared;
use crate::properties::{generated, spec};
use crate::support::{review, *};

/// Decision annotations as any user may write them.
fn annotation() -> impl Strategy<Value = Option<String>> {
    let words =
        vec!["nodeSelector", "toleration os=windows:NoSchedule", "toleration *", "os", "build", "runtimeClassName", ""];
    let placed = prop::collection::vec(prop::sample::select(words), 0..5);
    let basis = prop::sample::select(vec!["intent", "default", "place", "none", "newer"]);
    let os = prop::sample::select(vec!["windows", "linux", "plan9"]);
    prop_oneof![
        2 => Just(None),
        4 => (os, basis, placed).prop_map(|(os, basis, placed)| {
            Some(json!({"os": os, "basis": basis, "because": "x", "placed": placed, "containers": ["c"]}).to_string())
        }),
        1 => prop::sample::select(vec!["", "{}", "[[[[", "null"]).prop_map(|text| Some(text.to_owned())),
    ]
}

/// Fields that any user may set on an object's own metadata.
fn metadata() -> impl Strategy<Value = Value> {
    let os = prop::option::of(prop::sample::select(vec!["any", "windows", "linux"]));
    let managed = prop::option::of(Just(json!([{"manager": "kubectl", "operation": "Update"}])));
    (annotation(), os, managed).prop_map(|(annotation, os, managed)| {
        let mut metadata = json!({"name": "w", "namespace": "default"});
        for (key, value) in [("mullion.dev/decision", annotation), ("mullion.dev/os", os.map(str::to_owned))] {
            if let Some(value) = value {
                metadata["annotations"][key] = json!(value);
            }
        }
        if let Some(managed) = managed {
            metadata["managedFields"] = managed;
        }
        metadata
    })
}

/// A pod spec of either generator, some with the placement that Mullion might have written.
fn placed_spec() -> impl Strategy<Value = Value> {
    let os = prop::option::of(prop::sample::select(vec!["windows", "linux"]));
    let own = json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"});
    let team = json!({"key": "team", "operator": "Exists", "tolerationSeconds": 5, "futureField": 1});
    let tolerations = prop::option::of(prop::collection::vec(prop::sample::select(vec![own, team]), 0..3));
    let from = prop_oneof![spec(), generated().prop_map(|pod| pod["spec"].clone())];
    (from, os, tolerations).prop_map(|(mut spec, os, tolerations)| {
        if let Some(os) = os {
            spec["nodeSelector"] = json!({"kubernetes.io/os": os});
        }
        if let Some(tolerations) = tolerations {
            spec["tolerations"] = json!(tolerations);
        }
        spec
    })
}

fn object(kind: &str, metadata: Value, spec: Value) -> Value {
    let mut object = if kind == "Pod" { pod(spec) } else { workload(kind, spec) };
    object["metadata"] = metadata;
    object
}

#[derive(Debug, Clone)]
struct UpdateRequest {
    subresource: Option<&'static str>,
    old: Option<Value>,
    new: Value,
}

/// An update from one object to another one, or to the same with another annotation or another subresource.
fn request() -> impl Strategy<Value = UpdateRequest> {
    let kinds = vec!["DaemonSet", "DaemonSet", "DaemonSet", "Deployment", "Job", "CronJob", "Pod"];
    let kinds = prop::sample::select(kinds).prop_map(|kind| (kind, None));
    let subresources = prop::sample::select(vec!["ephemeralcontainers", "resize", "status", "binding", "eviction"]);
    let kinds = prop_oneof![3 => kinds, 2 => subresources.prop_map(|subresource| ("Pod", Some(subresource)))];
    let olds = prop_oneof![1 => Just(0), 4 => Just(1), 4 => Just(2), 1 => Just(3)];
    (kinds, olds, metadata(), metadata(), placed_spec(), placed_spec()).prop_map(
        |((kind, subresource), old, ours, theirs, a, b)| {
            let mut new = b;
            if subresource == Some("ephemeralcontainers") {
                let containers = std::mem::replace(&mut new, a.clone());
                new["ephemeralContainers"] = containers["containers"].clone();
            } else if old == 2 {
                // The author leaves everything alone except what Mullion may have written.
                new = a.clone();
                new.as_object_mut().unwrap().remove("tolerations");
            }
            let old = match old {
                0 => None,
                3 => Some(json!("garbage")),
                _ => Some(object(kind, ours, a)),
            };
            UpdateRequest { subresource, old, new: object(kind, theirs, new) }
        },
    )
}

/// The response to an update: its category, the path of each edit, the stored object, and whether it was denied.
fn mutated(update: &UpdateRequest, policies: &PolicySet) -> (RequestCategory, Vec<String>, Value, bool) {
    let kind = WorkloadKind::from_name(update.new["kind"].as_str().unwrap()).unwrap();
    let workload = WorkloadObject { kind, namespace: "default", object: &update.new };
    let request = ReviewRequest {
        operation: Operation::Update,
        subresource: update.subresource,
        old: update.old.as_ref(),
        ..ReviewRequest::creation(workload)
    };
    let review = review(&request, &snapshot(), policies);
    let answer = respond(&review, &update.new, Endpoint::Mutate);
    let mut stored = update.new.clone();
    json_patch::patch(&mut stored, &answer.patch).expect("the patch applies");
    let edits = respond_in_full(&review, &update.new, Endpoint::Mutate).patch;
    let paths = edits.iter().map(|operation| operation.path().to_string()).collect();
    (review.category, paths, stored, answer.denial.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_second_update_changes_nothing_and_touches_declared_fields_only(request in request()) {
        let policies = PolicySet::default();
        let (category, paths, stored, denied) = mutated(&request, &policies);
        for path in &paths {
            prop_assert!(declared(category, path), "{category:?} {path}");
        }
        if denied {
            return Ok(());
        }
        let (_, again, ..) = mutated(&UpdateRequest { new: stored, ..request }, &policies);
        prop_assert!(again.is_empty(), "{again:?}");
    }

    /// An annotation removes or restores only what it lists, and nothing else that a DaemonSet's author wrote.
    #[test]
    fn no_annotation_removes_what_it_does_not_name(request in request()) {
        let (_, _, stored, _) = mutated(&request, &PolicySet::default());
        for list in ["containers", "initContainers", "volumes", "futureField"] {
            for at in ["/spec/template/spec", "/spec"] {
                let pointer = format!("{at}/{list}");
                let names = |object: &Value| object.pointer(&pointer).map(names);
                prop_assert_eq!(names(&stored), names(&request.new));
            }
        }
        let team = |object: &Value| -> Vec<Value> {
            let list = object.pointer("/spec/template/spec/tolerations").and_then(Value::as_array).cloned();
            list.unwrap_or_default().into_iter().filter(|one| one["key"] == "team").collect()
        };
        prop_assert_eq!(team(&stored).is_empty(), team(&request.new).is_empty());
    }
}

/// Names of containers, which no rule writes; anything else as it is.
fn names(value: &Value) -> Value {
    let items = value.as_array().filter(|items| items.iter().all(|item| item.get("image").is_some()));
    items.map_or_else(|| value.clone(), |items| items.iter().map(|item| json!([item["name"], item["image"]])).collect())
}

//! Objects with more items than any person writes: bounds that keep a review and its patch small.

use mullion_engine::model::{DetectedOs, names};
use serde_json::{Value, json};

use crate::support::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

/// A pod with these terms of required node affinity.
fn with_terms(image: &str, terms: Vec<Value>) -> Value {
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    pod(json!({"containers": [{"name": "c", "image": image}], "affinity": {"nodeAffinity": affinity}}))
}

#[test]
fn builds_are_excluded_in_each_term_if_the_terms_are_few() {
    let terms = |count: usize| {
        (0..count)
            .map(|at| json!({"matchExpressions": [{"key": format!("k{at}"), "operator": "DoesNotExist"}]}))
            .collect()
    };
    let few = create(&with_terms(WINDOWS, terms(20)));
    let pointer = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let excluded = |stored: &Value| {
        let terms = stored.pointer(pointer).and_then(Value::as_array).unwrap().iter();
        terms.filter(|term| term.to_string().contains(names::WINDOWS_BUILD_LABEL)).count()
    };
    assert_eq!(excluded(&few.stored), 20);
    let note = few.stored["metadata"]["annotations"]["mullion.dev/decision"].as_str().unwrap();
    assert_eq!(note.matches(r#""build""#).count(), 1, "{note}");
    let many = create(&with_terms(WINDOWS, terms(5_000)));
    assert_eq!((excluded(&many.stored), many.selector()), (0, Some("windows")));
    assert!(!many.denied());
}

/// Every build that a tag can contain is a build that a node may have.
#[test]
fn tags_of_thousands_of_builds_are_not_multiplied() {
    let image = |build: usize| format!("mcr.microsoft.com/windows/nanoserver:10.0.{build}.1");
    let containers: Vec<Value> =
        (0..3_000).map(|at| json!({"name": format!("c{at}"), "image": image(20_349 + at)})).collect();
    let object = pod(json!({ "containers": containers }));
    let outcome = create(&object);
    assert_eq!(outcome.review.decision.os, DetectedOs::Windows);
    assert!(outcome.excluded_builds().is_empty());
    assert!(create(&outcome.stored).mutate.patch.is_empty());
}

#[test]
fn too_many_node_constraints_decide_nothing() {
    // Only Linux nodes have the label.
    let disks = |count: usize| -> Vec<Value> {
        (0..count).map(|at| json!({"key": "disk", "operator": "In", "values": ["ssd", format!("d{at}")]})).collect()
    };
    let decide = |count: usize| {
        let outcome =
            create(&with_terms("registry.example.com/app:1", vec![json!({"matchExpressions": disks(count)})]));
        (outcome.review.decision.os, outcome.mutate.patch.is_empty())
    };
    assert_eq!(decide(100), (DetectedOs::Linux, false));
    assert_eq!(decide(200_000), (DetectedOs::Undecided, true));
}

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "tests"
)]

use mullion_engine::admission::review;
use mullion_engine::model::{Operation, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use super::*;

fn pod(name: &str, owner: &str, codes: &str) -> LabelledPod {
    let owners =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]);
    let metadata = json!({"name": name, "namespace": "shop", "uid": name, "labels": {FINDINGS_LABEL: codes},
        "ownerReferences": if owner.is_empty() { json!(null) } else { owners }});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn due(groups: &mut Groups, now: Instant) -> Vec<(String, String)> {
    std::iter::from_fn(|| groups.next_due(now)).map(|(key, _)| (key.owner.clone(), key.codes.clone())).collect()
}

fn group(owner: &str, codes: &str) -> (String, String) {
    (owner.to_owned(), codes.to_owned())
}

#[test]
fn many_pods_of_one_owner_are_one_group() {
    let (mut groups, start) = (Groups::default(), Instant::now());
    for n in 0..1000 {
        groups.apply(Event::Apply(pod(&format!("p{n}"), "web", "MUL201")), start);
    }
    groups.apply(Event::Apply(pod("q", "web", "MUL201.MUL301")), start);
    groups.apply(Event::Apply(pod("bare", "", "MUL201")), start);
    assert_eq!(due(&mut groups, start), []);
    let soon = start + GATHER;
    assert_eq!(
        due(&mut groups, soon),
        [group("bare", "MUL201"), group("web", "MUL201"), group("web", "MUL201.MUL301")]
    );
    assert_eq!(due(&mut groups, soon), [], "their reports are under way");
    let keys: Vec<_> = groups.by_key.keys().cloned().collect();
    groups.finish(&keys[0], false, soon);
    groups.finish(&keys[1], true, soon);
    assert_eq!(due(&mut groups, soon + BACKOFF.delay(0)), [group("bare", "MUL201")]);
    assert_eq!(due(&mut groups, soon + REPEAT)[..1], [group("web", "MUL201")]);
    for n in 0..1000 {
        groups.apply(Event::Delete(pod(&format!("p{n}"), "web", "MUL201")), soon);
    }
    assert_eq!(groups.by_key.len(), 2);
    // A rollout has fixed it: nothing is left to report.
    groups.apply(Event::Delete(pod("q", "web", "MUL201.MUL301")), soon);
    groups.apply(Event::Delete(pod("bare", "", "MUL201")), soon);
    assert!(groups.by_key.is_empty() && groups.pods.is_empty());
    assert_eq!(due(&mut groups, soon + REPEAT * 2), []);
    assert!(groups.queue.is_empty());
}

#[test]
fn a_list_replaces_all_groups() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    groups.apply(Event::Apply(pod("a", "old", "MUL201")), now);
    groups.apply(Event::Apply(pod("b", "web", "MUL201")), now);
    groups.apply(Event::Init, now);
    groups.apply(Event::InitApply(pod("b", "web", "MUL301")), now);
    groups.apply(Event::InitDone, now);
    let keys: Vec<_> = groups.by_key.keys().map(|key| (key.owner.as_str(), key.codes.as_str())).collect();
    assert_eq!(keys, [("web", "MUL301")]);
    assert_eq!(groups.pods.len(), 1);
}

#[test]
fn groups_and_pods_are_limited() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    for n in 0..MAX_GROUPS + 10 {
        groups.apply(Event::Apply(pod(&format!("p{n}"), &format!("o{n}"), "MUL201")), now);
    }
    assert_eq!((groups.by_key.len(), groups.pods.len()), (MAX_GROUPS, MAX_GROUPS));
    groups.apply(Event::Delete(pod("p0", "o0", "MUL201")), now);
    groups.apply(Event::Apply(pod("last", "last", "MUL201")), now);
    assert!(groups.by_key.keys().any(|key| key.owner == "last"));
}

#[test]
fn pods_that_are_being_deleted_form_no_group() {
    let mut deleted = pod("a", "web", "MUL201");
    deleted.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let mut groups = Groups::default();
    groups.apply(Event::Apply(deleted), Instant::now());
    assert!(groups.by_key.is_empty());
}

fn findings_of(spec: Value, policy: &str, codes: &str) -> Vec<(&'static str, String)> {
    let policies = match policy {
        "" => PolicySet::built_in(),
        spec => PolicySet::from_files(&[(
            "p.yaml",
            format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: p}}\nspec: {{{spec}}}\n"),
        )])
        .unwrap(),
    };
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o", "controller": true}]);
    let object = json!({"metadata": {"name": "p", "namespace": "shop", "ownerReferences": owner}, "spec": spec});
    let request = ReviewRequest {
        operation: Operation::Create,
        subresource: None,
        workload: WorkloadObject { kind: WorkloadKind::Pod, namespace: "shop", object: &object },
        old: None,
        into_templates: false,
        at_validate: false,
        images: None,
        namespace: None,
    };
    let snapshot = mullion_engine::model::cluster::ClusterSnapshot::default();
    labelled_findings(&review(&request, &snapshot, &policies.resolve(&request, &snapshot)), codes)
}

#[test]
fn only_labelled_findings_that_still_apply_are_reported() {
    let spec = json!({"securityContext": {"runAsUser": 1000}, "containers": [
        {"name": "c", "image": "mcr.microsoft.com/windows/servercore:ltsc2022", "resources": {"limits": {"memory": "1Gi"}}}]});
    let found = findings_of(spec.clone(), "", "MUL201");
    assert!(
        found.len() == 1 && found[0].0 == "MUL201" && found[0].1.contains("spec.securityContext.runAsUser"),
        "{found:?}"
    );
    for (policy, codes) in [
        ("", "MUL301"),
        ("", ""),
        ("", "nonsense"),
        ("mode: Audit", "MUL201"),
        ("mode: Disabled", "MUL201"),
        ("rules: {actions: [{rule: run-as-user, action: Allow}]}", "MUL201"),
    ] {
        assert_eq!(findings_of(spec.clone(), policy, codes), [], "{policy} {codes}");
    }
    // A finding from a registry's report of that time: as the catalogue describes it.
    let found = findings_of(spec, "detect: {registry: {lookup: Background}}", "MUL201.MUL501");
    assert!(found.len() == 2 && found[1].1.starts_with("MUL501 "), "{found:?}");
}

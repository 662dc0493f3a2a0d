#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "tests"
)]

use mullion_engine::admission::review;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use super::*;
use crate::cluster::reading::Head;

fn pod(name: &str, owner: &str, codes: &str) -> SlimObject {
    pod_of("shop", name, owner, codes)
}

fn pod_of(namespace: &str, name: &str, owner: &str, codes: &str) -> SlimObject {
    let owners =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]);
    let metadata = json!({"name": name, "namespace": namespace, "uid": format!("{namespace}/{name}"), "labels": {FINDINGS_LABEL: codes},
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
        [group("shop/bare", "MUL201"), group("web", "MUL201"), group("web", "MUL201.MUL301")]
    );
    assert_eq!(due(&mut groups, soon), [], "their reports are under way");
    let keys = keys(&groups);
    groups.finish(&keys[0], false, soon);
    groups.finish(&keys[1], true, soon);
    assert_eq!(due(&mut groups, soon + BACKOFF.delay(0)), [group("shop/bare", "MUL201")]);
    assert_eq!(due(&mut groups, soon + REPEAT)[..1], [group("web", "MUL201")]);
    for n in 0..1000 {
        groups.apply(Event::Delete(Head::of(&pod(&format!("p{n}"), "web", "MUL201").metadata)), soon);
    }
    assert_eq!(groups.queue.len(), 2);
    // A rollout has fixed the pods, so nothing is left to report.
    groups.apply(Event::Delete(Head::of(&pod("q", "web", "MUL201.MUL301").metadata)), soon);
    groups.apply(Event::Delete(Head::of(&pod("bare", "", "MUL201").metadata)), soon);
    assert!(groups.queue.len() == 0 && groups.pods.is_empty() && groups.counts.is_empty());
    assert_eq!(due(&mut groups, soon + REPEAT * 2), []);
}

#[test]
fn a_list_replaces_all_groups() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    groups.apply(Event::Apply(pod("a", "old", "MUL201")), now);
    groups.apply(Event::Apply(pod("b", "web", "MUL201")), now);
    groups.apply(Event::Init, now);
    groups.apply(Event::InitApply(pod("b", "web", "MUL301")), now);
    groups.apply(Event::InitDone, now);
    let keys = keys(&groups);
    assert_eq!(
        keys.iter().map(|key| (key.owner.as_str(), key.codes.as_str())).collect::<Vec<_>>(),
        [("web", "MUL301")]
    );
    assert_eq!(groups.pods.len(), 1);
}

#[test]
fn groups_and_pods_are_limited() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    for n in 0..MAX_GROUPS + 10 {
        groups.apply(Event::Apply(pod(&format!("p{n}"), &format!("o{n}"), "MUL201")), now);
    }
    assert_eq!((groups.queue.len(), groups.pods.len()), (MAX_GROUPS, MAX_GROUPS));
    groups.apply(Event::Delete(Head::of(&pod("p0", "o0", "MUL201").metadata)), now);
    groups.apply(Event::Apply(pod("last", "last", "MUL201")), now);
    assert!(keys(&groups).iter().any(|key| key.owner == "last"));
    // Another namespace always has room, and its turn comes before the rest.
    groups.apply(Event::Apply(pod_of("quiet", "p", "o", "MUL201")), now);
    assert_eq!(groups.queue.len(), MAX_GROUPS);
    let soon = now + GATHER;
    let first: Vec<_> = (0..3).filter_map(|_| groups.next_due(soon)).map(|(key, _)| key.namespace.clone()).collect();
    assert!(first.contains(&"quiet".to_owned()), "{first:?}");
    // Pods of a group that was dropped are deleted without an error.
    for n in 0..MAX_GROUPS + 10 {
        groups.apply(Event::Delete(Head::of(&pod(&format!("p{n}"), &format!("o{n}"), "MUL201").metadata)), now);
    }
    groups.apply(Event::Delete(Head::of(&pod("last", "last", "MUL201").metadata)), now);
    assert_eq!(keys(&groups).iter().map(|key| key.namespace.as_str()).collect::<Vec<_>>(), ["quiet"]);
}

#[test]
fn pods_of_one_namespace_are_limited() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    for n in 0..MAX_PODS_OF_NAMESPACE + 10 {
        groups.apply(Event::Apply(pod(&format!("p{n}"), "web", "MUL201")), now);
    }
    groups.apply(Event::Apply(pod_of("quiet", "p", "web", "MUL201")), now);
    assert_eq!(groups.pods.len(), MAX_PODS_OF_NAMESPACE + 1);
}

/// The author of a pod can write the uid of another namespace's controller.
#[test]
fn a_forged_owner_joins_no_group_of_another_namespace() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    groups.apply(Event::Apply(pod("web-1", "web", "MUL201")), now);
    groups.apply(Event::Apply(pod_of("tenant", "forged", "web", "MUL201")), now);
    let samples = std::iter::from_fn(|| groups.next_due(now + GATHER)).map(|(_, sample)| sample.name.unwrap());
    assert_eq!(samples.collect::<BTreeSet<_>>(), ["forged", "web-1"].map(str::to_owned).into());
}

fn keys(groups: &Groups) -> Vec<Arc<GroupKey>> {
    let mut keys: Vec<_> = groups.queue.iter().map(|(_, group)| Arc::clone(&group.key)).collect();
    keys.sort();
    keys
}

#[test]
fn pods_that_are_being_deleted_form_no_group() {
    let mut deleted = pod("a", "web", "MUL201");
    deleted.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let mut groups = Groups::default();
    groups.apply(Event::Apply(deleted), Instant::now());
    assert_eq!(groups.queue.len(), 0);
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
    let workload = WorkloadObject { kind: WorkloadKind::Pod, namespace: "shop", object: &object };
    let request = ReviewRequest::creation(workload);
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
    // A finding from an earlier report of a registry, as the catalogue describes it.
    let found = findings_of(spec, "detect: {registry: {lookup: Background}}", "MUL201.MUL501");
    assert!(found.len() == 2 && found[1].1.starts_with("MUL501 "), "{found:?}");
}

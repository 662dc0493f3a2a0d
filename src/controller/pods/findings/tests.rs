#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "tests"
)]

use mullion_engine::admission::review::review;
use mullion_engine::model::review_request::{Operation, ReviewRequest};
use mullion_engine::model::workload::{WorkloadKind, WorkloadObject};
use mullion_policy::policy_set::PolicySet;
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
    std::iter::from_fn(|| groups.due(now)).map(|(key, _)| (key.owner.clone(), key.codes.clone())).collect()
}

fn group(owner: &str, codes: &str) -> (String, String) {
    (owner.to_owned(), codes.to_owned())
}

#[test]
fn many_pods_of_one_owner_are_one_group() {
    let (mut groups, start) = (Groups::default(), Instant::now());
    for n in 0..1000 {
        groups.event(Event::Apply(pod(&format!("p{n}"), "web", "MUL201")), start);
    }
    groups.event(Event::Apply(pod("q", "web", "MUL201.MUL301")), start);
    groups.event(Event::Apply(pod("bare", "", "MUL201")), start);
    assert_eq!(due(&mut groups, start), []);
    let soon = start + GATHER;
    assert_eq!(
        due(&mut groups, soon),
        [group("bare", "MUL201"), group("web", "MUL201"), group("web", "MUL201.MUL301")]
    );
    assert_eq!(due(&mut groups, soon), [], "they are under way");
    let keys: Vec<_> = groups.known.keys().cloned().collect();
    groups.done(&keys[0], End::Again, soon);
    groups.done(&keys[1], End::Told, soon);
    assert_eq!(due(&mut groups, soon + BACKOFF.delay(0)), [group("bare", "MUL201")]);
    assert_eq!(due(&mut groups, soon + AGAIN)[..1], [group("web", "MUL201")]);
    for n in 0..1000 {
        groups.event(Event::Delete(pod(&format!("p{n}"), "web", "MUL201")), soon);
    }
    assert_eq!(groups.known.len(), 2);
    // A rollout has put it right: there is nobody left to tell of.
    groups.event(Event::Delete(pod("q", "web", "MUL201.MUL301")), soon);
    groups.event(Event::Delete(pod("bare", "", "MUL201")), soon);
    assert!(groups.known.is_empty() && groups.pods.is_empty());
    assert_eq!(due(&mut groups, soon + AGAIN * 2), []);
    assert!(groups.queue.is_empty());
}

#[test]
fn a_list_replaces_what_was_known() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    groups.event(Event::Apply(pod("a", "old", "MUL201")), now);
    groups.event(Event::Apply(pod("b", "web", "MUL201")), now);
    groups.event(Event::Init, now);
    groups.event(Event::InitApply(pod("b", "web", "MUL301")), now);
    groups.event(Event::InitDone, now);
    let keys: Vec<_> = groups.known.keys().map(|key| (key.owner.as_str(), key.codes.as_str())).collect();
    assert_eq!(keys, [("web", "MUL301")]);
    assert_eq!(groups.pods.len(), 1);
}

#[test]
fn what_is_kept_is_bounded() {
    let (mut groups, now) = (Groups::default(), Instant::now());
    for n in 0..MAX_GROUPS + 10 {
        groups.event(Event::Apply(pod(&format!("p{n}"), &format!("o{n}"), "MUL201")), now);
    }
    assert_eq!((groups.known.len(), groups.pods.len()), (MAX_GROUPS, MAX_GROUPS));
    groups.event(Event::Delete(pod("p0", "o0", "MUL201")), now);
    groups.event(Event::Apply(pod("last", "last", "MUL201")), now);
    assert!(groups.known.keys().any(|key| key.owner == "last"));
}

#[test]
fn pods_on_their_way_out_say_nothing_new() {
    let mut going = pod("a", "web", "MUL201");
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    let mut groups = Groups::default();
    groups.event(Event::Apply(going), Instant::now());
    assert!(groups.known.is_empty());
}

fn said_of(spec: Value, policy: &str, codes: &str) -> Vec<(&'static str, String)> {
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
    let snapshot = mullion_engine::model::cluster::snapshot::ClusterSnapshot::default();
    said(&review(&request, &snapshot, &policies.resolve(&request, &snapshot)), codes)
}

#[test]
fn only_what_is_labelled_and_still_wrong_is_said() {
    let spec = json!({"securityContext": {"runAsUser": 1000}, "containers": [
        {"name": "c", "image": "mcr.microsoft.com/windows/servercore:ltsc2022", "resources": {"limits": {"memory": "1Gi"}}}]});
    let found = said_of(spec.clone(), "", "MUL201");
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
        assert_eq!(said_of(spec.clone(), policy, codes), [], "{policy} {codes}");
    }
    // What a registry had said at the time: in the catalogue's words.
    let found = said_of(spec, "detect: {registry: {lookup: Background}}", "MUL201.MUL501");
    assert!(found.len() == 2 && found[1].1.starts_with("MUL501 "), "{found:?}");
}

//! The pods of a node, read when its taint is about to be set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::ListParams;
use mullion_engine::model::cluster::{ClusterSnapshot, TolerationsWhitelist};
use mullion_engine::model::scheduling::{TolerationTerm, toleration_of};
use mullion_engine::model::settings::policy_taint;
use mullion_engine::model::{WorkloadKind, WorkloadObject};
use mullion_engine::node::{BoundPod, is_windows_pod, reaches};
use mullion_policy::PolicySet;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::await_answer;
use crate::cluster::reading::{Head, Item, KindApi, PODS};
use crate::controller::pods::{WholePod, controller};

/// The annotation of the kubelet on the API object of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Reads the pods that are bound to a node from the API server's cache, in one request that uses an index.
pub(crate) async fn list_bound_pods(
    client: Client,
    node: &str,
    policies: &PolicySet,
    snapshot: &ClusterSnapshot,
) -> anyhow::Result<Vec<BoundPod>> {
    let list = ListParams::default().fields(&format!("spec.nodeName={node}")).match_any();
    let mut pods = Vec::new();
    // The taint does not wait for a pod that cannot be read: nobody can hold it with one.
    let each = |pod: Item<WholePod>| pods.extend(pod.ok().and_then(|pod| bound_pod(pod, policies, snapshot)));
    await_answer(KindApi::all(client, &PODS).page(&list, each)).await?;
    Ok(pods)
}

/// `None` for a pod that is being deleted, has ended, or is in a namespace for which the taint does not wait.
fn bound_pod(pod: WholePod, policies: &PolicySet, snapshot: &ClusterSnapshot) -> Option<BoundPod> {
    let WholePod { metadata, spec, status } = pod;
    let spec = spec.value();
    let counts = policies.nodes.taint.waits_for(metadata.namespace.as_deref().unwrap_or_default());
    if metadata.deletion_timestamp.is_some() || status.ended() || !counts {
        return None;
    }
    let name = Head::of(&metadata).full_name();
    let daemon_set = controller(&metadata).filter(|owner| owner.kind == "DaemonSet").map(|owner| owner.name.clone());
    let ObjectMeta { namespace, labels, annotations, .. } = metadata;
    let namespace = namespace.unwrap_or_default();
    let (labels, annotations) = (labels.unwrap_or_default(), annotations.unwrap_or_default());
    let known = snapshot.namespaces.get(&namespace);
    let settings = policies.settings(&namespace, known.map(|namespace| &namespace.labels), &labels);
    let tolerations = spec.get("tolerations").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let rejected = TolerationsWhitelist::of(known, tolerations).rejects(&toleration_of(&policy_taint(&policies.nodes)));
    let daemon_set = daemon_set.map(|name| format!("{namespace}/{name}"));
    let (ready, mirror) = (status.ready(), annotations.contains_key(MIRROR));
    let covered = !rejected && reaches(&settings, known, Some([&labels, &annotations]), &policies.nodes);
    let tolerations = tolerations.iter().filter_map(|one| TolerationTerm::deserialize(one).ok()).collect();
    // Computed only if it matters.
    let undecided = !ready && !mirror && !covered && daemon_set.is_none();
    let windows = undecided && {
        let object = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec});
        let pod = WorkloadObject { kind: WorkloadKind::Pod, namespace: &namespace, object: &object };
        is_windows_pod(pod, snapshot, &settings)
    };
    Some(BoundPod { name, daemon_set, ready, windows, tolerations, covered, mirror })
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::collections::BTreeMap;

    use mullion_engine::model::cluster::Namespace;
    use mullion_engine::model::settings::Mode;

    use super::*;

    #[test]
    fn pods_of_namespaces_that_do_not_count_are_left_out() {
        let pod = json!({"metadata": {"name": "p", "namespace": "team-a"}, "spec": {}});
        let mut policies = PolicySet::default();
        let read = |policies: &PolicySet| {
            bound_pod(serde_json::from_value(pod.clone()).unwrap(), policies, &ClusterSnapshot::default())
        };
        assert!(read(&policies).is_some());
        policies.nodes.taint.wait_for = serde_json::from_value(json!({"namespaces": {"exclude": ["team-*"]}})).unwrap();
        assert!(read(&policies).is_none());
    }

    #[test]
    fn pods_are_read_leniently() {
        let policies = PolicySet::default();
        let read = |pod: Value| bound_pod(serde_json::from_value(pod).unwrap(), &policies, &ClusterSnapshot::default());
        let pod = read(json!({
            "metadata": {"name": "d-1", "namespace": "kube-system", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]},
            "spec": {"tolerations": [{"operator": "Exists", "fromTheFuture": 1}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap();
        assert_eq!(pod.daemon_set.as_deref(), Some("kube-system/d"));
        assert!(pod.ready && pod.covered && !pod.mirror);
        let bare = read(
            json!({"metadata": {"name": "p", "namespace": "web", "annotations": {"kubernetes.io/config.mirror": "x"}}}),
        );
        assert!(bare.is_some_and(|pod| pod.mirror && !pod.ready && pod.daemon_set.is_none()));
        // The pod is not covered if the namespace rejects the toleration that its replacement would get.
        let whitelist = |text: &str| {
            let annotations =
                [("scheduler.alpha.kubernetes.io/tolerationsWhitelist".to_owned(), text.to_owned())].into();
            let namespaces = BTreeMap::from([("web".to_owned(), Namespace::new(BTreeMap::new(), &annotations))]);
            ClusterSnapshot { namespaces, ..ClusterSnapshot::default() }
        };
        let plain = json!({"metadata": {"name": "p", "namespace": "web"}, "spec": {"tolerations": [
            {"key": "team", "operator": "Exists"}]}});
        for (text, covered) in [
            (r#"[{"key": "team", "operator": "Exists"}]"#, false),
            (r#"[{"key": "team", "operator": "Exists"}, {"key": "os", "operator": "Exists"}]"#, true),
            (r#"[{"key": "other", "operator": "Exists"}]"#, true),
        ] {
            let pod = bound_pod(serde_json::from_value(plain.clone()).unwrap(), &policies, &whitelist(text)).unwrap();
            assert_eq!(pod.covered, covered, "{text}");
        }
        // The pod is not Ready, but is a Windows pod that no enforcing policy covers.
        let mut off = PolicySet::built_in();
        for policy in &mut off.pods {
            policy.settings.mode = Mode::Audit;
        }
        let starting = json!({"metadata": {"name": "p", "namespace": "web"}, "spec": {"nodeName": "w",
            "containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}]}});
        let starting = bound_pod(serde_json::from_value(starting).unwrap(), &off, &ClusterSnapshot::default()).unwrap();
        assert!(starting.windows && !starting.ready && !starting.covered);
        assert!(read(json!({"metadata": {"name": "p"}, "status": {"phase": "Succeeded"}})).is_none());
        let deleted =
            json!({"metadata": {"name": "p", "namespace": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert!(read(deleted).is_none());
    }
}

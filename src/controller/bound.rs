//! What runs on a node, read when its taint is about to be set.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::engine::blockers::{BoundPod, Daemon};
use crate::engine::fit::{Placement, Tolerates};
use crate::engine::limits::Whitelist;
use crate::engine::node::policy_taint;
use crate::engine::toleration::toleration_of;
use crate::engine::world::Namespace;
use crate::policy::{Mode, PolicySet, TolerationsMode};
use crate::world::live::slim_metadata;
use crate::world::objects::or_default;
use crate::world::watch::CALL;

/// A DaemonSet without anything but where its pods may go.
#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = apps::DaemonSet)]
pub(super) struct SlimDaemonSet {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: DaemonSetSpec,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
struct DaemonSetSpec {
    #[serde(deserialize_with = "or_default")]
    template: Template,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
struct Template {
    #[serde(deserialize_with = "or_default")]
    spec: Placement,
}

impl SlimDaemonSet {
    /// As the engine sees it, under its name.
    pub(super) fn entry(self) -> (String, Option<Daemon>) {
        let name = full_name(&self.metadata);
        (name.clone(), Some(Daemon { name, placement: self.spec.template.spec }))
    }
}

#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = core::Pod)]
struct SlimPod {
    #[serde(deserialize_with = "pod_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: PodSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: PodStatus,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
struct PodSpec {
    tolerations: Option<Vec<Value>>,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
struct PodStatus {
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
}

/// Pods also need their owners and their end.
fn pod_metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = ObjectMeta::deserialize(from)?;
    metadata.managed_fields = None;
    Ok(metadata)
}

fn full_name(metadata: &ObjectMeta) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

/// Reads the pods bound to a node, from the API server's cache: one request, found there by index.
pub(super) async fn pods(
    client: Client,
    node: &str,
    policies: &PolicySet,
    namespaces: &BTreeMap<String, Namespace>,
) -> anyhow::Result<Vec<BoundPod>> {
    let list = ListParams::default().fields(&format!("spec.nodeName={node}")).match_any();
    let api: Api<SlimPod> = Api::all(client);
    let pods = tokio::time::timeout(CALL, api.list(&list)).await??;
    Ok(pods.items.into_iter().filter_map(|pod| bound(pod, policies, namespaces)).collect())
}

/// `None` for a pod that is going anyway.
fn bound(pod: SlimPod, policies: &PolicySet, namespaces: &BTreeMap<String, Namespace>) -> Option<BoundPod> {
    let SlimPod { metadata, spec, status } = pod;
    if metadata.deletion_timestamp.is_some() {
        return None;
    }
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let owners = metadata.owner_references.iter().flatten();
    let mut daemons = owners.filter(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true));
    let annotations = metadata.annotations.as_ref();
    let known = namespaces.get(namespace);
    let labels = known.map(|namespace| &namespace.labels);
    let settings = policies.settings(namespace, labels, &metadata.labels);
    let conditions = status.conditions.unwrap_or_default();
    let tolerations = spec.tolerations.unwrap_or_default();
    Some(BoundPod {
        name: full_name(&metadata),
        daemon: daemons.next().map(|owner| format!("{namespace}/{}", owner.name)),
        ready: conditions.iter().any(|condition| condition.r#type == "Ready" && condition.status == "True"),
        tolerations: tolerations.iter().filter_map(|one| Tolerates::deserialize(one).ok()).collect(),
        covered: settings.mode == Mode::Enforce
            && settings.tolerations == TolerationsMode::Learn
            && !Whitelist::of(known, &tolerations).refuses(&toleration_of(&policy_taint(&policies.nodes))),
        mirror: annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_read_leniently() {
        let policies = PolicySet::default();
        let read = |pod: Value| bound(serde_json::from_value(pod).unwrap(), &policies, &BTreeMap::new());
        let pod = read(json!({
            "metadata": {"name": "d-1", "namespace": "kube-system", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]},
            "spec": {"tolerations": [{"operator": "Exists", "fromTheFuture": 1}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap();
        assert_eq!(pod.daemon.as_deref(), Some("kube-system/d"));
        assert!(pod.ready && pod.covered && !pod.mirror);
        let bare = read(
            json!({"metadata": {"name": "p", "namespace": "web", "annotations": {"kubernetes.io/config.mirror": "x"}}}),
        );
        assert!(bare.is_some_and(|pod| pod.mirror && !pod.ready && pod.daemon.is_none()));
        // Not where the namespace refuses what its successor would be given.
        let whitelist = |text: &str| {
            let annotations =
                [("scheduler.alpha.kubernetes.io/tolerationsWhitelist".to_owned(), text.to_owned())].into();
            BTreeMap::from([("web".to_owned(), Namespace { annotations, ..Namespace::default() })])
        };
        let plain = json!({"metadata": {"name": "p", "namespace": "web"}, "spec": {"tolerations": [
            {"key": "team", "operator": "Exists"}]}});
        for (text, covered) in [
            (r#"[{"key": "team", "operator": "Exists"}]"#, false),
            (r#"[{"key": "team", "operator": "Exists"}, {"key": "os", "operator": "Exists"}]"#, true),
            (r#"[{"key": "other", "operator": "Exists"}]"#, true),
        ] {
            let pod = bound(serde_json::from_value(plain.clone()).unwrap(), &policies, &whitelist(text)).unwrap();
            assert_eq!(pod.covered, covered, "{text}");
        }
        let going = json!({"metadata": {"name": "p", "namespace": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert!(read(going).is_none());
    }
}

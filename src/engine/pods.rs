//! The pods of a subject: how they are placed once they are made, and where they could run then.
//!
//! A template that is applied is left alone but for what the API server would refuse; its pods are placed one by one, when
//! their controller makes them.

use serde::Deserialize;
use serde_json::Value;

use super::answer::{Door, answer};
use super::fit::Placement;
use super::request::Request;
use super::review::{Review, review};
use super::world::{Node, World};
use crate::policy::PolicySet;

/// The review whose changes are those of the pods: of a template, what its pods get.
pub fn review_of_pods(request: &Request<'_>, world: &World, policies: &PolicySet) -> Review {
    review(&Request { into_templates: true, ..*request }, world, policies)
}

/// The nodes of the world on which the scheduler could put the pods as Mullion leaves them; `None` where nothing is known
/// of nodes.
pub fn nodes<'w>(request: &Request<'_>, world: &'w World, policies: &PolicySet) -> Option<Vec<&'w str>> {
    let nodes = world.nodes.as_ref()?;
    let subject = &request.subject;
    let mut placed = subject.object.clone();
    let patch = answer(&review_of_pods(request, world, policies), &placed, Door::Mutate).patch;
    // What cannot be applied leaves the object as its author wrote it.
    let applied = json_patch::patch(&mut placed, &patch).is_ok();
    let object = if applied { &placed } else { subject.object };
    let spec = object.pointer(&format!("{}/spec", subject.kind.pod_pointer()))?;
    let mut placement = Placement::deserialize(spec).ok()?;
    let class = spec.get("runtimeClassName").and_then(Value::as_str).and_then(|name| world.runtime_class(name));
    if class.is_some_and(|class| !placement.takes_over(class)) {
        return Some(Vec::new());
    }
    let takes = |node: &&Node| {
        let repelled = node.taints.iter().any(|t| t.effect != "PreferNoSchedule" && !placement.tolerates(t));
        !node.unschedulable && !repelled && placement.fits(&node.name, |key| node.labels.get(key))
    };
    Some(nodes.iter().filter(takes).map(|node| node.name.as_str()).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::engine::request::{Kind, Subject};
    use crate::policy::PolicySet;
    use crate::world::file;

    const WORLD: &str = "\
kind: List
items:
- {kind: Node, metadata: {name: shop, labels: {kubernetes.io/os: windows, team: shop}}, spec: {taints: [{key: team, value: shop, effect: NoSchedule}]}}
- {kind: Node, metadata: {name: bank, labels: {kubernetes.io/os: windows, team: bank}}, spec: {taints: [{key: team, value: bank, effect: NoSchedule}]}}
- {kind: Node, metadata: {name: all, labels: {kubernetes.io/os: windows}}}
- kind: RuntimeClass
  metadata: {name: shop}
  handler: runhcs-wcow-process
  scheduling: {nodeSelector: {team: shop}, tolerations: [{key: team, value: shop}]}
- {kind: RuntimeClass, metadata: {name: plain}, handler: runhcs-wcow-process}
";

    fn nodes_of(object: &Value, policy: &str) -> Vec<String> {
        let world = file::from_text("world", WORLD.as_bytes()).unwrap();
        let text =
            format!("{{apiVersion: mullion.dev/v1alpha1, kind: PodPolicy, metadata: {{name: a}}, spec: {{{policy}}}}}");
        let policies = PolicySet::from_files(&[("a.yaml", text)]).unwrap();
        let kind = Kind::from_name(object["kind"].as_str().unwrap()).unwrap();
        let request = Request::creation(Subject { kind, namespace: "default", object });
        nodes(&request, &world, &policies).unwrap().into_iter().map(str::to_owned).collect()
    }

    /// The API server adds what a class asks for after the webhooks (plugin RuntimeClass).
    #[test]
    fn a_runtime_class_selects_and_tolerates() {
        let spec =
            json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "a", "image": "a"}]});
        let pod = |class: Option<&str>, team: Option<&str>| {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
            if let Some(class) = class {
                pod["spec"]["runtimeClassName"] = json!(class);
            }
            if let Some(team) = team {
                pod["spec"]["nodeSelector"]["team"] = json!(team);
            }
            pod
        };
        let named = "place: {runtimeClass: {mode: Named, name: shop}}";
        for (pod, policy, expected) in [
            (pod(None, None), "", vec!["all"]),
            (pod(Some("shop"), None), "", vec!["shop"]),
            (pod(Some("plain"), None), "", vec!["all"]),
            (pod(Some("unknown"), None), "", vec!["all"]),
            (pod(None, None), named, vec!["shop"]),
            (pod(Some("plain"), None), named, vec!["all"]),
            // The API server refuses a pod and a class that contradict each other.
            (pod(Some("shop"), Some("bank")), "", vec![]),
            (pod(Some("shop"), Some("shop")), "", vec!["shop"]),
        ] {
            assert_eq!(nodes_of(&pod, policy), expected, "{pod} {policy}");
        }
        let template = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}});
        assert_eq!(nodes_of(&template, named), ["shop"]);
    }
}

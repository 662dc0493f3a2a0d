//! `pods/resize`: what nobody can do on Windows.
//!
//! The kubelet there calls every resize Infeasible (`pkg/kubelet/allocation/features_windows.go`). The API server refuses
//! one of a pod that says `spec.os.name: windows` (`ValidatePodResize` in pkg/apis/core/validation/validation.go), and
//! from 1.36 on one of any pod that is bound to a node of another OS than Linux (admission plugin `PodResizeValidator`):
//! after the mutating webhooks and before the validating ones, in words that say what and not what instead. So it is at
//! the mutating door that Mullion says it. A pod that waits for a node is resized as any other.

use serde_json::Value;

use super::constraint::{OsWanted, selector_os};
use super::pod::Pod;
use super::verdict::place_of;
use super::world::{Os, World};

/// What the admission plugin `PodResizeValidator` gives as the reason of its cause.
pub const REASON: &str = "UnsupportedPlatform";

/// Why the pod cannot be resized, and what to do instead; `None`: it can, or nothing of it changes.
pub fn advice(pod: &Pod<'_>, old: Option<&Value>, world: &World) -> Option<String> {
    let changes = old.and_then(|old| old.get("spec")) != pod.get("/spec");
    let bound = pod.text("/spec/nodeName").is_some();
    // A node that nobody knows has the OS that the scheduler was told to look for.
    let there = || place_of(pod, world).map_or_else(|| selector_os(pod).0, OsWanted::Only);
    let on_windows = pod.says_windows_os() || (bound && there() == OsWanted::Only(Os::Windows));
    let text =
        "Windows nodes resize no pod in place; write resources in its controller's template, or make the pod anew";
    (changes && on_windows).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::engine::answer::{Answer, WARNING_LIMIT};
    use crate::engine::{Door, Kind, Operation, Request, Subject, answer, review};
    use crate::policy::{Denials, Mode, PodPolicy, PolicySet, RulesSpec};
    use crate::world::file::from_text;

    fn resized(spec: &Value, memory: &str) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec});
        let container = json!({"name": "c", "image": "app", "resources": {"limits": {"memory": memory}}});
        pod["spec"]["containers"] = json!([container]);
        pod
    }

    fn asked(spec: &Value, memory: &str, policies: &PolicySet, door: Door) -> Answer {
        let node = |name: &str, os: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": os}}});
        let nodes =
            json!({"apiVersion": "v1", "kind": "List", "items": [node("win", "windows"), node("lin", "linux")]});
        let world = from_text("nodes", nodes.to_string().as_bytes()).unwrap();
        let (old, object) = (resized(spec, "1Gi"), resized(spec, memory));
        let request = Request {
            operation: Operation::Update,
            subresource: Some("resize"),
            subject: Subject { kind: Kind::Pod, namespace: "shop", object: &object },
            old: Some(&old),
            into_templates: false,
            settled: false,
            images: None,
            namespace: None,
        };
        answer(&review(&request, &world, policies), &object, door)
    }

    #[test]
    fn only_what_is_on_windows_is_refused() {
        let windows = json!({"kubernetes.io/os": "windows"});
        for (spec, refused) in [
            (json!({"nodeName": "win"}), true),
            (json!({"os": {"name": "windows"}}), true),
            (json!({"nodeName": "gone", "nodeSelector": windows}), true),
            // It waits: the scheduler and the kubelet take it as it is by then.
            (json!({"nodeSelector": windows}), false),
            (json!({"nodeName": "lin"}), false),
            (json!({"nodeName": "lin", "nodeSelector": windows}), false),
            (json!({"nodeName": "gone"}), false),
            (json!({}), false),
        ] {
            for door in [Door::Mutate, Door::Validate] {
                let answer = asked(&spec, "2Gi", &PolicySet::default(), door);
                assert_eq!(answer.refusal.is_some(), refused, "{spec}: {answer:?}");
                assert!(answer.patch.is_empty() && answer.warnings.is_empty(), "{spec}: {answer:?}");
                // What changes nothing asks for nothing.
                assert_eq!(asked(&spec, "1Gi", &PolicySet::default(), door), Answer::default(), "{spec}");
            }
        }
    }

    #[test]
    fn policies_have_it_said_only() {
        let policies = |change: fn(&mut PodPolicy)| {
            let mut policy = PodPolicy::default();
            change(&mut policy);
            PolicySet { pods: vec![policy], ..PolicySet::default() }
        };
        let spec = json!({"nodeName": "win"});
        let warn: fn(&mut PodPolicy) = |policy| {
            policy.spec.rules = Some(RulesSpec { denials: Some(Denials::Warn), ..RulesSpec::default() });
        };
        let audit: fn(&mut PodPolicy) = |policy| policy.spec.mode = Some(Mode::Audit);
        for (change, start) in [(warn, "Windows nodes"), (audit, "would refuse: Windows")] {
            let answer = asked(&spec, "2Gi", &policies(change), Door::Validate);
            assert!(answer.refusal.is_none(), "{answer:?}");
            let [said] = answer.warnings.as_slice() else { panic!("{answer:?}") };
            assert!(said.starts_with(start) && said.chars().count() <= WARNING_LIMIT, "{said}");
        }
    }
}

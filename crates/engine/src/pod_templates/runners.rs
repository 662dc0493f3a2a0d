//! Actions Runner Controller: runners and listeners.

use serde_json::{Value, json};

use crate::model::Os;
use crate::model::names::OS_LABEL;
use crate::pod_templates::part::PlacedValue;
use crate::pod_templates::pod_builder::PodBuilder;
use crate::pod_templates::pod_collector::PodCollector;

/// `AutoscalingRunnerSet`: the runner, and the listener, which the controller merges with `listenerTemplate`
/// (`mergeListenerPodWithTemplate`, `controllers/actions.github.com/resourcebuilder.go`). The listener's image is that of
/// the controller, which exists for Linux only.
pub(crate) fn autoscaling_runner_set(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    pods.add_templates(object, "/spec/template");
    let Some(template) = object.at("/spec/listenerTemplate") else { return };
    let spec = template.member("spec");
    if let Some(spec) = spec.as_ref().filter(|spec| !spec.value.is_object()) {
        return pods.note_unread(spec, "it is not a map");
    }
    let mut pod = PodBuilder::default();
    pod.add_metadata(template.member("metadata").as_ref());
    if let Some(spec) = &spec {
        pod.take_spec(spec, &[]);
    }
    let is_listener = |container: &Value| container.get("name").and_then(Value::as_str) == Some("listener");
    if !pod.items("containers").iter().any(is_listener) {
        pod.push_made("containers", json!({"name": "listener"}));
    }
    if pod.get("nodeSelector").is_none() {
        // Since chart 0.14.0.
        pod.set_made("nodeSelector", json!({OS_LABEL: Os::Linux.name()}));
    }
    pods.add(&template, pod);
}

/// The members of the spec of a runner that are those of its pod (`newPod`,
/// `controllers/actions.summerwind.net/runner_controller.go`).
const RUNNER_POD: [&str; 17] = [
    "nodeSelector",
    "tolerations",
    "affinity",
    "securityContext",
    "serviceAccountName",
    "automountServiceAccountToken",
    "imagePullSecrets",
    "priorityClassName",
    "topologySpreadConstraints",
    "hostAliases",
    "dnsPolicy",
    "dnsConfig",
    "runtimeClassName",
    "enableServiceLinks",
    "terminationGracePeriodSeconds",
    "initContainers",
    "volumes",
];

/// `RunnerDeployment` and `RunnerReplicaSet`.
pub(crate) fn runner_template(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match object.at("/spec/template") {
        Some(template) => runner(&template, pods),
        None => pods.note_unread(object, "it has no spec.template"),
    }
}

/// `Runner`. The controller runs Docker in a privileged container beside the runner, or in the runner itself, unless
/// `dockerEnabled` is false.
pub(crate) fn runner(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    let Some(spec) = object.member("spec").filter(|spec| spec.value.is_object()) else {
        return pods.note_unread(object, "it has no spec");
    };
    let mut pod = PodBuilder::default();
    pod.add_metadata(object.member("metadata").as_ref());
    for name in RUNNER_POD {
        pod.set(name, spec.member(name).as_ref());
    }
    for list in ["containers", "sidecarContainers"] {
        let containers = spec.member(list).into_iter().flat_map(|list| list.items());
        containers.for_each(|container| pod.push("containers", &container, &[]));
    }
    let position = |pod: &PodBuilder, name: &str| {
        let is_named = |container: &Value| container.get("name").and_then(Value::as_str) == Some(name);
        pod.items("containers").iter().position(is_named)
    };
    let at = position(&pod, "runner").unwrap_or_else(|| {
        pod.push_made("containers", json!({"name": "runner"}));
        pod.items("containers").len().saturating_sub(1)
    });
    for (from, to) in [("image", "image"), ("env", "env"), ("resources", "resources"), ("volumeMounts", "volumeMounts")]
    {
        pod.set_in_container(at, to, spec.member(from).as_ref());
    }
    if pod.items("containers").get(at).is_none_or(|container| container.get("image").is_none()) {
        pod.note_unknown("the image of the runner is a setting of the controller".to_owned());
    }
    let flag = |name: &str, default: bool| spec.value.get(name).and_then(Value::as_bool).unwrap_or(default);
    // In this mode jobs have pods of their own, and no Docker runs (`newPod`).
    if spec.text("containerMode") == Some("kubernetes") {
        return pods.add(object, pod);
    }
    // With SELinux options nothing is privileged.
    let privileged = spec.at("/securityContext/seLinuxOptions").is_none();
    if flag("dockerdWithinRunnerContainer", false) {
        if privileged {
            pod.make_privileged(at);
        }
    } else if flag("dockerEnabled", true) {
        match position(&pod, "docker") {
            None => pod.push_made(
                "containers",
                json!({"name": "docker", "image": "docker:dind", "securityContext": {"privileged": privileged}}),
            ),
            Some(at) => {
                let own = pod.items("containers").get(at).and_then(|container| container.get("securityContext"));
                if privileged && own.is_none() {
                    pod.make_privileged(at);
                }
            }
        }
    }
    pods.add(object, pod);
}

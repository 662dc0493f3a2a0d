//! OpenShift: deployment configurations, and templates with objects.

use serde_json::{Value, json};

use crate::model::WorkloadKind;
use crate::pod_templates::by_shape;
use crate::pod_templates::part::PlacedValue;
use crate::pod_templates::pod_builder::PodBuilder;
use crate::pod_templates::pod_collector::PodCollector;
use crate::pod_templates::template_kind::{TemplateKind, group_of};

/// The hooks of the strategies that create a pod.
const HOOKS: [(&str, &str); 5] = [
    ("rollingParams", "pre"),
    ("rollingParams", "post"),
    ("recreateParams", "pre"),
    ("recreateParams", "mid"),
    ("recreateParams", "post"),
];

/// `DeploymentConfig`. An image change trigger sets the images of its containers in the cluster. A hook has a pod of its own
/// (`createHookPodManifest`, openshift/oc pkg/cli/deployer/strategy/support/lifecycle.go).
pub(crate) fn deployment_config(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    let Some(template) = object.at("/spec/template") else {
        return pods.note_unread(object, "it has no spec.template");
    };
    let triggers = object.at("/spec/triggers").into_iter().flat_map(|triggers| triggers.items());
    let parameters = triggers.filter_map(|trigger| trigger.member("imageChangeParams"));
    let names = parameters.filter_map(|parameters| parameters.member("containerNames"));
    let names: Vec<&Value> = names.filter_map(|names| names.value.as_array()).flatten().collect();
    let is_set = |container: &Value| container.get("name").is_some_and(|name| names.contains(&name));
    pods.add_template_without(&template, &[], |pod| {
        let mut containers = ["containers", "initContainers"].into_iter().flat_map(|list| pod.items(list));
        if let Some(set) = containers.find(|container| is_set(container)) {
            let name = set.get("name").and_then(Value::as_str).unwrap_or_default();
            pod.note_unknown(format!("an image change trigger sets the image of container {name}"));
        }
    });
    let Some(strategy) = object.at("/spec/strategy") else { return };
    for (parameters, hook) in HOOKS {
        if let Some(hook) = strategy.at(&format!("/{parameters}/{hook}/execNewPod")) {
            let is_set = |name: &str| names.iter().any(|set| set.as_str() == Some(name));
            add_hook(&hook, &template, &strategy, is_set, pods);
        }
    }
}

/// Adds the pod of a hook: the container that it names, with another command and without the other fields of the template
/// but `nodeSelector`. `is_set`: whether a trigger sets the image of the container of that name.
fn add_hook(
    hook: &PlacedValue<'_>,
    template: &PlacedValue<'_>,
    strategy: &PlacedValue<'_>,
    is_set: impl Fn(&str) -> bool,
    pods: &mut PodCollector,
) {
    let name = hook.text("containerName").unwrap_or_default();
    let mut containers = template.at("/spec/containers").into_iter().flat_map(|containers| containers.items());
    let Some(container) = containers.find(|container| container.text("name") == Some(name)) else {
        return pods.note_unread(hook, "it names no container of the template");
    };
    let mut pod = PodBuilder::default();
    pod.push_made("containers", json!({"name": "lifecycle"}));
    for field in ["image", "resources", "workingDir", "securityContext"] {
        pod.set_in_container(0, field, container.member(field).as_ref());
    }
    pod.set_in_container(0, "command", hook.member("command").as_ref());
    pod.add_metadata(Some(strategy));
    for field in ["nodeSelector", "securityContext"] {
        pod.set(field, template.at(&format!("/spec/{field}")).as_ref());
    }
    let mounted: Vec<&Value> =
        hook.member("volumes").and_then(|names| names.value.as_array()).into_iter().flatten().collect();
    let volumes = template.at("/spec/volumes").into_iter().flat_map(|volumes| volumes.items());
    for volume in volumes.filter(|volume| volume.value.get("name").is_some_and(|name| mounted.contains(&name))) {
        pod.push("volumes", &volume, &[]);
    }
    if is_set(name) {
        pod.note_unknown(format!("an image change trigger sets the image of container {name}"));
    }
    pods.add(hook, pod);
}

/// `Template`: the pods of each object in it. `kinds`: the other kinds of the table.
pub(crate) fn template(object: &PlacedValue<'_>, pods: &mut PodCollector, kinds: &[TemplateKind]) {
    let objects = match object.member("objects") {
        Some(list) if list.value.is_array() => list,
        Some(other) => return pods.note_unread(&other, "it is not a list"),
        None => return pods.note_unread(object, "it has no objects"),
    };
    for one in objects.items() {
        if pods.is_full() {
            return;
        }
        let (version, kind) = (one.text("apiVersion").unwrap_or_default(), one.text("kind").unwrap_or_default());
        let group = group_of(version);
        if let Some(workload) = WorkloadKind::of_object(version, kind) {
            pods.add_workload(&one, workload);
        } else if let Some(row) = kinds.iter().find(|row| row.is(group, kind) && row.kind != "Template") {
            row.collect(&one, pods);
        } else {
            by_shape::collect(group, kind, &one, pods);
        }
    }
}

//! OpenShift: deployment configurations, and templates with objects.

use serde_json::Value;

use crate::model::WorkloadKind;
use crate::pod_templates::by_shape;
use crate::pod_templates::part::PlacedValue;
use crate::pod_templates::pod_collector::PodCollector;
use crate::pod_templates::template_kind::{TemplateKind, group_of};

/// `DeploymentConfig`. An image change trigger sets the images of its containers in the cluster.
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
        if let Some(set) = pod.items("containers").iter().find(|container| is_set(container)) {
            let name = set.get("name").and_then(Value::as_str).unwrap_or_default();
            pod.note_unknown(format!("an image change trigger sets the image of container {name}"));
        }
    });
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

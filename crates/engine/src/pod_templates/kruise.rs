//! `OpenKruise`: kinds whose pods differ from their pod template.

use serde_json::{Value, json};

use crate::pod_templates::part::PlacedValue;
use crate::pod_templates::pod_builder::PodBuilder;
use crate::pod_templates::pod_collector::PodCollector;

/// The templates of a `UnitedDeployment`; it has one of them.
const WORKLOADS: [&str; 4] =
    ["statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate"];

/// `DaemonSet` and `BroadcastJob`. Their controllers bind each pod to a node by its affinity, so Mullion gives it no operating
/// system by default.
pub(crate) fn pod_of_each_node(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    let Some(template) = object.at("/spec/template") else {
        return pods.note_unread(object, "it has no spec.template");
    };
    pods.add_template_without(&template, &[], |pod| {
        pod.note_unknown("its controller creates a pod for each node".to_owned());
    });
}

/// `UnitedDeployment`: each subset adds a term to the required node affinity, and tolerations
/// (`pkg/controller/uniteddeployment/adapter/adapter_util.go`). Its `patch` is applied last.
pub(crate) fn united_deployment(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    let mut templates = WORKLOADS.iter().filter_map(|name| object.at(&format!("/spec/template/{name}/spec/template")));
    let Some(template) = templates.next() else {
        return pods.note_unread(object, "it has no pod template");
    };
    let subsets: Vec<PlacedValue<'_>> =
        object.at("/spec/topology/subsets").into_iter().flat_map(|subsets| subsets.items()).collect();
    if subsets.is_empty() {
        return pods.add_template(&template);
    }
    for subset in subsets {
        if pods.is_full() {
            return;
        }
        pods.add_template_without(&template, &[], |pod| add_subset(pod, &subset));
    }
}

fn add_subset(pod: &mut PodBuilder, subset: &PlacedValue<'_>) {
    if let Some(term) = subset.member("nodeSelectorTerm") {
        let affinity = pod.get("affinity").cloned().unwrap_or_else(|| json!({}));
        pod.set_made("affinity", with_term(affinity, term.value));
    }
    let tolerations = subset.member("tolerations").into_iter().flat_map(|list| list.items());
    tolerations.for_each(|toleration| pod.push("tolerations", &toleration, &[]));
    if subset.member("patch").is_some() {
        let name = subset.text("name").unwrap_or_default();
        pod.note_unknown(format!("subset {name} has a patch for its pods"));
    }
}

/// The affinity with the expressions of `term` in each required term.
fn with_term(mut affinity: Value, term: &Value) -> Value {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let own = affinity.pointer(&format!("/nodeAffinity/{REQUIRED}/nodeSelectorTerms")).and_then(Value::as_array);
    let mut terms: Vec<Value> = own.cloned().unwrap_or_default();
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for one in terms.iter_mut().filter_map(Value::as_object_mut) {
        for list in ["matchExpressions", "matchFields"] {
            let Some(added) = term.get(list).and_then(Value::as_array) else { continue };
            if let Value::Array(all) = one.entry(list).or_insert_with(|| json!([])) {
                all.extend(added.iter().cloned());
            }
        }
    }
    if let Value::Object(members) = &mut affinity {
        let node = members.entry("nodeAffinity").or_insert_with(|| json!({}));
        if let Value::Object(node) = node {
            node.insert(REQUIRED.to_owned(), json!({"nodeSelectorTerms": terms}));
        }
    }
    affinity
}

//! Parts of objects: strategic merge patches, and workloads without a field that the API server requires.
//!
//! A part is merged into an object that is not here. [`completions`] are objects that a part may become; what is true
//! for all of them is true for the part.

use serde_json::{Map, Value, json};

use crate::model::json_pointer::{escape, unescape};
use crate::model::names::{OS_ANNOTATION, OS_LABEL};
use crate::model::operating_system::Os;
use crate::model::pod_view::Pod;
use crate::model::scheduling::{OsWanted, node_constraints};
use crate::model::workload::WorkloadKind;

/// Whether a member of a map says how a strategic merge patch is merged, and is no field
/// (`apimachinery/pkg/util/strategicpatch/patch.go`).
fn is_directive(key: &str, value: &Value) -> bool {
    match key {
        "$patch" => value.as_str().is_some_and(|how| matches!(how, "delete" | "replace" | "merge")),
        "$retainKeys" => value.is_array(),
        _ => value.is_array() && (key.starts_with("$setElementOrder/") || key.starts_with("$deleteFromPrimitiveList/")),
    }
}

/// The first directive of a strategic merge patch in `value`: `$patch`.
pub fn find_directive(value: &Value) -> Option<&str> {
    match value {
        Value::Object(members) => {
            let own = members.iter().find(|(key, value)| is_directive(key, value)).map(|(key, _)| key.as_str());
            own.or_else(|| members.values().find_map(find_directive))
        }
        Value::Array(items) => items.iter().find_map(find_directive),
        _ => None,
    }
}

/// What a strategic merge patch sets: without directives, and without what it deletes. Items of lists keep their index.
pub fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(members) if deletes(value) => {
            // The name alone changes nothing.
            Value::Object(
                members.iter().filter(|(key, _)| *key == "name").map(|(k, v)| (k.clone(), v.clone())).collect(),
            )
        }
        Value::Object(members) => {
            let kept = members.iter().filter(|(key, value)| !is_directive(key, value) && !deletes(value));
            Value::Object(kept.map(|(key, value)| (key.clone(), without_directives(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_directives).collect()),
        other => other.clone(),
    }
}

fn deletes(value: &Value) -> bool {
    value.get("$patch").and_then(Value::as_str) == Some("delete")
}

/// The first field that the API server requires of a workload of that kind and that `object` does not have; `None` if it
/// has all of them, or a value of another type in the place of one.
///
/// Only fields that every complete object has and that patches rarely have. The API server accepts a container without
/// image in a template (`ValidatePodTemplateSpec`), so there it counts only if nothing else proves that the object is
/// complete.
pub fn missing_field(api_version: &str, kind: WorkloadKind, object: &Value) -> Option<&'static str> {
    let at = |pointer: &str| object.pointer(pointer).filter(|value| !value.is_null());
    let selected = matches!(
        kind,
        WorkloadKind::Deployment | WorkloadKind::ReplicaSet | WorkloadKind::StatefulSet | WorkloadKind::DaemonSet
    );
    if at(kind.pod_pointer()).is_none() {
        return Some(match kind {
            WorkloadKind::CronJob => "spec.jobTemplate.spec.template",
            WorkloadKind::PodTemplate => "template",
            _ => "spec.template",
        });
    }
    if kind == WorkloadKind::CronJob && at("/spec/schedule").is_none() {
        return Some("spec.schedule");
    }
    // Earlier versions derive the selector from the labels of the template.
    if selected && api_version == "apps/v1" && at("/spec/selector").is_none() {
        return Some("spec.selector");
    }
    let pod = |pointer: &str| at(&format!("{}{pointer}", kind.pod_pointer()));
    // A value of another type is a mistake, which MUL801 reports.
    if pod("").is_some_and(|pod| !pod.is_object()) || pod("/spec").is_some_and(|spec| !spec.is_object()) {
        return None;
    }
    let containers = pod("/spec/containers").map(Value::as_array);
    let containers = match containers {
        None => return Some("containers"),
        Some(None) => return None,
        Some(Some(containers)) if containers.is_empty() => return Some("containers"),
        Some(Some(containers)) => containers,
    };
    let has_image = |container: &&Value| {
        !container.is_object() || container.get("image").is_some_and(|image| !image.is_null() && *image != "")
    };
    let images = containers.iter().filter(has_image).count();
    let enough = if selected && api_version == "apps/v1" { images > 0 } else { images == containers.len() };
    if !enough {
        return Some("image of a container");
    }
    let restarts = matches!(kind, WorkloadKind::Job | WorkloadKind::CronJob);
    // The default, Always, is rejected for a Job.
    (restarts && pod("/spec/restartPolicy").is_none()).then_some("restartPolicy")
}

/// Whether every container of the pod template has an image, as in a complete object.
pub fn has_complete_template(kind: WorkloadKind, object: &Value) -> bool {
    let containers = object.pointer(&format!("{}/spec/containers", kind.pod_pointer())).and_then(Value::as_array);
    containers.is_some_and(|containers| {
        let has_image =
            |container: &Value| container.get("image").and_then(Value::as_str).is_some_and(|image| !image.is_empty());
        !containers.is_empty() && containers.iter().all(has_image)
    })
}

/// Objects that `part` may become, each with fields that it does not set: on Windows as a HostProcess pod and as
/// another, and on Linux and on either if the part does not state an operating system. The places of its own values are
/// the same in all of them.
pub fn completions(kind: WorkloadKind, part: &Value) -> Vec<Value> {
    let systems: &[Option<Os>] = match stated_os(kind, part) {
        Some(Os::Windows) => &[Some(Os::Windows)],
        Some(Os::Linux) => &[Some(Os::Linux)],
        None => &[Some(Os::Windows), Some(Os::Linux), None],
    };
    let both = |os: &Option<Os>| [true, false].map(|host_process| completion(kind, part, *os, host_process));
    systems.iter().flat_map(both).collect()
}

/// The operating system that a part states in a field that no image, policy or default can change.
fn stated_os(kind: WorkloadKind, part: &Value) -> Option<Os> {
    let pod = Pod::of(kind, part)?;
    let only = |wanted| match wanted {
        OsWanted::Only(os) => Some(os),
        _ => None,
    };
    let by_field = pod.text("/spec/os/name").and_then(Os::from_name);
    let by_selector = || only(node_constraints::selector_os(&pod).0);
    let by_affinity = || only(node_constraints::affinity_os(&pod));
    let by_annotation = || pod.annotation(OS_ANNOTATION).and_then(Os::from_name);
    by_field.or_else(by_selector).or_else(by_affinity).or_else(by_annotation)
}

/// `part` with what another part may add. `os`: `None` for an annotation that allows either.
fn completion(kind: WorkloadKind, part: &Value, os: Option<Os>, host_process: bool) -> Value {
    let mut object = part.clone();
    let pod = |pointer: &str| format!("{}{pointer}", kind.pod_pointer());
    if let Some(os) = os {
        fill(&mut object, &pod("/spec/os/name"), &json!(os.name()));
        fill(&mut object, &pod(&format!("/spec/nodeSelector/{}", escape(OS_LABEL))), &json!(os.name()));
    } else {
        fill(&mut object, &pod(&format!("/metadata/annotations/{}", escape(OS_ANNOTATION))), &json!("any"));
    }
    // Others than HostProcess pods state that none of their containers is one.
    let user = if host_process { r"NT AUTHORITY\SYSTEM" } else { "ContainerUser" };
    if host_process {
        fill(&mut object, &pod("/spec/hostNetwork"), &json!(true));
        fill(&mut object, &pod("/spec/securityContext/windowsOptions/hostProcess"), &json!(true));
    }
    fill(&mut object, &pod("/spec/securityContext/windowsOptions/runAsUserName"), &json!(user));
    fill(&mut object, &pod("/spec/containers"), &json!([]));
    let containers = object.pointer_mut(&pod("/spec/containers")).and_then(Value::as_array_mut);
    if let Some(containers) = containers {
        containers.push(json!({"name": "base", "image": "base"}));
    }
    for list in ["/spec/containers", "/spec/initContainers"] {
        let containers = object.pointer_mut(&pod(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|container| container.is_object()) {
            fill(container, "/image", &json!("base"));
            // A container's own fields replace those of the pod.
            fill(container, "/securityContext/runAsNonRoot", &json!(false));
            if !host_process {
                fill(container, "/securityContext/windowsOptions/hostProcess", &json!(false));
            }
            fill(container, "/securityContext/windowsOptions/runAsUserName", &json!(user));
        }
    }
    object
}

/// Sets the value at `pointer` if there is none, and the maps around it. A value of another type in the way stays.
fn fill(object: &mut Value, pointer: &str, value: &Value) {
    let mut at = object;
    let mut tokens = pointer.split('/').skip(1).peekable();
    while let Some(token) = tokens.next() {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        let Some(members) = at.as_object_mut() else { return };
        at = members.entry(unescape(token).to_string()).or_insert(Value::Null);
        if tokens.peek().is_none() && at.is_null() {
            *at = value.clone();
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn directives_are_found_and_left_out() {
        let patch = json!({"spec": {"template": {"spec": {
            "$setElementOrder/containers": [{"name": "a"}],
            "containers": [{"name": "b", "$patch": "delete", "image": "x"}, {"name": "a", "env": [{"$patch": "replace"}]}],
            "volumes": {"$patch": "delete"},
            "$retainKeys": ["containers"]}}}});
        assert!(find_directive(&patch).is_some());
        let pod = json!({"containers": [{"name": "b"}, {"name": "a", "env": [{}]}]});
        assert_eq!(without_directives(&patch), json!({"spec": {"template": {"spec": pod}}}));
        for other in [
            json!({"$patch": {"type": "object"}}),
            json!({"data": {"$retainKeys": "text"}}),
            json!({"$ref": "x", "$patchy": "delete"}),
        ] {
            assert_eq!(find_directive(&other), None, "{other}");
        }
    }

    #[test]
    fn a_workload_is_complete_if_the_api_server_could_accept_it() {
        let deployment = |spec: Value| ("apps/v1", WorkloadKind::Deployment, json!({"spec": spec}));
        let template = |containers: Value| json!({"spec": {"containers": containers}});
        let image = json!([{"name": "a", "image": "a"}]);
        let some = json!([{"name": "a", "image": "auto"}, {"name": "b"}]);
        let job = |spec: Value| ("batch/v1", WorkloadKind::Job, json!({"spec": {"template": {"spec": spec}}}));
        let pod = |spec: Value| ("v1", WorkloadKind::Pod, json!({"spec": spec}));
        let table = [
            (deployment(json!({"replicas": 3})), Some("spec.template")),
            (deployment(json!({"template": template(image.clone())})), Some("spec.selector")),
            (deployment(json!({"selector": {}, "template": template(image.clone())})), None),
            // The API server accepts a template with an empty image.
            (deployment(json!({"selector": {}, "template": template(some.clone())})), None),
            (
                deployment(json!({"selector": {}, "template": template(json!([{"name": "a"}]))})),
                Some("image of a container"),
            ),
            (deployment(json!({"selector": {}, "template": {"spec": null}})), Some("containers")),
            (
                (
                    "extensions/v1beta1",
                    WorkloadKind::Deployment,
                    json!({"spec": {"template": template(image.clone())}}),
                ),
                None,
            ),
            (pod(json!({"containers": image.clone()})), None),
            (pod(json!({"containers": some})), Some("image of a container")),
            (pod(json!({"containers": [{"name": "a", "image": ""}]})), Some("image of a container")),
            (pod(json!({"containers": []})), Some("containers")),
            (pod(json!({"nodeSelector": {}})), Some("containers")),
            // A wrong type is a mistake and not a part.
            (pod(json!({"containers": {"name": "a"}})), None),
            (pod(json!([])), None),
            (job(json!({"containers": image.clone()})), Some("restartPolicy")),
            (job(json!({"containers": image.clone(), "restartPolicy": "Never"})), None),
            (
                ("batch/v1", WorkloadKind::CronJob, json!({"spec": {"schedule": "@daily", "jobTemplate": {}}})),
                Some("spec.jobTemplate.spec.template"),
            ),
        ];
        for ((api_version, kind, object), expected) in table {
            assert_eq!(missing_field(api_version, kind, &object), expected, "{kind:?} {object}");
        }
    }

    #[test]
    fn completions_keep_every_value_of_a_part() {
        let part = json!({"spec": {"template": {"spec": {"hostNetwork": false, "securityContext": 5,
            "containers": [{"name": "a", "securityContext": {"runAsNonRoot": true}}]}}}});
        let all = completions(WorkloadKind::Deployment, &part);
        assert_eq!(all.len(), 6);
        for object in all {
            let pod = object.pointer("/spec/template/spec").unwrap();
            assert_eq!(pod["hostNetwork"], json!(false));
            assert_eq!(pod["securityContext"], json!(5));
            assert_eq!(pod["containers"][0]["securityContext"]["runAsNonRoot"], json!(true));
        }
    }
}

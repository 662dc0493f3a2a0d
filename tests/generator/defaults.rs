//! Defaults that the API server sets on a pod before it calls webhooks (pkg/apis/core/v1/defaults.go, and the members
//! that its Go types omit in JSON).

use serde_json::{Value, json};

/// Fields of plain Go types with `omitempty`: their zero value is omitted.
const ABSENT_IF_FALSE: [&str; 6] = ["hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty"];

/// The pod as mutating webhooks receive it.
pub fn defaulted(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let spec = &mut pod["spec"];
    if !spec.is_object() {
        return pod;
    }
    without_nulls(spec);
    without_zeros(spec);
    for (field, value) in [
        ("dnsPolicy", json!("ClusterFirst")),
        ("restartPolicy", json!("Always")),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
        ("schedulerName", json!("default-scheduler")),
        ("enableServiceLinks", json!(true)),
    ] {
        default(spec, field, value);
    }
    let host_network = spec["hostNetwork"] == true;
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(spec, list) {
            container_defaults(container, host_network && list != "ephemeralContainers");
        }
    }
    for volume in items(spec, "volumes") {
        volume_defaults(volume);
    }
    default_pod_requests(spec);
    pod
}

/// Sets a field that is absent.
fn default(object: &mut Value, field: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.entry(field).or_insert(value);
    }
}

fn items<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Removes nulls, which are not values.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

fn without_zeros(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let zero = |key: &String, value: &Value| {
                (*value == false && ABSENT_IF_FALSE.contains(&key.as_str()))
                    || value.as_array().is_some_and(Vec::is_empty)
            };
            members.retain(|key, value| !zero(key, value));
            members.values_mut().for_each(without_zeros);
        }
        Value::Array(items) => items.iter_mut().for_each(without_zeros),
        _ => {}
    }
}

fn container_defaults(container: &mut Value, host_network: bool) {
    let image = container["image"].as_str().unwrap_or_default();
    let name = image.rsplit_once('/').map_or(image, |(_, name)| name);
    let latest = name.ends_with(":latest") || !name.contains([':', '@']);
    for (field, value) in [
        ("imagePullPolicy", json!(if latest { "Always" } else { "IfNotPresent" })),
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("terminationMessagePolicy", json!("File")),
        ("resources", json!({})),
    ] {
        default(container, field, value);
    }
    for port in items(container, "ports") {
        default(port, "protocol", json!("TCP"));
        if host_network && port["hostPort"].as_u64().unwrap_or(0) == 0 {
            port["hostPort"] = port["containerPort"].clone();
        }
    }
    requests_from_limits(&mut container["resources"]);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            for (field, value) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                default(probe, field, json!(value));
            }
            http_get_defaults(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = container.get_mut("lifecycle").and_then(|lifecycle| lifecycle.get_mut(hook)) {
            http_get_defaults(handler);
        }
    }
    for variable in items(container, "env") {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            default(reference, "apiVersion", json!("v1"));
        }
    }
}

fn http_get_defaults(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet") {
        default(get, "path", json!("/"));
        default(get, "scheme", json!("HTTP"));
    }
}

fn requests_from_limits(resources: &mut Value) {
    if let Some(limits) = resources["limits"].as_object().cloned() {
        for (name, amount) in limits {
            if resources["requests"][&name].is_null() {
                resources["requests"][&name] = amount;
            }
        }
    } else if let Some(members) = resources.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
}

/// Pod-level requests, for pods whose containers have none.
fn default_pod_requests(spec: &mut Value) {
    if spec["resources"]["limits"].is_object() {
        requests_from_limits(&mut spec["resources"]);
    }
    without_nulls(spec);
}

fn volume_defaults(volume: &mut Value) {
    let sources = volume.as_object().map_or(0, |members| members.keys().filter(|key| *key != "name").count());
    if sources == 0 {
        volume["emptyDir"] = json!({});
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            default(source, "defaultMode", json!(420));
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        default(path, "type", json!(""));
    }
    if let Some(image) = volume.get_mut("image") {
        default(image, "pullPolicy", json!("IfNotPresent"));
    }
    for source in ["downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            field_reference_defaults(source);
        }
    }
    for source in volume.get_mut("projected").into_iter().flat_map(|projected| items(projected, "sources")) {
        if let Some(token) = source.get_mut("serviceAccountToken") {
            default(token, "expirationSeconds", json!(3600));
        }
    }
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        default(claim, "volumeMode", json!("Filesystem"));
        default(&mut volume["ephemeral"]["volumeClaimTemplate"], "metadata", json!({}));
    }
}

fn field_reference_defaults(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                if key == "fieldRef" {
                    default(value, "apiVersion", json!("v1"));
                }
                field_reference_defaults(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(field_reference_defaults),
        _ => {}
    }
}

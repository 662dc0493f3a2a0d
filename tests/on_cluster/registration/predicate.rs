//! The requests for which the API server must call Mullion: the chart's match conditions, implemented again over JSON.

use mullion_engine::model::{WorkloadKind, WorkloadObject};
use serde_json::Value;

const OS_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
/// Labels that only Windows nodes have.
const WINDOWS_LABELS: [&str; 2] = ["node.kubernetes.io/windows-build", "cloud.google.com/gke-windows-os-version"];
/// Labels that Windows nodes have with values that begin with `windows`.
const OS_NAME_LABELS: [&str; 3] =
    ["kubernetes.azure.com/os-sku", "cloud.google.com/gke-os-distribution", "node.openshift.io/os_id"];

/// The length up to which the conditions loop over a list of a spec; [`LONGEST_IN_LISTS`] for lists in lists.
const LONGEST: usize = 100;
const LONGEST_IN_LISTS: usize = 10;

/// Whether a field shows that a pod is for Windows. Only annotations count for a spec with a list that is too long.
pub fn for_windows(spec: &Value, annotations: &[&Value]) -> bool {
    let by_node = selector(spec).any(|(key, value)| {
        OS_LABELS.contains(&key) && value == "windows"
            || WINDOWS_LABELS.contains(&key)
            || OS_NAME_LABELS.contains(&key) && windows_name(value)
    });
    let selects_windows = |term: &&Value| items(&term["matchExpressions"]).iter().any(asks_for_windows);
    let mut terms = required_terms(spec)
        .iter()
        .filter(|term| !items(&term["matchExpressions"]).is_empty() || !items(&term["matchFields"]).is_empty())
        .peekable();
    let by_affinity = terms.peek().is_some() && terms.all(|term| selects_windows(&term));
    let by_options =
        || options(spec).any(|all| all.as_object().is_some_and(|all| all.values().any(|value| !value.is_null())));
    let by_spec = || {
        spec["os"]["name"] == "windows"
            || by_node
            || by_affinity
            || by_options()
            || text(&spec["runtimeClassName"]).starts_with("mullion-windows-")
    };
    (has_short_lists(spec) && by_spec())
        || annotations.iter().any(|all| {
            all["mullion.dev/os"] == "windows"
                || text(&all["mullion.dev/decision"]).starts_with("{\"os\":\"windows\"")
                || all.get("mullion.dev/probe").is_some()
        })
}

fn has_short_lists(spec: &Value) -> bool {
    let is_short = |expression: &Value| {
        items(&expression["values"]).len() <= LONGEST_IN_LISTS || !OS_NAME_LABELS.contains(&text(&expression["key"]))
    };
    let terms = required_terms(spec);
    selector(spec).count() <= LONGEST
        && containers(spec).count() <= LONGEST
        && terms.len() <= LONGEST_IN_LISTS
        && terms
            .iter()
            .map(|term| items(&term["matchExpressions"]))
            .all(|expressions| expressions.len() <= LONGEST_IN_LISTS && expressions.iter().all(is_short))
}

/// Whether its author has placed it on Linux, and no other field concerns Mullion: the definition of the engine, with which
/// the command line names what is not reviewed. Annotations of the old object count too.
pub fn is_explicitly_linux(kind: WorkloadKind, object: &Value, old: Option<&Value>) -> bool {
    let mullions = |old: &Value| {
        let annotations = old["metadata"]["annotations"].as_object();
        annotations.is_some_and(|all| all.keys().any(|key| key.starts_with("mullion.dev/")))
    };
    let workload = WorkloadObject { kind, namespace: "", object };
    mullion_engine::detect::is_explicitly_linux(&workload) && !old.is_some_and(mullions)
}

/// Whether `pods.mullion.dev` is called for a pod, unless it rejects the pod in an outage. `is_placed`: for a new pod at
/// `/validate`, where the Linux default of `/mutate` counts.
pub fn is_called_for_pod(pod: &Value, is_placed: bool) -> bool {
    let mut pod = pod.clone();
    if let Some(annotations) = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        && is_placed
    {
        let is_default = |decision: &Value| text(decision).starts_with(r#"{"os":"linux","basis":"default","placed":"#);
        annotations.retain(|key, value| key != "mullion.dev/decision" || !is_default(value));
    }
    !is_mirror(&pod) && !is_explicitly_linux(WorkloadKind::Pod, &pod, None)
}

/// Whether a new pod is rejected in an outage under `failurePolicy: Fail`; `by_controller`: a listed user creates it.
pub fn rejected_in_an_outage(pod: &Value, namespace: &str, by_controller: bool) -> bool {
    let owners = items(&pod["metadata"]["ownerReferences"]);
    let of_daemon_set = by_controller
        && owners.len() <= LONGEST
        && owners.iter().any(|owner| owner["controller"] == true && owner["kind"] == "DaemonSet");
    for_windows(&pod["spec"], &[&pod["metadata"]["annotations"]])
        && !is_mirror(pod)
        && namespace != "kube-system"
        && !of_daemon_set
        && !text(&pod["spec"]["priorityClassName"]).starts_with("system-")
        && containers(&pod["spec"]).count() <= LONGEST
        && !options(&pod["spec"]).any(|options| options["hostProcess"] == true)
}

/// Whether the API server calls Mullion for an object with a pod template; `old` on UPDATE; `by_controller`: a listed user
/// writes it.
pub fn is_called_for_template(object: &Value, old: Option<&Value>, by_controller: bool) -> bool {
    let template = template(object);
    let kind = WorkloadKind::from_name(text(&object["kind"])).expect("a kind with a pod template");
    let owners = items(&object["metadata"]["ownerReferences"]);
    let made = |kind: &str, by: &str, version: &str| {
        let owned =
            |owner: &Value| owner["controller"] == true && owner["kind"] == by && owner["apiVersion"] == version;
        object["kind"] == kind && owners.iter().any(owned)
    };
    let owned = by_controller
        && owners.len() <= LONGEST
        && (made("ReplicaSet", "Deployment", "apps/v1") || made("Job", "CronJob", "batch/v1"));
    let decided = |object: &Value| text(&object["metadata"]["annotations"]["mullion.dev/decision"]).to_owned();
    let placed = |old: &Value| {
        object["kind"] == "DaemonSet" && old["metadata"]["annotations"].get("mullion.dev/decision").is_some()
    };
    let new = old.is_none_or(|old| self::template(old) != template || decided(old) != decided(object) || placed(old));
    new && !owned && !is_explicitly_linux(kind, object, old)
}

fn template(object: &Value) -> &Value {
    match text(&object["kind"]) {
        "PodTemplate" => &object["template"],
        "CronJob" => &object["spec"]["jobTemplate"]["spec"]["template"],
        _ => &object["spec"]["template"],
    }
}

fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some()
}

fn required_terms(spec: &Value) -> &[Value] {
    items(&spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"])
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers", "ephemeralContainers"].into_iter().flat_map(|list| items(&spec[list]))
}

fn options(spec: &Value) -> impl Iterator<Item = &Value> {
    std::iter::once(spec).chain(containers(spec)).map(|holder| &holder["securityContext"]["windowsOptions"])
}

fn asks_for_windows(requirement: &Value) -> bool {
    let (key, operator) = (text(&requirement["key"]), text(&requirement["operator"]));
    let values: Vec<&str> = items(&requirement["values"]).iter().map(text).collect();
    let (linux, windows) = (values.contains(&"linux"), values.contains(&"windows"));
    if OS_LABELS.contains(&key) {
        return operator == "In" && windows && !linux || operator == "NotIn" && linux && !windows;
    }
    WINDOWS_LABELS.contains(&key) && ["In", "Exists", "Gt", "Lt"].contains(&operator)
        || OS_NAME_LABELS.contains(&key) && operator == "In" && values.iter().all(|value| windows_name(value))
}

fn windows_name(value: &str) -> bool {
    value.to_ascii_lowercase().starts_with("windows")
}

fn selector(spec: &Value) -> impl Iterator<Item = (&str, &str)> {
    spec["nodeSelector"].as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), text(value)))
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

//! Objects without what no report may contain (values of environment variables, command lines, Secrets, unknown
//! annotations) and without what no report needs.

use mullion_engine::detect::{is_windows_path, is_windows_shell};
use mullion_engine::model::WorkloadKind;
use mullion_engine::model::cluster::Namespace;
use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::names::CONTAINER_LISTS;
use mullion_engine::model::text::prefix;
use serde_json::{Map, Value, json};

/// The maximum number of bytes of a message of the cluster that are kept: the limit of Events.
pub const KEPT_MESSAGE: usize = 1024;

/// The annotations that are kept: those that a review reads, and those that identify what manages an object. A key that
/// ends in `/` stands for all keys that begin with it.
const ANNOTATIONS: [&str; 8] = [
    "mullion.dev/",
    "container.apparmor.security.beta.kubernetes.io/",
    "microsoft.com/hostprocess-inherit-user",
    "openshift.io/scc",
    "kubernetes.io/config.mirror",
    "meta.helm.sh/release-name",
    "argocd.argoproj.io/tracking-id",
    "kustomize.toolkit.fluxcd.io/name",
];

/// Reasons of a terminated container for which the kubelet or the container runtime wrote the message. For other
/// reasons the message is a text of the container itself.
const RUNTIME_REASONS: [&str; 2] = ["StartError", "ContainerCannotRun"];

/// Programs whose names are kept from a command line, in lower case without `.exe`, and the file extension of a script
/// that one of them runs: what a Windows release changed or removed. Nothing else of the words around them is kept.
const PROGRAMS: [&str; 6] = ["powershell", "pwsh", "wmic", "cscript", "wscript", ".vbs"];

/// Fields of a container with command lines, below the container.
pub(crate) const PROGRAM_COMMANDS: [&str; 7] = [
    "/command",
    "/args",
    "/livenessProbe/exec/command",
    "/readinessProbe/exec/command",
    "/startupProbe/exec/command",
    "/lifecycle/postStart/exec/command",
    "/lifecycle/preStop/exec/command",
];

/// Fields of a container with a command in `exec`.
const PROBES: [&str; 5] =
    ["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"];

/// The object with only what a survey reads; `None` for a kind that it does not read.
pub fn strip(kind: &str, object: &mut Value) -> Option<Value> {
    let mut kept = Map::new();
    if let Some(version) = take(object, "/apiVersion").filter(Value::is_string) {
        kept.insert("apiVersion".to_owned(), version);
    }
    kept.insert("kind".to_owned(), kind.into());
    kept.insert("metadata".to_owned(), metadata(object));
    let pod_pointer = WorkloadKind::from_name(kind).map(WorkloadKind::pod_pointer);
    match (kind, pod_pointer) {
        ("Pod", _) => {
            let mut spec = take(object, "/spec").unwrap_or_default();
            strip_pod_spec(&mut spec);
            kept.insert("spec".to_owned(), spec);
            kept.insert("status".to_owned(), pod_status(object));
        }
        ("PodTemplate", _) => return None,
        (_, Some(pointer)) => {
            let mut spec = take(object, "/spec").unwrap_or_default();
            if let Some(template) = pointer.strip_prefix("/spec").and_then(|below| spec.pointer_mut(below)) {
                let template_metadata = metadata(template);
                if let Some(spec) = template.get_mut("spec") {
                    strip_pod_spec(spec);
                }
                if let Some(template) = template.as_object_mut() {
                    template.insert("metadata".to_owned(), template_metadata);
                }
            }
            kept.insert("spec".to_owned(), spec);
            if kind == "Job" {
                kept.insert("status".to_owned(), job_status(object));
            }
        }
        ("Node", None) => {
            kept.insert("spec".to_owned(), only(object.get("spec"), &["taints", "unschedulable"]));
            kept.insert("status".to_owned(), node_status(object));
        }
        ("Namespace", None) => {}
        ("RuntimeClass", None) => move_all(object, &["handler", "scheduling", "overhead"], &mut kept),
        ("ImagePlatforms", None) => {
            move_all(object, &["takenAt", "images", "sizes", "absent", "unanswered"], &mut kept);
        }
        ("PodDisruptionBudget", None) => {
            let spec = only(object.get("spec"), &["selector", "minAvailable", "maxUnavailable"]);
            let numbers = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
            kept.insert("spec".to_owned(), spec);
            kept.insert("status".to_owned(), only(object.get("status"), &numbers));
        }
        ("HorizontalPodAutoscaler", None) => {
            let spec = only(object.get("spec"), &["scaleTargetRef", "minReplicas", "maxReplicas"]);
            kept.insert("spec".to_owned(), spec);
        }
        ("CSINode", None) => {
            let drivers = object.pointer("/spec/drivers").and_then(Value::as_array).into_iter().flatten();
            let drivers: Vec<Value> = drivers.map(|driver| only(Some(driver), &["name"])).collect();
            kept.insert("spec".to_owned(), json!({ "drivers": drivers }));
        }
        ("Event", None) => event(object, &mut kept),
        _ => return None,
    }
    Some(Value::Object(kept))
}

fn take(object: &mut Value, pointer: &str) -> Option<Value> {
    object.pointer_mut(pointer).map(Value::take)
}

fn move_all(object: &mut Value, names: &[&str], kept: &mut Map<String, Value>) {
    for name in names {
        if let Some(value) = object.get_mut(*name).map(Value::take).filter(|value| !value.is_null()) {
            kept.insert((*name).to_owned(), value);
        }
    }
}

/// Only these members of a map.
fn only(value: Option<&Value>, names: &[&str]) -> Value {
    let members = names.iter().filter_map(|name| Some(((*name).to_owned(), value?.get(*name)?.clone())));
    Value::Object(members.filter(|(_, value)| !value.is_null()).collect())
}

fn metadata(object: &Value) -> Value {
    let from = object.get("metadata");
    let names = ["name", "generateName", "namespace", "creationTimestamp", "uid", "labels"];
    let mut kept = only(from, &names);
    let Some(members) = kept.as_object_mut() else { return kept };
    if let Some(annotations) = from.and_then(|from| from.get("annotations")).and_then(Value::as_object) {
        let known = |key: &str| {
            Namespace::ANNOTATIONS.contains(&key)
                || ANNOTATIONS.iter().any(|known| *known == key || (known.ends_with('/') && key.starts_with(known)))
        };
        let known: Map<String, Value> =
            annotations.iter().filter(|(key, _)| known(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
        if !known.is_empty() {
            members.insert("annotations".to_owned(), known.into());
        }
    }
    if let Some(owners) = from.and_then(|from| from.get("ownerReferences")).and_then(Value::as_array) {
        let owners = owners.iter().map(|owner| only(Some(owner), &["apiVersion", "kind", "name", "controller"]));
        members.insert("ownerReferences".to_owned(), owners.collect());
    }
    kept
}

/// Removes environments, command lines and parameters of drivers from a pod's spec.
fn strip_pod_spec(spec: &mut Value) {
    for list in CONTAINER_LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            strip_container(container);
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for driver in ["csi", "flexVolume"] {
            if let Some(driver) = volume.get_mut(driver).and_then(Value::as_object_mut) {
                driver.remove("volumeAttributes");
                driver.remove("options");
            }
        }
    }
}

fn strip_container(container: &mut Value) {
    if let Some(members) = container.as_object_mut() {
        members.remove("env");
        members.remove("envFrom");
        for list in ["command", "args"] {
            if let Some(words) = members.get_mut(list) {
                strip_command(words, list == "command");
            }
        }
    }
    for probe in PROBES {
        let Some(probe) = container.pointer_mut(probe) else { continue };
        if let Some(words) = probe.pointer_mut("/exec/command") {
            strip_command(words, true);
        }
        if let Some(get) = probe.get_mut("httpGet").and_then(Value::as_object_mut) {
            get.remove("httpHeaders");
        }
    }
}

/// From a command line, keeps the name of a Windows shell, if that is its program, or the beginning of a Windows path:
/// the words that are evidence for Windows. The names of [`PROGRAMS`] that occur in it follow.
fn strip_command(words: &mut Value, has_program: bool) {
    let texts = || words.as_array().into_iter().flatten().filter_map(Value::as_str);
    let shell = texts().next().filter(|program| has_program && is_windows_shell(program));
    let first = match shell {
        Some(program) => program.rsplit(['/', '\\']).next().map(str::to_owned),
        None => texts().find(|text| is_windows_path(text)).map(|path| {
            let end = if path.starts_with(r"\\.\pipe\") {
                9
            } else if path.starts_with("npipe:") {
                6
            } else {
                3
            };
            prefix(path, end).to_owned()
        }),
    };
    let mut programs = program_names(words);
    let shell = first.as_deref().map(str::to_ascii_lowercase).unwrap_or_default();
    programs.retain(|program| *program != shell.strip_suffix(".exe").unwrap_or(&shell));
    // A program that is only an argument must not become the first word, which is evidence for Windows.
    let first = first.or_else(|| (has_program && !programs.is_empty()).then(String::new));
    let kept = first.into_iter().chain(programs.into_iter().map(str::to_owned));
    *words = Value::Array(kept.map(Value::String).collect());
}

/// The [`PROGRAMS`] that a command line contains, in any word: `wmic` of `cmd /c "wmic os get caption"`.
pub(crate) fn program_names(words: &Value) -> Vec<&'static str> {
    let texts = words.as_array().into_iter().flatten().filter_map(Value::as_str);
    let is_separator = |letter: char| !letter.is_alphanumeric() && !matches!(letter, '.' | '_' | '-');
    let names: Vec<&str> = texts.flat_map(|text| text.split(is_separator)).filter(|name| !name.is_empty()).collect();
    let is = |name: &str, program: &str| {
        if program.starts_with('.') {
            let start = name.len().checked_sub(program.len());
            return start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(program));
        }
        let rest = name.get(..program.len()).filter(|start| start.eq_ignore_ascii_case(program));
        let rest = rest.and_then(|start| name.get(start.len()..));
        rest.is_some_and(|rest| rest.is_empty() || rest.eq_ignore_ascii_case(".exe"))
    };
    PROGRAMS.into_iter().filter(|program| names.iter().any(|name| is(name, program))).collect()
}

fn node_status(object: &Value) -> Value {
    let info = ["kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"];
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let ready = conditions.filter(|condition| condition.get("type").and_then(Value::as_str) == Some("Ready"));
    let ready: Vec<Value> =
        ready.take(1).map(|condition| only(Some(condition), &["type", "status", "lastHeartbeatTime"])).collect();
    let allocatable = only(object.pointer("/status/allocatable"), &["cpu", "memory", "pods"]);
    json!({
        "nodeInfo": only(object.pointer("/status/nodeInfo"), &info),
        "allocatable": allocatable,
        "conditions": ready,
    })
}

/// Whether a Job has ended.
fn job_status(object: &Value) -> Value {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_end =
        |condition: &&Value| matches!(condition.get("type").and_then(Value::as_str), Some("Complete" | "Failed"));
    let conditions: Vec<Value> =
        conditions.filter(is_end).take(2).map(|condition| only(Some(condition), &["type", "status"])).collect();
    json!({ "conditions": conditions })
}

fn pod_status(object: &Value) -> Value {
    let status = object.get("status");
    let mut kept = only(status, &["phase", "reason", "nominatedNodeName"]);
    let Some(members) = kept.as_object_mut() else { return kept };
    if let Some(text) = status.and_then(|status| status.get("message")).and_then(Value::as_str) {
        members.insert("message".to_owned(), message(text).into());
    }
    let conditions = status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let read =
        |condition: &&Value| matches!(condition.get("type").and_then(Value::as_str), Some("PodScheduled" | "Ready"));
    let conditions: Vec<Value> = conditions
        .into_iter()
        .flatten()
        .filter(read)
        .take(2)
        .map(|condition| with_message(condition, &["type", "status", "reason"]))
        .collect();
    members.insert("conditions".to_owned(), conditions.into());
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        let Some(statuses) = status.and_then(|status| status.get(list)).and_then(Value::as_array) else { continue };
        let statuses: Vec<Value> = statuses.iter().map(container_status).collect();
        members.insert(list.to_owned(), statuses.into());
    }
    kept
}

fn container_status(status: &Value) -> Value {
    let mut kept = only(Some(status), &["name", "ready", "image", "imageID", "restartCount"]);
    let state = |state: Option<&Value>| {
        let mut map = Map::new();
        if let Some(waiting) = state.and_then(|state| state.get("waiting")).filter(|one| one.is_object()) {
            map.insert("waiting".to_owned(), with_message(waiting, &["reason"]));
        }
        if state.and_then(|state| state.get("running")).is_some_and(Value::is_object) {
            map.insert("running".to_owned(), json!({}));
        }
        if let Some(ended) = state.and_then(|state| state.get("terminated")).filter(|one| one.is_object()) {
            let by_runtime =
                ended.get("reason").and_then(Value::as_str).is_some_and(|reason| RUNTIME_REASONS.contains(&reason));
            let members = ["reason", "exitCode"];
            let kept = if by_runtime { with_message(ended, &members) } else { only(Some(ended), &members) };
            map.insert("terminated".to_owned(), kept);
        }
        Value::Object(map)
    };
    let (now, before) = (state(status.get("state")), state(status.get("lastState")));
    if let Some(members) = kept.as_object_mut() {
        members.insert("state".to_owned(), now);
        members.insert("lastState".to_owned(), before);
    }
    kept
}

fn with_message(value: &Value, names: &[&str]) -> Value {
    let mut kept = only(Some(value), names);
    if let (Some(members), Some(text)) = (kept.as_object_mut(), value.get("message").and_then(Value::as_str)) {
        members.insert("message".to_owned(), message(text).into());
    }
    kept
}

fn event(object: &Value, kept: &mut Map<String, Value>) {
    for name in ["type", "reason", "lastTimestamp", "eventTime", "count"] {
        if let Some(value) = object.get(name).filter(|value| !value.is_null()) {
            kept.insert(name.to_owned(), value.clone());
        }
    }
    // events.k8s.io/v1 has other names for the same fields.
    for (name, later) in [("involvedObject", "regarding"), ("message", "note")] {
        let value = object.get(name).or_else(|| object.get(later));
        let value = match value {
            Some(Value::String(text)) => message(text).into(),
            other => only(other, &["kind", "namespace", "name"]),
        };
        kept.insert(name.to_owned(), value);
    }
}

/// A message without a command line and an environment, on one line.
///
/// hcsshim and docker add the whole configuration of the process as `(extra info: {"CommandLine": …, "Environment":
/// …})`; runc quotes the command after `exec: `.
pub(crate) fn message(text: &str) -> String {
    let text = text.split("extra info:").next().unwrap_or_default().trim_end_matches(['(', ' ']);
    let text = match text.split_once("exec: \"") {
        Some((before, rest)) => {
            let after = rest.split_once("\": ").map_or("", |(_, after)| after);
            &format!("{before}exec: \"…\": {after}")
        }
        None => text,
    };
    prefix(&visible(text), KEPT_MESSAGE).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_command_lines_only_evidence_and_known_programs_are_kept() {
        // Words, what is kept of them as a command, and what is kept of them as arguments.
        let cases: [(&[&str], &[&str], &[&str]); 12] = [
            (&[], &[], &[]),
            (&["app.exe", "--password", "s3cret"], &[], &[]),
            (&["powershell.exe", "-Command", "s3cret"], &["powershell.exe"], &["powershell"]),
            (&[r"C:\Windows\System32\cmd.exe", "/c", "wmic os get s3cret"], &["cmd.exe", "wmic"], &[r"C:\", "wmic"]),
            (
                &["cmd", "/S", "/C", r"cscript //nologo C:\s3cret\job.VBS"],
                &["cmd", "cscript", ".vbs"],
                &["cscript", ".vbs"],
            ),
            (&["CScript.EXE", "job.vbs"], &["", "cscript", ".vbs"], &["cscript", ".vbs"]),
            (&["sh", "-c", "pwsh -File s3cret.ps1"], &["", "pwsh"], &["pwsh"]),
            (&["-Command", "Invoke-WmiMethod; 'wmic.exe s3cret'"], &["", "wmic"], &["wmic"]),
            (&[r"C:\app\s3cret.exe", "token=wscript"], &[r"C:\", "wscript"], &[r"C:\", "wscript"]),
            (&["npipe://s3cret"], &["npipe:"], &["npipe:"]),
            // Parts of other words.
            (&["mywmic", "wmic2", "powershell-yaml", "pwsh.s3cret", "wmic-s3cret"], &[], &[]),
            (&["é.vb", "ſwmic", "s3cret.vbs"], &["", ".vbs"], &[".vbs"]),
        ];
        for (words, command, args) in cases {
            for (has_program, expected) in [(true, command), (false, args)] {
                let mut stripped = json!(words);
                strip_command(&mut stripped, has_program);
                assert_eq!(stripped, json!(expected), "{words:?} {has_program}");
                // A saved inventory is stripped again.
                strip_command(&mut stripped, has_program);
                assert_eq!(stripped, json!(expected), "again: {words:?} {has_program}");
            }
        }
    }
}

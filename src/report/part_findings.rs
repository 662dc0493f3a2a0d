//! The findings of a part of an object.

use std::collections::HashMap;

use mullion_engine::admission::Review;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::partial_object::completions;
use mullion_engine::model::settings::Action;
use mullion_engine::model::{ReviewRequest, WorkloadObject};
use mullion_policy::PolicySet;

use crate::report::admission::review_of;
use crate::report::workload_result::{FindingResult, finding_results};

/// The findings of `review`, the review of a part with a complete pod template, about what it sets. The operating system is
/// that of the template: an object without `spec.selector` is a mistake more often than a patch with every image.
pub(crate) fn template_findings(
    request: &ReviewRequest<'_>,
    review: &Review,
    snapshot: &ClusterSnapshot,
) -> Vec<FindingResult> {
    let mut found = finding_results(&request.workload, review, snapshot);
    found.retain(|result| !result.finding.about_whole && !result.finding.quiet);
    found
}

/// The findings of `review`, the review of a part, that every object has which the part may become. If they have
/// different actions, the finding is a warning.
pub(crate) fn part_findings(
    request: &ReviewRequest<'_>,
    review: &Review,
    snapshot: &ClusterSnapshot,
    policies: &PolicySet,
) -> Vec<FindingResult> {
    let WorkloadObject { kind, object, .. } = request.workload;
    let mut found = template_findings(request, review, snapshot);
    for completion in completions(kind, object) {
        if found.is_empty() {
            break;
        }
        let workload = WorkloadObject { object: &completion, ..request.workload };
        let request = ReviewRequest { workload, ..*request };
        let review = review_of(&request, snapshot, policies);
        let results = finding_results(&request.workload, &review, snapshot);
        let actions: HashMap<(&str, &str), Action> = results
            .iter()
            .map(|result| ((result.finding.code, result.finding.pointer.as_str()), result.action))
            .collect();
        found.retain_mut(|result| {
            let action = actions.get(&(result.finding.code, result.finding.pointer.as_str()));
            if action.is_some_and(|action| *action != result.action) {
                (result.action, result.would_deny, result.denies_pods) = (Action::Warn, false, false);
            }
            action.is_some()
        });
    }
    found
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use mullion_engine::model::partial_object::without_directives;
    use mullion_engine::model::{DetectedOs, WorkloadKind};
    use proptest::prelude::*;
    use proptest::sample::subsequence;
    use serde_json::{Map, Value, json};

    use super::*;

    fn default_policies() -> PolicySet {
        PolicySet::from_files(&[("default.yaml", include_str!("../../policies/default.yaml"))]).unwrap()
    }

    fn object(template: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": template}})
    }

    /// Code and pointer of each finding.
    fn found(results: Vec<FindingResult>) -> Vec<(&'static str, String)> {
        results.into_iter().map(|result| (result.finding.code, result.finding.pointer)).collect()
    }

    fn of_part(part: &Value, policies: &PolicySet) -> Vec<FindingResult> {
        let object = without_directives(part);
        let workload = WorkloadObject { kind: WorkloadKind::Deployment, namespace: "shop", object: &object };
        let request = ReviewRequest::creation(workload);
        let snapshot = ClusterSnapshot::default();
        part_findings(&request, &review_of(&request, &snapshot, policies), &snapshot, policies)
    }

    /// The findings of a complete object, and its operating system.
    fn of_whole(object: &Value, policies: &PolicySet) -> (Vec<(&'static str, String)>, DetectedOs) {
        let workload = WorkloadObject { kind: WorkloadKind::Deployment, namespace: "shop", object };
        let review = review_of(&ReviewRequest::creation(workload), &ClusterSnapshot::default(), policies);
        (found(finding_results(&workload, &review, &ClusterSnapshot::default())), review.decision.os)
    }

    #[test]
    fn a_part_has_the_findings_that_every_base_leaves() {
        let policies = default_policies();
        let windows = json!({"kubernetes.io/os": "windows"});
        let container = |fields: Value| {
            let mut container = json!({"name": "web"});
            container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            json!([container])
        };
        let user = json!({"securityContext": {"runAsUser": 5}});
        let privileged = json!({"securityContext": {"privileged": true}});
        let image =
            json!({"image": "mcr.microsoft.com/windows/servercore:ltsc2022", "securityContext": {"runAsUser": 5}});
        let options = json!({"securityContext": {"runAsUser": 5, "windowsOptions": {"runAsUserName": "a:b"}}});
        let table: Vec<(Value, &[(&str, Action)])> = vec![
            (json!({"nodeSelector": windows, "containers": container(user.clone())}), &[("MUL201", Action::Deny)]),
            // Whether it is a HostProcess pod is not known.
            (json!({"nodeSelector": windows, "containers": container(privileged)}), &[("MUL203", Action::Warn)]),
            (json!({"nodeSelector": windows, "hostNetwork": true, "containers": []}), &[]),
            // The base may select Linux.
            (json!({"containers": container(user)}), &[]),
            (json!({"containers": container(image)}), &[]),
            // Whatever the operating system is.
            (json!({"containers": container(options)}), &[("MUL401", Action::Deny)]),
            (json!({"containers": container(json!({"command": "dir"}))}), &[("MUL801", Action::Deny)]),
            (json!({"containers": container(json!({"imagePullPolicy": "always"}))}), &[("MUL803", Action::Deny)]),
            (json!({"containers": container(json!({"$patch": "delete", "command": "dir"}))}), &[]),
            (json!({"containers": container(json!({"comand": ["dir"]})), "$retainKeys": ["containers"]}), &[]),
            (json!({"tolerations": [{"operator": "Exists"}]}), &[]),
        ];
        for (spec, expected) in table {
            let results = of_part(&object(&json!({"spec": spec})), &policies);
            let shown: Vec<(&str, Action)> =
                results.iter().map(|result| (result.finding.code, result.action)).collect();
            assert_eq!(shown, expected, "{spec}");
        }
    }

    /// Sets the members at dotted paths.
    fn with(mut object: Value, members: Vec<(&'static str, Value)>) -> Value {
        for (path, value) in members {
            let mut at = &mut object;
            for key in path.split('.') {
                at = at.as_object_mut().unwrap().entry(key.replace('~', ".")).or_insert_with(|| json!({}));
            }
            *at = value;
        }
        object
    }

    fn pod_members() -> Vec<(&'static str, Value)> {
        vec![
            ("nodeSelector.kubernetes~io/os", json!("windows")),
            ("nodeSelector.kubernetes~io/os", json!("linux")),
            ("nodeSelector.beta~kubernetes~io/os", json!("windows")),
            ("nodeSelector.kubernetes~io/os", json!("Windows")),
            ("os.name", json!("windows")),
            ("os.name", json!("linux")),
            ("hostNetwork", json!(true)),
            ("hostNetwork", json!(false)),
            ("hostPID", json!(true)),
            ("hostUsers", json!(false)),
            ("dnsPolicy", json!("ClusterFirstWithHostNet")),
            ("securityContext.runAsUser", json!(1000)),
            ("securityContext.runAsNonRoot", json!(true)),
            ("securityContext.fsGroup", json!(5)),
            ("securityContext.windowsOptions.hostProcess", json!(true)),
            ("securityContext.windowsOptions.runAsUserName", json!("ContainerAdministrator")),
            ("securityContext.windowsOptions.runAsUserName", json!("bad:name")),
            ("securityContext.seccompProfile.type", json!("Localhost")),
            ("tolerations", json!([{"operator": "Exists"}])),
            ("tolerations", json!([{"key": "os", "operator": "equal"}])),
            ("volumes", json!([{"name": "nfs", "nfs": {"server": "s", "path": "/p"}}])),
            ("volumes", json!([{"name": "socket", "hostPath": {"path": "/var/run/docker.sock"}}])),
            ("volumes", json!([{"name": "memory", "emptyDir": {"medium": "Memory"}}])),
            ("runtimeClassName", json!("windows")),
            ("priority", json!("high")),
            ("unknown", json!(1)),
        ]
    }

    fn container_members() -> Vec<(&'static str, Value)> {
        vec![
            ("image", json!("mcr.microsoft.com/windows/servercore:ltsc2019")),
            ("image", json!("nginx:alpine")),
            ("image", json!("mcr.microsoft.com/windows:latest")),
            ("securityContext.privileged", json!(true)),
            ("securityContext.runAsUser", json!(0)),
            ("securityContext.runAsNonRoot", json!(true)),
            ("securityContext.capabilities.add", json!(["SYS_ADMIN"])),
            ("securityContext.readOnlyRootFilesystem", json!(true)),
            ("securityContext.windowsOptions.hostProcess", json!(true)),
            ("securityContext.windowsOptions.hostProcess", json!(false)),
            ("securityContext.windowsOptions.runAsUserName", json!("ContainerUser")),
            ("resources.limits.memory", json!("10Mi")),
            ("resources.requests.cpu", json!("1")),
            ("volumeMounts", json!([{"name": "nfs", "mountPath": "/a"}])),
            ("volumeMounts", json!([{"name": "socket", "mountPath": "/b", "mountPropagation": "Bidirectional"}])),
            ("volumeMounts", json!([{"name": "memory", "mountPath": "c:\u{7}b"}])),
            ("volumeDevices", json!([{"name": "nfs", "devicePath": "/d"}])),
            ("terminationMessagePath", json!("/x")),
            ("command", json!("dir")),
            ("command", json!(["powershell", "c:\temp\new"])),
            ("imagePullPolicy", json!("never")),
            ("lifecycle.stopSignal", json!("SIGUSR1")),
            ("unknown", json!(1)),
        ]
    }

    /// A pod template with random fields.
    fn template() -> impl Strategy<Value = Value> {
        let container = |name: &'static str| {
            subsequence(container_members(), 0..6).prop_map(move |members| with(json!({"name": name}), members))
        };
        let containers = prop_oneof![
            container("web").prop_map(|web| json!([web])),
            (container("side"), container("web")).prop_map(|(side, web)| json!([side, web])),
            Just(Value::Null),
        ];
        (subsequence(pod_members(), 0..7), containers).prop_map(|(members, containers)| {
            let mut spec = with(json!({}), members);
            if !containers.is_null() {
                spec["containers"] = containers;
            }
            json!({"spec": spec})
        })
    }

    /// The keys by which a strategic merge patch merges the items of a list; other lists are replaced.
    fn merge_key(list: &str) -> Option<&'static str> {
        match list {
            "containers" | "initContainers" | "volumes" | "env" => Some("name"),
            "volumeMounts" => Some("mountPath"),
            "volumeDevices" => Some("devicePath"),
            _ => None,
        }
    }

    /// A strategic merge patch of the lists above.
    fn merge(base: &Value, patch: &Value, list: &str) -> Value {
        match (base, patch) {
            (Value::Object(base), Value::Object(patch)) => {
                let mut merged: Map<String, Value> = base.clone();
                for (key, value) in patch {
                    let old = base.get(key).unwrap_or(&Value::Null);
                    merged.insert(key.clone(), merge(old, value, key));
                }
                Value::Object(merged)
            }
            (Value::Array(base), Value::Array(patch)) if merge_key(list).is_some() => {
                let key = merge_key(list).unwrap();
                let mut merged = base.clone();
                for item in patch {
                    match merged.iter().position(|old| old[key] == item[key]) {
                        Some(at) => merged[at] = merge(&base[at], item, ""),
                        None => merged.push(item.clone()),
                    }
                }
                Value::Array(merged)
            }
            _ => patch.clone(),
        }
    }

    /// The pointer in `merged` to what `pointer` leads to in `part`.
    fn moved(pointer: &str, part: &Value, merged: &Value) -> String {
        let (mut part, mut merged, mut moved, mut list) = (part, merged, String::new(), String::new());
        for token in pointer.split('/').skip(1) {
            let key = token.replace("~1", "/");
            let index = token.parse::<usize>().ok().filter(|_| part.is_array());
            let next = if let Some((at, by)) = index.zip(merge_key(&list)) {
                let item = &part[at];
                let at = merged.as_array().unwrap().iter().position(|other| other[by] == item[by]).unwrap();
                merged = &merged[at];
                part = item;
                at.to_string()
            } else {
                part = index.map_or_else(|| part.get(&key), |at| part.get(at)).unwrap_or(&Value::Null);
                merged = index.map_or_else(|| merged.get(&key), |at| merged.get(at)).unwrap_or(&Value::Null);
                token.to_owned()
            };
            moved = format!("{moved}/{next}");
            list = key;
        }
        moved
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 512 } else { 8192 }))]

        /// What is reported about a part is reported about each object that it becomes, unless that object contradicts
        /// the operating system that the part states.
        #[test]
        fn a_part_has_no_finding_that_the_merged_object_has_not(base in template(), patch in template()) {
            let policies = default_policies();
            let (base, part) = (object(&base), object(&patch));
            let merged = merge(&base, &part, "");
            let results = found(of_part(&part, &policies));
            let (all, os) = of_whole(&merged, &policies);
            let (_, own) = of_whole(&part, &policies);
            let spec = &part["spec"]["template"]["spec"];
            let states_os = spec.get("os").or(spec.get("nodeSelector")).is_some();
            if os == DetectedOs::Conflict && own != DetectedOs::Conflict || states_os && os != own {
                return Ok(());
            }
            for (code, pointer) in results {
                let pointer = moved(&pointer, &part, &merged);
                prop_assert!(all.contains(&(code, pointer.clone())), "{code} {pointer}\n{part}\n{merged}\n{all:?}");
            }
        }
    }
}

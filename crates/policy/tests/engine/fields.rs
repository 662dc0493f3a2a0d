//! Linux-only fields on Windows pods: every field is repaired and then absent, or denied with all the others.

use mullion_engine::admission::{Endpoint, respond};
use mullion_engine::model::settings::Action;
use mullion_engine::rules::linux_only::FIELDS;
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const LINUX: &str = "mcr.microsoft.com/dotnet/aspnet:8.0-alpine";

/// Sets `value` at a pointer below the pod's own fields, and creates the objects above it.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    let (parents, last) = pointer.rsplit_once('/').unwrap();
    for token in parents.split('/').skip(1) {
        at = match token.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[token],
        };
        if at.is_null() {
            *at = json!({});
        }
    }
    at[last] = value;
}

#[derive(Debug, PartialEq)]
enum ValueOutcome {
    Silent,
    Warned,
    Denied,
}

fn value_outcome(pointer: &str, value: &Value) -> ValueOutcome {
    let mut object = with_image(WINDOWS);
    set(&mut object, pointer, value.clone());
    let outcome = create(&object);
    if outcome.denied() {
        let last = pointer.rsplit('/').next().unwrap();
        assert!(outcome.denial().contains(last), "{}", outcome.denial());
        return ValueOutcome::Denied;
    }
    assert!(outcome.stored.pointer(pointer).is_none(), "{pointer} is still there");
    assert_eq!(outcome.stored["spec"]["os"]["name"], "windows", "{pointer}");
    if outcome.mutate.warnings.is_empty() { ValueOutcome::Silent } else { ValueOutcome::Warned }
}

#[test]
fn each_value_has_the_outcome_of_the_table() {
    use ValueOutcome::{Denied, Silent, Warned};
    let spec = "/spec";
    let sc = "/spec/securityContext";
    let c = "/spec/containers/0/securityContext";
    let cases = [
        (sc, "appArmorProfile", json!({"type": "RuntimeDefault"}), Silent),
        (sc, "appArmorProfile", json!({"type": "Localhost", "localhostProfile": "x"}), Warned),
        (sc, "seLinuxOptions", json!({}), Silent),
        (sc, "seLinuxOptions", json!({"level": "s0"}), Warned),
        (sc, "seLinuxChangePolicy", json!("MountOption"), Silent),
        (sc, "seccompProfile", json!({"type": "RuntimeDefault"}), Silent),
        (sc, "seccompProfile", json!({"type": "Unconfined"}), Silent),
        (sc, "seccompProfile", json!({"type": "Localhost", "localhostProfile": "x"}), Warned),
        (sc, "fsGroup", json!(2000), Warned),
        (sc, "fsGroupChangePolicy", json!("Always"), Silent),
        (sc, "sysctls", json!([{"name": "net.ipv4.tcp_syncookies", "value": "1"}]), Warned),
        (sc, "sysctls", json!([{"name": "kernel.msgmax", "value": "1"}]), Denied),
        (sc, "runAsUser", json!(0), Denied),
        (sc, "runAsGroup", json!(0), Warned),
        (sc, "supplementalGroups", json!([]), Silent),
        (sc, "supplementalGroups", json!([1]), Warned),
        (sc, "supplementalGroupsPolicy", json!("Merge"), Silent),
        (sc, "supplementalGroupsPolicy", json!("Strict"), Warned),
        (spec, "hostUsers", json!(true), Silent),
        (spec, "hostUsers", json!(false), Warned),
        (spec, "hostPID", json!(true), Denied),
        (spec, "hostIPC", json!(true), Denied),
        (spec, "hostNetwork", json!(true), Denied),
        (spec, "shareProcessNamespace", json!(false), Silent),
        (spec, "shareProcessNamespace", json!(true), Warned),
        (spec, "resources", json!({"limits": {"cpu": "1"}}), Denied),
        (c, "appArmorProfile", json!({"type": "Unconfined"}), Silent),
        (c, "seLinuxOptions", json!({"user": "u"}), Warned),
        (c, "seccompProfile", json!({"type": "RuntimeDefault"}), Silent),
        (c, "capabilities", json!({}), Silent),
        (c, "capabilities", json!({"drop": ["ALL"]}), Silent),
        (c, "capabilities", json!({"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}), Warned),
        (c, "capabilities", json!({"add": ["SYS_PTRACE"]}), Denied),
        (c, "readOnlyRootFilesystem", json!(false), Silent),
        (c, "readOnlyRootFilesystem", json!(true), Warned),
        (c, "privileged", json!(false), Silent),
        (c, "privileged", json!(true), Denied),
        (c, "allowPrivilegeEscalation", json!(false), Silent),
        (c, "allowPrivilegeEscalation", json!(true), Warned),
        (c, "procMount", json!("Default"), Silent),
        (c, "procMount", json!("Unmasked"), Denied),
        ("/spec/containers/0", "lifecycle/stopSignal", json!("SIGQUIT"), Warned),
        (c, "runAsUser", json!(1000), Denied),
        (c, "runAsGroup", json!(1000), Warned),
    ];
    for (place, field, value, expected) in &cases {
        assert_eq!(value_outcome(&format!("{place}/{field}"), value), *expected, "{place}/{field}: {value}");
    }
    // The table above covers every row, except those that only warn, which remove nothing.
    for row in FIELDS.iter().filter(|row| row.rule.default != Action::Warn) {
        for pointer in [row.pod, row.container.map(|below| below.trim_start_matches('/'))].into_iter().flatten() {
            let last = |path: &str| path.rsplit('/').next().unwrap().to_owned();
            assert!(cases.iter().any(|(_, field, ..)| last(field) == last(pointer)), "{pointer} has no case");
        }
    }
}

/// The API server stores them as absent, also beside `spec.os.name: windows`.
#[test]
fn absent_values_stay() {
    for (field, value) in [("hostPID", json!(false)), ("hostIPC", json!(false)), ("hostNetwork", json!(false))] {
        let mut object = with_image(WINDOWS);
        object["spec"][field] = value.clone();
        object["spec"]["securityContext"] = json!({"sysctls": []});
        let outcome = create(&object);
        assert!(outcome.review.findings.is_empty() && !outcome.denied(), "{:?}", outcome.review.findings);
        assert_eq!(outcome.stored["spec"][field], value);
        assert_eq!(outcome.stored["spec"]["os"]["name"], "windows");
    }
}

#[test]
fn windows_options_are_denied_where_the_server_rejects_them() {
    let options = json!({"windowsOptions": {"runAsUserName": "u"}});
    let linux = json!({"kubernetes.io/os": "linux"});
    let mut object = pod(json!({"nodeSelector": linux, "securityContext": options, "containers": [
        {"name": "a", "image": "app", "securityContext": {"windowsOptions": {}}},
        {"name": "b", "image": "app", "securityContext": options}]}));
    let paths = |outcome: &Outcome| -> Vec<String> {
        outcome.review.findings.iter().map(|finding| format!("{} {}", finding.code, finding.path)).collect()
    };
    let placed = create(&object);
    let (of_pod, of_a, of_b) = (
        "MUL103 spec.securityContext.windowsOptions",
        "MUL103 spec.containers[0].securityContext.windowsOptions",
        "MUL103 spec.containers[1].securityContext.windowsOptions",
    );
    assert!(!placed.denied());
    assert_eq!(paths(&placed), [of_pod, of_b]);
    // whatever else the pod contains
    for selector in [json!({}), linux, json!({"kubernetes.io/os": "windows"})] {
        object["spec"]["os"] = json!({"name": "linux"});
        object["spec"]["nodeSelector"] = selector;
        let outcome = create(&object);
        assert!(outcome.mutate.denial.is_some());
        let found = paths(&outcome);
        assert!([of_pod, of_a, of_b].iter().all(|path| found.iter().any(|one| one == path)), "{found:?}");
    }
}

#[test]
fn every_container_list_is_looked_at() {
    for list in ["initContainers", "containers"] {
        let mut object = with_image(WINDOWS);
        object["spec"][list] = json!([{"name": "x", "image": WINDOWS, "securityContext": {"privileged": true}}]);
        object["spec"]["containers"][0]["name"] = json!("c");
        let denial = create(&object).denial().to_owned();
        assert!(denial.contains(&format!("spec.{list}[0].securityContext.privileged")), "{denial}");
    }
}

#[test]
fn one_denial_names_all_bad_fields() {
    let object = pod(json!({
        "hostNetwork": true,
        "securityContext": {"runAsUser": 1000},
        "containers": [
            {"name": "a", "image": WINDOWS, "securityContext": {"privileged": true, "runAsUser": 0}},
            {"name": "b", "image": WINDOWS, "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
        ],
    }));
    let outcome = create(&object);
    let denial = outcome.denial();
    for path in [
        "spec.hostNetwork",
        "spec.securityContext.runAsUser",
        "spec.containers[0].securityContext.privileged",
        "spec.containers[0].securityContext.runAsUser",
        "spec.containers[1].securityContext.capabilities",
        "write windowsOptions.runAsUserName: ContainerUser",
    ] {
        assert!(denial.contains(path), "{path} in {denial}");
    }
    assert_eq!(outcome.validate.denial.as_ref().unwrap().causes.len(), 5);
    // Nothing is removed from a pod that cannot get the OS field.
    assert!(outcome.stored["spec"].get("os").is_none());
}

#[test]
fn what_the_server_would_reject_is_denied_at_mutate() {
    let mut object = pod(json!({"os": {"name": "windows"}, "containers": [{"name": "c", "image": "app",
        "securityContext": {"runAsUser": 1}}]}));
    assert!(create(&object).mutate.denial.is_some());
    object["spec"].as_object_mut().unwrap().remove("os");
    object["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    let outcome = create(&object);
    assert!(outcome.mutate.denial.is_none() && outcome.validate.denial.is_some());
}

#[test]
fn owned_pods_are_denied_only_where_they_would_be_rejected() {
    let bad = |field: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": WINDOWS}]});
        spec["securityContext"] = field;
        pod(spec)
    };
    let ignored = owned_by(bad(json!({"runAsUser": 1})), "ReplicaSet");
    let outcome = create(&ignored);
    assert!(!outcome.denied());
    assert_eq!(outcome.stored["metadata"]["labels"]["mullion.dev/findings"], "MUL201");
    assert!(outcome.stored["spec"]["securityContext"]["runAsUser"] == 1, "the pod runs as it did");

    let unsafe_sysctl = json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]});
    for (owner, denied) in [("ReplicaSet", true), ("StatefulSet", true), ("DaemonSet", false), ("Job", false)] {
        let outcome = create(&owned_by(bad(unsafe_sysctl.clone()), owner));
        assert_eq!(outcome.denied(), denied, "{owner}: the kubelet would, and fails a Job by it");
        let label = &outcome.stored["metadata"]["labels"]["mullion.dev/findings"];
        assert_eq!(label == "MUL221", !denied, "{owner}: {label}");
    }
    // The API server itself rejects a pod like this, with or without a Job around it.
    let mut with_os_field = bad(json!({"runAsUser": 1}));
    with_os_field["spec"]["os"] = json!({"name": "windows"});
    assert!(
        create(&owned_by(with_os_field.clone(), "Job")).denied()
            && !create(&owned_by(with_os_field, "DaemonSet")).denied()
    );
    // a custom controller's pods are bare pods
    let mut custom = bad(json!({"runAsUser": 1}));
    custom["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "example.com/v1", "kind": "Deployment", "name": "o", "controller": true}]);
    assert!(create(&custom).denied());
}

#[test]
fn templates_are_denied_at_apply_time_and_only_for_what_is_new() {
    let spec = |uid: Option<u32>, image: &str| {
        let mut spec =
            json!({"containers": [{"name": "c", "image": image}], "nodeSelector": {"kubernetes.io/os": "windows"}});
        if let Some(uid) = uid {
            spec["securityContext"] = json!({"runAsUser": uid});
        }
        workload("Deployment", spec)
    };
    let denial = create(&spec(Some(1), "app:1")).denial().to_owned();
    assert!(denial.contains("spec.template.spec.securityContext.runAsUser"), "{denial}");
    assert!(!update(&spec(Some(1), "app:1"), &spec(Some(1), "app:2")).denied(), "it was there before");
    assert!(update(&spec(None, "app:1"), &spec(Some(1), "app:1")).denied());
}

#[test]
fn what_the_kubelet_rejects_is_denied_where_the_os_field_is_not_set() {
    let spec = |more: Value| {
        let mut security = json!({"supplementalGroupsPolicy": "Strict", "appArmorProfile": {"type": "RuntimeDefault"}});
        security.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"securityContext": security, "containers": [{"name": "c", "image": WINDOWS}]})
    };
    // It gets the OS field, and both fields are removed.
    for object in [owned_by(pod(spec(json!({}))), "ReplicaSet"), workload("Deployment", spec(json!({})))] {
        assert!(!create(&object).denied(), "{object}");
    }
    // The kubelet ignores `runAsUser`, but with it the OS field is not set.
    let stays = spec(json!({"runAsUser": 1}));
    let denial = create(&owned_by(pod(stays.clone()), "ReplicaSet")).denial().to_owned();
    assert!(denial.contains("MUL214") && denial.contains("MUL220") && !denial.contains("MUL201"), "{denial}");
    let template = create(&workload("Deployment", stays.clone())).denial().to_owned();
    assert!(["MUL201", "MUL214", "MUL220"].iter().all(|code| template.contains(code)), "{template}");
    for owner in ["Job", "DaemonSet"] {
        let outcome = create(&owned_by(pod(stays.clone()), owner));
        assert!(!outcome.denied(), "{owner}");
        assert_eq!(outcome.stored["metadata"]["labels"]["mullion.dev/findings"], "MUL201.MUL214.MUL220", "{owner}");
    }
    // Nor is it set if a policy turns it off.
    let policy = |spec: &str| {
        let text = format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: p}}\nspec: {spec}\n");
        PolicySet::from_files(&[("p.yaml", text.as_str())]).unwrap()
    };
    let without_os_field = policy("{place: {specOS: {mode: Never}}}");
    assert!(create_in(&owned_by(pod(spec(json!({}))), "ReplicaSet"), &snapshot(), &without_os_field).denied());
    let only_said = policy("{place: {specOS: {mode: Never}}, rules: {denials: Warn}}");
    let outcome = create_in(&pod(spec(json!({}))), &snapshot(), &only_said);
    assert!(!outcome.denied() && outcome.mutate.warnings.iter().any(|text| text.starts_with("MUL214")), "{outcome:?}");
}

#[test]
fn placing_a_job_is_never_denied() {
    let job = |placed: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "app"}], "securityContext": {"runAsUser": 1}});
        spec["nodeSelector"] = placed;
        workload("Job", spec)
    };
    let (unplaced, windows) = (job(json!({})), job(json!({"kubernetes.io/os": "windows"})));
    assert!(create(&windows).denied());
    let outcome = update(&unplaced, &windows);
    assert!(
        !outcome.denied() && outcome.validate.warnings.iter().any(|text| text.starts_with("MUL201")),
        "{outcome:?}"
    );
}

#[test]
fn a_pod_of_a_controller_is_denied_for_its_node_where_the_kubelet_rejects_it() {
    let bound = |spec: Value, annotation: Option<&str>| {
        let mut object = with_image("app");
        object["spec"]["nodeName"] = json!("l1");
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        if let Some(os) = annotation {
            object["metadata"]["annotations"] = json!({"mullion.dev/os": os});
        }
        create(&owned_by(object, "ReplicaSet")).denied()
    };
    assert!(bound(json!({"os": {"name": "windows"}}), None));
    assert!(bound(json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), None));
    assert!(!bound(json!({}), Some("windows")), "the kubelet reads no annotation");
    assert!(!bound(
        json!({"nodeName": null, "os": {"name": "windows"}, "nodeSelector": {"kubernetes.io/os": "linux"}}),
        None
    ));
}

#[test]
fn a_template_is_repaired_only_where_the_server_would_reject_it() {
    let mut spec = json!({"containers": [{"name": "c", "image": WINDOWS,
        "securityContext": {"allowPrivilegeEscalation": false}}]});
    assert!(create(&workload("Deployment", spec.clone())).mutate.patch.is_empty());
    spec["os"] = json!({"name": "windows"});
    let stored = create(&workload("Deployment", spec)).stored;
    assert_eq!(stored["spec"]["template"]["spec"]["containers"][0]["securityContext"], json!({}));
}

#[test]
fn ephemeral_containers_are_checked_alone() {
    let mut old = create(&with_image(WINDOWS)).stored;
    old["spec"]["ephemeralContainers"] =
        json!([{"name": "e0", "image": WINDOWS, "securityContext": {"capabilities": {"drop": ["ALL"]}}}]);
    let mut new = old.clone();
    new["spec"]["ephemeralContainers"].as_array_mut().unwrap().push(
        json!({"name": "e1", "image": WINDOWS, "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": false}}),
    );
    let ask = |new: &Value| {
        let review = debug(&old, new);
        (respond(&review, new, Endpoint::Mutate), respond(&review, new, Endpoint::Validate))
    };
    let (mutate, _) = ask(&new);
    let paths: Vec<String> = mutate.patch.iter().map(|op| op.path().to_string()).collect();
    assert_eq!(paths, ["/spec/ephemeralContainers/1/securityContext"]);
    new["spec"]["ephemeralContainers"][1]["securityContext"] = json!({"capabilities": {"add": ["SYS_PTRACE"]}});
    let (mutate, _) = ask(&new);
    assert!(mutate.denial.unwrap().message.contains("spec.ephemeralContainers[1]"));
}

/// The user of `kubectl debug` can leave out the fields that it adds only by another profile.
#[test]
fn a_denied_debug_session_names_the_profile_that_works() {
    let contexts = [json!({"privileged": true}), json!({"capabilities": {"add": ["SYS_PTRACE"]}})];
    for context in contexts {
        let old = create(&with_image(WINDOWS)).stored;
        let mut new = old.clone();
        let debugger = json!({"name": "debugger", "image": WINDOWS, "securityContext": context});
        new["spec"]["ephemeralContainers"] = json!([debugger]);
        let of_ephemeral = respond(&debug(&old, &new), &new, Endpoint::Validate).denial.unwrap().message;
        let mut copy = old.clone();
        copy["spec"]["shareProcessNamespace"] = json!(true);
        copy["spec"]["containers"].as_array_mut().unwrap().push(debugger);
        let of_copy = create(&copy).validate.denial.unwrap().message;
        copy["spec"]["shareProcessNamespace"] = json!(false);
        let of_author = create(&copy).validate.denial.unwrap().message;
        assert!([of_ephemeral, of_copy].iter().all(|text| text.contains("--profile=baseline")));
        assert!(!of_author.contains("kubectl"), "{of_author}");
    }
}

#[test]
fn an_image_that_cannot_run_where_the_debugged_pod_is_gets_a_warning() {
    let warnings_of = |old: &Value, image: &str| {
        let mut new = old.clone();
        new["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": image}]);
        respond(&debug(old, &new), &new, Endpoint::Validate).warnings
    };
    let windows = create(&with_image(WINDOWS)).stored;
    let mut bound = with_image("registry.example.com/opaque");
    bound["spec"]["nodeName"] = json!("w2022");
    let mut linux = bound.clone();
    linux["spec"]["nodeName"] = json!("l1");
    for (old, image, runs_on) in [
        (&windows, LINUX, Some("Windows")),
        (&bound, LINUX, Some("Windows")),
        (&linux, WINDOWS, Some("Linux")),
        (&windows, WINDOWS, None),
        (&bound, WINDOWS, None),
        (&linux, LINUX, None),
    ] {
        let warnings = warnings_of(old, image);
        let expected: Vec<String> = runs_on.map(|os| format!("and the pod runs on {os}")).into_iter().collect();
        assert_eq!(warnings.len(), expected.len(), "{image}: {warnings:?}");
        assert!(
            warnings
                .iter()
                .zip(&expected)
                .all(|(warning, text)| warning.starts_with("MUL104") && warning.contains(text)),
            "{warnings:?}"
        );
    }
}

#[test]
fn the_catalogue_repairs_what_it_declares() {
    for row in FIELDS {
        assert!(row.rule.repair || row.rule.default != Action::Repair, "{}", row.rule.name);
    }
}

/// With the OS field the API server would reject the pod for the signal (`validateStopSignal`).
#[test]
fn a_stop_signal_that_may_stay_keeps_the_os_field_off() {
    let mut object = with_image(WINDOWS);
    object["spec"]["containers"][0]["lifecycle"] = json!({"stopSignal": "SIGUSR1"});
    let with_os_field = |action: &str| {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: p}}\n\
             spec: {{priority: 1, rules: {{actions: [{{rule: stop-signal, action: {action}}}]}}}}\n"
        );
        let stored = create_in(&object, &snapshot(), &PolicySet::from_files(&[("p.yaml", &text)]).unwrap()).stored;
        (stored["spec"]["os"].is_object(), stored["spec"]["containers"][0]["lifecycle"]["stopSignal"].is_string())
    };
    assert_eq!(with_os_field("Allow"), (false, true));
    assert_eq!(with_os_field("Warn"), (false, true));
    assert_eq!(with_os_field("Repair"), (true, false));
}

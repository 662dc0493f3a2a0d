//! Changes by other webhooks to a pod in the same request.

use mullion_engine::admission::{Endpoint, Review, ReviewResponse, respond};
use mullion_engine::detect::is_explicitly_linux;
use mullion_engine::model::settings::Action;
use mullion_engine::model::{Operation, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties::{any_workload, generated};
use crate::support::{review, *};

const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const OPAQUE: &str = "registry.example.com/app";
const DECISION: &str = "mullion.dev/decision";

/// A webhook that is called after Mullion.
type OtherWebhook = fn(&mut Value);

/// The course of one request: the responses, and the stored pod.
struct RequestCourse {
    /// At /mutate, for each call of Mullion.
    mutate: Vec<ReviewResponse>,
    last: Review,
    validate: ReviewResponse,
    stored: Value,
}

impl RequestCourse {
    fn annotation(&self) -> Value {
        serde_json::from_str(self.stored["metadata"]["annotations"][DECISION].as_str().unwrap()).unwrap()
    }

    fn messages(&self, code: &str) -> Vec<&str> {
        let found = self.last.findings.iter().filter(|finding| finding.code == code);
        found.map(|finding| &*finding.message).collect()
    }
}

/// A request as the API server handles it: `managedFields` are recorded, then Mullion and the other webhook are called;
/// both once more if `again` is set (`reinvocationPolicy: IfNeeded`), and then /validate.
fn course(object: &Value, other: OtherWebhook, [mullion_again, other_again]: [bool; 2]) -> RequestCourse {
    let (snapshot, policies) = (snapshot(), PolicySet::default());
    let review_at = |object: &Value, endpoint| {
        let request = ReviewRequest {
            endpoint,
            ..ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "default", object })
        };
        review(&request, &snapshot, &policies)
    };
    let mut stored = recorded(object.clone());
    let mut mutate = Vec::new();
    for round in [[true, true], [mullion_again, other_again]] {
        if round[0] {
            let response = respond(&review_at(&stored, Endpoint::Mutate), &stored, Endpoint::Mutate);
            json_patch::patch(&mut stored, &response.patch).unwrap();
            mutate.push(response);
        }
        if round[1] {
            other(&mut stored);
        }
    }
    let last = review_at(&stored, Endpoint::Validate);
    let validate = respond(&last, &stored, Endpoint::Validate);
    RequestCourse { mutate, last, validate, stored }
}

/// The object with what the API server records of the request before it calls any webhook.
fn recorded(mut object: Value) -> Value {
    let annotations = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let claims: serde_json::Map<String, Value> =
        annotations.keys().map(|key| (format!("f:{key}"), json!({}))).collect();
    object["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:annotations": claims}, "f:spec": {}}}]);
    object
}

const NEVER: [bool; 2] = [false, false];
const MULLION_AGAIN: [bool; 2] = [true, false];
const BOTH_AGAIN: [bool; 2] = [true, true];

/// Findings of a pod that is bound to a node only warn, unless its author selects Windows. An annotation of the author
/// that says that Mullion added the selector does not count.
#[test]
fn a_forged_annotation_does_not_soften_a_denial() {
    let mut bound = pod(json!({"nodeName": "w2022", "nodeSelector": {"kubernetes.io/os": "windows"},
        "securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
        "containers": [{"name": "c", "image": "registry.example.com/app:1"}]}));
    for forged in [false, true] {
        if forged {
            let decision = json!({"os": "windows", "basis": "default", "because": "", "placed": ["nodeSelector"]});
            bound["metadata"]["annotations"] = json!({DECISION: decision.to_string()});
        }
        let denial = course(&bound, |_| {}, NEVER).validate.denial;
        assert!(denial.is_some_and(|denial| denial.message.contains("MUL221")), "forged: {forged}");
    }
}

/// The default is Linux, so an annotation that claims a default for Windows is not Mullion's.
#[test]
fn a_forged_default_does_not_soften_the_denial_of_a_daemon_set() {
    let spec = json!({"nodeSelector": {"kubernetes.io/os": "windows"},
        "securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
        "containers": [{"name": "c", "image": OPAQUE}]});
    let mut daemon_set = workload("DaemonSet", spec);
    for forged in [false, true] {
        if forged {
            let decision = json!({"os": "windows", "basis": "default", "because": "", "placed": ["nodeSelector"]});
            daemon_set["metadata"]["annotations"] = json!({DECISION: decision.to_string()});
        }
        assert!(create(&daemon_set).denied(), "creation, forged: {forged}");
        // An older object without an annotation, as before Mullion was installed.
        let mut old = daemon_set.clone();
        old["metadata"]["annotations"] = Value::Null;
        old["spec"]["template"]["spec"]["securityContext"] = Value::Null;
        assert!(update(&old, &daemon_set).denied(), "update, forged: {forged}");
    }
}

#[test]
fn what_others_remove_is_restored_or_reported() {
    let pod = || with_image(LTSC2022);
    let cases: [(&str, OtherWebhook, &str); 6] = [
        (
            "tolerations",
            |pod| pod["spec"]["tolerations"] = json!([{"key": "team", "operator": "Exists"}]),
            "toleration os=",
        ),
        ("selector removed", |pod| pod["spec"]["nodeSelector"] = json!({}), "set kubernetes.io/os: windows"),
        ("spec.os", |pod| pod["spec"]["os"] = Value::Null, "set it"),
        ("build", |pod| pod["spec"]["affinity"] = Value::Null, "kept it off nodes"),
        (
            "selector changed",
            |pod| pod["spec"]["nodeSelector"]["kubernetes.io/os"] = json!("linux"),
            "set kubernetes.io/os: windows",
        ),
        (
            "both",
            |pod| {
                pod["spec"]["nodeSelector"] = json!({});
                pod["spec"]["os"] = Value::Null;
            },
            "set it",
        ),
    ];
    for (name, other, expected) in cases {
        let never = course(&pod(), other, NEVER);
        let found = never.messages("MUL110");
        assert!(
            found.iter().any(|text| text.contains(expected) && text.contains("another webhook")),
            "{name}: {found:?}"
        );
        let warned = never.validate.warnings.iter().any(|text| text.starts_with("MUL110"));
        let denied = never.validate.denial.as_ref().map(|denial| denial.message.as_str()).unwrap_or_default();
        assert!(
            warned || denied.contains("another webhook or policy"),
            "{name}: {denied} {:?}",
            never.validate.warnings
        );
        // A second call of Mullion restores it, but does not contest another value.
        let again = course(&pod(), other, MULLION_AGAIN);
        assert_eq!(again.messages("MUL110").is_empty(), name != "selector changed", "{name}: {:?}", again.validate);
        assert_eq!(again.validate.denial.is_some(), name == "selector changed", "{name}: {:?}", again.validate.denial);
        let both = course(&pod(), other, BOTH_AGAIN);
        assert_eq!((both.stored, both.validate), (never.stored, never.validate), "{name}");
    }
    // Nothing keeps it on Windows nodes, and what its author required on Linux is removed.
    let unguarded = course(&pod(), cases[5].1, NEVER);
    assert!(unguarded.last.findings.iter().any(|finding| finding.code == "MUL110" && finding.action == Action::Deny));
    assert!(unguarded.validate.denial.is_some());
    // Without other webhooks.
    let untouched = course(&pod(), |_| {}, BOTH_AGAIN);
    assert!(untouched.messages("MUL110").is_empty() && untouched.mutate[1].patch.is_empty());
}

#[test]
fn fields_added_beside_the_os_field_are_removed() {
    let cases: [(&str, OtherWebhook, &str); 5] = [
        (
            "/spec/securityContext/seccompProfile",
            |pod| pod["spec"]["securityContext"]["seccompProfile"] = json!({"type": "RuntimeDefault"}),
            "MUL213",
        ),
        ("/spec/securityContext/runAsUser", |pod| pod["spec"]["securityContext"]["runAsUser"] = json!(1000), "MUL201"),
        (
            "/spec/containers/0/securityContext/capabilities",
            |pod| pod["spec"]["containers"][0]["securityContext"]["capabilities"] = json!({"add": ["SYS_ADMIN"]}),
            "MUL209",
        ),
        (
            "/spec/containers/1/securityContext/privileged",
            |pod| {
                let sidecar = json!({"name": "sidecar", "image": "registry.example.com/agent", "securityContext": {"privileged": true}});
                pod["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
            },
            "MUL203",
        ),
        ("/spec/hostPID", |pod| pod["spec"]["hostPID"] = json!(true), "MUL205"),
    ];
    for (pointer, other, code) in cases {
        let again = course(&with_image(LTSC2022), other, MULLION_AGAIN);
        let response = &again.mutate[1];
        assert!(response.denial.is_none() && again.validate.denial.is_none(), "{pointer}: {:?}", response.denial);
        assert!(
            again.stored.pointer(pointer).is_none() && again.stored["spec"]["os"]["name"] == "windows",
            "{pointer}"
        );
        // Only what the other webhook changed, and that is reported.
        let paths: Vec<String> = response.patch.iter().map(|operation| operation.path().to_string()).collect();
        assert_eq!(paths, [pointer]);
        let warning = response.warnings.iter().find(|text| text.starts_with(code)).unwrap();
        assert!(warning.contains("removed: another webhook or policy added it"), "{warning}");
    }
}

/// Fields of the author stay: in the request, in a copy with an older annotation, with a forged one, in a file.
#[test]
fn an_annotation_that_came_with_the_request_does_not_count() {
    let annotation = json!({"os": "windows", "basis": "intent", "because": "forged", "placed": ["nodeSelector", "os"]});
    let mut object = pod(json!({"os": {"name": "windows"}, "containers": [{"name": "c", "image": LTSC2022}],
        "securityContext": {"runAsUser": 1000}}));
    object["metadata"]["annotations"] = json!({DECISION: annotation.to_string()});
    let file = create(&object);
    let request = course(&object, |_| {}, NEVER);
    assert!(file.denied() && request.mutate[0].denial.is_some(), "{:?}", request.mutate);
    let mut copy = with_image(OPAQUE);
    copy["metadata"]["annotations"] = json!({DECISION: annotation.to_string()});
    let copied = course(&copy, |_| {}, NEVER);
    assert!(copied.messages("MUL110").is_empty() && copied.validate.denial.is_none(), "{:?}", copied.validate);
    assert_eq!(copied.stored["spec"]["nodeSelector"]["kubernetes.io/os"], "linux");
}

#[test]
fn a_late_container_is_recognized_by_its_name() {
    let sidecar: OtherWebhook = |pod| {
        let sidecar = json!({"name": "sidecar", "image": "registry.example.com/agent:1-alpine"});
        pod["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
    };
    let mut on_windows = with_image(OPAQUE);
    on_windows["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    for (object, code) in [(with_image(LTSC2022), "MUL102"), (on_windows, "MUL104")] {
        for rounds in [NEVER, MULLION_AGAIN] {
            let later = course(&object, sidecar, rounds);
            assert_eq!(later.stored["spec"]["nodeSelector"]["kubernetes.io/os"], "windows");
            let found = later.messages(code);
            assert_eq!(
                found,
                ["another webhook or policy added container sidecar after Mullion, and its image is for Linux"]
            );
        }
        // The author's own.
        let mut before = object.clone();
        sidecar(&mut before);
        let own = course(&before, |_| {}, NEVER);
        assert!(
            own.last.findings.iter().all(|finding| !finding.message.contains("another webhook")),
            "{:?}",
            own.last.findings
        );
    }
    // A list that is too long for an annotation identifies no container.
    let mut many = with_image(LTSC2022);
    let list = (0..40)
        .map(|at| json!({"name": format!("c{at}"), "image": LTSC2022, "resources": {"limits": {"memory": "1Gi"}}}));
    many["spec"]["containers"] = list.collect();
    let later = course(&many, sidecar, NEVER);
    assert!(later.annotation().get("containers").is_none());
    assert!(later.messages("MUL102")[0].starts_with("the image of sidecar is for Linux"));
}

/// What would have made it a Windows pod before the default also does so after it, if Mullion is called again.
#[test]
fn the_linux_default_gives_way_to_late_windows_options() {
    let options: OtherWebhook = |pod| {
        pod["spec"]["securityContext"]["windowsOptions"] = json!({"gmsaCredentialSpecName": "web"});
    };
    let again = course(&with_image(OPAQUE), options, MULLION_AGAIN);
    let spec = &again.stored["spec"];
    assert_eq!(
        (&spec["nodeSelector"]["kubernetes.io/os"], &spec["os"]["name"]),
        (&json!("windows"), &json!("windows"))
    );
    assert_eq!(again.annotation()["os"], "windows");
    assert!(again.validate.denial.is_none() && again.messages("MUL110").is_empty(), "{:?}", again.validate);
    // If Mullion is not called again, it stays a Linux pod, and is reviewed as one.
    let mut object = with_image(OPAQUE);
    object["spec"]["securityContext"] = json!({"runAsUser": 1000});
    for rounds in [NEVER, BOTH_AGAIN] {
        let never = course(&object, options, rounds);
        if rounds == NEVER {
            assert_eq!(never.stored["spec"]["nodeSelector"]["kubernetes.io/os"], "linux");
            assert!(never.validate.denial.is_none(), "{:?}", never.validate.denial);
            let warning = never.validate.warnings.iter().find(|text| text.starts_with("MUL103")).unwrap();
            assert!(warning.contains("another webhook or policy added"), "{warning}");
        }
    }
    // A selector of the author stays.
    let mut own = with_image(OPAQUE);
    own["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    assert_eq!(course(&own, options, MULLION_AGAIN).stored["spec"]["nodeSelector"]["kubernetes.io/os"], "linux");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Without other webhooks the second call changes nothing and reports nothing as undone, with or without the API
    /// server's records.
    #[test]
    fn alone_nothing_is_undone(object in any_workload().prop_filter("a pod", |object| object["kind"] == "Pod")) {
        let both = course(&object, |_| {}, BOTH_AGAIN);
        prop_assume!(both.mutate[0].denial.is_none());
        prop_assert!(both.mutate[1].patch.is_empty(), "{:?}", both.mutate[1].patch);
        prop_assert!(both.messages("MUL110").is_empty(), "{:?}", both.messages("MUL110"));
    }
}

/// How the annotation of a pod with the Linux default begins about which nothing is reported.
const BRIEF: &str = r#"{"os":"linux","basis":"default","placed":"#;

/// Whether the API server does not call `/validate` for a new pod, as in `charts/mullion/templates/_conditions.tpl`.
fn skips_validate(stored: &Value) -> bool {
    let mut pod = stored.clone();
    let annotations = pod["metadata"]["annotations"].as_object_mut();
    let decision = annotations.and_then(|all| all.remove(DECISION));
    let is_brief = decision.is_some_and(|text| text.as_str().is_some_and(|text| text.starts_with(BRIEF)));
    is_brief && is_explicitly_linux(&WorkloadObject { kind: WorkloadKind::Pod, namespace: "default", object: &pod })
}

#[test]
fn the_default_needs_no_second_call() {
    let plain = course(&with_image("nginx:1.27"), |_| {}, NEVER);
    assert!(skips_validate(&plain.stored), "{}", plain.stored);
    // What another webhook makes of the pod counts, if the API server calls Mullion again.
    let others: [OtherWebhook; 4] = [
        |pod| pod["spec"]["containers"][0]["image"] = json!(LTSC2022),
        |pod| pod["spec"]["securityContext"] = json!({"windowsOptions": {"runAsUserName": "ContainerUser"}}),
        |pod| pod["spec"]["nodeSelector"]["kubernetes.io/os"] = json!("windows"),
        |pod| pod["metadata"]["annotations"]["mullion.dev/allow"] = json!("MUL201"),
    ];
    for other in others {
        let changed = course(&with_image("nginx:1.27"), other, MULLION_AGAIN);
        assert!(!skips_validate(&changed.stored), "{}", changed.stored);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Nothing is lost, also if the author wrote the annotation, or another webhook changes the pod between two calls of
    /// Mullion.
    #[test]
    fn a_skipped_call_has_nothing_to_report(
        object in prop_oneof![any_workload(), generated()].prop_filter("a pod", |object| object["kind"] == "Pod"),
        is_forged in any::<bool>(),
        image in prop::sample::select(vec!["", LTSC2022, OPAQUE, "nginx:1.27"]),
    ) {
        let mut object = object;
        if is_forged {
            object["metadata"]["annotations"][DECISION] = json!(format!("{BRIEF}[\"nodeSelector\"]}}"));
            object["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
        }
        if !image.is_empty() && object["spec"]["containers"][0].is_object() {
            object["spec"]["containers"][0]["image"] = json!(image);
        }
        let adds_container: OtherWebhook = |pod| {
            if let Some(containers) = pod["spec"]["containers"].as_array_mut() {
                containers.push(json!({"name": "proxy", "image": OPAQUE, "securityContext": {"runAsUser": 1337}}));
            }
        };
        for (other, rounds) in [((|_| {}) as OtherWebhook, NEVER), (adds_container, MULLION_AGAIN)] {
            let course = course(&object, other, rounds);
            if course.mutate.iter().all(|response| response.denial.is_none()) && skips_validate(&course.stored) {
                let ReviewResponse { denial, warnings, outcomes, placement, .. } = course.validate;
                prop_assert!(denial.is_none() && outcomes.is_empty() && placement.is_none(), "{:?}", outcomes);
                prop_assert!(warnings.is_empty(), "{:?}", warnings);
            }
        }
    }
}

/// The template of a DaemonSet decides where its pods run, so its author gets a warning about changes by others.
#[test]
fn what_others_remove_from_a_template_is_reported() {
    let snapshot = snapshot();
    let judge = |object: &Value, old: Option<&Value>, endpoint, policies: &PolicySet| {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let workload = WorkloadObject { kind: WorkloadKind::DaemonSet, namespace: "default", object };
        let request = ReviewRequest { operation, old, endpoint, ..ReviewRequest::creation(workload) };
        respond(&review(&request, &snapshot, policies), object, endpoint)
    };
    let enforcing = PolicySet::default();
    let windows = workload("DaemonSet", json!({"containers": [{"name": "c", "image": LTSC2022}]}));
    let linux = workload("DaemonSet", json!({"containers": [{"name": "c", "image": "nginx:1.27-alpine"}]}));
    let unknown = workload("DaemonSet", json!({"containers": [{"name": "c", "image": OPAQUE}]}));
    for (object, count) in [(windows, 3), (linux, 1), (unknown, 1)] {
        let object = recorded(object);
        let mut stored = object.clone();
        json_patch::patch(&mut stored, &judge(&object, None, Endpoint::Mutate, &enforcing).patch).unwrap();
        let count_undone =
            |answer: &ReviewResponse| answer.warnings.iter().filter(|text| text.starts_with("MUL110")).count();
        assert_eq!(count_undone(&judge(&stored, None, Endpoint::Validate, &enforcing)), 0);
        let mut undone = stored.clone();
        undone["spec"]["template"]["spec"]["nodeSelector"] = json!({});
        undone["spec"]["template"]["spec"]["tolerations"] = json!([]);
        let response = judge(&undone, None, Endpoint::Validate, &enforcing);
        assert_eq!(count_undone(&response), count, "{:?}", response.warnings);
        // In audit mode Mullion had added nothing.
        let audit = include_str!("../../../../policies/audit.yaml");
        let watching = PolicySet::from_files(&[("audit.yaml", audit)]).unwrap();
        assert_eq!(count_undone(&judge(&undone, Some(&stored), Endpoint::Validate, &watching)), 0);
        // Later its author decides for every node, and removes the selector.
        let mut meant = stored.clone();
        meant["metadata"]["annotations"]["mullion.dev/os"] = json!("any");
        meant["spec"]["template"]["spec"]["nodeSelector"] = json!({});
        meant["spec"]["template"]["spec"]["tolerations"] = json!([]);
        assert_eq!(count_undone(&judge(&meant, Some(&stored), Endpoint::Validate, &enforcing)), 0);
    }
}

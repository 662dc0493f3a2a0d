//! What others do to a pod in the request in which Mullion was asked.

use mullion_engine::admission::response::{Endpoint, ReviewResponse, respond};
use mullion_engine::admission::review::Review;
use mullion_engine::model::review_request::{Operation, ReviewRequest};
use mullion_engine::model::settings::rule_actions::Action;
use mullion_engine::model::workload::{WorkloadKind, WorkloadObject};
use mullion_policy::policy_set::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties::subject;
use crate::support::{review, *};

const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const OPAQUE: &str = "registry.example.com/app";
const NOTE: &str = "mullion.dev/decision";

/// One who is called after Mullion.
type Other = fn(&mut Value);

/// What is said at the last endpoint, of the pod that is stored.
struct Course {
    /// At /mutate, each time Mullion was asked.
    mutate: Vec<ReviewResponse>,
    last: Review,
    validate: ReviewResponse,
    stored: Value,
}

impl Course {
    fn note(&self) -> Value {
        serde_json::from_str(self.stored["metadata"]["annotations"][NOTE].as_str().unwrap()).unwrap()
    }

    fn found(&self, code: &str) -> Vec<&str> {
        let found = self.last.findings.iter().filter(|finding| finding.code == code);
        found.map(|finding| finding.message.as_str()).collect()
    }
}

/// A request as the API server has it: what `managedFields` records, Mullion, the other; both once more where `again`
/// says so (`reinvocationPolicy: IfNeeded`), and /validate.
fn course(object: &Value, other: Other, [mullion_again, other_again]: [bool; 2]) -> Course {
    let (snapshot, policies) = (snapshot(), PolicySet::default());
    let ask = |object: &Value, at_validate| {
        let request = ReviewRequest {
            at_validate,
            ..ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "default", object })
        };
        review(&request, &snapshot, &policies)
    };
    let mut stored = recorded(object.clone());
    let mut mutate = Vec::new();
    for round in [[true, true], [mullion_again, other_again]] {
        if round[0] {
            let said = respond(&ask(&stored, false), &stored, Endpoint::Mutate);
            json_patch::patch(&mut stored, &said.patch).unwrap();
            mutate.push(said);
        }
        if round[1] {
            other(&mut stored);
        }
    }
    let last = ask(&stored, true);
    let validate = respond(&last, &stored, Endpoint::Validate);
    Course { mutate, last, validate, stored }
}

/// With what the API server records of the request before it asks anybody.
fn recorded(mut object: Value) -> Value {
    let annotations = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let claims: serde_json::Map<String, Value> =
        annotations.keys().map(|key| (format!("f:{key}"), json!({}))).collect();
    object["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:annotations": claims}, "f:spec": {}}}]);
    object
}

const NEVER: [bool; 2] = [false, false];
const WE_AGAIN: [bool; 2] = [true, false];
const BOTH_AGAIN: [bool; 2] = [true, true];

#[test]
fn what_others_take_off_is_put_back_or_told() {
    let pod = || with_image(LTSC2022);
    let cases: [(&str, Other, &str); 6] = [
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
    for (name, other, said) in cases {
        let never = course(&pod(), other, NEVER);
        let found = never.found("MUL110");
        assert!(found.iter().any(|text| text.contains(said) && text.contains("another webhook")), "{name}: {found:?}");
        let warned = never.validate.warnings.iter().any(|text| text.starts_with("MUL110"));
        let refused = never.validate.denial.as_ref().map(|denial| denial.message.as_str()).unwrap_or_default();
        assert!(
            warned || refused.contains("another webhook or policy"),
            "{name}: {refused} {:?}",
            never.validate.warnings
        );
        // Who is asked again puts it back, but does not quarrel about another value.
        let again = course(&pod(), other, WE_AGAIN);
        assert_eq!(again.found("MUL110").is_empty(), name != "selector changed", "{name}: {:?}", again.validate);
        assert_eq!(again.validate.denial.is_some(), name == "selector changed", "{name}: {:?}", again.validate.denial);
        let both = course(&pod(), other, BOTH_AGAIN);
        assert_eq!((both.stored, both.validate), (never.stored, never.validate), "{name}");
    }
    // Nothing keeps it on Windows nodes, and what its author asked for on Linux is gone.
    let unguarded = course(&pod(), cases[5].1, NEVER);
    assert!(unguarded.last.findings.iter().any(|finding| finding.code == "MUL110" && finding.action == Action::Deny));
    assert!(unguarded.validate.denial.is_some());
    // Nobody did anything.
    let untouched = course(&pod(), |_| {}, BOTH_AGAIN);
    assert!(untouched.found("MUL110").is_empty() && untouched.mutate[1].patch.is_empty());
}

#[test]
fn a_sealed_pod_is_rid_of_what_comes_later() {
    let cases: [(&str, Other, &str); 5] = [
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
        let again = course(&with_image(LTSC2022), other, WE_AGAIN);
        let said = &again.mutate[1];
        assert!(said.denial.is_none() && again.validate.denial.is_none(), "{pointer}: {:?}", said.denial);
        assert!(
            again.stored.pointer(pointer).is_none() && again.stored["spec"]["os"]["name"] == "windows",
            "{pointer}"
        );
        // Only what the other changed, and that is said.
        let paths: Vec<String> = said.patch.iter().map(|operation| operation.path().to_string()).collect();
        assert_eq!(paths, [pointer]);
        let warning = said.warnings.iter().find(|text| text.starts_with(code)).unwrap();
        assert!(warning.contains("removed: another webhook or policy added it"), "{warning}");
    }
}

/// What the author wrote himself is his: in the request, in a copy with an older note, with a forged one, in a file.
#[test]
fn a_note_that_came_with_the_request_is_none() {
    let note = json!({"os": "windows", "basis": "intent", "because": "forged", "placed": ["nodeSelector", "os"]});
    let mut object = pod(json!({"os": {"name": "windows"}, "containers": [{"name": "c", "image": LTSC2022}],
        "securityContext": {"runAsUser": 1000}}));
    object["metadata"]["annotations"] = json!({NOTE: note.to_string()});
    let file = create(&object);
    let request = course(&object, |_| {}, NEVER);
    assert!(file.refused() && request.mutate[0].denial.is_some(), "{:?}", request.mutate);
    let mut copy = with_image(OPAQUE);
    copy["metadata"]["annotations"] = json!({NOTE: note.to_string()});
    let copied = course(&copy, |_| {}, NEVER);
    assert!(copied.found("MUL110").is_empty() && copied.validate.denial.is_none(), "{:?}", copied.validate);
    assert_eq!(copied.stored["spec"]["nodeSelector"]["kubernetes.io/os"], "linux");
}

#[test]
fn a_late_container_is_known_by_its_name() {
    let sidecar: Other = |pod| {
        let sidecar = json!({"name": "sidecar", "image": "registry.example.com/agent:1-alpine"});
        pod["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
    };
    let mut on_windows = with_image(OPAQUE);
    on_windows["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    for (object, code) in [(with_image(LTSC2022), "MUL102"), (on_windows, "MUL104")] {
        for rounds in [NEVER, WE_AGAIN] {
            let later = course(&object, sidecar, rounds);
            assert_eq!(later.stored["spec"]["nodeSelector"]["kubernetes.io/os"], "windows");
            let found = later.found(code);
            assert_eq!(
                found,
                ["another webhook or policy added this container after Mullion, and its image is for Linux"]
            );
        }
        // Its author's own.
        let mut before = object.clone();
        sidecar(&mut before);
        let own = course(&before, |_| {}, NEVER);
        assert!(
            own.last.findings.iter().all(|finding| !finding.message.contains("another webhook")),
            "{:?}",
            own.last.findings
        );
    }
    // A list that is too long for an annotation says nothing of anybody.
    let mut many = with_image(LTSC2022);
    let list = (0..40)
        .map(|at| json!({"name": format!("c{at}"), "image": LTSC2022, "resources": {"limits": {"memory": "1Gi"}}}));
    many["spec"]["containers"] = list.collect();
    let later = course(&many, sidecar, NEVER);
    assert!(later.note().get("containers").is_none());
    assert!(later.found("MUL102")[0].starts_with("this image is for Linux"));
}

/// What would have made it a Windows pod before does so after, where there is still time.
#[test]
fn the_linux_default_gives_way_to_late_windows_options() {
    let options: Other = |pod| {
        pod["spec"]["securityContext"]["windowsOptions"] = json!({"gmsaCredentialSpecName": "web"});
    };
    let again = course(&with_image(OPAQUE), options, WE_AGAIN);
    let spec = &again.stored["spec"];
    assert_eq!(
        (&spec["nodeSelector"]["kubernetes.io/os"], &spec["os"]["name"]),
        (&json!("windows"), &json!("windows"))
    );
    assert_eq!(again.note()["os"], "windows");
    assert!(again.validate.denial.is_none() && again.found("MUL110").is_empty(), "{:?}", again.validate);
    // No time left: it stays the Linux pod it is, and is judged as one.
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
    // A selector that the author wrote is his word.
    let mut own = with_image(OPAQUE);
    own["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    assert_eq!(course(&own, options, WE_AGAIN).stored["spec"]["nodeSelector"]["kubernetes.io/os"], "linux");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Alone, the second call changes nothing and finds nothing undone, with the API server's records as without.
    #[test]
    fn alone_nothing_is_undone(object in subject().prop_filter("a pod", |object| object["kind"] == "Pod")) {
        let both = course(&object, |_| {}, BOTH_AGAIN);
        prop_assume!(both.mutate[0].denial.is_none());
        prop_assert!(both.mutate[1].patch.is_empty(), "{:?}", both.mutate[1].patch);
        prop_assert!(both.found("MUL110").is_empty(), "{:?}", both.found("MUL110"));
    }
}

/// The template of a DaemonSet decides where its pods go: whoever applies it hears what became of that.
#[test]
fn what_is_taken_off_a_template_is_told() {
    let snapshot = snapshot();
    let judge = |object: &Value, old: Option<&Value>, endpoint, policies: &PolicySet| {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let subject = WorkloadObject { kind: WorkloadKind::DaemonSet, namespace: "default", object };
        let request = ReviewRequest {
            operation,
            old,
            at_validate: endpoint == Endpoint::Validate,
            ..ReviewRequest::creation(subject)
        };
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
        let told = |answer: &ReviewResponse| answer.warnings.iter().filter(|text| text.starts_with("MUL110")).count();
        assert_eq!(told(&judge(&stored, None, Endpoint::Validate, &enforcing)), 0);
        let mut undone = stored.clone();
        undone["spec"]["template"]["spec"]["nodeSelector"] = json!({});
        undone["spec"]["template"]["spec"]["tolerations"] = json!([]);
        let said = judge(&undone, None, Endpoint::Validate, &enforcing);
        assert_eq!(told(&said), count, "{:?}", said.warnings);
        // Where Mullion only watches it put nothing back.
        let audit = include_str!("../../../../policies/audit.yaml");
        let watching = PolicySet::from_files(&[("audit.yaml", audit)]).unwrap();
        assert_eq!(told(&judge(&undone, Some(&stored), Endpoint::Validate, &watching)), 0);
        // Later its author says that he means every node, and takes the selector out himself.
        let mut meant = stored.clone();
        meant["metadata"]["annotations"]["mullion.dev/os"] = json!("any");
        meant["spec"]["template"]["spec"]["nodeSelector"] = json!({});
        meant["spec"]["template"]["spec"]["tolerations"] = json!([]);
        assert_eq!(told(&judge(&meant, Some(&stored), Endpoint::Validate, &enforcing)), 0);
    }
}

//! Properties of every pod, even a malformed one.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use json_patch::PatchOperation;
use mullion_engine::admission::{Endpoint, respond, respond_in_full};
use mullion_engine::model::WorkloadKind;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::rules::catalogue;
use mullion_engine::rules::linux_only::{FIELDS, LinuxOnlyField, ValueGrade};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::declared_fields::declared;
use crate::generator::{self, BASES, Piece};
use crate::support::*;

pub(crate) fn image() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "nginx".to_owned(),
        "nginx:1.27-alpine".to_owned(),
        "mcr.microsoft.com/windows/servercore:ltsc2019".to_owned(),
        "mcr.microsoft.com/windows/nanoserver:ltsc2022".to_owned(),
        "mcr.microsoft.com/windows/servercore:ltsc2025".to_owned(),
        "registry.k8s.io/pause:3.10".to_owned(),
        "{{ image }}".to_owned(),
        String::new(),
    ])
}

/// Valid and invalid values of fields.
fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0i64..70_000).prop_map(Value::from),
        prop::sample::select(vec!["windows", "linux", "RuntimeDefault", "Default", "Merge", "x"]).prop_map(Value::from),
        Just(json!({})),
        Just(json!([])),
        Just(json!({"type": "Localhost", "unknownField": 1})),
        Just(json!({"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]})),
        Just(json!([{"name": "kernel.shm_rmid_forced", "value": "1"}])),
    ]
}

pub(crate) fn security() -> impl Strategy<Value = Value> {
    let names: Vec<&'static str> = FIELDS
        .iter()
        .flat_map(|field| [field.pod, field.container])
        .flatten()
        .filter_map(|pointer| pointer.rsplit('/').next())
        .chain(["windowsOptions", "runAsNonRoot", "futureField"])
        .collect();
    prop::collection::btree_map(prop::sample::select(names), scalar(), 0..5)
        .prop_map(|map| Value::Object(map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()))
}

fn container() -> impl Strategy<Value = Value> {
    (image(), security(), prop::option::of(prop::sample::select(vec!["powershell", "/bin/sh", "C:\\a.exe"]))).prop_map(
        |(image, security, command)| {
            let mut container =
                json!({"name": "c", "image": image, "securityContext": security, "futureField": {"a": [1]}});
            if let Some(command) = command {
                container["command"] = json!([command]);
            }
            container
        },
    )
}

fn affinity() -> impl Strategy<Value = Value> {
    let expression = (
        prop::sample::select(vec!["kubernetes.io/os", "disk", "node.kubernetes.io/windows-build", "agentpool"]),
        prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Strange"]),
        prop::collection::vec(prop::sample::select(vec!["windows", "linux", "ssd", "10.0.20348", "win19"]), 0..3),
    )
        .prop_map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}));
    prop::collection::vec(prop::collection::vec(expression, 0..3), 0..3).prop_map(|terms| {
        let terms: Vec<Value> = terms.into_iter().map(|list| json!({"matchExpressions": list})).collect();
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
    })
}

pub(crate) fn spec() -> impl Strategy<Value = Value> {
    (
        prop::collection::vec(container(), 0..3),
        prop::collection::vec(container(), 0..2),
        security(),
        prop::option::of(affinity()),
        prop::collection::btree_map(
            prop::sample::select(vec![
                "os",
                "nodeSelector",
                "tolerations",
                "hostNetwork",
                "hostPID",
                "runtimeClassName",
                "nodeName",
                "resources",
                "shareProcessNamespace",
                "hostUsers",
                "schedulingGates",
            ]),
            prop_oneof![
                scalar(),
                Just(json!({"name": "windows"})),
                Just(json!({"kubernetes.io/os": "windows"})),
                Just(json!({"disk": "ssd"})),
                Just(json!("w2022")),
                Just(json!([{"operator": "Exists"}])),
            ],
            0..4,
        ),
    )
        .prop_map(|(containers, init, security, affinity, more)| {
            let mut spec = json!({"containers": containers, "initContainers": init, "securityContext": security, "futureField": "kept"});
            if let Some(affinity) = affinity {
                spec["affinity"] = affinity;
            }
            for (key, value) in more {
                spec[key] = value;
            }
            spec
        })
}

pub(crate) fn any_workload() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec!["Pod", "Pod", "Pod", "DaemonSet", "Deployment", "Job"]);
    let owners = prop::sample::select(vec!["", "ReplicaSet", "DaemonSet", "Job"]);
    (kinds, owners, spec()).prop_map(|(kind, owner, spec)| {
        let object = if kind == "Pod" { pod(spec) } else { workload(kind, spec) };
        if kind == "Pod" && !owner.is_empty() { owned_by(object, owner) } else { object }
    })
}

/// Pods that the API server accepts except for their operating system: see [`generator`].
pub(crate) fn generated() -> impl Strategy<Value = Value> {
    static FAMILIES: LazyLock<Vec<Vec<Piece>>> = LazyLock::new(generator::families);
    let piece = (0..FAMILIES.len()).prop_flat_map(|family| prop::sample::select(&*FAMILIES[family]));
    (0..BASES.len(), 1..3_usize, prop::collection::vec(piece, 0..6)).prop_map(|(base, containers, pieces)| {
        generator::assemble(&BASES[base], containers, &pieces.iter().collect::<Vec<_>>()).object
    })
}

/// Malformed objects: any type anywhere, long texts, unusual keys.
fn arbitrary() -> impl Strategy<Value = Value> {
    let keys = [
        "kind",
        "metadata",
        "labels",
        "annotations",
        "namespace",
        "ownerReferences",
        "controller",
        "spec",
        "template",
        "jobTemplate",
        "os",
        "name",
        "nodeName",
        "nodeSelector",
        "kubernetes.io/os",
        "mullion.dev/os",
        "mullion.dev/allow",
        "mullion.dev/decision",
        "tolerations",
        "key",
        "operator",
        "effect",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
        "matchExpressions",
        "values",
        "containers",
        "initContainers",
        "ephemeralContainers",
        "image",
        "command",
        "resources",
        "limits",
        "memory",
        "ports",
        "volumeMounts",
        "volumeDevices",
        "lifecycle",
        "stopSignal",
        "volumes",
        "hostPath",
        "path",
        "emptyDir",
        "medium",
        "nfs",
        "securityContext",
        "windowsOptions",
        "hostProcess",
        "runAsUserName",
        "capabilities",
        "add",
        "sysctls",
        "seccompProfile",
        "type",
        "runtimeClassName",
        "hostNetwork",
        "resourceClaims",
        "dnsPolicy",
        "",
        "/",
        "~",
    ];
    let leaf = prop_oneof![
        scalar(),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        Just(Value::from("\u{0}\u{85}\u{202e}\"\\\\")),
        Just(Value::from("9".repeat(100_000))),
        image().prop_map(Value::from),
    ];
    leaf.prop_recursive(9, 120, 6, move |inner| {
        let key = prop_oneof![8 => prop::sample::select(keys.to_vec()).prop_map(str::to_owned), 1 => ".{0,10}"];
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            8 => prop::collection::hash_map(key, inner, 0..6).prop_map(|members| json!(members)),
        ]
    })
}

/// Specs in which some values are of a wrong type.
fn malformed() -> impl Strategy<Value = Value> {
    let replacement = (any::<prop::sample::Index>(), scalar());
    (generated(), prop::collection::vec(replacement, 1..10)).prop_map(|(object, replacements)| {
        let mut spec = object["spec"].clone();
        for (index, value) in replacements {
            let mut places = Vec::new();
            all_places(&spec, String::new(), &mut places);
            *spec.pointer_mut(index.get(&places).as_str()).unwrap() = value;
        }
        spec
    })
}

/// Pointers to everything in `value`.
fn all_places(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                all_places(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                all_places(value, format!("{at}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push(at);
}

/// A workload of that kind with `spec` as pod spec and `rest` as its own fields.
fn with_pod(kind: &str, spec: &Value, rest: &Value) -> Value {
    let mut object = json!({"kind": kind, "metadata": rest, "spec": spec});
    match kind {
        "Pod" => {}
        "CronJob" => object["spec"] = json!({"jobTemplate": {"spec": {"template": {"metadata": rest, "spec": spec}}}}),
        "PodTemplate" => object["template"] = json!({"metadata": rest, "spec": spec}),
        _ => object["spec"] = json!({"template": {"metadata": rest, "spec": spec}}),
    }
    object
}

/// Everything in `object` that `spec.os.name: windows` forbids.
fn forbidden(object: &Value) -> Vec<String> {
    let pod = Pod::of(WorkloadKind::Pod, object).unwrap();
    let counts = |field: &LinuxOnlyField, value: &Value| {
        let first = field.grades.iter().find(|(values, _)| values.holds(value));
        first.is_none_or(|(_, grade)| *grade != ValueGrade::Fine)
    };
    let mut found = Vec::new();
    for field in FIELDS.iter().filter(|field| field.forbidden_by_os) {
        let of_pod = field.pod.filter(|pointer| pod.get(pointer).is_some_and(|value| counts(field, value)));
        found.extend(of_pod.map(str::to_owned));
        for container in pod.containers() {
            let below = field.container.filter(|below| container.get(below).is_some_and(|value| counts(field, value)));
            found.extend(below.map(|below| container.pointer() + below));
        }
    }
    found
}

/// Whether the level `restricted` of `PodSecurity` admits the object by the checks that exempt Windows pods
/// (`check_allowPrivilegeEscalation.go`, `check_capabilities_restricted.go`, `check_seccompProfile_restricted.go`).
fn restricted(object: &Value) -> bool {
    if object["spec"]["os"]["name"] == "windows" {
        return true;
    }
    let profile = |context: &Value| {
        let kind = context["seccompProfile"]["type"].as_str().map(str::to_owned);
        kind.map(|kind| ["RuntimeDefault", "Localhost"].contains(&kind.as_str()))
    };
    let of_pod = profile(&object["spec"]["securityContext"]).unwrap_or(false);
    let lists = ["initContainers", "containers"].into_iter().filter_map(|list| object["spec"][list].as_array());
    lists.flatten().all(|container| {
        let context = &container["securityContext"];
        let drops =
            context["capabilities"]["drop"].as_array().is_some_and(|drop| drop.iter().any(|name| name == "ALL"));
        let adds = context["capabilities"]["add"].as_array();
        let adds = adds.into_iter().flatten().any(|name| name != "NET_BIND_SERVICE");
        context["allowPrivilegeEscalation"] == false && drops && !adds && profile(context).unwrap_or(of_pod)
    })
}

/// A pod that `restricted` admits on Linux, so that the removal of a field is noticed.
fn hardened(mut object: Value) -> Value {
    for list in ["initContainers", "containers"] {
        for container in object["spec"][list].as_array_mut().into_iter().flatten() {
            let context = &mut container["securityContext"];
            context["allowPrivilegeEscalation"] = json!(false);
            context["capabilities"] = json!({"drop": ["ALL"]});
            context["seccompProfile"] = json!({"type": "RuntimeDefault"});
        }
    }
    object
}

/// Code and path of each finding, except for an empty list that the API server drops before any webhook sees it.
fn findings(object: &Value) -> BTreeSet<(&'static str, String)> {
    let empty = object["spec"]["securityContext"]["supplementalGroups"] == json!([]);
    let findings = create(object).review.findings.into_iter().map(|finding| (finding.code, finding.path));
    findings.filter(|(_, path)| !(empty && path.ends_with(".supplementalGroups"))).collect()
}

/// Policies under which the rules have other actions than by default.
static POLICIES: [&str; 8] = [
    "rules: {translate: [run-as-user], actions: [{rule: mount-propagation, action: Repair}]}",
    "rules: {translate: [run-as-user], actions: [{rule: MUL2, action: Repair}, {rule: MUL3, action: Repair}]}",
    "rules: {denials: Warn}",
    "rules: {actions: [{rule: MUL, action: Deny}]}",
    "rules: {actions: [{rule: MUL, action: Allow}]}",
    "rules: {actions: [{rule: MUL, action: Warn}]}",
    "place: {specOS: {mode: Never}, build: {mode: Exact}}",
    "optOut: {allow: [MUL]}",
];

fn policy(spec: &str) -> PolicySet {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: t}}\nspec: {{priority: 1, {spec}}}\n"
    );
    PolicySet::from_files(&[("t.yaml", &text)]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// `support::outcome` itself checks that the patch applies.
    #[test]
    fn a_second_review_changes_nothing(object in prop_oneof![any_workload(), generated()]) {
        let first = create(&object);
        prop_assume!(first.mutate.denial.is_none());
        let second = create(&first.stored);
        prop_assert!(second.mutate.patch.is_empty(), "{:#?}", second.mutate.patch);
    }

    /// With any actions in policies, and any creator of the pod.
    #[test]
    fn a_second_review_changes_nothing_under_any_policy(
        object in prop_oneof![any_workload(), generated()],
        policies in prop::sample::select(POLICIES.as_slice()),
        owner in prop::sample::select(vec!["", "DaemonSet", "ReplicaSet"]),
        allow in prop::option::of(prop::sample::select(catalogue().map(|rule| rule.code).collect::<Vec<_>>())),
    ) {
        let mut object = if owner.is_empty() || object["kind"] != "Pod" { object } else { owned_by(object, owner) };
        if let Some(code) = allow {
            object["metadata"]["annotations"]["mullion.dev/allow"] = json!(code);
        }
        let policies = policy(policies);
        let first = create_in(&object, &snapshot(), &policies);
        prop_assume!(first.mutate.denial.is_none());
        let second = create_in(&first.stored, &snapshot(), &policies);
        prop_assert!(second.mutate.patch.is_empty(), "{:#?}", second.mutate.patch);
        prop_assert!(owner != "DaemonSet" || object["kind"] != "Pod" || !first.denied());
    }

    #[test]
    fn audit_changes_and_denies_nothing(object in prop_oneof![any_workload(), generated()]) {
        let outcome = create_in(&object, &snapshot(), &policy("mode: Audit"));
        prop_assert!(outcome.mutate.patch.is_empty() && !outcome.denied());
    }

    #[test]
    fn only_declared_fields_are_touched(object in prop_oneof![any_workload(), generated()]) {
        let outcome = create(&object);
        // One operation for each edit, which the webhook writes as fewer operations with the same result.
        for operation in &respond_in_full(&outcome.review, &object, Endpoint::Mutate).patch {
            let path = operation.path().to_string();
            prop_assert!(declared(outcome.review.category, &path), "{path}");
            prop_assert!(!matches!(operation, PatchOperation::Test(_) | PatchOperation::Move(_) | PatchOperation::Copy(_)));
        }
    }

    /// If one field is removed that the OS field forbids, the OS field is set, and all of them are removed.
    #[test]
    fn the_os_field_is_all_or_nothing(object in prop_oneof![generated(), spec().prop_map(pod)]) {
        let outcome = create(&object);
        let left = forbidden(&outcome.stored);
        let gets_os_field = object["spec"]["os"]["name"] != "windows" && outcome.stored["spec"]["os"]["name"] == "windows";
        if gets_os_field {
            prop_assert!(left.is_empty(), "{left:?}");
            prop_assert_eq!(outcome.selector(), Some("windows"));
        } else if object["spec"]["os"]["name"] != "windows" {
            prop_assert_eq!(left, forbidden(&object));
        }
    }

    /// Fields that `restricted` requires of Linux pods are removed only from pods that no kubelet on Linux runs.
    #[test]
    fn pod_security_is_no_weaker_where_a_pod_may_run_on_linux(object in generated(), harden in any::<bool>()) {
        let object = if harden { hardened(object) } else { object };
        let stored = create(&object).stored;
        if stored["spec"]["os"]["name"] != "windows" {
            prop_assert_eq!(restricted(&stored), restricted(&object));
        } else if object["spec"]["os"]["name"] != "windows" {
            prop_assert_eq!(&stored["spec"]["nodeSelector"]["kubernetes.io/os"], "windows");
        }
    }

    #[test]
    fn findings_are_the_same_with_the_servers_defaults(object in generated()) {
        let defaulted = generator::defaulted(&object);
        prop_assert_eq!(findings(&object), findings(&defaulted));
        prop_assert_eq!(create(&object).denied(), create(&defaulted).denied());
    }

    #[test]
    fn a_daemon_sets_pod_is_never_denied(spec in spec()) {
        prop_assert!(!create(&owned_by(pod(spec), "DaemonSet")).denied());
    }

    #[test]
    fn a_template_is_denied_with_the_findings_of_its_pods(
        mut spec in prop_oneof![spec(), generated().prop_map(|pod| pod["spec"].clone())],
        (kind, prefix) in prop::sample::select(vec![
            ("Deployment", "spec.template."),
            ("StatefulSet", "spec.template."),
            ("Job", "spec.template."),
            ("CronJob", "spec.jobTemplate.spec.template."),
        ]),
    ) {
        // With this a bare pod may be a copy that `kubectl debug` made, and its finding names a better profile.
        spec.as_object_mut().unwrap().remove("shareProcessNamespace");
        let (bare, template) = (create(&pod(spec.clone())), create(&workload(kind, spec)));
        prop_assert_eq!(bare.denied(), template.denied());
        // A finding on a pod that looks like a copy by kubectl debug names the profile that works; no template is one.
        if bare.denied() && !bare.denial().contains("kubectl debug") {
            let words = template.denial().replace(prefix, "");
            prop_assert_eq!(words.replacen(&format!("{kind} w "), "Pod p ", 1), bare.denial());
        }
    }

    #[test]
    fn warnings_are_short_and_printable(object in prop_oneof![any_workload(), generated()]) {
        for warning in create(&object).mutate.warnings {
            prop_assert!(warning.chars().count() <= 120 && !warning.chars().any(char::is_control), "{warning}");
        }
    }

    #[test]
    fn nothing_at_all_makes_it_panic(
        spec in prop_oneof![1 => arbitrary(), 1 => spec(), 3 => malformed()],
        rest in arbitrary(),
        kind in prop::sample::select(vec!["Pod", "PodTemplate", "DaemonSet", "Deployment", "Job", "CronJob"]),
    ) {
        for object in [with_pod(kind, &spec, &rest), json!({"kind": kind, "spec": spec}), json!({"kind": kind, "metadata": spec})] {
            let outcome = create(&object);
            let validate = respond(&outcome.review, &object, Endpoint::Validate);
            prop_assert!(validate.patch.is_empty());
        }
        let (old, new) = (with_pod(kind, &rest, &spec), with_pod(kind, &spec, &rest));
        update(&old, &new);
        update(&new, &old);
    }
}

#[test]
fn a_seed_stands_for_its_pods() {
    let pods =
        |seed| -> Vec<String> { generator::pods(seed, 2_000).into_iter().map(|pod| pod.object.to_string()).collect() };
    let (once, again, other) = (pods(generator::SEED), pods(generator::SEED), pods(1));
    assert!(once == again && once != other);
    let different: BTreeSet<&String> = once.iter().collect();
    assert!(once.len() >= 2_000 && different.len() > 1_900, "{} of {}", different.len(), once.len());
}

/// As deep as the JSON reader goes (`serde_json` stops at 128), and long.
#[test]
fn depth_and_length_do_not_matter() {
    let mut deep = json!({});
    for at in 0..120 {
        deep = if at % 2 == 0 { json!({"spec": deep, "securityContext": 1}) } else { json!([deep]) };
    }
    let long = "a/".repeat(500_000);
    let many: Vec<Value> = (0..2_000).map(|at| json!({"name": format!("c{at}"), "image": long.get(..200)})).collect();
    for spec in [
        json!({"containers": deep, "securityContext": deep, "affinity": deep, "os": deep, "nodeSelector": deep}),
        json!({"containers": [{"name": "c", "image": long, "command": [long]}], "nodeSelector": {"a": long}, "nodeName": long}),
        json!({"os": {"name": "windows"}, "containers": many, "hostUsers": deep}),
    ] {
        for kind in ["Pod", "DaemonSet", "CronJob"] {
            let object = with_pod(kind, &spec, &json!({"annotations": {"mullion.dev/allow": long}}));
            create(&object);
            update(&object, &object);
        }
    }
}

//! Properties that hold for every pod, however odd.

use json_patch::PatchOperation;
use mullion::engine::rules::linux_only::FIELDS;
use mullion::engine::{Door, answer};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

fn image() -> impl Strategy<Value = String> {
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

/// Values that fields have, and values that they should not have.
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

fn security() -> impl Strategy<Value = Value> {
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

fn spec() -> impl Strategy<Value = Value> {
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

fn subject() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec!["Pod", "Pod", "Pod", "DaemonSet", "Deployment", "Job"]);
    let owners = prop::sample::select(vec!["", "ReplicaSet", "DaemonSet", "Job"]);
    (kinds, owners, spec()).prop_map(|(kind, owner, spec)| {
        let object = if kind == "Pod" { pod(spec) } else { workload(kind, spec) };
        if kind == "Pod" && !owner.is_empty() { owned_by(object, owner) } else { object }
    })
}

/// Where Mullion may write: the set that the documentation declares.
fn declared(path: &str) -> bool {
    let path = path.strip_prefix("/spec/template").unwrap_or(path);
    let placement = [
        "/spec/nodeSelector",
        "/spec/tolerations",
        "/spec/affinity/nodeAffinity",
        "/spec/runtimeClassName",
        "/spec/os",
    ];
    placement.iter().any(|start| path.starts_with(start))
        || path == "/spec/affinity"
        || path == "/metadata/annotations"
        || path == "/metadata/labels"
        || path.starts_with("/metadata/annotations/mullion.dev~1")
        || path.starts_with("/metadata/labels/mullion.dev~1")
        || FIELDS.iter().any(|field| {
            field.pod == Some(path)
                || field.container.is_some_and(|below| {
                    path.strip_suffix(below).is_some_and(|start| {
                        let mut parts = start.split('/').skip(1);
                        parts.next() == Some("spec")
                            && matches!(parts.next(), Some("containers" | "initContainers" | "ephemeralContainers"))
                            && parts.next().is_some_and(|index| index.parse::<usize>().is_ok())
                            && parts.next().is_none()
                    })
                })
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// `support::outcome` itself checks that the patch applies.
    #[test]
    fn a_reviewed_subject_is_settled(object in subject()) {
        let first = create(&object);
        prop_assume!(first.mutate.refusal.is_none());
        let second = create(&first.stored);
        prop_assert!(second.mutate.patch.is_empty(), "{:#?}", second.mutate.patch);
    }

    #[test]
    fn only_declared_fields_are_touched(object in subject()) {
        for operation in &create(&object).mutate.patch {
            let path = operation.path().to_string();
            prop_assert!(declared(&path), "{path}");
            prop_assert!(!matches!(operation, PatchOperation::Test(_) | PatchOperation::Move(_) | PatchOperation::Copy(_)));
        }
    }

    #[test]
    fn what_is_sealed_carries_nothing_forbidden(object in subject()) {
        let outcome = create(&object);
        let sealed = outcome.mutate.patch.iter().any(|operation| *operation.path() == "/spec/os");
        if sealed {
            let again = mullion::engine::rules::linux_only::FIELDS.iter().filter(|field| field.forbidden_by_os);
            for field in again {
                let gone = field.pod.is_none_or(|pointer| outcome.stored.pointer(pointer).is_none_or(Value::is_null));
                prop_assert!(gone, "{:?}", field.pod);
            }
        }
    }

    #[test]
    fn a_daemon_sets_pod_is_never_refused(spec in spec()) {
        prop_assert!(!create(&owned_by(pod(spec), "DaemonSet")).refused());
    }

    #[test]
    fn warnings_are_short_and_printable(object in subject()) {
        for warning in create(&object).mutate.warnings {
            prop_assert!(warning.chars().count() <= 120 && !warning.chars().any(char::is_control), "{warning}");
        }
    }

    #[test]
    fn nothing_at_all_makes_it_panic(value in scalar(), spec in spec(), kind in prop::sample::select(vec!["Pod", "DaemonSet", "CronJob"])) {
        for object in [json!({"kind": kind, "spec": value}), json!({"kind": kind, "metadata": value}), json!({"kind": kind, "spec": spec, "metadata": value})] {
            let outcome = create(&object);
            let validate = answer(&outcome.review, &object, Door::Validate);
            prop_assert!(validate.patch.is_empty());
        }
    }
}

//! Security fields: none is removed from a pod that may run on Linux, whatever policies, namespaces and authors set.

use std::collections::BTreeMap;

use mullion_engine::model::cluster::{ClusterSnapshot, Namespace};
use mullion_engine::rules::catalogue;
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::lost_fields::lost_field;
use crate::support::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/c";

fn policy(spec: &str) -> PolicySet {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: t}}\nspec: {{priority: 1, {spec}}}\n"
    );
    PolicySet::from_files(&[("t.yaml", &text)]).unwrap_or_else(|error| panic!("{text}\n{error:?}"))
}

fn snapshot_with(namespace: Namespace) -> ClusterSnapshot {
    ClusterSnapshot { namespaces: [("default".to_owned(), namespace)].into(), ..snapshot() }
}

fn namespace(annotations: &[(&str, &str)]) -> Namespace {
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Namespace::new(BTreeMap::new(), &annotations)
}

/// A pod with an AppArmor profile by annotation.
fn confined(image: &str, profile: &str) -> Value {
    let mut object = with_image(image);
    object["metadata"]["annotations"] = json!({"mullion.dev/os": "windows", APP_ARMOR: profile});
    object
}

#[test]
fn the_app_armor_annotation_stays_where_the_pod_may_run_on_linux() {
    let linux = namespace(&[("scheduler.alpha.kubernetes.io/node-selector", "kubernetes.io/os=linux")]);
    let never = "place: {nodeSelector: {mode: Never}, specOS: {mode: Never}}";
    let cases = [
        (snapshot_with(linux), PolicySet::default()),
        (snapshot(), policy(never)),
        // Without the selector there is no OS field either.
        (snapshot(), policy("place: {nodeSelector: {mode: Never}}")),
    ];
    for (snapshot, policies) in &cases {
        for profile in ["runtime/default", "localhost/shop", "unconfined"] {
            let object = confined("debian:12", profile);
            let outcome = create_in(&object, snapshot, policies);
            assert_eq!(outcome.stored["metadata"]["annotations"][APP_ARMOR], profile, "{}", outcome.stored);
            // A Windows kubelet would reject it.
            assert_eq!(outcome.denied(), profile != "unconfined", "{:?}", outcome.mutate.denial);
            // A controller's pod is reviewed in the same way.
            let owned = owned_by(object, "ReplicaSet");
            assert_eq!(create_in(&owned, snapshot, policies).denied(), profile != "unconfined");
        }
        // Other repairs remove nothing either.
        let mut object = with_image(WINDOWS);
        object["spec"]["containers"][0]["lifecycle"] = json!({"stopSignal": "SIGQUIT"});
        object["metadata"]["annotations"] = json!({"mullion.dev/os": "windows"});
        assert_eq!(create_in(&object, snapshot, policies).stored["spec"]["containers"], object["spec"]["containers"]);
    }
    // Removed with the OS field, and beside a literal selector.
    let mut selected = confined("debian:12", "localhost/shop");
    selected["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    let without_os_field = policy("place: {specOS: {mode: Never}}");
    for (object, policies) in [
        (confined("debian:12", "localhost/shop"), &PolicySet::default()),
        (confined("debian:12", "localhost/shop"), &without_os_field),
        (selected, &policy(never)),
    ] {
        let outcome = create_in(&object, &snapshot(), policies);
        assert!(!outcome.denied(), "{:?}", outcome.mutate.denial);
        assert!(outcome.stored["metadata"]["annotations"].get(APP_ARMOR).is_none(), "{}", outcome.stored);
        assert_eq!(outcome.selector(), Some("windows"));
    }
}

/// Values of one field that an author may set, and that matter on Linux.
type Values = (&'static str, fn() -> Vec<Value>);

/// Fields of a pod spec that restrict or permit something on Linux.
const POD_FIELDS: [Values; 15] = [
    ("hostPID", bools),
    ("hostIPC", bools),
    ("hostNetwork", bools),
    ("hostUsers", bools),
    ("shareProcessNamespace", bools),
    ("automountServiceAccountToken", bools),
    ("enableServiceLinks", bools),
    ("serviceAccountName", || vec![json!("default"), json!("builder")]),
    ("serviceAccount", || vec![json!("builder")]),
    ("imagePullSecrets", || vec![json!([{"name": "pull"}])]),
    ("runtimeClassName", || vec![json!("gvisor"), json!("mullion-windows-ltsc2022")]),
    ("dnsPolicy", || vec![json!("ClusterFirstWithHostNet"), json!("None")]),
    ("resources", || vec![json!({}), json!({"limits": {"memory": "1Gi"}})]),
    ("volumes", || {
        vec![
            json!([{"name": "v", "emptyDir": {"medium": "Memory"}}]),
            json!([{"name": "v", "hostPath": {"path": "/etc", "type": "Directory"}}]),
            json!([{"name": "v", "secret": {"secretName": "s", "defaultMode": 256}}]),
            json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]),
        ]
    }),
    ("futureField", bools),
];

/// Fields of a security context, of the pod and of containers; the API server rejects some of them on one level.
const CONTEXT_FIELDS: [Values; 20] = [
    ("runAsUser", || vec![json!(0), json!(1000)]),
    ("runAsGroup", || vec![json!(0), json!(1000)]),
    ("runAsNonRoot", bools),
    ("privileged", bools),
    ("allowPrivilegeEscalation", bools),
    ("readOnlyRootFilesystem", bools),
    ("procMount", || vec![json!("Default"), json!("Unmasked")]),
    ("capabilities", || {
        vec![json!({}), json!({"drop": ["ALL"]}), json!({"add": ["NET_BIND_SERVICE"]}), json!({"add": ["SYS_ADMIN"]})]
    }),
    ("seccompProfile", profiles),
    ("appArmorProfile", profiles),
    ("seLinuxOptions", || vec![json!({}), json!({"level": "s0:c26,c5"}), json!({"type": "spc_t"})]),
    ("seLinuxChangePolicy", || vec![json!("MountOption"), json!("Recursive")]),
    ("fsGroup", || vec![json!(0), json!(2000), json!(1_000_650_000)]),
    ("fsGroupChangePolicy", || vec![json!("OnRootMismatch"), json!("Always")]),
    ("supplementalGroups", || vec![json!([]), json!([1])]),
    ("supplementalGroupsPolicy", || vec![json!("Merge"), json!("Strict")]),
    ("sysctls", || {
        vec![
            json!([]),
            json!([{"name": "kernel.shm_rmid_forced", "value": "1"}]),
            json!([{"name": "kernel.msgmax", "value": "1"}]),
        ]
    }),
    ("windowsOptions", || {
        vec![
            json!({}),
            json!({"runAsUserName": "ContainerUser"}),
            json!({"hostProcess": true}),
            json!({"gmsaCredentialSpecName": "g"}),
        ]
    }),
    ("futureField", bools),
    ("", bools),
];

fn bools() -> Vec<Value> {
    vec![json!(true), json!(false)]
}

fn profiles() -> Vec<Value> {
    let local = json!({"type": "Localhost", "localhostProfile": "p"});
    vec![json!({"type": "RuntimeDefault"}), json!({"type": "Unconfined"}), local]
}

/// An object with some of these fields.
fn some(fields: &'static [Values], most: usize) -> impl Strategy<Value = Map<String, Value>> {
    let field = prop::sample::select(fields)
        .prop_flat_map(|(name, values)| (Just(name.to_owned()), prop::sample::select(values())));
    prop::collection::vec(field, 0..most).prop_map(|members| members.into_iter().collect())
}

fn one_of<const N: usize>(values: [Value; N]) -> impl Strategy<Value = Value> {
    prop::sample::select(values.to_vec())
}

fn container() -> impl Strategy<Value = Map<String, Value>> {
    let image = prop::sample::select(vec!["debian:12", WINDOWS, "registry.example.com/app:1"]);
    let signal = prop::option::of(one_of([json!("SIGQUIT"), json!("SIGTERM")]));
    let propagation = prop::option::of(one_of([json!("HostToContainer"), json!("Bidirectional")]));
    (image, some(&CONTEXT_FIELDS, 6), signal, propagation, any::<bool>()).prop_map(
        |(image, context, signal, propagation, token)| {
            let mut container = json!({"name": "c", "image": image, "securityContext": context});
            if let Some(signal) = signal {
                container["lifecycle"] = json!({"stopSignal": signal});
            }
            if let Some(mode) = propagation {
                container["volumeMounts"] =
                    json!([{"name": "v", "mountPath": "/v", "readOnly": token, "mountPropagation": mode}]);
            }
            container.as_object().cloned().unwrap_or_default()
        },
    )
}

/// Fields that indicate the operating system, and fields that keep Mullion from placing the pod.
fn placement() -> impl Strategy<Value = Map<String, Value>> {
    let selectors = [
        json!({"kubernetes.io/os": "windows"}),
        json!({"kubernetes.io/os": "linux"}),
        json!({"beta.kubernetes.io/os": "windows"}),
        json!({"disk": "ssd"}),
        Value::Null,
        json!([]),
    ];
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]}]}}});
    (
        prop::option::weighted(0.4, one_of(selectors)),
        prop::option::weighted(
            0.2,
            one_of([json!({"name": "windows"}), json!({"name": "linux"}), json!({}), Value::Null]),
        ),
        prop::option::weighted(0.2, Just(affinity)),
        prop::option::weighted(0.1, one_of([json!("w2022"), json!("l1"), json!("unknown")])),
        prop::option::weighted(0.1, one_of([json!([{"operator": "Exists"}])])),
    )
        .prop_map(|(selector, os, affinity, node, tolerations)| {
            let members = [
                ("nodeSelector", selector),
                ("os", os),
                ("affinity", affinity),
                ("nodeName", node),
                ("tolerations", tolerations),
            ];
            members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
        })
}

fn annotations() -> impl Strategy<Value = Map<String, Value>> {
    let one = prop::sample::select(vec![
        ("mullion.dev/os", "windows"),
        ("mullion.dev/os", "windows"),
        ("mullion.dev/os", "linux"),
        ("mullion.dev/os", "any"),
        ("mullion.dev/allow", "MUL2"),
        ("mullion.dev/ignore", "true"),
        ("openshift.io/scc", "restricted-v2"),
        (APP_ARMOR, "runtime/default"),
        (APP_ARMOR, "localhost/shop"),
        (APP_ARMOR, "unconfined"),
        ("seccomp.security.alpha.kubernetes.io/pod", "runtime/default"),
        ("container.seccomp.security.alpha.kubernetes.io/c", "localhost/p"),
        (
            "mullion.dev/decision",
            r#"{"os":"windows","basis":"intent","because":"x","placed":["os","nodeSelector"],"containers":["c"]}"#,
        ),
        ("mullion.dev/decision", r#"{"os":"linux","basis":"default","because":"x","placed":[],"containers":[]}"#),
    ]);
    prop::collection::vec(one, 0..4)
        .prop_map(|all| all.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect())
}

fn spec() -> impl Strategy<Value = Value> {
    (
        some(&POD_FIELDS, 5),
        some(&CONTEXT_FIELDS, 6),
        placement(),
        prop::collection::vec(container(), 1..3),
        prop::collection::vec(container(), 0..2),
    )
        .prop_map(|(mut spec, context, placement, containers, init)| {
            spec.extend(placement);
            spec.insert("securityContext".to_owned(), Value::Object(context));
            spec.insert("containers".to_owned(), json!(containers));
            spec.insert("initContainers".to_owned(), json!(init));
            Value::Object(spec)
        })
}

fn any_object() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec!["Pod", "Pod", "Pod", "Deployment", "DaemonSet", "Job", "CronJob"]);
    let owners = prop::sample::select(vec!["", "", "ReplicaSet", "DaemonSet", "Job"]);
    (kinds, owners, annotations(), spec()).prop_map(|(kind, owner, annotations, spec)| {
        if kind == "Pod" {
            let mut object = if owner.is_empty() { pod(spec) } else { owned_by(pod(spec), owner) };
            object["metadata"]["annotations"] = Value::Object(annotations);
            return object;
        }
        let mut object = workload(kind, spec);
        let at = if kind == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
        object.pointer_mut(at).unwrap()["metadata"]["annotations"] = Value::Object(annotations);
        object
    })
}

fn any_namespace() -> impl Strategy<Value = Namespace> {
    let annotation = prop::sample::select(vec![
        ("scheduler.alpha.kubernetes.io/node-selector", "kubernetes.io/os=linux"),
        ("scheduler.alpha.kubernetes.io/node-selector", "kubernetes.io/os=windows"),
        ("openshift.io/node-selector", "kubernetes.io/os=linux"),
        ("openshift.io/node-selector", "disk=ssd"),
        ("openshift.io/sa.scc.uid-range", "1000650000/10000"),
        ("openshift.io/sa.scc.mcs", "s0:c26,c5"),
        ("scheduler.alpha.kubernetes.io/tolerationsWhitelist", "[]"),
        ("mullion.dev/os", "windows"),
        ("mullion.dev/os", "linux"),
    ]);
    let label = prop::sample::select(vec![
        ("pod-security.kubernetes.io/enforce", "restricted"),
        ("pod-security.kubernetes.io/enforce", "baseline"),
        ("pod-security.kubernetes.io/enforce-version", "v1.24"),
        ("team", "web"),
    ]);
    let owned =
        |all: Vec<(&str, &str)>| all.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    (prop::collection::vec(annotation, 0..3), prop::collection::vec(label, 0..3))
        .prop_map(move |(annotations, labels)| Namespace::new(owned(labels), &owned(annotations)))
}

fn any_policy() -> impl Strategy<Value = PolicySet> {
    let choice = |values: &[&'static str]| prop::sample::select(values.to_vec());
    // There is no repair for some rules.
    let names = |repairs: bool| {
        let codes = catalogue().filter(|rule| !repairs || rule.repair).map(|rule| rule.code);
        prop::sample::select(codes.chain(["MUL", "MUL2", "MUL3"]).collect::<Vec<_>>())
    };
    let action = prop_oneof![
        names(true).prop_map(|rule| format!("{{rule: {rule}, action: Repair}}")),
        (names(false), choice(&["Allow", "Warn", "Deny"]))
            .prop_map(|(rule, action)| format!("{{rule: {rule}, action: {action}}}")),
    ];
    (
        choice(&["Add", "Add", "Never"]),
        choice(&["WhenClean", "WhenClean", "Never"]),
        choice(&["Learn", "Listed", "Never"]),
        choice(&["PerRelease", "Never"]),
        choice(&["Compatible", "Exact", "Never"]),
        choice(&["Deny", "Warn"]),
        choice(&["", ", translate: [run-as-user]"]),
        prop::option::of(action),
        choice(&["", "optOut: {ignore: Pods, allow: [MUL]}, "]),
    )
        .prop_map(|(selector, os, tolerations, class, build, denials, translate, actions, opt_out)| {
            policy(&format!(
                "{opt_out}place: {{nodeSelector: {{mode: {selector}}}, specOS: {{mode: {os}}}, \
                 tolerations: {{mode: {tolerations}}}, runtimeClass: {{mode: {class}}}, build: {{mode: {build}}}}}, \
                 rules: {{denials: {denials}{translate}, actions: [{}]}}",
                actions.unwrap_or_default()
            ))
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_field_leaves_a_pod_that_may_run_on_linux(
        object in any_object(),
        namespace in any_namespace(),
        policies in any_policy(),
    ) {
        let outcome = create_in(&object, &snapshot_with(namespace), &policies);
        prop_assert_eq!(lost_field(&object, &outcome.stored), None, "{:#}", outcome.stored);
    }

    #[test]
    fn no_field_leaves_an_updated_template_whose_pods_may_run_on_linux(
        (old, new) in (spec(), spec()),
        (before, after) in (annotations(), annotations()),
        namespace in any_namespace(),
        policies in any_policy(),
    ) {
        let daemon_set = |spec, annotations| {
            let mut object = workload("DaemonSet", spec);
            object["metadata"]["annotations"] = Value::Object(annotations);
            object
        };
        let (old, new) = (daemon_set(old, before), daemon_set(new, after));
        let update = mullion_engine::model::Operation::Update;
        let outcome = outcome(update, &new, Some(&old), &snapshot_with(namespace), &policies);
        prop_assert_eq!(lost_field(&new, &outcome.stored), None, "{:#}", outcome.stored);
    }
}

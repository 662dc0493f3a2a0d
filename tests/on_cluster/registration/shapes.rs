//! Pods and templates of every shape that a match condition reads: each part alone or many together, absent, null,
//! empty and malicious.

use serde_json::{Value, json};

use crate::generator::Random;

/// The possible values of one part of an object; `Null` leaves it out.
type Variants = (&'static str, Vec<Value>);

fn parts() -> Vec<Variants> {
    let selector = |key: &str, value: &str| json!({key: value});
    let term = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let bare = |key: &str, operator: &str| json!({"matchExpressions": [{"key": key, "operator": operator}]});
    let os = "kubernetes.io/os";
    let fields = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["win2022"]}]});
    let options = |inner: Value| json!({"windowsOptions": inner});
    let contexts = vec![
        Value::Null,
        json!({}),
        options(Value::Null),
        options(json!({})),
        options(json!({"runAsUserName": "ContainerUser"})),
        options(json!({"gmsaCredentialSpecName": "spec"})),
        options(json!({"hostProcess": true})),
        options(json!({"hostProcess": false})),
        options(json!({"hostProcess": null})),
    ];
    let hostile = [
        "it's",
        "\"",
        "//",
        "\\",
        "\u{0}",
        "/*",
        "}",
        "",
        "ключ",
        "a/b/c",
        "mullion.dev",
        "mullion.dev.example.com/os",
    ];
    let hostile_map: serde_json::Map<String, Value> =
        hostile.iter().map(|key| ((*key).to_owned(), json!(*key))).collect();
    // The longest lists over which the conditions loop, and the shortest over which they do not.
    let linux_beside = |others: usize| {
        let mut all = numbered(others);
        all[os] = json!("linux");
        all
    };
    let init = |count: usize, context: &Value| {
        let all = (0..count).map(|at| json!({"name": format!("i{at}"), "image": "i", "securityContext": context}));
        Value::Array(all.collect())
    };
    let windows = || term(os, "In", &["windows"]);
    let terms = |count: usize| required(Value::Array(vec![windows(); count]));
    let expressions = |count: usize| {
        let all = vec![windows()["matchExpressions"][0].clone(); count];
        required(json!([{"matchExpressions": all}]))
    };
    let values = |key: &str, count: usize| required(json!([term(key, "In", &vec!["windows"; count])]));
    let owner = |api: &str, kind: &str, controller: Value| json!([{"apiVersion": api, "kind": kind, "name": "o", "uid": "u", "controller": controller}]);
    let among_others = |kind: &str, others: usize| {
        let mut all = secrets(others);
        all.push(owner("apps/v1", kind, json!(true))[0].clone());
        Value::Array(all)
    };
    vec![
        (
            "/spec/nodeSelector",
            vec![
                Value::Null,
                Value::Null,
                json!({}),
                selector(os, "linux"),
                selector(os, "linux"),
                selector(os, "linux"),
                selector(os, "windows"),
                selector("beta.kubernetes.io/os", "windows"),
                selector("beta.kubernetes.io/os", "linux"),
                selector(os, ""),
                json!({os: null}),
                selector(os, "Linux"),
                json!({os: "linux", "node.kubernetes.io/windows-build": "10.0.20348"}),
                selector("node.kubernetes.io/windows-build", ""),
                json!({os: "linux", "kubernetes.azure.com/os-sku": "Ubuntu"}),
                selector("kubernetes.azure.com/os-sku", "Windows2022"),
                selector("cloud.google.com/gke-os-distribution", "windows_ltsc"),
                selector("cloud.google.com/gke-os-distribution", "cos"),
                selector("cloud.google.com/gke-windows-os-version", "2019"),
                selector("node.openshift.io/os_id", "Windows"),
                json!({os: "linux", "beta.kubernetes.io/os": "windows"}),
                Value::Object(hostile_map.clone()),
                linux_beside(99),
                linux_beside(100),
            ],
        ),
        (
            "/spec/os",
            vec![
                Value::Null,
                Value::Null,
                Value::Null,
                json!({}),
                json!({"name": "linux"}),
                json!({"name": "windows"}),
                json!({"name": "Windows"}),
            ],
        ),
        (
            "/spec/affinity",
            vec![
                Value::Null,
                Value::Null,
                Value::Null,
                json!({}),
                json!({"nodeAffinity": {}}),
                json!({"nodeAffinity": null}),
                json!({"podAffinity": {}}),
                required(Value::Null),
                required(json!([])),
                required(json!([{}])),
                required(json!([{"matchExpressions": []}])),
                required(json!([{"matchExpressions": null, "matchFields": null}])),
                required(json!([term(os, "In", &["windows"])])),
                required(json!([term(os, "In", &["windows", "linux"])])),
                required(json!([term(os, "In", &[])])),
                required(json!([term(os, "In", &["linux"])])),
                required(json!([term(os, "NotIn", &["linux"])])),
                required(json!([term(os, "NotIn", &["windows"])])),
                required(json!([bare(os, "Exists")])),
                required(json!([bare("node.kubernetes.io/windows-build", "Exists")])),
                required(json!([bare("node.kubernetes.io/windows-build", "DoesNotExist")])),
                required(json!([term("node.kubernetes.io/windows-build", "NotIn", &["10.0.17763"])])),
                required(json!([term("node.kubernetes.io/windows-build", "Gt", &["1"])])),
                required(json!([term("kubernetes.azure.com/os-sku", "In", &["Windows2019", "WINDOWS2022"])])),
                required(json!([term("kubernetes.azure.com/os-sku", "In", &["Windows2019", "Ubuntu"])])),
                required(json!([term("node.openshift.io/os_id", "In", &[])])),
                required(json!([term(os, "In", &["windows"]), term(os, "In", &["linux"])])),
                required(json!([term(os, "In", &["windows"]), {}])),
                required(json!([term(os, "In", &["windows"]), fields])),
                required(json!([fields])),
                required(json!([{"matchExpressions": [{}]}])),
                required(json!([term(os, "in", &["windows"])])),
                terms(10),
                terms(11),
                expressions(10),
                expressions(11),
                values("kubernetes.azure.com/os-sku", 10),
                values("kubernetes.azure.com/os-sku", 11),
                values(os, 11),
            ],
        ),
        (
            "/spec/securityContext",
            contexts.iter().cloned().chain([Value::Null, Value::Null, Value::Null, Value::Null]).collect(),
        ),
        (
            "/spec/containers/0/securityContext",
            contexts.iter().cloned().chain([Value::Null, Value::Null, Value::Null, Value::Null]).collect(),
        ),
        (
            "/spec/initContainers",
            vec![
                Value::Null,
                Value::Null,
                Value::Null,
                json!([]),
                json!([{"name": "i", "image": "i"}]),
                json!([{"name": "i", "image": "i", "securityContext": options(json!({"runAsUserName": "ContainerAdministrator"}))}]),
                json!([{"name": "i", "image": "i", "securityContext": options(json!({"hostProcess": true}))}]),
                json!([{}]),
                // With the one container of the pod.
                init(99, &Value::Null),
                init(100, &Value::Null),
                init(99, &options(json!({"runAsUserName": "ContainerUser"}))),
                init(100, &options(json!({"runAsUserName": "ContainerUser"}))),
                init(100, &options(json!({"hostProcess": true}))),
            ],
        ),
        (
            "/spec/runtimeClassName",
            vec![Value::Null, Value::Null, Value::Null, json!("mullion-windows-ltsc2022"), json!("other")],
        ),
        (
            "/spec/priorityClassName",
            vec![Value::Null, Value::Null, Value::Null, json!("system-node-critical"), json!("")],
        ),
        (
            "/metadata/annotations",
            vec![
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                json!({}),
                json!({"mullion.dev/os": "windows"}),
                json!({"mullion.dev/os": "any"}),
                json!({"mullion.dev/os": ""}),
                json!({"mullion.dev/os": null}),
                json!({"mullion.dev/decision": "{\"os\":\"windows\",\"basis\":\"intent\",\"because\":\"x\",\"placed\":[]}"}),
                json!({"mullion.dev/decision": "{\"os\":\"linux\",\"basis\":\"default\",\"because\":\"windows\",\"placed\":[]}"}),
                json!({"mullion.dev/decision": "{\"os\":\"linux\",\"basis\":\"default\",\"placed\":[\"nodeSelector\"]}"}),
                json!({"mullion.dev/decision": "{\"os\":\"linux\",\"basis\":\"default\",\"placed\":[\"nodeSelector\"]}",
                    "mullion.dev/allow": "run-as-user"}),
                json!({"mullion.dev/decision": "{"}),
                json!({"mullion.dev/probe": "a"}),
                json!({"kubernetes.io/config.mirror": "x"}),
                json!({"example.com/os": "windows"}),
                json!({"a": "mullion.dev/"}),
                Value::Object(hostile_map),
                numbered(100),
                numbered(101),
            ],
        ),
        (
            "/metadata/labels",
            vec![Value::Null, Value::Null, json!({"mullion.dev/findings": "MUL201", "kubernetes.io/os": "windows"})],
        ),
        (
            "/metadata/ownerReferences",
            vec![
                Value::Null,
                Value::Null,
                Value::Null,
                json!([]),
                owner("apps/v1", "DaemonSet", json!(true)),
                owner("apps/v1", "DaemonSet", json!(false)),
                owner("apps/v1", "ReplicaSet", json!(true)),
                owner("apps/v1", "DaemonSet", Value::Null),
                owner("apps/v1", "Deployment", json!(true)),
                owner("apps/v2", "Deployment", json!(true)),
                owner("example.com/v1", "Deployment", json!(true)),
                owner("batch/v1", "CronJob", json!(true)),
                owner("v1", "ReplicationController", json!(true)),
                owner("v1", "Node", json!(true)),
                among_others("DaemonSet", 99),
                among_others("DaemonSet", 100),
                among_others("Deployment", 99),
                among_others("Deployment", 100),
            ],
        ),
        (
            "/spec/tolerations",
            vec![Value::Null, json!([]), json!([{"operator": "Exists"}]), json!([{"key": "os", "value": "windows"}])],
        ),
        ("/spec/volumes", vec![Value::Null, Value::Null, json!([]), json!([{"name": "v", "emptyDir": {}}])]),
    ]
}

/// Every variant of every part alone on a pod without an operating system and on one that is explicitly Linux, then `count`
/// mixtures, then pods without a container.
pub fn pods(seed: u64, count: usize) -> Vec<Value> {
    let parts = parts();
    let plain = || {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "registry.example.com/app:1"}]}})
    };
    let mut all = Vec::new();
    for (place, variants) in &parts {
        for variant in variants {
            for explicit in [false, true] {
                let mut pod = plain();
                if explicit {
                    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
                }
                put(&mut pod, place, variant);
                all.push(pod);
            }
        }
    }
    let mut random = Random(seed);
    for _ in 0..count {
        let mut pod = plain();
        for (place, variants) in &parts {
            // Half of the parts, because combinations reveal less about each.
            if random.below(2) == 0 {
                put(&mut pod, place, &variants[random.below(variants.len())]);
            }
        }
        all.push(pod);
    }
    for containers in [Value::Null, json!([]), json!([null]), json!([{}])] {
        let mut pod = plain();
        pod["spec"]["containers"] = containers;
        all.push(pod.clone());
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
        all.push(pod);
    }
    let mut bare = plain();
    bare["spec"] = json!({});
    all.push(bare.clone());
    bare["spec"] = Value::Null;
    all.push(bare);
    all
}

fn put(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    if !value.is_null() {
        object.pointer_mut(parent).unwrap()[last] = value.clone();
    }
}

pub const KINDS: [&str; 8] =
    ["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "CronJob", "ReplicationController", "PodTemplate"];

/// An object of a kind around the pod as its template; the pod's owners are the object's.
pub fn around(kind: &str, pod: &Value) -> Value {
    let mut metadata = pod["metadata"].as_object().unwrap().clone();
    metadata.remove("name");
    let owners = metadata.remove("ownerReferences").unwrap_or_default();
    metadata.entry("labels").or_insert_with(|| json!({}))["app"] = json!("a");
    let mut spec = pod["spec"].clone();
    if ["Job", "CronJob"].contains(&kind) && spec.is_object() {
        spec["restartPolicy"] = json!("Never");
    }
    let template = json!({"metadata": metadata, "spec": spec});
    let selector = json!({"matchLabels": {"app": "a"}});
    let api = match kind {
        "Job" | "CronJob" => "batch/v1",
        "ReplicationController" | "PodTemplate" => "v1",
        _ => "apps/v1",
    };
    let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "p", "ownerReferences": owners}});
    match kind {
        "PodTemplate" => object["template"] = template,
        "CronJob" => object["spec"] = json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}),
        "Job" => object["spec"] = json!({"template": template}),
        "ReplicationController" => object["spec"] = json!({"selector": {"app": "a"}, "template": template}),
        "StatefulSet" => object["spec"] = json!({"serviceName": "s", "selector": selector, "template": template}),
        _ => object["spec"] = json!({"selector": selector, "template": template}),
    }
    object
}

/// A node affinity that requires these terms.
fn required(terms: Value) -> Value {
    let mut affinity = json!({"nodeAffinity": {}});
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = terms;
    affinity
}

/// A map with that many keys, none of which means anything.
fn numbered(count: usize) -> Value {
    Value::Object((0..count).map(|at| (format!("k{at:x}"), json!(""))).collect())
}

/// That many owner references, none of which is a controller.
fn secrets(count: usize) -> Vec<Value> {
    let owners =
        (0..count).map(|at| json!({"apiVersion": "v1", "kind": "Secret", "name": "o", "uid": format!("u{at:x}")}));
    owners.collect()
}

/// The length of a list that a loop must not run over: one over 20,000 labels, which are 200 KB, took 2.4 seconds.
const LONG: usize = 20_000;

/// Pods that are large, each in another list that a condition reads: without an operating system, explicitly Linux, and
/// for Windows by the last field that an expression reads.
pub fn large() -> Vec<(String, Value)> {
    let pod = |containers: Vec<Value>| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"},
            "spec": {"automountServiceAccountToken": false, "containers": containers}})
    };
    let one = || pod(vec![json!({"name": "c", "image": "i"})]);
    // etcd accepts 1.5 MiB.
    let filler = json!([{"name": "A", "value": "x".repeat(2_700)}]);
    let heavy = (0..500).map(
        |at| json!({"name": format!("c{at}"), "image": "i", "env": filler, "securityContext": {"runAsNonRoot": true}}),
    );
    let many = (0..LONG / 4).map(|at| json!({"name": format!("c{at}"), "image": "i"}));
    let with = |place: &str, value: Value| {
        let mut pod = one();
        put(&mut pod, place, &value);
        pod
    };
    let with_terms = |terms: Vec<Value>| with("/spec/affinity", required(Value::Array(terms)));
    let expression =
        |key: &str, values: usize| json!({"key": key, "operator": "In", "values": vec!["windows"; values]});
    let os = "kubernetes.io/os";
    let ways = [
        ("containers of 1.4 MB", pod(heavy.collect())),
        ("5,000 containers", pod(many.collect())),
        ("20,000 labels", with("/spec/nodeSelector", numbered(LONG))),
        ("20,000 terms", with_terms(vec![json!({"matchExpressions": [expression(os, 1)]}); LONG])),
        ("20,000 expressions", with_terms(vec![json!({"matchExpressions": vec![expression(os, 1); LONG]})])),
        ("20,000 values", with_terms(vec![json!({"matchExpressions": [expression("node.openshift.io/os_id", LONG)]})])),
        ("20,000 annotations", with("/metadata/annotations", numbered(LONG))),
        ("10,000 owners", with("/metadata/ownerReferences", Value::Array(secrets(LONG / 2)))),
    ];
    let mut all = Vec::new();
    for (what, plain) in ways {
        let mut explicit = plain.clone();
        explicit["spec"]["nodeSelector"]["kubernetes.io/os"] = json!("linux");
        let mut windows = plain.clone();
        windows["metadata"]["annotations"]["mullion.dev/os"] = json!("windows");
        all.extend([
            (what.to_owned(), plain),
            (format!("{what}, explicitly Linux"), explicit),
            (format!("{what}, for Windows"), windows),
        ]);
    }
    all
}

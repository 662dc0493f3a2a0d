//! Shapes in which one function reads several lists together, or repeats something for each item of a list.

use serde_json::{Value, json};

use crate::growth::collections::WINDOWS_IMAGE;

/// Terms of the required node affinity.
const TERMS: [&str; 4] =
    ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];

/// A shape, its pod of that size, and the pod before an UPDATE if that differs.
pub struct Pair {
    pub name: &'static str,
    pub pod: fn(usize) -> Value,
    pub old: Option<fn(usize) -> Value>,
}

const fn pair(name: &'static str, pod: fn(usize) -> Value) -> Pair {
    Pair { name, pod, old: None }
}

const fn update(name: &'static str, pod: fn(usize) -> Value, old: fn(usize) -> Value) -> Pair {
    Pair { name, pod, old: Some(old) }
}

pub const PAIRS: [Pair; 37] = [
    pair("privileged: false in each container", |n| contexts(n, json!({"privileged": false}))),
    pair("runAsUser in each container", |n| contexts(n, json!({"runAsUser": 1000}))),
    pair("three denied fields in each container", |n| {
        contexts(n, json!({"privileged": true, "procMount": "Unmasked", "capabilities": {"add": ["SYS_ADMIN"]}}))
    }),
    pair("three repaired fields in each container", |n| {
        contexts(n, json!({"runAsGroup": 1, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false}))
    }),
    pair("a field that the kubelet rejects in each container", |n| {
        contexts(n, json!({"appArmorProfile": {"type": "RuntimeDefault"}}))
    }),
    pair("forbidden fields beside spec.os", |n| {
        let mut pod = contexts(n, json!({"runAsUser": 1, "runAsGroup": 1, "seLinuxOptions": {"level": "s0"}}));
        pod["spec"]["os"] = json!({"name": "windows"});
        pod
    }),
    pair("privileged in each container of a HostProcess pod", |n| {
        let mut pod = contexts(n, json!({"privileged": true, "runAsNonRoot": true}));
        pod["spec"]["securityContext"] = json!({"windowsOptions": {"hostProcess": true}});
        pod
    }),
    pair("one HostProcess container, the last", |n| {
        let mut pod = contexts(n, json!({"privileged": true}));
        pod["spec"]["containers"][n - 1]["securityContext"] = json!({"windowsOptions": {"hostProcess": true}});
        pod
    }),
    pair("a long user name, HostProcess containers that inherit it", |n| {
        let mut pod = containers(n, |_| json!({}));
        let options = json!({"hostProcess": true, "runAsUserName": "a".repeat(40 * n)});
        pod["spec"]["securityContext"] = json!({"windowsOptions": options, "runAsNonRoot": true});
        pod
    }),
    pair("user names that are invalid", |n| {
        contexts(n, json!({"windowsOptions": {"runAsUserName": "CONTOSO/web:a", "gmsaCredentialSpec": ""}}))
    }),
    pair("windowsOptions in each container of a Linux pod", |n| {
        let mut pod = contexts(n, json!({"windowsOptions": {"runAsUserName": "a"}}));
        pod["spec"]["os"] = json!({"name": "linux"});
        pod
    }),
    pair("AppArmor annotations, containers", |n| {
        let mut pod = containers(n, |_| json!({}));
        for at in 0..n {
            let key = format!("container.apparmor.security.beta.kubernetes.io/c{at}");
            pod["metadata"]["annotations"][key] = "runtime/default".into();
        }
        pod
    }),
    pair("exemptions, findings", |n| {
        let mut pod = contexts(n, json!({"privileged": true}));
        let words: Vec<String> = (0..n).map(|at| format!("rule-number-{at}")).collect();
        pod["metadata"]["annotations"]["mullion.dev/allow"] = words.join(",").into();
        pod
    }),
    pair("volumes, mounts in one container", |n| {
        let mut pod = containers(1, |_| json!({}));
        pod["spec"]["volumes"] = items(n, |at| json!({"name": format!("v{at}"), "hostPath": {"path": "/run/a.sock"}}));
        pod["spec"]["containers"][0]["volumeMounts"] = items(
            n,
            |at| json!({"name": format!("v{at}"), "mountPath": format!("/{at}"), "mountPropagation": "Bidirectional"}),
        );
        pod
    }),
    pair("private modes of items in a volume", |n| {
        let mut pod = containers(1, |_| json!({"volumeMounts": [{"name": "v"}]}));
        let parts = items(n, |at| json!({"secret": {"items": [{"path": format!("p{at}"), "mode": 256}]}}));
        pod["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": parts}}]);
        pod
    }),
    pair("devices, claims, small limits in each container", |n| {
        containers(n, |_| {
            json!({"volumeDevices": [{"name": "a"}], "resources": {"claims": [{"name": "a"}],
            "limits": {"memory": "1Mi", "cpu": "1m", "hugepages-2Mi": "1Gi"}}})
        })
    }),
    pair("Linux containers of injectors", |n| {
        let mut pod =
            containers(n, |_| json!({"securityContext": {"privileged": true}, "image": "docker.io/istio/proxyv2:1"}));
        pod["spec"]["initContainers"] = json!([{"name": "web", "image": WINDOWS_IMAGE}]);
        pod
    }),
    pair("Linux images beside a Windows image", |n| {
        let mut pod = containers(n, |at| json!({"image": format!("registry.example.com/shop/web:{at}-linux")}));
        pod["spec"]["initContainers"] = json!([{"name": "web", "image": WINDOWS_IMAGE}]);
        pod
    }),
    pair("images of both releases", |n| {
        containers(n, |at| json!({"image": format!("a/b{at}:{}", ["windows-ltsc2019", "windows-ltsc2022"][at % 2])}))
    }),
    pair("images of a release without support", |n| {
        containers(n, |at| json!({"image": format!("a/b{at}:windows-ltsc2016")}))
    }),
    pair("images of many builds, ascending", |n| containers(n, |at| base_image(20_349 + at % 79_000))),
    pair("images of many builds, descending", |n| containers(n, |at| base_image(99_999 - at % 79_000))),
    pair("images of many builds without a common one", |n| containers(n, |at| base_image(14_393 + at % 85_000))),
    pair("images with floating tags", |n| {
        containers(n, |_| json!({"image": "mcr.microsoft.com/windows/servercore:latest"}))
    }),
    pair("images of many builds, affinity terms", |n| {
        let mut pod = containers(n, |at| base_image(20_349 + at % 79_000));
        pod["spec"]["affinity"] = affinity(items(n, |at| json!({"matchFields": [{"key": format!("f{at}")}]})));
        pod
    }),
    pair("affinity terms for hosts", |n| {
        windows_with(json!({"affinity": affinity(items(n, |at| json!({"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [format!("absent-{at}")]}]})))}))
    }),
    pair("hosts in one affinity term", |n| {
        let hosts = items(n, |at| format!("absent-{at}").into());
        windows_with(json!({"affinity": affinity(json!([{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}]}]))}))
    }),
    pair("affinity terms that name another system", |n| {
        windows_with(json!({"affinity": affinity(items(n, |_| json!({"matchExpressions": [
        {"key": "beta.kubernetes.io/os", "operator": "In", "values": ["plan9"]}]})))}))
    }),
    pair("node selector", |n| {
        let pairs: serde_json::Map<_, _> = (0..n).map(|at| (format!("example.com/k{at}"), "v".into())).collect();
        windows_with(json!({"nodeSelector": pairs}))
    }),
    pair("tolerations", |n| windows_with(json!({"tolerations": tolerations(n, "a")}))),
    pair("empty tolerations", |n| windows_with(json!({"tolerations": vec![json!({}); n]}))),
    pair("empty containers", |n| windows_with(json!({"initContainers": vec![json!({}); n]}))),
    update(
        "tolerations that a DaemonSet update replaces",
        |n| windows_with(json!({"tolerations": tolerations(n, "b")})),
        placed,
    ),
    update("tolerations that a DaemonSet update drops", |_| windows_with(json!({})), placed),
    update(
        "tolerations of a DaemonSet that becomes a Linux one",
        |n| {
            let mut pod = windows_with(
                json!({"tolerations": tolerations(n, "a"), "nodeSelector": {"kubernetes.io/os": "linux"}}),
            );
            pod["spec"]["containers"][0]["image"] = "registry.example.com/web:1-linux".into();
            pod
        },
        placed,
    ),
    update("ephemeral containers, old and new", |n| ephemeral(n, "new"), |n| ephemeral(n, "old")),
    update("ephemeral containers, all new", |n| ephemeral(n, "new"), |_| ephemeral(0, "old")),
];

fn items(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

/// A Windows pod with these members of its spec.
fn windows_with(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    pod["spec"]["containers"] = json!([{"name": "web", "image": WINDOWS_IMAGE}]);
    pod
}

/// A Windows pod with containers that have these members.
fn containers(count: usize, members: impl Fn(usize) -> Value) -> Value {
    let container = |at: usize| {
        let mut container = members(at);
        container["name"] = format!("c{at}").into();
        if container["image"].is_null() {
            container["image"] = WINDOWS_IMAGE.into();
        }
        container
    };
    let mut pod = windows_with(json!({}));
    pod["spec"]["containers"] = items(count, container);
    pod
}

fn contexts(count: usize, context: Value) -> Value {
    containers(count, |_| json!({"securityContext": context}))
}

/// A base image of that build: any number is a valid build.
fn base_image(build: usize) -> Value {
    json!({"image": format!("mcr.microsoft.com/windows/nanoserver:10.0.{build}.1")})
}

fn affinity(terms: Value) -> Value {
    TERMS.iter().skip(1).rev().fold(terms, |value, field| json!({ *field: value }))
}

fn tolerations(count: usize, prefix: &str) -> Value {
    items(count, |at| json!({"key": format!("{prefix}{at}"), "operator": "Exists", "effect": "NoSchedule"}))
}

/// A pod template with tolerations that the decision annotation lists: as many as an annotation may contain.
fn placed(count: usize) -> Value {
    let mut pod =
        windows_with(json!({"tolerations": tolerations(count, "a"), "nodeSelector": {"kubernetes.io/os": "windows"}}));
    let tolerated = (0..count.min(1_500)).map(|at| format!("toleration a{at}:NoSchedule"));
    let words: Vec<String> = std::iter::once("nodeSelector".to_owned()).chain(tolerated).collect();
    let annotation = json!({"os": "windows", "basis": "intent", "because": "image", "placed": words});
    pod["metadata"]["annotations"] = json!({"mullion.dev/decision": annotation.to_string()});
    pod
}

fn ephemeral(count: usize, prefix: &str) -> Value {
    windows_with(json!({"ephemeralContainers": items(count, |at| {
        json!({"name": format!("{prefix}{at}"), "image": "registry.example.com/debug:1-linux", "securityContext": {"privileged": true}})
    })}))
}

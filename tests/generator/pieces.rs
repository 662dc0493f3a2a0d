//! The pieces of generated pods: one field with one value each.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::names;

/// A field with a value, and everything else that the value needs to be valid.
#[derive(Debug, Clone)]
pub struct Piece {
    pub what: String,
    /// Pointers into a Pod and their values; `-` at the end of one appends. The field itself comes first.
    pub sets: Vec<(String, Value)>,
    /// Whether it is alone only on the Windows bases: for values that differ only in their syntax.
    pub windows_only: bool,
}

const SPEC: &str = "/spec";
const POD: &str = "/spec/securityContext";
const CONTAINER: &str = "/spec/containers/0";
const INIT: &str = "/spec/initContainers/0";

impl Piece {
    fn new(pointer: impl Into<String>, value: Value) -> Self {
        let pointer = pointer.into();
        let mut text = value.to_string();
        if let Some((cut, _)) = text.char_indices().nth(60) {
            text.truncate(cut);
        }
        Self { what: format!("{pointer} = {text}"), sets: vec![(pointer, value)], windows_only: false }
    }

    fn with(mut self, pointer: impl Into<String>, value: Value) -> Self {
        self.sets.push((pointer.into(), value));
        self
    }

    fn only_windows(mut self) -> Self {
        self.windows_only = true;
        self
    }

    /// The same in the second container of its pod, if it is about the first.
    pub(super) fn in_second_container(&self) -> Self {
        let second = |text: &str| text.replacen(CONTAINER, "/spec/containers/1", 1);
        Self {
            what: second(&self.what),
            sets: self.sets.iter().map(|(pointer, value)| (second(pointer), value.clone())).collect(),
            ..self.clone()
        }
    }
}

/// All pieces.
pub fn pieces() -> Vec<Piece> {
    let mut all: Vec<Piece> = families().into_iter().flatten().collect();
    let mut seen = BTreeSet::new();
    all.retain(|piece| seen.insert(piece.what.clone()));
    all
}

/// The pieces by topic. Each family is chosen as often as the others, however many pieces it has.
pub fn families() -> Vec<Vec<Piece>> {
    vec![
        pod_level(),
        container_level(CONTAINER),
        container_level(INIT),
        security_on_both_levels(),
        fields_of_any_os(),
        volumes(),
        [fields_of_any_os(), volumes(), security_on_both_levels()].concat(),
        [pod_level(), windows_options(), host_process()].concat(),
    ]
}

/// Fields of the pod that `validateWindows` checks, and fields that depend on them.
fn pod_level() -> Vec<Piece> {
    let cases = [
        (POD, "seLinuxChangePolicy", vec![json!("MountOption"), json!("Recursive")]),
        (POD, "fsGroup", vec![json!(0), json!(2000)]),
        (POD, "fsGroupChangePolicy", vec![json!("OnRootMismatch"), json!("Always")]),
        (
            POD,
            "sysctls",
            vec![
                json!([]),
                json!([{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
                json!([{"name": "kernel.shm_rmid_forced", "value": "1"}]),
                json!([{"name": "kernel.msgmax", "value": "1"}]),
                json!([{"name": "net.core.somaxconn", "value": "1"}, {"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
            ],
        ),
        (POD, "supplementalGroups", vec![json!([]), json!([0]), json!([1, 2])]),
        (POD, "supplementalGroupsPolicy", vec![json!("Merge"), json!("Strict")]),
        (SPEC, "hostUsers", vec![json!(true), json!(false)]),
        (SPEC, "hostPID", vec![json!(true), json!(false)]),
        (SPEC, "hostIPC", vec![json!(true), json!(false)]),
        (SPEC, "hostNetwork", vec![json!(true), json!(false)]),
        (SPEC, "shareProcessNamespace", vec![json!(true), json!(false)]),
        (
            SPEC,
            "resources",
            vec![json!({}), json!({"limits": {"cpu": "1", "memory": "1Gi"}}), json!({"requests": {"memory": "1Gi"}})],
        ),
        (SPEC, "os", vec![json!({"name": "Windows"}), json!({"name": "darwin"}), json!({"name": ""}), json!({})]),
    ];
    let mut all = Vec::new();
    for (place, field, values) in cases {
        all.extend(values.into_iter().map(|value| Piece::new(format!("{place}/{field}"), value)));
    }
    all
}

/// Fields that `validateWindows` checks in containers only.
fn container_level(place: &str) -> Vec<Piece> {
    let cases = [
        (
            "capabilities",
            vec![
                json!({}),
                json!({"drop": ["ALL"]}),
                json!({"add": []}),
                json!({"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}),
                json!({"add": ["SYS_PTRACE"]}),
            ],
        ),
        ("readOnlyRootFilesystem", vec![json!(true), json!(false)]),
        ("privileged", vec![json!(true), json!(false)]),
        ("allowPrivilegeEscalation", vec![json!(true), json!(false)]),
        ("procMount", vec![json!("Default")]),
    ];
    let at = |field: &str| format!("{place}/securityContext/{field}");
    let mut all = Vec::new();
    for (field, values) in cases {
        all.extend(values.into_iter().map(|value| Piece::new(at(field), value)));
    }
    all.push(Piece::new(at("procMount"), json!("Unmasked")).with("/spec/hostUsers", json!(false)));
    for signal in ["SIGTERM", "SIGKILL", "SIGUSR1"] {
        all.push(Piece::new(format!("{place}/lifecycle/stopSignal"), json!(signal)));
    }
    if place == INIT {
        // Only sidecars may have a lifecycle.
        for piece in all.iter_mut().filter(|piece| piece.sets[0].0.contains("lifecycle")) {
            piece.sets.push((format!("{INIT}/restartPolicy"), json!("Always")));
        }
    }
    all
}

fn security_on_both_levels() -> Vec<Piece> {
    let cases = [
        (
            "appArmorProfile",
            vec![
                json!({"type": "RuntimeDefault"}),
                json!({"type": "Unconfined"}),
                json!({"type": "Localhost", "localhostProfile": "p"}),
            ],
        ),
        ("seLinuxOptions", vec![json!({}), json!({"level": "s0:c1,c2"})]),
        (
            "seccompProfile",
            vec![
                json!({"type": "RuntimeDefault"}),
                json!({"type": "Unconfined"}),
                json!({"type": "Localhost", "localhostProfile": "p.json"}),
            ],
        ),
        ("runAsUser", vec![json!(0), json!(1000)]),
        ("runAsGroup", vec![json!(0), json!(1000)]),
        ("runAsNonRoot", vec![json!(true), json!(false)]),
    ];
    let mut all = Vec::new();
    for place in [SPEC, CONTAINER, INIT] {
        for (field, values) in &cases {
            let piece = |value: &Value| Piece::new(format!("{place}/securityContext/{field}"), value.clone());
            all.extend(values.iter().map(piece));
        }
    }
    all
}

/// Fields that the API server accepts with any operating system.
fn fields_of_any_os() -> Vec<Piece> {
    let on_container = [
        ("terminationMessagePath", json!("/var/log/end")),
        ("terminationMessagePath", json!("C:\\end.log")),
        ("resources", json!({"limits": {"cpu": "1", "memory": "64Mi"}})),
        ("resources", json!({"requests": {"cpu": "100m"}})),
        ("resources", json!({"limits": {"hugepages-2Mi": "4Mi", "memory": "64Mi"}})),
        ("ports", json!([{"containerPort": 80}])),
        ("ports", json!([{"containerPort": 80, "hostPort": 8080}])),
        ("command", json!(["powershell", "-Command", "exit"])),
        ("command", json!(["/bin/sh", "-c", "true"])),
        ("workingDir", json!("C:\\app")),
        ("stdin", json!(true)),
        ("resizePolicy", json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}])),
        ("livenessProbe", json!({"exec": {"command": ["cmd", "/c", "exit"]}})),
        ("readinessProbe", json!({"httpGet": {"port": 80}})),
        ("lifecycle/preStop", json!({"exec": {"command": ["/bin/true"]}})),
        ("lifecycle/postStart", json!({"httpGet": {"port": 80}})),
        ("image", json!(super::LINUX_IMAGE)),
        ("image", json!(super::WINDOWS_IMAGE)),
        ("image", json!("registry.k8s.io/pause:3.10")),
        ("env", json!([{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}])),
    ];
    let on_pod = [
        ("dnsPolicy", json!("ClusterFirstWithHostNet")),
        ("dnsPolicy", json!("Default")),
        ("dnsConfig", json!({"searches": ["example.com"]})),
        ("terminationGracePeriodSeconds", json!(5)),
        ("hostAliases", json!([{"ip": "10.0.0.1", "hostnames": ["a"]}])),
        ("hostname", json!("h")),
        ("restartPolicy", json!("Never")),
        ("schedulerName", json!("other")),
        ("tolerations", json!([{"key": "spot", "operator": "Exists"}])),
        ("tolerations", json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}])),
        ("nodeSelector/disk", json!("ssd")),
        ("nodeSelector/agentpool", json!("win19")),
        ("nodeSelector/node.kubernetes.io~1windows-build", json!("10.0.20348")),
        ("schedulingGates", json!([{"name": "example.com/wait"}])),
        ("nodeName", json!("linux-1")),
        ("enableServiceLinks", json!(false)),
    ];
    let on_metadata = [
        ("labels/kubernetes.io~1os", json!("linux")),
        ("labels/kubernetes.io~1os", json!("windows")),
        ("annotations/mullion.dev~1os", json!("linux")),
        ("annotations/container.apparmor.security.beta.kubernetes.io~1c", json!("runtime/default")),
        ("annotations/container.apparmor.security.beta.kubernetes.io~1c", json!("unconfined")),
        ("annotations/container.apparmor.security.beta.kubernetes.io~1c", json!("localhost/p")),
        ("annotations/container.apparmor.security.beta.kubernetes.io~1i", json!("runtime/default")),
    ];
    let mut all: Vec<Piece> = Vec::new();
    all.extend(on_container.into_iter().map(|(field, value)| Piece::new(format!("{CONTAINER}/{field}"), value)));
    all.extend(on_pod.into_iter().map(|(field, value)| Piece::new(format!("{SPEC}/{field}"), value)));
    all.extend(on_metadata.into_iter().map(|(field, value)| Piece::new(format!("/metadata/{field}"), value)));
    all.push(Piece::new(format!("{INIT}/restartPolicy"), json!("Always")));
    all.push(
        Piece::new("/spec/resourceClaims", json!([{"name": "gpu", "resourceClaimName": "gpu"}]))
            .with(format!("{CONTAINER}/resources"), json!({"claims": [{"name": "gpu"}]})),
    );
    all
}

fn volumes() -> Vec<Piece> {
    let sources = [
        ("nfs", json!({"nfs": {"server": "nfs.example.com", "path": "/"}}), json!({})),
        ("memory", json!({"emptyDir": {"medium": "Memory"}}), json!({})),
        ("huge", json!({"emptyDir": {"medium": "HugePages"}}), json!({})),
        ("disk", json!({"emptyDir": {}}), json!({"readOnly": true})),
        ("sub", json!({"emptyDir": {"sizeLimit": "1Gi"}}), json!({"subPath": "a"})),
        ("linux-path", json!({"hostPath": {"path": "/var/log"}}), json!({"mountPropagation": "HostToContainer"})),
        (
            "shared-path",
            json!({"hostPath": {"path": "/mnt", "type": "Directory"}}),
            json!({"mountPropagation": "Bidirectional"}),
        ),
        ("socket", json!({"hostPath": {"path": "/run/containerd/containerd.sock", "type": "Socket"}}), json!({})),
        ("windows-path", json!({"hostPath": {"path": "C:\\logs", "type": ""}}), json!({"mountPropagation": "None"})),
        ("pipe", json!({"hostPath": {"path": "\\\\.\\pipe\\docker_engine"}}), json!({})),
        ("secret", json!({"secret": {"secretName": "s", "defaultMode": 256}}), json!({})),
        ("config", json!({"configMap": {"name": "c", "items": [{"key": "k", "path": "p", "mode": 420}]}}), json!({})),
        (
            "projected",
            json!({"projected": {"sources": [{"downwardAPI": {"items": [{"path": "n",
            "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}),
            json!({}),
        ),
        ("claim", json!({"persistentVolumeClaim": {"claimName": "data"}}), json!({})),
        ("image", json!({"image": {"reference": "registry.example.com/data:1"}}), json!({})),
        ("windows-image", json!({"image": {"reference": super::WINDOWS_IMAGE}}), json!({"readOnly": true})),
        ("linux-image", json!({"image": {"reference": super::LINUX_IMAGE}}), json!({"subPath": "a"})),
        ("options", json!({"emptyDir": {}}), json!({"bindMountOptions": ["noexec", "nosuid"]})),
        ("mode", json!({"emptyDir": {"mode": 448}}), json!({})),
        ("owner", json!({"secret": {"secretName": "s", "defaultUser": 1000}}), json!({})),
        ("item-owner", json!({"configMap": {"name": "c", "items": [{"key": "k", "path": "p", "user": 0}]}}), json!({})),
        (
            "projected-owners",
            json!({"projected": {"defaultUser": 1, "sources": [{"serviceAccountToken": {"path": "t", "user": 1000}},
                {"downwardAPI": {"items": [{"path": "n", "user": 2, "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}),
            json!({}),
        ),
    ];
    let mut all = Vec::new();
    for (name, mut volume, mut mount) in sources {
        volume["name"] = json!(name);
        mount["name"] = json!(name);
        mount["mountPath"] = json!(format!("/mnt/{name}"));
        let mut piece = Piece::new("/spec/volumes/-", volume).with(format!("{CONTAINER}/volumeMounts/-"), mount);
        if name == "shared-path" {
            piece = piece.with(format!("{CONTAINER}/securityContext/privileged"), json!(true));
        }
        all.push(piece);
    }
    let block = json!({"name": "block", "persistentVolumeClaim": {"claimName": "block"}});
    let template = json!({"name": "ephemeral-block", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "volumeMode": "Block", "resources": {"requests": {"storage": "1Gi"}}}}}});
    for volume in [block, template] {
        let device = json!({"name": volume["name"], "devicePath": format!("/dev/{}", volume["name"].as_str().unwrap_or_default())});
        all.push(Piece::new("/spec/volumes/-", volume).with(format!("{CONTAINER}/volumeDevices/-"), device));
    }
    all
}

/// `runAsUserName`, gMSA, and empty options.
fn windows_options() -> Vec<Piece> {
    let mut all = Vec::new();
    let options = |place: &str| format!("{place}/securityContext/windowsOptions");
    for (index, user) in names::users().into_iter().enumerate() {
        // On Windows bases only, except the first few; every third in a container, which has the same check.
        let place = [SPEC, CONTAINER, INIT][if index % 3 == 0 { index / 3 % 3 } else { 0 }];
        let piece = Piece::new(options(place) + "/runAsUserName", json!(user));
        all.push(if index < 2 { piece } else { piece.only_windows() });
    }
    for (index, name) in names::spec_names().into_iter().enumerate() {
        let place = [SPEC, CONTAINER][index % 2];
        all.push(Piece::new(options(place) + "/gmsaCredentialSpecName", json!(name)).only_windows());
    }
    for (index, (name, spec)) in names::specs().into_iter().enumerate() {
        let place = [CONTAINER, SPEC][index % 2];
        let mut piece = Piece::new(options(place) + "/gmsaCredentialSpec", json!(spec)).only_windows();
        piece.what = format!("{place} gmsaCredentialSpec {name}");
        all.push(piece);
    }
    for place in [SPEC, CONTAINER, INIT] {
        all.push(Piece::new(options(place), json!({})));
        all.push(Piece::new(
            options(place),
            json!({"runAsUserName": "ContainerUser", "gmsaCredentialSpecName": "web"}),
        ));
    }
    all.push(
        Piece::new(
            options(SPEC),
            json!({"runAsUserName": "", "gmsaCredentialSpecName": "Web", "gmsaCredentialSpec": ""}),
        )
        .with(options(CONTAINER), json!({"runAsUserName": "a@b"})),
    );
    all.push(
        Piece::new(options(SPEC), json!({"runAsUserName": "ContainerAdministrator"}))
            .with("/spec/securityContext/runAsNonRoot", json!(true)),
    );
    all
}

/// `hostProcess` of pod and containers, each true, false or unset, with and without `hostNetwork`.
fn host_process() -> Vec<Piece> {
    let values = [None, Some(true), Some(false)];
    let mut all = Vec::new();
    for pod in values {
        for container in values {
            for init in values {
                for network in [false, true] {
                    let given = [(SPEC, pod), (CONTAINER, container), (INIT, init)];
                    let sets: Vec<(String, Value)> = given
                        .into_iter()
                        .filter_map(|(place, value)| {
                            Some((format!("{place}/securityContext/windowsOptions/hostProcess"), json!(value?)))
                        })
                        .chain(network.then(|| ("/spec/hostNetwork".to_owned(), json!(true))))
                        .collect();
                    if sets.is_empty() {
                        continue;
                    }
                    let what =
                        format!("hostProcess pod {pod:?} container {container:?} init {init:?} network {network}");
                    // On the other bases windowsOptions are rejected, or make the pod a Windows pod: one of each is enough.
                    let windows_only = !(pod.is_some() && container.is_none() && init.is_none());
                    all.push(Piece { what, sets, windows_only });
                }
            }
        }
    }
    let hpc = |user: &str| {
        Piece::new("/spec/securityContext/windowsOptions/hostProcess", json!(true))
            .with("/spec/hostNetwork", json!(true))
            .with("/spec/securityContext/windowsOptions/runAsUserName", json!(user))
    };
    all.push(hpc("NT AUTHORITY\\SYSTEM"));
    all.push(hpc("NT AUTHORITY\\SYSTEM").with("/spec/securityContext/runAsNonRoot", json!(true)));
    all.push(hpc("NT AUTHORITY\\SYSTEM").with(format!("{CONTAINER}/securityContext/privileged"), json!(true)));
    all.push(hpc("NT AUTHORITY\\SYSTEM").with("/spec/hostPID", json!(true)).with("/spec/hostIPC", json!(true)));
    all.push(hpc("Administrators"));
    all.push(hpc("").with("/spec/hostNetwork", json!(false)));
    for (index, piece) in all.iter_mut().rev().take(6).enumerate() {
        piece.what += " (HostProcess ";
        piece.what += &index.to_string();
        piece.what += ")";
    }
    all
}

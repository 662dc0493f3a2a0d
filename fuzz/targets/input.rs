//! Structured inputs: objects, namespaces and policies, built from the bytes of an input. After its end every byte is
//! 0.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use mullion_engine::model::cluster::{ClusterSnapshot, Namespace};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use super::generator::{self, BASES, Piece};

/// The bytes that are left.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }

    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// One of the items; there is at least one.
    pub fn one_of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[usize::from(self.byte()) % all.len()]
    }

    /// A text of a few bytes, up to a zero.
    fn text(&mut self) -> String {
        let end = self.0.iter().take(40).position(|byte| *byte == 0).unwrap_or(self.0.len().min(40));
        let (text, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    /// The policies of a request.
    pub fn policies(&mut self) -> &'static PolicySet {
        static SETS: LazyLock<Vec<PolicySet>> = LazyLock::new(|| POLICIES.iter().map(|spec| policy(spec)).collect());
        self.one_of(&SETS)
    }

    pub fn namespace(&mut self) -> Namespace {
        self.namespace_without(|_| false)
    }

    /// A namespace without these annotations.
    pub fn namespace_without(&mut self, is_left_out: impl Fn(&str) -> bool) -> Namespace {
        let (mut labels, mut annotations) = (BTreeMap::new(), BTreeMap::<String, String>::new());
        for _ in 0..self.byte() % 4 {
            let (key, value) = *self.one_of(&NAMESPACES);
            let is_label = key.starts_with("pod-security") || key == "team";
            let map = if is_label { &mut labels } else { &mut annotations };
            map.insert(key.to_owned(), value.to_owned());
        }
        annotations.retain(|key, _| !is_left_out(key));
        Namespace::new(labels, &annotations)
    }

    /// A pod, with fields that the API server would accept if it ran on the right operating system, and a few others.
    pub fn pod(&mut self) -> Value {
        static FAMILIES: LazyLock<Vec<Vec<Piece>>> = LazyLock::new(generator::families);
        let base = self.one_of(&BASES);
        let containers = 1 + usize::from(self.byte() % 2);
        let pieces = self.byte() % 6;
        let chosen: Vec<&Piece> = (0..pieces)
            .map(|_| {
                let family = self.one_of(&FAMILIES);
                self.one_of(family)
            })
            .collect();
        let mut object = generator::assemble(base, containers, &chosen).object;
        object["metadata"]["namespace"] = json!("default");
        for _ in 0..self.byte() % 6 {
            let (path, value) = (*self.one_of(&PATHS), self.value());
            set(&mut object, path, value);
        }
        object
    }

    fn value(&mut self) -> Value {
        let value = self.one_of(&VALUES);
        if *value == "text" { Value::String(self.text()) } else { serde_json::from_str(value).unwrap_or_default() }
    }

    /// A pod, or a workload with it as its template.
    pub fn object(&mut self) -> Value {
        let kind = *self.one_of(&["Pod", "Pod", "Pod", "Pod", "DaemonSet", "Deployment", "Job", "CronJob"]);
        let owner = *self.one_of(&["", "", "ReplicaSet", "DaemonSet", "Job"]);
        let mut pod = self.pod();
        if kind == "Pod" {
            if !owner.is_empty() {
                let group = if owner == "Job" { "batch/v1" } else { "apps/v1" };
                let owner = json!([{"apiVersion": group, "kind": owner, "name": "o", "uid": "u", "controller": true}]);
                set(&mut pod, "/metadata/ownerReferences", owner);
            }
            return pod;
        }
        let group = if kind.ends_with("Job") { "batch/v1" } else { "apps/v1" };
        let template = json!({"template": {"metadata": pod["metadata"], "spec": pod["spec"]}});
        let spec = if kind == "CronJob" { json!({"jobTemplate": {"spec": template}}) } else { template };
        json!({"apiVersion": group, "kind": kind, "metadata": {"name": "w", "namespace": "default"}, "spec": spec})
    }

    /// `labels` or `annotations`, with a key and a value that the author of a pod may write.
    pub fn author_metadata(&mut self) -> (&'static str, String, String) {
        let key = match *self.one_of(&KEYS) {
            "text" => self.text(),
            key => key.to_owned(),
        };
        let place = if self.byte().is_multiple_of(2) { "annotations" } else { "labels" };
        let value = match *self.one_of(&TEXTS) {
            "text" => self.text(),
            value => value.to_owned(),
        };
        (place, key, value)
    }
}

impl Input<'_> {
    /// Adds owners, a generated name and finalizers that the author of a pod may write.
    pub fn author_owners(&mut self, object: &mut Value) {
        let what = self.byte();
        if what & 1 != 0 {
            let owners = (0..=self.byte() % 3).map(|_| {
                let (version, kind) = *self.one_of(&OWNERS);
                let controller: &&str = self.one_of(&CONTROLLERS);
                let controller: Value = serde_json::from_str(controller).unwrap_or_default();
                json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": controller})
            });
            object["metadata"]["ownerReferences"] = owners.collect();
        }
        if what & 2 != 0 {
            object["metadata"]["generateName"] = json!(*self.one_of(&GENERATED_NAMES));
        }
        if what & 4 != 0 {
            object["metadata"]["finalizers"] = json!([*self.one_of(&FINALIZERS)]);
        }
        if what & 8 != 0
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("name");
        }
    }
}

/// Sets a value, if everything on the path is an object or list; missing objects are created.
pub fn set(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for token in path.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        if at.is_null() {
            *at = json!({});
        }
        let next = match (at, token.parse::<usize>()) {
            (Value::Array(items), Ok(index)) => items.get_mut(index),
            (Value::Object(members), _) => Some(members.entry(token).or_insert(Value::Null)),
            _ => None,
        };
        let Some(next) = next else { return };
        at = next;
    }
    *at = value;
}

/// Nodes of both operating systems, and Mullion's RuntimeClasses.
pub fn snapshot() -> &'static ClusterSnapshot {
    static SNAPSHOT: LazyLock<ClusterSnapshot> = LazyLock::new(|| {
        let windows = |name: &str, build: &str, taint: &str| {
            json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows",
                "node.kubernetes.io/windows-build": build}}, "spec": {"taints": [{"key": "os", "value": taint, "effect": "NoSchedule"}]}})
        };
        let items = json!([
            {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "l1", "labels": {"kubernetes.io/os": "linux"}}, "spec": {}},
            windows("win2022", "10.0.20348", "windows"),
            windows("w2025", "10.0.26100", "Windows"),
            {"kind": "RuntimeClass", "apiVersion": "node.k8s.io/v1", "metadata": {"name": "gvisor"}, "handler": "runsc"},
            {"kind": "RuntimeClass", "apiVersion": "node.k8s.io/v1", "metadata": {"name": "windows-2022"},
                "handler": "runhcs-wcow-process", "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}}},
        ]);
        let dump = json!({"kind": "List", "apiVersion": "v1", "items": items}).to_string();
        mullion_snapshot::from_text("snapshot", dump.as_bytes()).unwrap_or_else(|error| panic!("{error:?}"))
    });
    &SNAPSHOT
}

/// A set with one policy for all pods.
pub fn policy(spec: &str) -> PolicySet {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: t}}\nspec: {{priority: 0, {spec}}}\n"
    );
    PolicySet::from_files(&[("t.yaml", &text)]).unwrap_or_else(|problems| panic!("{spec}: {problems:?}"))
}

/// Specs of policies.
pub const POLICIES: [&str; 16] = [
    "mode: Enforce",
    "rules: {denials: Deny, templates: Deny, actions: [{rule: MUL, action: Deny}]}",
    "rules: {translate: [run-as-user], actions: [{rule: MUL2, action: Repair}, {rule: MUL3, action: Repair}]}",
    "rules: {actions: [{rule: MUL, action: Warn}]}",
    "rules: {actions: [{rule: MUL, action: Allow}]}",
    "rules: {denials: Warn}",
    "place: {nodeSelector: {mode: Never}, specOS: {mode: Never}}",
    "place: {nodeSelector: {mode: Never}}, rules: {actions: [{rule: MUL2, action: Repair}]}",
    "place: {specOS: {mode: Never}, build: {mode: Exact}}, rules: {actions: [{rule: MUL2, action: Repair}]}",
    "place: {tolerations: {mode: Never}, runtimeClass: {mode: Named, name: windows-2022}}",
    "place: {tolerations: {mode: Listed, add: [{key: team, value: a, effect: NoSchedule}]}, runtimeClass: {mode: Never}}",
    "mode: Audit",
    "rules: {actions: [{rule: app-armor-annotation, action: Warn}, {rule: stop-signal, action: Deny}]}",
    "optOut: {allow: [MUL]}",
    "optOut: {ignore: Pods}",
    "optOut: {ignore: Pods, allow: [MUL2]}, rules: {translate: [run-as-user]}",
];

/// The number of policies at the end of [`POLICIES`] that permit authors to opt out.
pub const OPT_OUTS: usize = 3;

const NAMESPACES: [(&str, &str); 12] = [
    ("scheduler.alpha.kubernetes.io/node-selector", "kubernetes.io/os=linux"),
    ("scheduler.alpha.kubernetes.io/node-selector", "kubernetes.io/os=windows"),
    ("openshift.io/node-selector", "kubernetes.io/os=linux,disk=ssd"),
    ("openshift.io/sa.scc.uid-range", "1000/10"),
    ("openshift.io/sa.scc.mcs", "s0:c26,c5"),
    ("scheduler.alpha.kubernetes.io/tolerationsWhitelist", "[{\"key\": \"os\", \"operator\": \"Exists\"}]"),
    ("scheduler.alpha.kubernetes.io/tolerationsWhitelist", "[{\"key\": \"team\"}]"),
    ("mullion.dev/os", "windows"),
    ("mullion.dev/os", "linux"),
    ("pod-security.kubernetes.io/enforce", "restricted"),
    ("pod-security.kubernetes.io/enforce-version", "v1.24"),
    ("team", "web"),
];

/// Places for values of any type.
const PATHS: [&str; 40] = [
    "/metadata/annotations/mullion.dev~1os",
    "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1c",
    "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1pod",
    "/metadata/annotations/mullion.dev~1decision",
    "/metadata/annotations/mullion.dev~1allow",
    "/metadata/annotations/openshift.io~1scc",
    "/metadata/annotations",
    "/metadata/labels",
    "/metadata/labels/mullion.dev~1ignore",
    "/metadata/labels/kubernetes.io~1os",
    "/metadata/managedFields",
    "/metadata",
    "/spec/os",
    "/spec/os/name",
    "/spec/nodeSelector",
    "/spec/nodeSelector/kubernetes.io~1os",
    "/spec/nodeSelector/beta.kubernetes.io~1os",
    "/spec/nodeName",
    "/spec/affinity",
    "/spec/tolerations",
    "/spec/runtimeClassName",
    "/spec/securityContext",
    "/spec/securityContext/windowsOptions",
    "/spec/securityContext/windowsOptions/hostProcess",
    "/spec/securityContext/runAsUser",
    "/spec/securityContext/runAsNonRoot",
    "/spec/securityContext/futureField",
    "/spec/hostNetwork",
    "/spec/hostPID",
    "/spec/serviceAccountName",
    "/spec/volumes",
    "/spec/ephemeralContainers",
    "/spec/initContainers",
    "/spec/containers",
    "/spec/containers/0/image",
    "/spec/containers/0/name",
    "/spec/containers/0/securityContext",
    "/spec/containers/0/securityContext/capabilities",
    "/spec/containers/0/lifecycle/stopSignal",
    "/spec/containers/0/volumeMounts",
];

/// JSON texts; `text`: a string of bytes of the input.
const VALUES: [&str; 30] = [
    "text",
    "null",
    "true",
    "false",
    "0",
    "1000",
    "-1",
    "1.5",
    "\"windows\"",
    "\"linux\"",
    "\"any\"",
    "\"true\"",
    "\"\"",
    "{}",
    "[]",
    "[null]",
    "{\"name\": \"windows\"}",
    "{\"kubernetes.io/os\": \"windows\"}",
    "{\"kubernetes.io/os\": \"linux\"}",
    "{\"type\": \"Localhost\", \"localhostProfile\": \"p\"}",
    "{\"add\": [\"SYS_ADMIN\"]}",
    "[{\"operator\": \"Exists\"}]",
    "[{\"name\": \"v\", \"mountPath\": \"/v\", \"mountPropagation\": \"Bidirectional\"}]",
    "[{\"name\": \"c\", \"image\": \"mcr.microsoft.com/windows/nanoserver:ltsc2022\"}]",
    "[{\"name\": \"c\", \"image\": \"nginx:alpine\", \"securityContext\": {\"privileged\": true}}]",
    "\"mcr.microsoft.com/windows/servercore:ltsc2019\"",
    "\"win2022\"",
    "\"{\\\"os\\\":\\\"windows\\\",\\\"basis\\\":\\\"default\\\",\\\"because\\\":\\\"\\\",\\\"placed\\\":[\\\"nodeSelector\\\",\\\"os\\\"],\\\"containers\\\":[\\\"c\\\"]}\"",
    "\"{\\\"os\\\":\\\"linux\\\",\\\"basis\\\":\\\"image\\\",\\\"because\\\":\\\"\\\",\\\"placed\\\":[\\\"os\\\",\\\"build\\\"]}\"",
    "[{\"manager\": \"kubectl\", \"fieldsV1\": {\"f:metadata\": {}}}]",
];

const KEYS: [&str; 15] = [
    "text",
    "mullion.dev/decision",
    "mullion.dev/decision",
    "mullion.dev/allow",
    "mullion.dev/ignore",
    "mullion.dev/findings",
    "mullion.dev/windows-build",
    "mullion.dev/owned",
    "mullion.dev/probe",
    "openshift.io/scc",
    "app.kubernetes.io/managed-by",
    "container.apparmor.security.beta.kubernetes.io/c",
    "kubernetes.io/config.source",
    "k8s.v1.cni.cncf.io/networks",
    "scheduler.alpha.kubernetes.io/node-selector",
];

/// Owners that exist, and others.
const OWNERS: [(&str, &str); 12] = [
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "ReplicationController"),
    ("v1", "Node"),
    ("v1", "Pod"),
    ("apps/v2", "DaemonSet"),
    ("batch/v1", "DaemonSet"),
    ("", ""),
];

/// JSON texts.
const CONTROLLERS: [&str; 4] = ["true", "false", "null", "\"true\""];

const GENERATED_NAMES: [&str; 4] = ["web-", "kube-proxy-", "node-debugger-win2022-", ""];

const FINALIZERS: [&str; 3] = ["kubernetes", "batch.kubernetes.io/job-tracking", "example.com/a"];

const TEXTS: [&str; 14] = [
    "text",
    "true",
    "windows",
    "linux",
    "any",
    "",
    "MUL",
    "MUL201, run-as-user",
    "kubectl-debug",
    "restricted-v2",
    "unconfined",
    "kubernetes.io/os=linux",
    "{\"os\":\"windows\",\"basis\":\"default\",\"because\":\"\",\"placed\":[\"nodeSelector\",\"os\",\"build\"],\"containers\":[\"c\"]}",
    "{\"os\":\"linux\",\"basis\":\"default\",\"because\":\"\",\"placed\":[\"os\"],\"containers\":[\"x\"]}",
];

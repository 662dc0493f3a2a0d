//! Faults that are planted into the simulated cluster: one workload for each, in a state that the statuses of real
//! clusters have. The texts are those of kubelet, containerd, hcsshim, Docker and CRI-O.

use serde_json::{Value, json};

use crate::survey::fleet::{deployment, pod, windows_tolerations, workload};

/// The namespace of all faults.
pub const NAMESPACE: &str = "broken";

/// A workload with one fault.
pub struct Fault {
    /// The name of the workload.
    pub name: &'static str,
    /// The codes that the survey reports about it, in order.
    pub codes: &'static [&'static str],
    image: &'static str,
    selector: Value,
    /// Members that are merged into the pod spec (RFC 7396).
    more: Value,
    state: State,
}

/// How the pods of a fault are simulated.
enum State {
    /// They run, or the scheduler finds no node.
    Real,
    /// The image is not pulled, for this reason.
    Pull(&'static str),
    /// The containers do not start.
    Start(&'static str),
    /// The containers are not created.
    Config(&'static str),
    /// The sandbox is not created; only an Event contains the reason.
    Sandbox(&'static str),
    /// A bare pod that the kubelet rejects.
    Rejected { reason: &'static str, message: &'static str },
}

const LINUX_IMAGE: &str = "nginx:1.27";
const WINDOWS_2019: &str = "mcr.microsoft.com/windows/servercore:ltsc2019";
const WINDOWS_2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const WINDOWS_2025: &str = "mcr.microsoft.com/windows/servercore:ltsc2025";
const PRIVATE: &str = "registry.example.com/shop/tool:1";

fn in_pool(name: &str) -> Value {
    json!({"agentpool": name})
}

/// All faults.
#[allow(clippy::too_many_lines, reason = "a table")]
pub fn faults() -> Vec<Fault> {
    let fault = |name, codes, image, selector, state| Fault { name, codes, image, selector, more: json!({}), state };
    let windows = || json!({"kubernetes.io/os": "windows"});
    vec![
        fault(
            "linux-index-on-windows",
            &["SUR201"],
            LINUX_IMAGE,
            in_pool("win25"),
            State::Pull(
                "rpc error: code = NotFound desc = failed to pull and unpack image \"docker.io/library/nginx:1.27\": no match for platform in manifest: not found",
            ),
        ),
        fault(
            "old-image-on-2022",
            &["SUR103"],
            WINDOWS_2019,
            in_pool("win22"),
            State::Pull(
                "rpc error: code = NotFound desc = failed to pull and unpack image \"mcr.microsoft.com/windows/servercore:ltsc2019\": no match for platform in manifest: not found",
            ),
        ),
        fault(
            "windows-index-on-linux",
            &["SUR102"],
            WINDOWS_2022,
            in_pool("user"),
            State::Pull(
                "rpc error: code = NotFound desc = failed to pull and unpack image \"mcr.microsoft.com/windows/servercore:ltsc2022\": no match for platform in manifest: not found",
            ),
        ),
        fault(
            "docker-no-manifest",
            &["SUR103"],
            WINDOWS_2022,
            in_pool("win19"),
            State::Pull("no matching manifest for windows(10.0.17763)/amd64 10.0.17763 in the manifest list entries"),
        ),
        fault(
            "docker-newer-image",
            &["SUR103"],
            WINDOWS_2025,
            in_pool("win22"),
            State::Pull("a Windows version 10.0.26100-based image is incompatible with a 10.0.20348 host"),
        ),
        fault(
            "docker-foreign-os",
            &["SUR101"],
            LINUX_IMAGE,
            in_pool("win19"),
            State::Pull("image operating system \"linux\" cannot be used on this platform"),
        ),
        fault(
            "crio-windows-on-linux",
            &["SUR102"],
            WINDOWS_2022,
            in_pool("user"),
            State::Pull(
                "rpc error: code = Unknown desc = choosing image instance: no image found in image index for architecture \"amd64\", variant \"\", OS \"linux\"",
            ),
        ),
        fault(
            "linux-layers-on-windows",
            &["SUR101"],
            PRIVATE,
            in_pool("win25"),
            State::Pull(
                "rpc error: code = Unknown desc = failed to pull and unpack image \"registry.example.com/shop/tool:1\": failed to extract layer sha256:0f4277291cbf: hcsshim::ProcessBaseLayer \\\\?\\C:\\ProgramData\\containerd\\root\\snapshots\\1: The system cannot find the path specified.: unknown",
            ),
        ),
        fault(
            "windows-layers-on-linux",
            &["SUR102"],
            PRIVATE,
            in_pool("user"),
            State::Pull(
                "rpc error: code = Unknown desc = failed to pull and unpack image \"registry.example.com/shop/tool:1\": failed to extract layer sha256:0f4277291cbf: link /var/lib/containerd/x/fs/Files/Program Files/a /var/lib/containerd/x/fs/Files/Program Files/b: no such file or directory: unknown",
            ),
        ),
        fault(
            "registry-denies",
            &["SUR202"],
            "registry.example.com/shop/private:2.1-ltsc2022",
            in_pool("win22"),
            State::Pull(
                "rpc error: code = Unknown desc = failed to pull and unpack image \"registry.example.com/shop/private:2.1-ltsc2022\": failed to resolve reference \"registry.example.com/shop/private:2.1-ltsc2022\": failed to authorize: failed to fetch oauth token: 401 Unauthorized",
            ),
        ),
        fault(
            "no-pause-image",
            &["SUR211"],
            WINDOWS_2025,
            in_pool("win25"),
            State::Sandbox(
                "Failed to create pod sandbox: rpc error: code = NotFound desc = failed to get sandbox image \"registry.k8s.io/pause:3.6\": failed to pull image \"registry.k8s.io/pause:3.6\": no match for platform in manifest: not found",
            ),
        ),
        fault(
            "no-runtime-handler",
            &["SUR212"],
            WINDOWS_2022,
            in_pool("win23"),
            State::Sandbox(
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \"runhcs-wcow-hypervisor\" is configured",
            ),
        ),
        fault(
            "no-network",
            &["SUR213"],
            WINDOWS_2022,
            in_pool("win22"),
            State::Sandbox(
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"4b2e\": plugin type=\"azure-vnet\" failed (add): IPAM Invoker Add failed",
            ),
        ),
        fault(
            "start-build-mismatch",
            &["SUR214"],
            PRIVATE,
            in_pool("win22"),
            State::Start(
                "failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem 6f8e: The container operating system does not match the host operating system.: unknown",
            ),
        ),
        fault(
            "start-exited",
            &["SUR215"],
            WINDOWS_2025,
            in_pool("win25"),
            State::Start(
                "failed to create containerd task: failed to create shim task: hcs::System::Start 6f8e: Der virtuelle Computer oder Container wurde unerwartet beendet.: unknown",
            ),
        ),
        fault(
            "start-layer-format",
            &["SUR210"],
            PRIVATE,
            in_pool("win22"),
            State::Start(
                "failed to create containerd task: hcsshim::PrepareLayer failed in Win32: The virtual machine or container JSON document is invalid or has an unrecognized format. (0xc0370112): unknown",
            ),
        ),
        fault(
            "start-wrong-folder",
            &["SUR216"],
            WINDOWS_2022,
            in_pool("win22"),
            State::Start(
                "failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem 6f8e: The directory name is invalid.: unknown",
            ),
        ),
        fault(
            "os-field",
            &["SUR109"],
            PRIVATE,
            in_pool("user"),
            State::Rejected {
                reason: "PodOSNotSupported",
                message: "Failed to admit pod as the OS field doesn't match node OS",
            },
        ),
        fault(
            "os-label",
            &["SUR110"],
            PRIVATE,
            in_pool("user"),
            State::Rejected {
                reason: "PodOSSelectorNodeLabelDoesNotMatch",
                message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            },
        ),
        fault(
            "administrator",
            &["SUR219"],
            WINDOWS_2022,
            in_pool("win22"),
            State::Config(
                "container's runAsUserName (ContainerAdministrator) which will be regarded as root identity and will break non-root policy (pod: \"administrator_broken(1)\", container: main)",
            ),
        ),
        fault(
            "no-such-build",
            &["SUR104", "SUR306"],
            "registry.example.com/shop/web:2.1-ltsc2016",
            json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.14393"}),
            State::Real,
        ),
        Fault {
            more: json!({"tolerations": []}),
            ..fault("no-toleration", &["SUR105"], WINDOWS_2022, of_pool("win23"), State::Real)
        },
        Fault {
            more: limits(&json!({"memory": "400Mi", "vpc.amazonaws.com/PrivateIPv4Address": "1"})),
            ..fault("no-addresses", &["SUR108"], WINDOWS_2022, windows(), State::Real)
        },
        Fault {
            more: preferring("user", &json!([])),
            ..fault("linux-by-luck", &["SUR302"], "registry.example.com/shop/tool:2-alpine", json!({}), State::Real)
        },
        Fault {
            more: preferring("win22", &windows_tolerations()),
            ..fault("windows-by-luck", &["SUR301"], "registry.example.com/shop/tool:3-ltsc2022", json!({}), State::Real)
        },
        fault(
            "floating-tag",
            &["SUR303"],
            "mcr.microsoft.com/windows/servercore/iis:latest",
            of_pool("win22"),
            State::Real,
        ),
        fault(
            "frozen-tag",
            &["SUR304"],
            "mcr.microsoft.com/dotnet/framework/aspnet:4.7.2-windowsservercore-ltsc2019",
            of_pool("win19"),
            State::Real,
        ),
        Fault {
            more: off_the_untainted_pool(preferring("user", &json!([{"operator": "Exists"}]))),
            ..fault(
                "blanket-toleration",
                &["SUR305"],
                "registry.example.com/shop/tool:4-alpine",
                json!({}),
                State::Real,
            )
        },
        Fault {
            more: limits(&json!({"cpu": "50m"})),
            ..fault("no-memory-limit", &["SUR307"], WINDOWS_2022, of_pool("win22"), State::Real)
        },
        fault(
            "exact-build",
            &["SUR306"],
            WINDOWS_2022,
            json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"}),
            State::Real,
        ),
        Fault {
            more: json!({"hostNetwork": true, "securityContext": {
                "windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}}),
            ..fault("host-process", &["SUR308"], WINDOWS_2022, of_pool("win22"), State::Real)
        },
    ]
}

/// Needs a feature of nodes, which kubelets before Kubernetes 1.36 do not declare.
pub fn featured() -> Fault {
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}]);
    let container = json!({"name": "main", "restartPolicy": "Never", "restartPolicyRules": rules,
        "resources": {"limits": {"memory": "400Mi", "cpu": "50m"}}});
    let more = json!({"containers": [container]});
    let (name, image, selector) = ("featured", WINDOWS_2022, of_pool("win22"));
    Fault { name, codes: &["SUR114"], image, selector, more, state: State::Real }
}

/// A Windows Deployment in a namespace in ambient mode, whose pods a network policy selects.
pub fn meshed() -> [Value; 3] {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "mesh", "labels": {"istio.io/dataplane-mode": "ambient"}}});
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"namespace": "mesh", "name": "deny"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}});
    let pod = pod("registry.example.com/shop/web:2.1-ltsc2022", &of_pool("win22"), &windows_tolerations());
    [namespace, policy, deployment("mesh", "meshed", 2, &pod)]
}

/// The pods of this one are created when all nodes of their pool are cordoned.
pub fn cordoned() -> Fault {
    let (name, image, selector) = ("cordoned", WINDOWS_2022, of_pool(CORDONED_POOL));
    Fault { name, codes: &["SUR106"], image, selector, more: json!({}), state: State::Real }
}

/// The pool that is cordoned once its pods run.
pub const CORDONED_POOL: &str = "win23";

fn of_pool(name: &str) -> Value {
    json!({"kubernetes.io/os": "windows", "agentpool": name})
}

/// A pod spec that may run anywhere, and which the scheduler places in this pool.
fn preferring(pool: &str, tolerations: &Value) -> Value {
    let expression = json!({"key": "agentpool", "operator": "In", "values": [pool]});
    let term = json!({"weight": 100, "preference": {"matchExpressions": [expression]}});
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}});
    json!({"affinity": affinity, "tolerations": tolerations})
}

/// The pod spec without the Windows pool that no taint protects.
fn off_the_untainted_pool(mut spec: Value) -> Value {
    let expression = json!({"key": "agentpool", "operator": "NotIn", "values": ["win25"]});
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    spec
}

/// A pod spec whose only container has these limits.
fn limits(limits: &Value) -> Value {
    json!({"containers": [{"name": "main", "resources": {"limits": limits}}]})
}

impl Fault {
    /// The objects to create: the workload, or a bare pod.
    pub fn object(&self) -> Value {
        let mut spec = pod(self.image, &self.selector, &windows_tolerations());
        json_patch::merge(&mut spec, &self.more);
        spec["containers"][0]["image"] = json!(self.image);
        let annotations = match &self.state {
            State::Real => json!({}),
            State::Pull(error) => waiting(
                "ImagePullBackOff",
                &format!("Back-off pulling image \"{}\": ErrImagePull: {error}", self.image),
            ),
            State::Start(error) => {
                let mut annotations = waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=main");
                let last = json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": error}});
                annotations["mullion-cluster/last-state"] = json!(last.to_string());
                annotations
            }
            State::Config(error) => waiting("CreateContainerConfigError", error),
            State::Sandbox(_) => waiting("ContainerCreating", ""),
            State::Rejected { reason, message } => {
                let status = json!({"phase": "Failed", "reason": reason, "message": message});
                json!({"mullion-cluster/rejected": status.to_string()})
            }
        };
        if let State::Rejected { .. } = self.state {
            let metadata = json!({"namespace": NAMESPACE, "name": self.name, "annotations": annotations});
            return json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        }
        let mut object = deployment(NAMESPACE, self.name, 3, &spec);
        object["spec"]["template"]["metadata"]["annotations"] = annotations;
        object
    }

    /// The Event that a kubelet records for each of its pods.
    pub fn event(&self) -> Option<&'static str> {
        match self.state {
            State::Sandbox(message) => Some(message),
            _ => None,
        }
    }
}

/// The annotations of pods with waiting containers.
fn waiting(reason: &str, message: &str) -> Value {
    json!({"mullion-cluster/container-state": json!({"waiting": {"reason": reason, "message": message}}).to_string()})
}

/// DaemonSets for Windows nodes that have no pod in pool `win19`: because of an affinity, and because of a taint.
pub fn daemon_sets_without_a_pool() -> [Value; 2] {
    let windows = json!({"kubernetes.io/os": "windows"});
    let image = "registry.example.com/agents/exporter:0.30-ltsc2022";
    let mut by_affinity = pod(image, &windows, &windows_tolerations());
    by_affinity["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            {"key": "node.kubernetes.io/windows-build", "operator": "NotIn", "values": ["10.0.17763"]}]}]}}});
    let tolerations = json!([{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}]);
    let by_taint = pod("registry.example.com/agents/collector:5", &windows, &tolerations);
    [("exporter-2022", by_affinity), ("collector", by_taint)]
        .map(|(name, spec)| workload("DaemonSet", NAMESPACE, name, &spec, &json!({})))
}

/// A DaemonSet of a Linux image that tolerates everything and selects no operating system. On Windows nodes its pods
/// wait forever; KWOK would let them run, so it selects a Windows pool and is simulated.
pub fn careless_agent() -> Value {
    let spec = pod(LINUX_IMAGE, &in_pool("win23"), &json!([{"operator": "Exists"}]));
    let mut object = workload("DaemonSet", NAMESPACE, "careless-agent", &spec, &json!({}));
    let error = "rpc error: code = NotFound desc = failed to pull and unpack image \"docker.io/library/nginx:1.27\": no match for platform in manifest: not found";
    object["spec"]["template"]["metadata"]["annotations"] = waiting("ImagePullBackOff", error);
    object
}

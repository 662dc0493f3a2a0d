//! Every code of the catalogue: objects that produce it, the field it comes from and a part of its message; and what
//! dates produce on the day itself and on the day after.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::needless_pass_by_value, reason = "shorter calls with json!")]

use std::collections::BTreeSet;

use jiff::civil::{Date, date};
use mullion_engine::admission::find_nodes;
use mullion_engine::model::{MinorVersion, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use mullion_snapshot::dump;
use mullion_survey::catalogue::FINDINGS;
use mullion_survey::inventory::{KINDS, plural_of, read_json};
use mullion_survey::report::{Source, SurveyFinding, SurveyReport, WaitingPods};
use mullion_survey::{Facts, InventoryReader, SurveyContext, compare, survey};
use serde_json::{Value, json};

const TODAY: Date = date(2026, 11, 22);

fn report(objects: &[Value], today: Date) -> SurveyReport {
    report_without(objects, today, &[])
}

/// The report about objects of which every list was read but some, by the names that `kubectl get` accepts.
fn report_without(objects: &[Value], today: Date, without: &[&str]) -> SurveyReport {
    report_with(objects, today, without, &PolicySet::built_in())
}

fn report_with(objects: &[Value], today: Date, without: &[&str], policies: &PolicySet) -> SurveyReport {
    let is_read =
        |object: &&Value| plural_of(object["kind"].as_str().unwrap()).is_none_or(|own| !without.contains(&own));
    let objects: Vec<&Value> = objects.iter().filter(is_read).collect();
    let mut reader = InventoryReader::default();
    reader.begin_input("dump");
    let text = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let mut visit = |object: Value, kind: Option<&str>| reader.add(object, kind, &mut |_| {});
    read_json(text.as_bytes(), 1 << 30, &mut visit).unwrap();
    KINDS.iter().filter(|kind| !without.contains(&kind.plural)).for_each(|kind| reader.listed(kind.plural));
    assert_eq!(reader.end_input().problems, Vec::<String>::new());
    survey(
        &reader.finish(),
        SurveyContext {
            cluster: "c",
            source: Source::Dump,
            today,
            mullion: "0.0.0",
            policies,
            facts: &Facts::built_in(),
        },
    )
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "shop", "name": name}, "spec": spec})
}

/// A node in a pool of its name; `version`: of Windows, or empty for Linux.
fn node(name: &str, version: &str) -> Value {
    let (os, kernel) = if version.is_empty() { ("linux", "5.15.0-1") } else { ("windows", version) };
    let mut node = object("Node", name, json!({}));
    node["metadata"] = json!({"name": name, "labels": {"kubernetes.io/os": os, "karpenter.sh/nodepool": name}});
    node["status"]["nodeInfo"] = json!({"kernelVersion": kernel});
    if !version.is_empty() {
        node["spec"]["taints"] = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    }
    node
}

/// A Windows node and a Linux node, without findings.
fn nodes() -> Vec<Value> {
    vec![node("w", "10.0.20348.4294"), node("l", "")]
}

/// The node that makes an AKS cluster of it.
fn aks(mut node: Value, kubelet: &str, runtime: &str) -> Value {
    node["metadata"]["labels"]["kubernetes.azure.com/agentpool"] = node["metadata"]["name"].clone();
    node["status"]["nodeInfo"]["kubeletVersion"] = json!(kubelet);
    node["status"]["nodeInfo"]["containerRuntimeVersion"] = json!(runtime);
    node
}

/// The spec of a pod for Windows without findings.
fn windows(image: &str) -> Value {
    json!({
        "nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": [{"key": "os", "operator": "Exists"}],
        "containers": [{"name": "a", "image": image, "resources": {"limits": {"memory": "1Gi"}}}],
    })
}

const PRIVATE: &str = "r.example/web:1";

/// With members in place of those of `object`.
fn with(mut object: Value, members: Value) -> Value {
    for (key, value) in members.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

fn pod(spec: Value, status: Value) -> Value {
    with(object("Pod", "p", spec), json!({"status": status}))
}

/// A pod on node `w` whose container waits.
fn waiting(spec: Value, reason: &str, message: &str) -> Value {
    let state = json!({"waiting": {"reason": reason, "message": message}});
    let status = json!({"phase": "Pending", "containerStatuses": [{"name": "a", "ready": false, "state": state}]});
    pod(with(spec, json!({"nodeName": "w"})), status)
}

/// A pod for which the scheduler finds no node.
fn pending(spec: Value, message: &str) -> Value {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
    pod(spec, json!({"phase": "Pending", "conditions": [condition]}))
}

fn workload(kind: &str, spec: Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": "p"}}, "spec": spec});
    with(
        object(kind, "p", json!({"selector": {"matchLabels": {"app": "p"}}, "template": template})),
        json!({"apiVersion": "apps/v1"}),
    )
}

/// Code, name of the object, objects besides those of [`nodes`], path, and a part of the message.
type Case = (&'static str, &'static str, Vec<Value>, &'static str, &'static str);

const WAITING: &str = "status.containerStatuses[0].state.waiting.message";
const CONDITION: &str = "status.conditions[0].message";

/// The findings of messages: code, reason, message, and a part of the finding's message.
const MESSAGES: [(&str, &str, &str, &str); 23] = [
    ("SUR101", "ErrImagePull", "failed to extract layer sha256:1: hcsshim::ProcessBaseLayer x", "is a Linux image"),
    (
        "SUR201",
        "ErrImagePull",
        "no match for platform in manifest: not found",
        "has no entry for Windows nodes of build 10.0.20348",
    ),
    (
        "SUR202",
        "ErrImagePull",
        "failed to pull and unpack image \"r.example/web:1\": 401 Unauthorized",
        "denies the pull of the image r.example/web:1",
    ),
    (
        "SUR203",
        "ErrImagePull",
        "failed to resolve reference \"r.example/web:1\": pull: manifest unknown",
        "has no image r.example/web:1",
    ),
    (
        "SUR204",
        "ErrImagePull",
        "failed to pull and unpack image: dial tcp: lookup r.example: no such host",
        "cannot reach the registry of the image r.example/web:1",
    ),
    (
        "SUR205",
        "ErrImagePull",
        "failed to pull: unexpected status code: 429 Too Many Requests - toomanyrequests",
        "limits pulls of the image r.example/web:1",
    ),
    (
        "SUR206",
        "ImagePullBackOff",
        "Back-off pulling image \"r.example/web:1\"",
        "cannot be pulled; the text does not show why",
    ),
    ("SUR207", "InvalidImageName", "couldn't parse image name", "is not a valid reference"),
    (
        "SUR208",
        "ErrImagePull",
        "failed to unpack image on snapshotter windows: x",
        "cannot be unpacked on Windows nodes of build 10.0.20348",
    ),
    (
        "SUR209",
        "ErrImagePull",
        "failed to extract layer: There is not enough space on the disk.",
        "too full to unpack the image r.example/web:1",
    ),
    (
        "SUR210",
        "StartError",
        "ActivateLayer failed in Win32: x (0xc0370112)",
        "are newer than Windows nodes of build 10.0.20348",
    ),
    (
        "SUR211",
        "FailedCreatePodSandBox",
        "failed to get sandbox image \"pause:3.9\": failed to pull",
        "The pause image pause:3.9 cannot be pulled",
    ),
    (
        "SUR212",
        "FailedCreatePodSandBox",
        "failed to get sandbox runtime: no runtime for \"runhcs\" is configured",
        "no runtime handler runhcs",
    ),
    (
        "SUR213",
        "FailedCreatePodSandBox",
        "failed to setup network for sandbox \"1\": x",
        "The network of the pod cannot be set up",
    ),
    (
        "SUR214",
        "StartError",
        "hcs::CreateComputeSystem 1: x (0xc0370101)",
        "is not for the Windows build of its nodes, 10.0.20348",
    ),
    (
        "SUR215",
        "StartError",
        "hcs::System::Start 1: Der Container wurde unerwartet beendet.",
        "The container a ended while Windows started it",
    ),
    (
        "SUR216",
        "StartError",
        "hcs::CreateComputeSystem 1: The directory name is invalid.",
        "a directory name is invalid",
    ),
    (
        "SUR217",
        "StartError",
        "hcs::CreateComputeSystem 1: Das System ist falsch.",
        "the cause in the text is not known",
    ),
    (
        "SUR218",
        "StartError",
        "hcs::System::CreateProcess 1: The system cannot find the file specified.",
        "The program of the container a is not in the image r.example/web:1",
    ),
    (
        "SUR220",
        "CreateContainerConfigError",
        "secret \"db\" not found",
        "waits for a Secret or a ConfigMap that does not exist",
    ),
    ("SUR222", "SomethingNew", "a text of a later version", "SomethingNew"),
    (
        "SUR223",
        "FailedCreatePodSandBox",
        "failed to setup network for sandbox: pod does not have label vpc.amazonaws.com/PrivateIPv4Address",
        "Windows support was off",
    ),
    (
        "SUR224",
        "FailedMount",
        "MountVolume.SetUp failed for volume \"a\" : hostPath type check failed: x is not a directory",
        "is not on Windows nodes of build 10.0.20348",
    ),
];

fn cases() -> Vec<Case> {
    let waits = |(code, reason, message, part): (&'static str, &str, &str, &'static str)| {
        (code, "p", vec![waiting(windows(PRIVATE), reason, message)], WAITING, part)
    };
    let mut cases: Vec<Case> = MESSAGES.into_iter().map(waits).collect();
    cases.extend(of_pods());
    cases.extend(of_workloads());
    cases.extend(of_nodes());
    cases.extend(of_surroundings());
    cases
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn of_pods() -> Vec<Case> {
    let rejected = |reason: &str, message: &str| {
        let spec = with(windows(PRIVATE), json!({"nodeName": "w"}));
        pod(spec, json!({"phase": "Failed", "reason": reason, "message": message}))
    };
    let by_name = windows("mcr.microsoft.com/windows/nanoserver:ltsc2022");
    let mut on_linux = waiting(by_name, "ErrImagePull", "no match for platform in manifest: not found");
    on_linux["spec"]["nodeName"] = json!("l");
    let old = windows("mcr.microsoft.com/windows/servercore:ltsc2019");
    let selects = |labels: Value| with(windows(PRIVATE), json!({"nodeSelector": labels}));
    let cordoned = with(node("w", "10.0.20348.4294"), json!({"spec": {"unschedulable": true}}));
    let crash = json!({"phase": "Running", "containerStatuses": [{"name": "a", "ready": false, "restartCount": 9,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 3_221_225_781_u32}}}]});
    vec![
        ("SUR102", "p", vec![on_linux], WAITING, "cannot run on Linux nodes"),
        (
            "SUR103",
            "p",
            vec![waiting(old, "ErrImagePull", "no match for platform in manifest: not found")],
            WAITING,
            "is for Windows build 10.0.17763, and a host of build 10.0.20348 cannot run it",
        ),
        ("SUR104", "p", vec![pending(selects(json!({"pool": "gone"})), "x")], CONDITION, "no node has the label pool"),
        (
            "SUR105",
            "p",
            vec![pending(with(windows(PRIVATE), json!({"tolerations": []})), "x")],
            CONDITION,
            "os=windows:NoSchedule on 1 node",
        ),
        ("SUR106", "p", vec![cordoned, pending(windows(PRIVATE), "x")], CONDITION, "1 node that would fit"),
        ("SUR107", "p", vec![pending(windows(PRIVATE), "x")], CONDITION, "Labels and taints of 1 node fit"),
        (
            "SUR108",
            "p",
            vec![pending(windows(PRIVATE), "3 Insufficient vpc.amazonaws.com/PrivateIPv4Address.")],
            CONDITION,
            "No node has a free address",
        ),
        (
            "SUR113",
            "p",
            vec![pending(windows(PRIVATE), "1 node(s) had volume node affinity conflict.")],
            CONDITION,
            "is in another zone",
        ),
        (
            "SUR113",
            "p",
            vec![pending(windows(PRIVATE), "1 disk.example CSI driver is not installed on the node.")],
            CONDITION,
            "do not have the CSI driver of a volume",
        ),
        // The node declares features, and not this one.
        (
            "SUR114",
            "p",
            vec![declares(node("w", "10.0.20348.4294"), &["ExtendWebSocketsToKubelet"]), pending(restarts(), "x")],
            CONDITION,
            "1 node that would fit the pod does not declare the feature RestartAllContainersOnContainerExits, for restartPolicyRules",
        ),
        // What the node declares is not in its object, and the scheduler rejects it.
        (
            "SUR114",
            "p",
            vec![pending(restarts(), FEATURES)],
            CONDITION,
            "leaves out nodes that do not declare a feature that it needs: the feature RestartAllContainersOnContainerExits",
        ),
        ("SUR114", "p", vec![pending(windows(PRIVATE), FEATURES)], CONDITION, "no rule that Mullion knows"),
        (
            "SUR114",
            "p",
            vec![rejected("PodFeatureUnsupported", "Pod requires node features that are not available: A")],
            "status.message",
            "it needs a feature that the kubelet does not have",
        ),
        // Neither is known.
        ("SUR222", "p", vec![pending(restarts(), "x")], CONDITION, "whether 1 node that would fit the pod declares"),
        ("SUR109", "p", vec![rejected("PodOSNotSupported", "x")], "status.message", "spec.os.name is another"),
        (
            "SUR110",
            "p",
            vec![rejected("PodOSSelectorNodeLabelDoesNotMatch", "x")],
            "status.message",
            "its label kubernetes.io/os is another",
        ),
        (
            "SUR111",
            "p",
            vec![pending(with(windows(PRIVATE), json!({"os": {"name": "linux"}})), "x")],
            CONDITION,
            "requires Linux and Windows at once",
        ),
        (
            "SUR219",
            "p",
            vec![waiting(
                windows(PRIVATE),
                "CreateContainerConfigError",
                "container's runAsUserName (ContainerAdministrator) which will be regarded as root identity and will break non-root policy",
            )],
            WAITING,
            "The container a sets runAsNonRoot",
        ),
        (
            "SUR221",
            "p",
            vec![pod(with(windows(PRIVATE), json!({"nodeName": "w"})), crash)],
            WAITING,
            "last with exit code 0xC0000135: a DLL is missing in the image",
        ),
    ]
}

/// The message of the scheduler of Kubernetes 1.36 to 1.38.
const FEATURES: &str =
    "0/2 nodes are available: 1 node(s) didn't match Pod's required features, 1 node(s) had untolerated taint(s).";

fn declares(mut node: Value, features: &[&str]) -> Value {
    node["status"]["declaredFeatures"] = json!(features);
    node
}

/// A pod that needs a feature of its node.
fn restarts() -> Value {
    let mut spec = windows(PRIVATE);
    spec["containers"][0]["restartPolicyRules"] = json!([{"action": "RestartAllContainers"}]);
    spec
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn of_workloads() -> Vec<Case> {
    let image = "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022";
    let deployment = |members: Value| vec![workload("Deployment", with(windows(image), members))];
    let container = |image: &str| json!([{"name": "a", "image": image, "resources": {"limits": {"memory": "1Gi"}}}]);
    let unlimited = json!({"initContainers": [{"name": "i", "image": image}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gpu"]}]}]}}});
    let daemon_set = |members: Value| {
        vec![object("Pod", "other", windows(image)), workload("DaemonSet", with(windows(image), members))]
    };
    let of_class = json!({"runtimeClassName": "gpu", "nodeSelector": {}});
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "gpu"}, "handler": "runhcs",
        "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows", "tier": "gpu"}}});
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": "e"}, "type": "Warning",
        "reason": "FailedCreate", "message": "exceeded quota", "involvedObject": {"kind": "Deployment", "namespace": "shop", "name": "p"}});
    let blanket = json!({"nodeSelector": {}, "tolerations": [{"operator": "Exists"}]});
    let open = with(node("w", "10.0.20348.4294"), json!({"spec": {}}));
    let linux = json!({"containers": [{"name": "a", "image": "redis:7.4-alpine"}], "nodeName": "l"});
    let runs =
        json!({"phase": "Running", "containerStatuses": [{"name": "a", "ready": true, "state": {"running": {}}}]});
    vec![
        (
            "SUR112",
            "p",
            vec![workload("Deployment", windows(image)), event],
            "message of Event FailedCreate of Deployment p",
            "the API server rejects them",
        ),
        (
            "SUR301",
            "p",
            deployment(json!({"nodeSelector": {}})),
            "spec.template.spec.nodeSelector",
            "on Linux nodes too",
        ),
        (
            "SUR302",
            "p",
            vec![open, pod(linux, runs)],
            "spec.nodeSelector",
            "on Windows nodes too, such as those of pool w",
        ),
        (
            "SUR303",
            "p",
            deployment(json!({"containers": container("mcr.microsoft.com/windows/servercore/iis:latest")})),
            "spec.template.spec.containers[0].image",
            "names no release",
        ),
        (
            "SUR304",
            "p",
            deployment(
                json!({"containers": container("mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2022")}),
            ),
            "spec.template.spec.containers[0].image",
            "has had no updates since",
        ),
        (
            "SUR305",
            "p",
            vec![workload(
                "Deployment",
                with(blanket, json!({"containers": [{"name": "a", "image": "redis:7.4-alpine"}]})),
            )],
            "spec.template.spec.tolerations[0]",
            "tolerates every taint",
        ),
        (
            "SUR306",
            "p",
            deployment(
                json!({"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348", "kubernetes.io/os": "windows"}}),
            ),
            "spec.template.spec.nodeSelector",
            "node.kubernetes.io/windows-build=10.0.20348",
        ),
        (
            "SUR307",
            "p",
            deployment(unlimited),
            "spec.template.spec.initContainers[0].resources.limits.memory",
            "The container i has no memory limit",
        ),
        (
            "SUR308",
            "p",
            deployment(json!({"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}}})),
            "spec.template.spec.securityContext.windowsOptions.hostProcess",
            "as HostProcess",
        ),
        (
            "SUR401",
            "p",
            daemon_set(json!({"tolerations": []})),
            "spec.template.spec.tolerations",
            "the taint os=windows:NoSchedule",
        ),
        (
            "SUR402",
            "p",
            daemon_set(json!({"nodeSelector": {"kubernetes.io/os": "windows", "tier": "gpu"}})),
            "spec.template.spec.nodeSelector",
            "requires tier=gpu",
        ),
        (
            "SUR402",
            "p",
            daemon_set(json!({"affinity": affinity})),
            "spec.template.spec.affinity.nodeAffinity",
            "requires tier In gpu",
        ),
        (
            "SUR402",
            "p",
            [daemon_set(of_class), vec![class]].concat(),
            "spec.template.spec.runtimeClassName",
            "requires tier=gpu",
        ),
        (
            "SUR403",
            "p",
            daemon_set(json!({})),
            "status.currentNumberScheduled",
            "1 node of Windows pool w has no pod of this DaemonSet",
        ),
    ]
}

/// A pod on Windows node `w` that runs.
fn running(spec: Value) -> Value {
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    with(
        pod(with(spec, json!({"nodeName": "w"})), status),
        json!({"metadata": {"namespace": "shop", "name": "p", "labels": {"app": "p"}}}),
    )
}

fn policy(name: &str, selector: Value) -> Value {
    with(object("NetworkPolicy", name, json!({"podSelector": selector})), json!({"apiVersion": "networking.k8s.io/v1"}))
}

fn of_cluster(kind: &str, name: &str, members: Value) -> Value {
    with(json!({"kind": kind, "metadata": {"name": name}}), members)
}

/// The pod of a DaemonSet on a node.
fn agent(name: &str, image: &str, node: &str) -> Value {
    let spec = json!({"nodeName": node, "containers": [{"name": "a", "image": image}]});
    let mut pod = object("Pod", &format!("{name}-{node}"), spec);
    pod["metadata"]["ownerReferences"] = json!([{"kind": "DaemonSet", "name": name, "controller": true}]);
    pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    pod
}

/// Claims, volumes, classes and drivers; the Windows node has these drivers.
fn storage(on_windows: &[&str]) -> Vec<Value> {
    let drivers = |node: &str, names: &[&str]| {
        let names: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        of_cluster("CSINode", node, json!({"spec": {"drivers": names}}))
    };
    let spec = |members: Value| json!({"spec": members});
    let class = |name: &str, driver: &str, annotations: Value| {
        let metadata = json!({"name": name, "annotations": annotations});
        of_cluster("StorageClass", name, json!({"metadata": metadata, "provisioner": driver}))
    };
    vec![
        drivers("w", on_windows),
        drivers("l", &["disk.example", "file.example"]),
        object("PersistentVolumeClaim", "bound", json!({"volumeName": "pv"})),
        object("PersistentVolumeClaim", "new", json!({"storageClassName": "files"})),
        object("PersistentVolumeClaim", "data-p-1", json!({"volumeName": "pv"})),
        of_cluster("PersistentVolume", "pv", spec(json!({"csi": {"driver": "disk.example"}}))),
        class("files", "file.example", json!({"storageclass.kubernetes.io/is-default-class": "true"})),
        class("disks", "disk.example", json!({"storageclass.kubernetes.io/is-default-class": "false"})),
        class("other", "example.com/nfs", json!({})),
        of_cluster("CSIDriver", "file.example", spec(json!({"preventPodSchedulingIfMissing": true}))),
        of_cluster("CSIDriver", "disk.example", spec(json!({}))),
    ]
}

/// The pod has a volume with this claim; the Windows node has these drivers.
fn with_claim(claim: &str, on_windows: &[&str]) -> Vec<Value> {
    let volume = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]});
    [vec![running(with(windows(PRIVATE), volume))], storage(on_windows)].concat()
}

/// A StatefulSet with these templates of claims and these members of its pods' spec, and its pods with these numbers.
fn stateful_set(templates: Value, spec: Value, pods: &[usize]) -> Vec<Value> {
    let mut set = workload("StatefulSet", with(windows(PRIVATE), spec));
    set["spec"]["volumeClaimTemplates"] = templates;
    let pods = pods.iter().map(|number| {
        let mut pod = running(windows(PRIVATE));
        pod["metadata"]["name"] = json!(format!("p-{number}"));
        pod["metadata"]["ownerReferences"] = json!([{"kind": "StatefulSet", "name": "p", "controller": true}]);
        pod
    });
    std::iter::once(set).chain(pods).collect()
}

fn claim_template(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

fn ephemeral(spec: Value) -> Value {
    json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]})
}

/// The drivers that Windows pools lack, each with the path of the finding and the claim that it names; a list of storage is
/// left out.
#[test]
fn drivers_of_claims_from_templates() {
    const DISK: &str = "disk.example";
    const FILE: &str = "file.example";
    let template = |spec: Value| json!([claim_template("data", spec)]);
    let class = |name: &str| json!({"storageClassName": name});
    let of_template = "spec.volumeClaimTemplates[0]";
    let of_volume = "spec.template.spec.volumes[0].ephemeral";
    let mut annotated = claim_template("data", class("files"));
    annotated["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": "disks"});
    let set = |spec: Value, pods: &[usize]| stateful_set(template(spec), json!({}), pods);
    let of_pods = |spec: Value, pods: &[usize]| stateful_set(json!([]), spec, pods);
    let mut ended = set(class("files"), &[1]);
    ended[1]["status"] = json!({"phase": "Succeeded"});
    let both = json!([claim_template("a", class("files")), claim_template("b", class("disks"))]);
    let mut own_claim = storage(&[]);
    own_claim.push(object("PersistentVolumeClaim", "p-0-v", class("disks")));
    let named = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "bound"}}]});
    let csi = json!({"volumes": [{"name": "v", "csi": {"driver": "secrets.example"}}]});
    let hostile =
        json!([7, null, {"metadata": 7, "spec": []}, {"metadata": {"name": "data"}, "spec": {"storageClassName": 7}}]);
    for (objects, without, expected) in [
        // Without pods, the class of the template counts.
        (set(class("disks"), &[]), "", vec![(DISK, of_template, "")]),
        (set(json!({}), &[]), "", vec![(FILE, of_template, "")]),
        (set(class(""), &[]), "", vec![]),
        (set(class("other"), &[]), "", vec![]),
        (set(class("absent"), &[]), "", vec![]),
        (stateful_set(json!([annotated]), json!({}), &[]), "", vec![(DISK, of_template, "")]),
        (
            stateful_set(both.clone(), json!({}), &[]),
            "",
            vec![(DISK, "spec.volumeClaimTemplates[1]", ""), (FILE, of_template, "")],
        ),
        (ended, "", vec![(FILE, of_template, "")]),
        // With pods, their claims count, and the template for those without one.
        (set(class("files"), &[1]), "", vec![(DISK, of_template, "data-p-1")]),
        (set(class("files"), &[0, 1]), "", vec![(DISK, of_template, "data-p-1"), (FILE, of_template, "")]),
        (set(class("disks"), &[0, 1, 2]), "", vec![(DISK, of_template, "")]),
        // What was not read is not known.
        (set(class("disks"), &[0]), "persistentvolumeclaims", vec![]),
        (set(class("disks"), &[]), "persistentvolumeclaims", vec![(DISK, of_template, "")]),
        (set(json!({}), &[]), "storageclasses", vec![]),
        (set(class("disks"), &[1]), "persistentvolumes", vec![]),
        (set(class("disks"), &[]), "csidrivers", vec![]),
        // Ephemeral volumes have a claim of each pod.
        (of_pods(ephemeral(class("disks")), &[]), "", vec![(DISK, of_volume, "")]),
        (of_pods(ephemeral(json!({})), &[]), "", vec![(FILE, of_volume, "")]),
        (of_pods(ephemeral(class("files")), &[0]), "", vec![(FILE, of_volume, "")]),
        ([of_pods(ephemeral(class("files")), &[0]), own_claim].concat(), "", vec![(DISK, of_volume, "p-0-v")]),
        (of_pods(ephemeral(class("files")), &[0]), "persistentvolumeclaims", vec![]),
        // A template replaces the volume with its name.
        (stateful_set(template(class("other")), named.clone(), &[]), "", vec![]),
        (of_pods(named, &[]), "", vec![(DISK, "spec.template.spec.volumes[0].persistentVolumeClaim", "bound")]),
        (of_pods(csi, &[]), "", vec![("secrets.example", "spec.template.spec.volumes[0].csi", "")]),
        (stateful_set(hostile, json!({}), &[]), "", vec![(FILE, "spec.volumeClaimTemplates[3]", "")]),
        (stateful_set(json!({"a": 7}), json!({}), &[0]), "", vec![]),
    ] {
        let has_storage = objects.iter().any(|object| object["kind"] == "CSINode");
        let all = if has_storage { objects } else { [objects, storage(&[])].concat() };
        let shown = json!(all).to_string();
        let found = report_without(&beside_nodes(all), TODAY, &[without]).findings;
        let found = found.iter().filter(|finding| finding.code == "SUR310").map(|finding| {
            let claim = finding.related.iter().find(|object| object.kind == "PersistentVolumeClaim");
            let driver = finding.related.iter().find(|object| object.kind == "CSIDriver").unwrap();
            (driver.name.as_str(), finding.path.as_str(), claim.map_or("", |claim| claim.name.as_str()))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        assert_eq!(found, expected, "without {without:?}: {shown}");
    }
}

/// Many pods with many templates are compared in part, and what was not compared is not reported.
#[test]
fn many_claims_are_looked_up_in_part() {
    let templates =
        (0..400).map(|at| claim_template(&format!("t{at}"), json!({"storageClassName": "files"}))).collect();
    let pods: Vec<usize> = (0..200).collect();
    let mut objects = [stateful_set(templates, json!({}), &pods), storage(&["file.example"])].concat();
    objects.push(object("PersistentVolumeClaim", "t399-p-199", json!({"storageClassName": "disks"})));
    let found = report(&beside_nodes(objects), TODAY);
    assert!(found.findings.iter().all(|finding| finding.code != "SUR310"));
}

/// What of the cluster does not serve Windows pods.
fn of_surroundings() -> Vec<Case> {
    let namespace = of_cluster(
        "Namespace",
        "shop",
        json!({"metadata": {"name": "shop", "labels": {"istio.io/dataplane-mode": "ambient"}}}),
    );
    let mut in_mesh = running(windows(PRIVATE));
    in_mesh["metadata"]["labels"]["istio.io/dataplane-mode"] = json!("ambient");
    let claim = "spec.volumes[0].persistentVolumeClaim";
    let policies = vec![
        running(windows(PRIVATE)),
        policy("all", json!({})),
        policy("app", json!({"matchLabels": {"app": "p"}})),
        policy("other", json!({"matchLabels": {"app": "q"}})),
    ];
    vec![
        (
            "SUR309",
            "p",
            policies,
            "metadata.labels",
            "The NetworkPolicies all and app select these pods, and no engine",
        ),
        (
            "SUR310",
            "p",
            with_claim("bound", &["file.example"]),
            claim,
            "disk.example, which no node of Windows pool w has",
        ),
        ("SUR310", "p", with_claim("new", &[]), claim, "needs the CSI driver file.example"),
        (
            "SUR311",
            "p",
            vec![running(windows(PRIVATE)), namespace],
            "metadata.labels[istio.io/dataplane-mode] of Namespace shop",
            "Namespace shop is in ambient mode",
        ),
        ("SUR311", "p", vec![in_mesh], "metadata.labels[istio.io/dataplane-mode]", "These pods are in ambient mode"),
        (
            "SUR404",
            "w (ltsc2022)",
            vec![agent("logs", "r.example/mirror/fluent/fluent-bit:4", "l")],
            "spec.containers[*].image",
            "No DaemonSet for logs that Mullion knows has a pod on Windows pool w. On Linux pool l, DaemonSet shop/logs has one",
        ),
    ]
}

/// The codes of the findings about these objects that are not those of dates.
fn codes(objects: Vec<Value>) -> BTreeSet<String> {
    let report = report(&beside_nodes(objects), TODAY);
    let codes = report.findings.into_iter().map(|finding| finding.code);
    codes.filter(|code| !code.starts_with("SUR50")).collect()
}

/// What serves Windows pods, and what is not for them, is no finding.
#[test]
fn what_serves_windows_pods_is_not_reported() {
    let runs = || running(windows(PRIVATE));
    let mut out_of_mesh = runs();
    out_of_mesh["metadata"]["labels"]["istio.io/dataplane-mode"] = json!("none");
    let namespace = of_cluster(
        "Namespace",
        "shop",
        json!({"metadata": {"name": "shop", "labels": {"istio.io/dataplane-mode": "ambient"}}}),
    );
    let mut on_linux = pod(
        json!({"nodeName": "l", "nodeSelector": {"kubernetes.io/os": "linux"},
        "containers": [{"name": "a", "image": "nginx:1"}]}),
        json!({"phase": "Running"}),
    );
    on_linux["metadata"]["labels"] = json!({"istio.io/dataplane-mode": "ambient"});
    let host = json!({"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}}});
    let two = |image: &str| vec![agent("logs", image, "l"), agent("logs", image, "w")];
    let without_csinode: Vec<Value> = with_claim("bound", &[])
        .into_iter()
        .filter(|object| !(object["kind"] == "CSINode" && object["metadata"]["name"] == "w"))
        .collect();
    for (objects, allowed) in [
        (vec![runs(), policy("all", json!({})), agent("calico", "quay.io/calico/node-windows:v3.31", "w")], ""),
        (vec![runs(), policy("other", json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}))], ""),
        (vec![with(runs(), json!({"spec": with(runs()["spec"].clone(), host)})), policy("all", json!({}))], "SUR308"),
        (vec![on_linux.clone(), policy("all", json!({}))], ""),
        (with_claim("bound", &["disk.example"]), ""),
        (with_claim("absent", &[]), ""),
        // Its drivers are not known.
        (without_csinode, ""),
        (vec![out_of_mesh, namespace.clone()], ""),
        (vec![on_linux, namespace], ""),
        (two("fluent/fluent-bit:4"), ""),
        (vec![agent("own", "r.example/own:1", "l")], ""),
    ] {
        let shown = json!(objects).to_string();
        let mut found = codes(objects);
        found.remove(allowed);
        // Agents without a selector run only by luck.
        found.retain(|code| !["SUR301", "SUR302", "SUR307", "SUR403", "SUR401"].contains(&code.as_str()));
        assert_eq!(found, BTreeSet::new(), "{shown}");
    }
}

/// The features of nodes are part of the pools; an object without the member does not reveal them.
#[test]
fn features_of_pools() {
    let objects =
        [declares(node("w", "10.0.20348.1"), &["B", "A"]), declares(node("x", "10.0.20348.1"), &[]), node("y", "")];
    let report = report(&objects, TODAY);
    let features = |name: &str| {
        let pool = report.pools.iter().find(|pool| pool.name == name).unwrap();
        let features = pool.declared_features.as_ref()?;
        Some(features.iter().map(|feature| (feature.feature.as_str(), feature.nodes)).collect::<Vec<_>>())
    };
    assert_eq!(features("w"), Some(vec![("A", 1), ("B", 1)]));
    assert_eq!((features("x"), features("y")), (Some(Vec::new()), None));
}

/// Survey and explain treat a node without `status.declaredFeatures` alike.
#[test]
fn a_node_without_declared_features_is_the_same_for_survey_and_explain() {
    const FEATURE: &str = "RestartAllContainersOnContainerExits";
    let at = |mut node: Value, kubelet: &str| {
        node["status"]["nodeInfo"]["kubeletVersion"] = json!(kubelet);
        node
    };
    let windows = || node("w", "10.0.20348.4294");
    let silent = || at(windows(), "v1.36.3");
    let linux = |features: &[&str]| declares(at(node("l", ""), "v1.36.3"), features);
    let (missing, unknown) = ("the node does not declare", "whether the scheduler requires");
    // Nodes, the code of the finding, and the beginning of what explain prints about the Windows node.
    for (nodes, code, expected) in [
        (vec![silent(), linux(&["ExtendWebSocketsToKubelet"])], "SUR114", missing),
        (vec![silent(), linux(&[FEATURE])], "SUR114", missing),
        // No node shows that the member is read.
        (vec![silent(), linux(&[])], "SUR222", unknown),
        (vec![silent()], "SUR222", unknown),
        // A node without a version was not read whole.
        (vec![windows(), linux(&[FEATURE])], "SUR222", unknown),
        (vec![at(windows(), "v1.34.3")], "SUR114", missing),
        (vec![declares(silent(), &[])], "SUR114", missing),
        (vec![declares(silent(), &[FEATURE])], "SUR107", ""),
    ] {
        let shown = json!(nodes).to_string();
        let pod = pending(restarts(), "x");
        let found = report(&[nodes.clone(), vec![pod.clone()]].concat(), TODAY);
        let of_pod = found.findings.iter().filter(|finding| finding.object.name == "p");
        let codes: Vec<&str> = of_pod.map(|finding| finding.code.as_str()).collect();
        assert_eq!(codes, [code], "{shown}");

        let text = json!({"apiVersion": "v1", "kind": "List", "items": nodes}).to_string();
        let mut snapshot = dump::from_text("nodes", text.as_bytes()).unwrap();
        snapshot.api_server = Some(MinorVersion::new(1, 36));
        let request =
            ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "shop", object: &pod });
        let policies = PolicySet::built_in();
        let found = find_nodes(&request, &snapshot, &policies.resolve(&request, &snapshot)).unwrap();
        let obstacle = found.left_out.iter().find(|(name, _)| *name == "w");
        let explained = obstacle.map(|(_, obstacle)| obstacle.to_string()).unwrap_or_default();
        assert_eq!(explained.is_empty(), expected.is_empty(), "{explained} in {shown}");
        assert!(explained.starts_with(expected), "{explained} in {shown}");
    }
}

/// The comparison of policies with workloads is limited, and what was not compared is not known.
#[test]
fn many_policies_are_compared_in_part() {
    let values: Vec<String> = (0..1_000).map(|at| format!("v{at}")).collect();
    let selector =
        |at: usize| json!({"matchExpressions": [{"key": format!("k{at}"), "operator": "In", "values": values}]});
    let mut objects: Vec<Value> = (0..200).map(|at| policy(&format!("p{at}"), selector(at))).collect();
    objects.extend((0..100).map(|at| {
        let mut pod = running(windows(PRIVATE));
        pod["metadata"]["name"] = json!(format!("pod-{at}"));
        pod
    }));
    let found = report(&beside_nodes(objects), TODAY);
    let unknown = found.unknown.iter().find(|unknown| unknown.what.starts_with("Which NetworkPolicies")).unwrap();
    assert!((1..100).contains(&unknown.all) && unknown.objects.len() <= 50, "{}", unknown.all);
    assert!(found.findings.iter().all(|finding| finding.code != "SUR309"));
}

fn of_nodes() -> Vec<Case> {
    let aspnet =
        |tag: &str| pod(windows(&format!("mcr.microsoft.com/dotnet/aspnet:{tag}-nanoserver-ltsc2022")), json!({}));
    let without = with(node("x", ""), json!({"metadata": {"name": "x"}}));
    vec![
        (
            "SUR501",
            "old (23h2)",
            vec![node("old", "10.0.25398.1")],
            "status.nodeInfo.kernelVersion",
            "2026-05-12: Microsoft ended",
        ),
        (
            "SUR502",
            "new (ltsc2025)",
            vec![aks(node("new", "10.0.26100.1"), "v1.35.2", "containerd://2.3.0")],
            "status.nodeInfo.kubeletVersion",
            "2027-03-31: AKS ends standard support of Kubernetes 1.35",
        ),
        (
            "SUR503",
            "w2 (ltsc2022)",
            vec![node("w2", "10.0.20348.1")],
            "status.nodeInfo.kernelVersion",
            "the oldest is 1",
        ),
        (
            "SUR504",
            "w3 (ltsc2022)",
            vec![aks(node("w3", "10.0.20348.4294"), "", "containerd://1.7.27")],
            "status.nodeInfo.containerRuntimeVersion",
            "2026-09-01: containerd 1.7",
        ),
        (
            "SUR505",
            "w4 (ltsc2022)",
            vec![with(node("w4", "10.0.20348.4294"), json!({"spec": {}}))],
            "spec.taints",
            "Windows nodes of pool w4 have no taint",
        ),
        (
            "SUR506",
            "without an operating system",
            vec![without],
            "metadata.labels[kubernetes.io/os]",
            "have no label kubernetes.io/os",
        ),
        (
            "SUR507",
            "images",
            vec![aspnet("8.0")],
            "spec.containers[*].image",
            "2026-11-10: Microsoft ended support of .NET 8",
        ),
        (
            "SUR508",
            "win25",
            vec![node_pool("win25", &["windows"], json!([{"key": "gpu", "effect": "NoSchedule"}]))],
            "spec.template.spec.taints",
            "The template of Windows NodePool win25 has no taint that keeps Linux pods off.",
        ),
        (
            "SUR509",
            "general",
            vec![node_pool("general", &["linux", "windows"], json!([]))],
            "spec.template.spec.requirements",
            "The template of NodePool general requires no operating system.",
        ),
    ]
}

/// A NodePool of Karpenter for these systems.
fn node_pool(name: &str, systems: &[&str], taints: Value) -> Value {
    let requirements = json!([{"key": "kubernetes.io/os", "operator": "In", "values": systems}]);
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": {
        "metadata": {"labels": {"team": "shop"}},
        "spec": {"requirements": requirements, "taints": taints,
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}}}}})
}

/// The objects and the nodes of the fleet. A node of the objects replaces the node of the fleet with the same name.
fn beside_nodes(objects: Vec<Value>) -> Vec<Value> {
    let name = |object: &Value| (object["kind"].clone(), object["metadata"]["name"].clone());
    let own: Vec<_> = objects.iter().map(name).collect();
    nodes().into_iter().filter(|node| !own.contains(&name(node))).chain(objects).collect()
}

#[test]
fn every_code_has_its_field_and_its_message() {
    let cases = cases();
    let mut wrong = Vec::new();
    for (code, name, objects, path, part) in &cases {
        let report = report(&beside_nodes(objects.clone()), TODAY);
        let all: Vec<&SurveyFinding> = report.findings.iter().filter(|finding| finding.object.name == *name).collect();
        let found = all.iter().find(|finding| finding.code == *code && finding.path == *path);
        if found.is_none_or(|finding| !finding.message.contains(part)) {
            let all: Vec<String> =
                all.iter().map(|one| format!("{} {}: {}", one.code, one.path, one.message)).collect();
            wrong.push(format!("{code} {path}: {part}\n  {}", all.join("\n  ")));
        }
        // A pod that is stuck is so for one reason.
        let reasons = all.iter().filter(|finding| finding.code.starts_with("SUR1") || finding.code.starts_with("SUR2"));
        if reasons.count() > 1 {
            wrong.push(format!("{code}: more than one reason"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let tested: BTreeSet<&str> = cases.iter().map(|(code, ..)| *code).collect();
    let known: BTreeSet<&str> = FINDINGS.iter().map(|kind| kind.code).collect();
    assert_eq!(tested, known, "the codes of this table and those of the catalogue");
}

/// Without a list that it needs, a finding is not stated.
#[test]
fn no_code_is_stated_without_its_lists() {
    for (code, name, objects, ..) in &cases() {
        for needed in FINDINGS.iter().find(|kind| kind.code == *code).unwrap().needs {
            let report = report_without(&beside_nodes(objects.clone()), TODAY, &[needed]);
            let is_stated = report.findings.iter().any(|finding| finding.code == *code && finding.object.name == *name);
            assert!(!is_stated, "{code} of {name} without {needed}");
        }
    }
}

/// A date is a warning within 180 days, still on the day itself, and another finding from the next day on.
#[test]
fn dates_before_and_after_their_day() {
    let image = |image: &str| pod(windows(image), json!({}));
    let aks_node = |version: &str, kubelet: &str| aks(node("pool", version), kubelet, "containerd://2.3.0");
    let cases = [
        (image("mcr.microsoft.com/dotnet/aspnet:9.0-nanoserver-ltsc2022"), "images", date(2026, 11, 10), "SUR507"),
        (image("mcr.microsoft.com/powershell:lts-nanoserver-ltsc2022"), "images", date(2026, 11, 10), "SUR507"),
        (image("mcr.microsoft.com/windows/servercore:ltsc2016"), "images", date(2027, 1, 11), "SUR507"),
        (aks_node("10.0.20348.4294", "v1.34.1"), "pool (ltsc2022)", date(2026, 11, 30), "SUR507"),
        (aks_node("10.0.20348.4294", "v1.34.1"), "pool (ltsc2022)", date(2027, 11, 30), "SUR507"),
        (aks_node("10.0.17763.8389", ""), "pool (ltsc2019)", date(2026, 3, 1), "SUR501"),
        // The provider deletes the node images.
        (aks_node("10.0.17763.8389", ""), "pool (ltsc2019)", date(2027, 4, 1), "SUR501"),
        (aks(node("pool", "10.0.26100.1"), "", "containerd://2.0.4"), "pool (ltsc2025)", date(2027, 3, 1), "SUR504"),
    ];
    for (object, name, day, after) in cases {
        let at = |days: i64| {
            let report = report(&beside_nodes(vec![object.clone()]), day.saturating_add(jiff::Span::new().days(days)));
            let about =
                |finding: &&SurveyFinding| finding.object.name == name && finding.message.starts_with(&day.to_string());
            report.findings.iter().filter(about).map(|finding| finding.code.clone()).collect::<Vec<_>>()
        };
        let found = [-181, -180, 0, 1, 400].map(at);
        let expected = [vec![], vec!["SUR502"], vec!["SUR502"], vec![after], vec![after]];
        assert_eq!(found, expected, "{name} on {day}");
    }
}

/// A comparison does not report a warning as gone on the day after the date.
#[test]
fn a_date_that_passed_is_new_and_not_gone() {
    let objects =
        beside_nodes(vec![pod(windows("mcr.microsoft.com/dotnet/aspnet:8.0-nanoserver-ltsc2022"), json!({}))]);
    let found = compare(&report(&objects, date(2026, 11, 10)), &report(&objects, date(2026, 11, 11)));
    assert!(found.gone.is_empty(), "{:?}", found.gone);
    assert_eq!(found.new.iter().map(|new| new.code.as_str()).collect::<Vec<_>>(), ["SUR507"]);
    assert_eq!(found.passed.len(), 1, "{:?}", found.passed);
}

/// Two images under one tag, one for each build, are not an index for both.
#[test]
fn a_tag_that_was_moved_has_no_known_builds() {
    let runs = |name: &str, node: &str, id: &str| {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
            {"name": "a", "ready": true, "image": PRIVATE, "imageID": id, "state": {"running": {}}}]});
        with(object("Pod", name, with(windows(PRIVATE), json!({"nodeName": node}))), json!({"status": status}))
    };
    let (one, other) = ("r.example/web@sha256:11", "r.example/web@sha256:22");
    let builds = |first: &str, second: &str| {
        let objects = vec![node("w19", "10.0.17763.1"), runs("p", "w19", first), runs("q", "w", second)];
        let report = report(&beside_nodes(objects), TODAY);
        let container = &report.workloads[0].containers[0];
        let moved = report.unknown.iter().find(|unknown| unknown.what.contains("have had several images"));
        (container.builds.clone(), moved.map(|unknown| unknown.all))
    };
    assert_eq!(builds(one, one), (vec!["10.0.17763".to_owned(), "10.0.20348".to_owned()], None));
    assert_eq!(builds(one, other), (Vec::new(), Some(2)));
}

const WINDOWS_TAINT: &str = "os=windows:NoSchedule";

fn windows_pool(name: &str) -> Value {
    node_pool(name, &["windows"], json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]))
}

fn node_class(name: &str, alias: &str) -> Value {
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
        "spec": {"amiSelectorTerms": [{"alias": alias}]}})
}

fn waiting_for_a_node(name: &str, image: &str, more: Value) -> Value {
    let mut pod = pending(with(windows(image), more), "0/2 nodes are available");
    pod["metadata"]["name"] = json!(name);
    pod
}

/// NodePools without nodes, which pods start them, which for nothing, and which pods no pool can run.
#[test]
fn pools_without_nodes_and_their_pods() {
    let of = |release: &str| format!("mcr.microsoft.com/windows/servercore:{release}");
    let objects = vec![
        node("l", ""),
        windows_pool("win22"),
        node_class("win22", "windows2022@latest"),
        windows_pool("win-any"),
        waiting_for_a_node("for-2022", &of("ltsc2022"), json!({})),
        waiting_for_a_node(
            "for-2019",
            &of("ltsc2019"),
            json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "node.kubernetes.io/windows-build", "operator": "In", "values": ["10.0.17763"]}]}]}}}}),
        ),
        waiting_for_a_node("for-another-team", &of("ltsc2022"), json!({"nodeSelector": {"team": "other"}})),
        waiting_for_a_node("in-a-zone", &of("ltsc2019"), json!({"nodeSelector": {"topology.kubernetes.io/zone": "a"}})),
        waiting_for_a_node("without-toleration", &of("ltsc2022"), json!({"tolerations": []})),
    ];
    let found = report(&objects, TODAY);
    let shown = |all: &[WaitingPods]| -> Vec<String> {
        all.iter().map(|one| format!("{} {} {}", one.object.name, one.pods, one.runs)).collect()
    };
    let pools: Vec<_> = found
        .pools_without_nodes
        .iter()
        .map(|pool| (pool.pool.as_str(), pool.build.as_deref(), shown(pool.starts.as_deref().unwrap())))
        .collect();
    assert_eq!(
        pools,
        [
            // A class that was not read: any build fits.
            (
                "win-any",
                None,
                vec!["for-2019 1 true".to_owned(), "for-2022 1 true".to_owned(), "in-a-zone 1 true".to_owned()]
            ),
            ("win22", Some("10.0.20348"), vec!["for-2022 1 true".to_owned(), "in-a-zone 1 false".to_owned()]),
        ]
    );
    assert_eq!(shown(&found.unserved), ["for-another-team 1 false", "without-toleration 1 false"]);
    // With a node, a pool is part of the fleet.
    let with_node = [objects.clone(), vec![node("win22", "10.0.20348.4294")]].concat();
    let names =
        |report: &SurveyReport| report.pools_without_nodes.iter().map(|pool| pool.pool.clone()).collect::<Vec<_>>();
    assert_eq!(names(&report(&with_node, TODAY)), ["win-any"]);
    // What was not read is not known.
    let without = |kind: &str| report_without(&objects, TODAY, &[kind]);
    assert_eq!(without("pods").pools_without_nodes[0].starts, None);
    assert!(without("nodes").unserved.is_empty());
    assert!(names(&without("nodepools.karpenter.sh")).is_empty());
    let asked = |report: &SurveyReport| report.unknown.iter().any(|one| one.what.contains("NodePools were not read"));
    assert!(asked(&without("nodepools.karpenter.sh")) && !asked(&found));
    // Another API may have a kind of that name.
    let mut other = windows_pool("other");
    other["apiVersion"] = json!("example.com/v1");
    assert!(names(&report(&[node("l", ""), other], TODAY)).is_empty());
}

/// Pools of the NodePolicy without nodes.
#[test]
fn expected_pools_without_nodes() {
    let policy = json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "NodePolicy", "metadata": {"name": "nodes"}, "spec": {
    "expectedPools": [
        {"build": "10.0.20348", "taints": [WINDOWS_TAINT], "labels": {"agentpool": "win22"}},
        {"build": "10.0.26100", "taints": [WINDOWS_TAINT]},
    ]}});
    let policies = PolicySet::from_files(&[("nodes.yaml", &policy.to_string())]).unwrap();
    let image = "mcr.microsoft.com/windows/servercore:ltsc2025";
    let objects = vec![node("l", ""), waiting_for_a_node("p", image, json!({}))];
    let found = report_with(&objects, TODAY, &[], &policies);
    let pools: Vec<_> = found
        .pools_without_nodes
        .iter()
        .map(|pool| (pool.pool.as_str(), pool.declared_by.as_str(), pool.starts.as_ref().unwrap()[0].runs))
        .collect();
    // The autoscaler may not know that nodes of win22 cannot run it.
    assert_eq!(pools, [("ltsc2025", "NodePolicy", true), ("win22", "NodePolicy", false)]);
    assert_eq!(found.pools_without_nodes[1].labels, ["agentpool=win22"]);
    assert!(found.unserved.is_empty());
}

const NANO_2022: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";

/// The spec of a pod for Windows with image volumes that its container mounts: name and reference of each.
fn with_volumes(image: &str, volumes: &[(&str, &str)]) -> Value {
    let mut spec = windows(image);
    let mounts = volumes.iter().map(|(name, _)| json!({"name": name, "mountPath": format!("C:\\{name}")}));
    spec["containers"][0]["volumeMounts"] = mounts.collect();
    spec["volumes"] =
        volumes.iter().map(|(name, reference)| json!({"name": name, "image": {"reference": reference}})).collect();
    spec
}

/// An image of a volume counts as one of the workload, wherever its runtime does not matter.
#[test]
fn image_volumes_are_images_of_a_workload() {
    let frozen = "mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2022";
    let mut spec = with_volumes(
        PRIVATE,
        &[
            ("tools", NANO_2022),
            ("floats", "mcr.microsoft.com/windows/servercore/iis:latest"),
            ("frozen", frozen),
            ("data", "r.example/data:1"),
        ],
    );
    let unused = json!({"name": "unused", "image": {"reference": "r.example/unused:1"}});
    spec["volumes"].as_array_mut().unwrap().insert(0, unused);
    let report = report(&beside_nodes(vec![workload("Deployment", spec)]), TODAY);
    let workload = &report.workloads[0];
    let volumes: Vec<(&str, &str, Vec<String>)> = workload
        .image_volumes
        .iter()
        .map(|volume| (volume.name.as_str(), volume.image.as_str(), volume.builds.clone()))
        .collect();
    let build = || vec!["10.0.20348".to_owned()];
    assert_eq!(
        volumes,
        [
            ("tools", NANO_2022, build()),
            ("floats", "mcr.microsoft.com/windows/servercore/iis:latest", Vec::new()),
            ("frozen", frozen, build()),
            ("data", "r.example/data:1", Vec::new()),
        ]
    );
    assert_eq!(workload.containers.len(), 1);
    assert_eq!(
        report.image_builds.iter().map(|group| group.images).collect::<Vec<_>>(),
        [5],
        "one of them is Windows by name"
    );
    let found = |code: &str| {
        let of_code = report.findings.iter().filter(|finding| finding.code == code);
        of_code.map(|finding| finding.path.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(found("SUR303"), ["spec.template.spec.volumes[2].image.reference"]);
    assert_eq!(found("SUR304"), ["spec.template.spec.volumes[3].image.reference"]);
    // What concerns a process does not concern a volume.
    assert!(found("SUR307").is_empty());
    let unknown =
        report.unknown.iter().find(|unknown| unknown.what.starts_with("The Windows build of images of these"));
    assert_eq!(unknown.map(|unknown| unknown.all), Some(1));
}

/// The kubelet writes the failure of a volume's image into the status of the container that mounts it.
#[test]
fn a_message_about_a_volume_does_not_accuse_the_container() {
    let pull = |image: &str| {
        format!(
            "Back-off pulling image \"{image}\": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": no match for platform in manifest: not found"
        )
    };
    let spec = || with_volumes("r.example/web:1", &[("tools", "tools:1"), ("data", "r.example/data:1")]);
    let remedy = |at: usize| format!("Use an image for the nodes of its pods in spec.volumes[{at}].image.reference.");
    let general = "Find out what the image is for with: mullion image IMAGE --registry.".to_owned();
    let cases = [
        (pull("r.example/web:1"), "The image r.example/web:1 has no entry", general.clone()),
        // As the container runtime completes it.
        (pull("docker.io/library/tools:1"), "The image tools:1 of volume tools has no entry", remedy(0)),
        (pull("r.example/data:1"), "The image r.example/data:1 of volume data has no entry", remedy(1)),
        // It can be each of the three.
        ("no match for platform in manifest: not found".to_owned(), "The image has no entry", general.clone()),
        (pull("r.example/other:1"), "The image r.example/other:1 has no entry", general),
        (
            "failed to pull and unpack image \"r.example/data:1\": failed to extract layer sha256:1: hcsshim::ProcessBaseLayer x".to_owned(),
            "The image r.example/data:1 of volume data is a Linux image, and the node of its pods cannot mount it.",
            remedy(1),
        ),
        (
            "failed to pull and unpack image \"r.example/data:1\": failed to resolve reference \"r.example/data:1\": r.example/data:1: not found".to_owned(),
            "The registry has no image r.example/data:1 of volume data.",
            "Check".to_owned(),
        ),
    ];
    for (message, expected, action) in cases {
        let report = report(&beside_nodes(vec![waiting(spec(), "ImagePullBackOff", &message)]), TODAY);
        let found: Vec<&SurveyFinding> =
            report.findings.iter().filter(|found| found.code.starts_with("SUR2")).collect();
        assert_eq!(found.len(), 1, "{message}: {:?}", report.findings);
        assert!(found[0].message.starts_with(expected), "{message}: {}", found[0].message);
        assert!(found[0].action.starts_with(&action), "{message}: {}", found[0].action);
    }
}

/// Volumes in any number, with references of any length.
#[test]
fn many_image_volumes_are_listed_in_part() {
    let names: Vec<String> = (0..5_000).map(|at| format!("v{at}")).collect();
    let long = format!("r.example/{}:1", "a".repeat(20_000));
    let volumes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "r.example/data:1")).collect();
    let mut spec = with_volumes(PRIVATE, &volumes);
    spec["volumes"][0]["image"]["reference"] = json!(long);
    for odd in
        [json!(7), json!({"name": "v1"}), json!({"name": "v0", "image": 7}), json!({"image": {"reference": "a"}})]
    {
        spec["volumes"].as_array_mut().unwrap().push(odd);
    }
    let message = "failed to pull and unpack image \"r.example/data:1\": no match for platform in manifest: not found";
    let report = report(&beside_nodes(vec![waiting(spec, "ErrImagePull", message)]), TODAY);
    let workload = &report.workloads[0];
    assert_eq!(workload.image_volumes.len(), 100);
    assert!(
        report
            .findings
            .iter()
            .any(|found| found.message.starts_with("The image r.example/data:1 of volume v1 has no entry"))
    );
}

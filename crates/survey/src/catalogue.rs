//! The catalogue of findings: code, name, severity, what it means, why it matters and how to fix it.
//!
//! A code is never used again. `SUR1xx` are misplaced or stuck pods, `SUR2xx` errors of pulls and starts, `SUR3xx`
//! fragile workloads, `SUR4xx` DaemonSets, `SUR5xx` the fleet and its dates.

use mullion_engine::model::text::list_with;
use serde::Serialize;

use crate::report::Severity;

/// One entry of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FindingKind {
    /// `SUR201`.
    pub code: &'static str,
    /// `image-not-found`.
    pub name: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What it is counted as.
    pub group: FindingGroup,
    /// The lists that it needs besides its object, as `kubectl get` accepts them.
    pub needs: &'static [&'static str],
    /// What was found: one sentence without a period.
    pub what: &'static str,
    /// Why it matters: whole sentences.
    pub why: &'static str,
    /// What to do: whole sentences. It is used for a finding without an action of its own.
    pub fix: &'static str,
    /// The sources of the facts.
    pub sources: &'static [&'static str],
}

const fn kind(
    code: &'static str,
    name: &'static str,
    (severity, group, needs): (Severity, FindingGroup, &'static [&'static str]),
    what: &'static str,
    why: &'static str,
    fix: &'static str,
    sources: &'static [&'static str],
) -> FindingKind {
    FindingKind { code, name, severity, group, needs, what, why, fix, sources }
}

/// What a finding is counted as in a summary. Each is in one group, so that the numbers of a report are sums of its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FindingGroup {
    /// Pods are on nodes that cannot run them.
    Misplaced,
    /// Pods wait or fail for another reason.
    Stuck,
    /// A controller cannot create its pods, so the workload has none.
    Rejected,
    /// Nothing keeps the pods off nodes of the other operating system.
    Luck,
    /// Something else about a workload.
    Fragile,
    /// A DaemonSet has no pod in a pool that it is for.
    AbsentDaemonSet,
    /// A DaemonSet is not for a pool.
    ExcludingDaemonSet,
    /// The nodes, and dates.
    Fleet,
}

/// Lists of objects that findings need besides the object that they are about: without one of them, such a finding is not
/// stated.
const NOTHING_ELSE: &[&str] = &[];
const NODES: &[&str] = &["nodes"];
const PODS: &[&str] = &["pods"];
/// Pods, because webhooks change them after their template; and what the nodes have.
const PODS_ON_NODES: &[&str] = &["pods", "nodes"];
/// That there are no pods, and why.
const EVENTS: &[&str] = &["pods", "events"];
/// What a namespace exempts from the rules.
const NAMESPACES: &[&str] = &["namespaces"];

const COMPATIBILITY: &str =
    "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility";
const KUBELET_ADMIT: &str = "https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/lifecycle/predicate.go";
const CONTAINERD_MATCH: &str = "https://github.com/containerd/containerd/blob/main/core/images/handlers.go";
const HCSSHIM: &str = "https://github.com/microsoft/hcsshim/blob/main/internal/hcs/system.go";
const PULL_IMAGES: &str = "https://kubernetes.io/docs/concepts/containers/images/";
const WINDOWS_USERS: &str = "https://kubernetes.io/docs/tasks/configure-pod-container/configure-runasusername/";
const WINDOWS_GUIDE: &str = "https://kubernetes.io/docs/concepts/windows/user-guide/";
const TAINTS: &str = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/";
const SELECTORS: &str = "https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/";
const WINDOWS_RESOURCES: &str = "https://kubernetes.io/docs/concepts/configuration/windows-resource-management/";
const HOST_PROCESS: &str = "https://kubernetes.io/docs/tasks/configure-pod-container/create-hostprocess-pod/";
const LIFECYCLE: &str =
    "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/base-image-lifecycle";

use FindingGroup::{AbsentDaemonSet, ExcludingDaemonSet, Fleet, Fragile, Luck, Misplaced, Rejected, Stuck};
use Severity::{Notice, Problem, Warning};

/// Every kind of finding, in the order of the codes.
#[rustfmt::skip]
pub static FINDINGS: &[FindingKind] = &[
    kind("SUR101", "linux-pod-on-windows-node", (Problem, Misplaced, PODS_ON_NODES),
        "a Linux pod is on a Windows node",
        "A Windows node cannot run Linux images: the pull fails, or the layers cannot be unpacked. The pod stays where it is, because the scheduler never moves a pod.",
        "Set nodeSelector kubernetes.io/os: linux in the pod template, and delete the pod.",
        &[WINDOWS_GUIDE, "https://github.com/rancher/rancher-docs/issues/1228"]),
    kind("SUR102", "windows-pod-on-linux-node", (Problem, Misplaced, PODS_ON_NODES),
        "a Windows pod is on a Linux node",
        "A Linux node cannot run Windows images: the pull fails, or the layers cannot be unpacked. The pod stays where it is, because the scheduler never moves a pod.",
        "Set nodeSelector kubernetes.io/os: windows in the pod template, and delete the pod.",
        &[WINDOWS_GUIDE, "https://github.com/microsoft/Windows-Containers/issues/452"]),
    kind("SUR103", "wrong-windows-build", (Problem, Misplaced, PODS_ON_NODES),
        "the node has a Windows build that cannot run the image",
        "Windows Server 2019 runs only images of its own build, and hosts from Windows Server 2022 on run no older images than ltsc2022. That the build of the node is excluded is known from the tag, a policy, the registry, or the message; not from where the image ran. The pod stays where it is, because the scheduler never moves a pod.",
        "Set nodeSelector node.kubernetes.io/windows-build to a build that runs the image, or use an image for the build of the node.",
        &[COMPATIBILITY]),
    kind("SUR104", "pending-no-such-node", (Problem, Stuck, PODS_ON_NODES),
        "no node has the labels that the pod requires",
        "The pod stays Pending until such a node exists. This is common after a pool was deleted or renamed while a selector still names its build or its labels.",
        "Change the selector, or add a node with these labels.",
        &[SELECTORS]),
    kind("SUR105", "pending-untolerated-taint", (Problem, Stuck, PODS_ON_NODES),
        "every node that fits the pod has a taint that the pod does not tolerate",
        "The pod stays Pending. Since Kubernetes 1.34 the message of the scheduler no longer names the taint; it is computed here from the nodes and the tolerations.",
        "Add a toleration for the taint to the pod template.",
        &[TAINTS, "https://github.com/kubernetes/kubernetes/pull/134740"]),
    kind("SUR106", "pending-nodes-unavailable", (Problem, Stuck, PODS_ON_NODES),
        "every node that fits the pod is cordoned or not ready",
        "The pod stays Pending until a node is available. This is common while a pool is replaced.",
        "Uncordon or repair a node, or add one.",
        &["https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/"]),
    kind("SUR107", "pending-no-room", (Problem, Stuck, PODS_ON_NODES),
        "nodes fit the pod, but the scheduler does not place it",
        "Labels, taints and affinity of the pod fit nodes that are not cordoned. Possible causes are missing capacity (memory, CPU, ports, volumes) and affinity rules between pods.",
        "Read the message of the scheduler, and free or add capacity.",
        &["https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/"]),
    kind("SUR108", "pending-no-private-address", (Problem, Stuck, PODS),
        "the scheduler finds no node with a free address for a Windows pod on EKS",
        "On EKS each Windows pod needs a secondary address of its node. A webhook adds this resource to pods that select Windows in nodeSelector. The addresses of a node are limited by its instance type.",
        "Add nodes or enable prefix delegation; and check that the pod selects Windows by nodeSelector and not by affinity.",
        &["https://docs.aws.amazon.com/eks/latest/userguide/windows-support.html", "https://github.com/aws/amazon-vpc-resource-controller-k8s"]),
    kind("SUR109", "pod-os-rejected", (Problem, Stuck, PODS),
        "the kubelet rejected the pod, because its OS field is not that of the node",
        "spec.os.name does not place a pod. A pod with an OS field and without a selector is scheduled anywhere, and then rejected.",
        "Set nodeSelector kubernetes.io/os to the same operating system as spec.os.name.",
        &[KUBELET_ADMIT]),
    kind("SUR110", "pod-os-label-rejected", (Problem, Stuck, PODS),
        "the kubelet rejected the pod, because its label kubernetes.io/os is not that of the node",
        "A label of a pod with the key kubernetes.io/os does not select nodes, but the kubelet compares it.",
        "Remove the label kubernetes.io/os from the labels of the pod template; use nodeSelector instead.",
        &[KUBELET_ADMIT]),
    kind("SUR111", "pending-impossible-os", (Problem, Stuck, PODS),
        "the pod requires Linux and Windows at once",
        "No node can have both, so the pod stays Pending.",
        "Remove the selector that is wrong.",
        &[SELECTORS]),
    kind("SUR112", "pods-rejected", (Problem, Rejected, EVENTS),
        "a controller cannot create its pods",
        "The API server rejects them: a quota, Pod Security admission, a webhook, or a field that the operating system forbids.",
        "Read the message, and change the pod template accordingly.",
        &["https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/"]),
    kind("SUR113", "pending-volume", (Problem, Stuck, PODS_ON_NODES),
        "nodes fit the pod, but its volumes do not let the scheduler place it",
        "A volume can be used only in its zone or on its node, and a node attaches a limited number of volumes.",
        "Add a node in the zone of the volume, or one that attaches more volumes; kubectl describe pv shows where a volume can be used.",
        &["https://kubernetes.io/docs/concepts/storage/persistent-volumes/#node-affinity", "https://kubernetes.io/docs/concepts/storage/storage-limits/"]),
    kind("SUR201", "image-has-no-platform", (Problem, Misplaced, PODS),
        "the image has no entry for the operating system and build of the node",
        "The container runtime compares the entries of the image's index with the node. The message is the same for an image of the other operating system and for one of another Windows build.",
        "Find out what the image is for with: mullion image IMAGE --registry. Then set the matching selector, or use another tag.",
        &[CONTAINERD_MATCH, COMPATIBILITY]),
    kind("SUR202", "pull-denied", (Problem, Stuck, PODS),
        "the registry denies the pull",
        "The credentials are missing, wrong or expired, or have no access to the repository. Some registries answer the same for a repository that does not exist. It has nothing to do with the operating system.",
        "Check imagePullSecrets of the pod and of its service account, and the access of the node to the registry.",
        &[PULL_IMAGES]),
    kind("SUR203", "image-not-found", (Problem, Stuck, PODS),
        "the registry has no such image",
        "The name or the tag is wrong, or the image was deleted. It has nothing to do with the operating system.",
        "Check the name and the tag of the image.",
        &[PULL_IMAGES]),
    kind("SUR204", "registry-unreachable", (Problem, Stuck, PODS),
        "the node cannot reach the registry",
        "The name cannot be resolved, the connection fails, or the certificate is not trusted. Proxies, firewalls and certificates are configured for Windows nodes separately from Linux nodes.",
        "Check DNS, proxy, firewall and trusted certificates on the node.",
        &["https://github.com/containerd/containerd/blob/main/docs/hosts.md"]),
    kind("SUR205", "pull-limited", (Problem, Stuck, PODS),
        "the registry limits the number of pulls",
        "The registry rejects pulls until the limit is reset.",
        "Pull with credentials, or use a mirror or a cache.",
        &["https://docs.docker.com/docker-hub/usage/"]),
    kind("SUR206", "pull-failed", (Problem, Stuck, PODS),
        "the image cannot be pulled",
        "The message does not show the cause: it is cut, or unknown.",
        "Read the message, and the log of the container runtime on the node.",
        &[PULL_IMAGES]),
    kind("SUR207", "invalid-image-name", (Problem, Stuck, PODS),
        "the reference of the image is malformed",
        "The kubelet does not try to pull it.",
        "Correct the image in the pod template: lower-case names, one tag.",
        &[PULL_IMAGES]),
    kind("SUR208", "unpack-failed", (Problem, Stuck, PODS),
        "the layers of the image cannot be unpacked",
        "The image was downloaded. A damaged layer, a virus scanner on the node, or a fault of the disk can be the cause.",
        "Remove the image from the node and pull it again; exclude the directory of the container runtime from the virus scanner.",
        &["https://github.com/containerd/containerd/blob/main/pkg/rootfs/apply.go"]),
    kind("SUR209", "disk-full", (Problem, Stuck, PODS),
        "the node has no room for the image",
        "Windows base images have 0.3 to 5 GB, and each release is one more.",
        "Enlarge the disk of the pool, or remove images that are not used.",
        &["https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images"]),
    kind("SUR210", "layers-too-new", (Problem, Misplaced, PODS),
        "the format of the image's layers is newer than the host",
        "The image was built on a newer Windows than the node has.",
        "Use an image for the build of the node, or a node of a newer build.",
        &["https://github.com/microsoft/hcsshim/issues/2566", COMPATIBILITY]),
    kind("SUR211", "pause-image", (Problem, Stuck, PODS),
        "the pause image of the node cannot be pulled, or does not fit the node",
        "Every pod needs it, so no pod starts on this node. Either the registry cannot be reached, or the image has no entry for the build of the node: pause 3.10.2 and newer have one for Windows Server 2025.",
        "Configure sandbox_image of containerd with a pause image for this build, and check access to its registry.",
        &["https://github.com/kubernetes/kubernetes/blob/master/build/pause/CHANGELOG.md"]),
    kind("SUR212", "no-runtime-handler", (Problem, Stuck, PODS),
        "the node has no handler for the RuntimeClass",
        "A RuntimeClass is for nodes whose container runtime has its handler. Linux nodes have no Windows handlers, and Windows nodes have no Hyper-V handler unless it is configured.",
        "Set scheduling.nodeSelector in the RuntimeClass, or configure the handler in containerd on the node.",
        &["https://kubernetes.io/docs/concepts/containers/runtime-class/"]),
    kind("SUR213", "pod-network", (Problem, Stuck, PODS),
        "the network of the pod cannot be set up",
        "The network plugin of the node failed. On Windows it uses the Host Networking Service, whose state can be wrong after a restart.",
        "Read the log of the network plugin on the node; restart the node if other pods fail there too.",
        &["https://kubernetes.io/docs/concepts/services-networking/windows-networking/"]),
    kind("SUR214", "build-mismatch-at-start", (Problem, Misplaced, PODS),
        "Windows does not start the container, because its build is not that of the host",
        "The image has a single manifest, so the container runtime pulled it without a comparison. With process isolation, Windows does not start an image of another build.",
        "Use an image for the build of the node, or set nodeSelector node.kubernetes.io/windows-build.",
        &[HCSSHIM, COMPATIBILITY]),
    kind("SUR215", "exited-at-start", (Problem, Stuck, PODS),
        "the container ended while Windows started it",
        "The most common cause is a host whose revision is older than that of the image. Too little memory and a broken update of the host are others.",
        "Update the node to the newest revision of its build; give the container at least 300 MiB for Nano Server and 1 GiB for Server Core.",
        &["https://github.com/microsoft/Windows-Containers/issues/591", HCSSHIM]),
    kind("SUR216", "working-directory", (Problem, Stuck, PODS),
        "Windows cannot create the container: a directory name is invalid",
        "The working directory or the command of the container does not exist in the image, or the host lacks an update. It is not a mismatch of builds.",
        "Check workingDir and command of the container; update the node.",
        &["https://github.com/antrea-io/antrea/issues/2774"]),
    kind("SUR217", "create-failed", (Problem, Stuck, PODS),
        "Windows cannot create the container",
        "Mullion does not know the cause in the text, which the finding contains unchanged. An image of another build is one possible cause.",
        "Compare the build of the image with that of the node: mullion image IMAGE --registry.",
        &[HCSSHIM]),
    kind("SUR218", "program-not-found", (Problem, Stuck, PODS),
        "the program of the container is not in the image",
        "A command for Linux in a Windows image, or the reverse, is the most common cause in a mixed cluster. Nano Server has no PowerShell.",
        "Check command and args of the container.",
        &["https://learn.microsoft.com/virtualization/windowscontainers/manage-containers/container-base-images"]),
    kind("SUR219", "run-as-non-root", (Problem, Stuck, PODS),
        "the kubelet does not start the container, because it runs as an administrator",
        "runAsNonRoot: true forbids ContainerAdministrator, which is the default user of many Windows images.",
        "Set securityContext.windowsOptions.runAsUserName: ContainerUser, or remove runAsNonRoot.",
        &[WINDOWS_USERS]),
    kind("SUR220", "config-missing", (Problem, Stuck, PODS),
        "a Secret or a ConfigMap that the container reads is missing",
        "The kubelet waits for it.",
        "Create it, or correct its name in the pod template.",
        &["https://kubernetes.io/docs/concepts/configuration/secret/"]),
    kind("SUR221", "crash-loop", (Problem, Stuck, PODS),
        "the container starts and ends again and again",
        "The image fits the node. The program ends by itself: its log shows why.",
        "Read the log of the container: kubectl logs --previous.",
        &["https://kubernetes.io/docs/tasks/debug/debug-application/debug-running-pod/"]),
    kind("SUR222", "not-started", (Problem, Stuck, PODS),
        "the pod does not run, for a reason that Mullion does not know",
        "The finding contains the unchanged message of the cluster.",
        "Read the text, and the log of the kubelet on the node.",
        &["https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/"]),
    kind("SUR223", "no-address-label", (Problem, Stuck, PODS),
        "the network plugin of EKS finds no address for the pod",
        "On EKS a webhook gives an address to a Windows pod when it is created, if Windows support is on and nodeSelector selects Windows. Affinity does not count, and a Linux pod gets none.",
        "Set nodeSelector kubernetes.io/os in the pod template, check that Windows support is on, and create the pods again.",
        &["https://docs.aws.amazon.com/eks/latest/userguide/windows-support.html", "https://github.com/aws/containers-roadmap/issues/463"]),
    kind("SUR224", "mount-source", (Problem, Stuck, PODS),
        "the source of a volume does not exist on the node",
        "A hostPath or local volume names a file or a directory that the node does not have, or that is of another type. A path of Linux does not exist on Windows.",
        "Correct the path of the volume, or create the directory on the node; for a Linux pod set nodeSelector kubernetes.io/os: linux.",
        &["https://kubernetes.io/docs/concepts/storage/volumes/#hostpath"]),
    kind("SUR301", "windows-by-luck", (Warning, Luck, PODS_ON_NODES),
        "a Windows workload runs on Windows nodes only by luck",
        "Nothing in its pod template keeps it off Linux nodes: no nodeSelector, no affinity, no RuntimeClass. The next pod may be scheduled on a Linux node, where it cannot start.",
        "Set nodeSelector kubernetes.io/os: windows in the pod template, or let Mullion do it.",
        &[WINDOWS_GUIDE]),
    kind("SUR302", "linux-by-luck", (Warning, Luck, PODS_ON_NODES),
        "a Linux workload runs on Linux nodes only by luck",
        "Nothing in its pod template keeps it off Windows nodes, and there are Windows nodes without a taint that does. The next pod may be scheduled on one, where it cannot start.",
        "Set nodeSelector kubernetes.io/os: linux, or taint the Windows nodes; Mullion does both.",
        &[WINDOWS_GUIDE]),
    kind("SUR303", "floating-tag", (Warning, Fragile, NAMESPACES),
        "the tag of a Windows image names no release, and moves between releases",
        "The next pull may get an image for another Windows release than the node has.",
        "Use a tag with the release, or a digest.",
        &["https://github.com/microsoft/dotnet-framework-docker/issues/1262", COMPATIBILITY]),
    kind("SUR304", "frozen-tag", (Warning, Fragile, NOTHING_ELSE),
        "the image exists, but no longer gets updates",
        "Publishers stop rebuilding an image and leave its last state in the registry. It gets no security updates.",
        "Use the successor that the finding names, or an image of the same product that its publisher still builds.",
        &["https://github.com/microsoft/dotnet-framework-docker/issues/1265", "https://github.com/PowerShell/PowerShell-Docker"]),
    kind("SUR305", "blanket-toleration", (Warning, Luck, PODS_ON_NODES),
        "the pod tolerates every taint, and selects no operating system",
        "A toleration with operator Exists and without a key cancels the taint that keeps pods off the nodes of the other operating system.",
        "Tolerate only the taints that are necessary, or set nodeSelector kubernetes.io/os.",
        &[TAINTS]),
    kind("SUR306", "exact-build-selector", (Notice, Fragile, NOTHING_ELSE),
        "the pod selects one exact Windows build",
        "When the pool is replaced by one of a newer release, the pod stays Pending, even if the newer release runs its image.",
        "Plan to change the selector together with the pool; images for ltsc2022 run on Windows Server 2022 and 2025.",
        &[COMPATIBILITY]),
    kind("SUR307", "no-memory-limit", (Warning, Fragile, NOTHING_ELSE),
        "a container of a Windows workload has no memory limit",
        "Windows has no out-of-memory killer: it pages to disk, and one container can slow down all pods of the node.",
        "Set resources.limits.memory. The API server sets the same request.",
        &[WINDOWS_RESOURCES]),
    kind("SUR308", "host-process", (Notice, Fragile, NOTHING_ELSE),
        "the workload runs as HostProcess",
        "Its containers run on the host itself, with its users and files. An update of the host can affect them.",
        "Review it before each upgrade of the node pool.",
        &[HOST_PROCESS]),
    kind("SUR401", "daemonset-tainted-off", (Warning, AbsentDaemonSet, PODS_ON_NODES),
        "a taint keeps a DaemonSet off a Windows pool",
        "The nodes of the pool have no pod of it: no logs, no metrics, or no storage driver there.",
        "Add a toleration for the taint to the pod template of the DaemonSet.",
        &[TAINTS]),
    kind("SUR402", "daemonset-not-selected", (Notice, ExcludingDaemonSet, PODS_ON_NODES),
        "the selector of a DaemonSet for Windows excludes a Windows pool",
        "This is right if another DaemonSet serves the pool, as with one DaemonSet for each build. It is wrong for a pool that was added later.",
        "Check that another DaemonSet serves the pool, or widen the selector.",
        &[SELECTORS]),
    kind("SUR403", "daemonset-missing", (Warning, AbsentDaemonSet, PODS_ON_NODES),
        "a DaemonSet fits a Windows pool and has no pod on some of its nodes",
        "The controller creates a pod on each node that fits. Events of the DaemonSet may show that pods are rejected by a quota or a webhook.",
        "Read the Events of the DaemonSet: kubectl describe daemonset.",
        &["https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/"]),
    kind("SUR501", "release-out-of-support", (Problem, Fleet, NODES),
        "support of the Windows release of a pool has ended, or the provider has deleted its node images",
        "The nodes get no security updates. Without node images, the pool cannot scale, and its nodes cannot be reimaged.",
        "Move the workloads to a pool of a supported release.",
        &[LIFECYCLE]),
    kind("SUR502", "support-ends-soon", (Warning, Fleet, NOTHING_ELSE),
        "within 180 days, support of something in the cluster ends, or the provider deletes node images",
        "The finding contains the date and its source. It concerns Windows releases, images, container runtimes and Kubernetes versions. From the day after the date, SUR501, SUR504 or SUR507 takes its place.",
        "Plan the move before the date.",
        &[LIFECYCLE]),
    kind("SUR503", "revision-behind", (Warning, Fleet, NODES),
        "nodes of a pool have an older revision of Windows than other nodes of the same build",
        "They lack security updates. A container whose image is newer than the revision of its host can end while it starts. Revisions are compared only within the fleet, so nodes that are all equally old are not found.",
        "Update the node image of the pool.",
        &["https://github.com/microsoft/Windows-Containers/issues/591"]),
    kind("SUR504", "runtime-out-of-support", (Warning, Fleet, NODES),
        "the version of the container runtime no longer gets updates",
        "The dates are those of the project; a provider may patch it longer.",
        "Update the node image, which brings a newer container runtime.",
        &["https://containerd.io/releases/"]),
    kind("SUR505", "windows-pool-without-taint", (Warning, Fleet, NODES),
        "Windows nodes have no taint that keeps Linux pods off",
        "Pods without a node selector can be scheduled on them. Most Linux manifests have none.",
        "Add the taint os=windows:NoSchedule when the pool is created, or let Mullion manage it.",
        &["https://kubernetes.io/docs/concepts/windows/user-guide/#handling-multiple-windows-versions-in-the-same-cluster"]),
    kind("SUR506", "node-without-os", (Warning, Fleet, NODES),
        "a node has no label kubernetes.io/os",
        "No selector by operating system finds the node.",
        "Find out why its kubelet does not set the label.",
        &["https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-os"]),
    kind("SUR507", "support-ended", (Warning, Fleet, NOTHING_ELSE),
        "support of an image or of a Kubernetes version has ended",
        "An image without support gets no security updates. A provider may upgrade nodes of an old Kubernetes version by itself, or charge for longer support.",
        "Use a supported version of the image, or upgrade the node pool.",
        &[LIFECYCLE, "https://kubernetes.io/releases/version-skew-policy/"]),
];

/// The entry with that code or name, in any letter case.
pub fn find_kind(named: &str) -> Option<&'static FindingKind> {
    FINDINGS.iter().find(|kind| kind.code.eq_ignore_ascii_case(named) || kind.name.eq_ignore_ascii_case(named))
}

/// The page of an entry, as Markdown with a heading of level `level`.
pub fn page(kind: &FindingKind, level: usize) -> String {
    let FindingKind { code, name, severity, needs, what, why, fix, sources, .. } = kind;
    let needs = if needs.is_empty() {
        String::new()
    } else {
        format!(" It is stated only if {} were read.", list_with(needs.iter(), "and"))
    };
    let severity = severity.name();
    let heading = "#".repeat(level);
    let mut text = format!(
        "{heading} {code} {name}\n\nSeverity: {severity}. What was found: {what}.{needs}\n\n{why}\n\n**Fix.** {fix}\n\nSources:\n\n"
    );
    for source in *sources {
        text.extend(["- <", source, ">\n"]);
    }
    text
}

/// The page of all findings: `docs/reference/survey-findings.md`.
pub fn all_pages() -> String {
    const FAMILIES: [(&str, &str); 5] = [
        ("SUR1", "Misplaced or stuck pods"),
        ("SUR2", "Errors of pulls and starts"),
        ("SUR3", "Workloads that run only by luck"),
        ("SUR4", "DaemonSets"),
        ("SUR5", "Fleet and dates"),
    ];
    let mut text = "# Findings of `mullion survey`\n\n\
        This page is for people who read a report of `mullion survey`. Each finding of a report has a code, and this page\n\
        explains each code: what was found, why it matters, and how to fix it. `mullion rules SUR201` prints one of them.\n\n\
        `make rules` generates this page from `crates/survey/src/catalogue.rs`. Do not edit it.\n"
        .to_owned();
    for (start, title) in FAMILIES {
        text.extend(["\n## ", title, "\n"]);
        for kind in FINDINGS.iter().filter(|kind| kind.code.starts_with(start)) {
            text.extend(["\n", &page(kind, 3)]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_entry_is_complete_and_unique() {
        let mut names = BTreeSet::new();
        for kind in FINDINGS {
            let number: u32 = kind.code.strip_prefix("SUR").unwrap().parse().unwrap();
            assert!((101..=599).contains(&number), "{}", kind.code);
            assert!(names.insert(kind.code) && names.insert(kind.name), "{}", kind.code);
            assert!(kind.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", kind.name);
            assert!(!kind.what.ends_with('.') && kind.why.ends_with('.') && kind.fix.ends_with('.'), "{}", kind.code);
            assert!(!kind.sources.is_empty() && kind.sources.iter().all(|source| source.starts_with("https://")));
            assert!(all_pages().contains(&format!("### {} {}\n", kind.code, kind.name)));
        }
        assert!(FINDINGS.is_sorted_by_key(|kind| kind.code));
    }

    #[test]
    fn entries_are_found_by_code_and_name() {
        assert_eq!(find_kind("sur201").map(|kind| kind.name), Some("image-has-no-platform"));
        assert_eq!(find_kind("Disk-Full").map(|kind| kind.code), Some("SUR209"));
        assert_eq!(find_kind("SUR2"), None);
    }
}

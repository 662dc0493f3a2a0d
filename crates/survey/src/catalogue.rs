//! The catalogue of findings: code, name, severity, what it means, why it matters and how to fix it.
//!
//! A code is never used again. `SUR1xx` are misplaced or stuck pods, `SUR2xx` errors of pulls and starts, `SUR3xx`
//! fragile workloads, `SUR4xx` DaemonSets, `SUR5xx` the fleet and its dates.

use mullion_engine::model::text::list_with;
use mullion_engine::rules::CatalogueEntry;
use serde::Serialize;

use crate::report::Severity;

/// One kind of finding. Its `summary` is one sentence without a period; `why` and `instead`, which is what to do, are
/// whole sentences. `instead` is used for a finding without an action of its own.
pub type FindingKind = CatalogueEntry<FindingDetails>;

/// What the catalogue contains about a kind of finding besides its code, name and texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindingDetails {
    /// How much it matters.
    pub severity: Severity,
    /// What it is counted as.
    pub group: FindingGroup,
    /// The lists that it needs besides its object, as `kubectl get` accepts them.
    pub needs: &'static [&'static str],
    /// The sources of the facts.
    pub sources: &'static [&'static str],
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
    /// What the cluster has around Windows pods is not for them: policies, storage, a mesh, agents.
    Unserved,
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
/// Pods, and what selects them.
const POLICIES: &[&str] = &["pods", "nodes", "networkpolicies"];
/// Pods, and the drivers of the nodes. What of the volumes was not read has no driver.
const DRIVERS: &[&str] = &["pods", "nodes", "csinodes"];
/// Pods on nodes, and the labels of their namespaces.
const LABELS: &[&str] = &["pods", "nodes", "namespaces"];
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

/// Declares the catalogue. The comment of an entry is its summary.
macro_rules! findings {
    ($(
        $(#[doc = $summary:literal])+
        {
            code: $code:literal,
            name: $name:literal,
            severity: $severity:ident,
            group: $group:ident,
            needs: $needs:expr,
            why: $why:expr,
            instead: $instead:expr,
            sources: $sources:expr,
        }
    )+) => {
        &[$(FindingKind {
            code: $code,
            name: $name,
            summary: concat!($($summary),+).trim_ascii_start(),
            why: $why,
            instead: $instead,
            details: FindingDetails {
                severity: Severity::$severity,
                group: FindingGroup::$group,
                needs: $needs,
                sources: $sources,
            },
        }),+]
    };
}

/// Every kind of finding, in the order of the codes.
pub static FINDINGS: &[FindingKind] = findings! {
    /// a Linux pod is on a Windows node
    {
        code: "SUR101", name: "linux-pod-on-windows-node", severity: Problem, group: Misplaced, needs: PODS_ON_NODES,
        why: "A Windows node cannot run Linux images: the pull fails, or the layers cannot be unpacked. The pod stays where it is, because the scheduler never moves a pod.",
        instead: "Set nodeSelector kubernetes.io/os: linux in the pod template, and delete the pod.",
        sources: &[WINDOWS_GUIDE, "https://github.com/rancher/rancher-docs/issues/1228"],
    }

    /// a Windows pod is on a Linux node
    {
        code: "SUR102", name: "windows-pod-on-linux-node", severity: Problem, group: Misplaced, needs: PODS_ON_NODES,
        why: "A Linux node cannot run Windows images: the pull fails, or the layers cannot be unpacked. The pod stays where it is, because the scheduler never moves a pod.",
        instead: "Set nodeSelector kubernetes.io/os: windows in the pod template, and delete the pod.",
        sources: &[WINDOWS_GUIDE, "https://github.com/microsoft/Windows-Containers/issues/452"],
    }

    /// the node has a Windows build that cannot run the image
    {
        code: "SUR103", name: "wrong-windows-build", severity: Problem, group: Misplaced, needs: PODS_ON_NODES,
        why: "Windows Server 2019 runs only images of its own build, and hosts from Windows Server 2022 on run no older images than ltsc2022. That the build of the node is excluded is known from the tag, a policy, the registry, or the message; not from where the image ran. The pod stays where it is, because the scheduler never moves a pod.",
        instead: "Set nodeSelector node.kubernetes.io/windows-build to a build that runs the image, or use an image for the build of the node.",
        sources: &[COMPATIBILITY],
    }

    /// no node has the labels that the pod requires
    {
        code: "SUR104", name: "pending-no-such-node", severity: Problem, group: Stuck, needs: PODS_ON_NODES,
        why: "The pod stays Pending until such a node exists. This is common after a pool was deleted or renamed while a selector still names its build or its labels.",
        instead: "Change the selector, or add a node with these labels.",
        sources: &[SELECTORS],
    }

    /// every node that fits the pod has a taint that the pod does not tolerate
    {
        code: "SUR105", name: "pending-untolerated-taint", severity: Problem, group: Stuck, needs: PODS_ON_NODES,
        why: "The pod stays Pending. Since Kubernetes 1.34 the message of the scheduler no longer names the taint; it is computed here from the nodes and the tolerations.",
        instead: "Add a toleration for the taint to the pod template.",
        sources: &[TAINTS, "https://github.com/kubernetes/kubernetes/pull/134740"],
    }

    /// every node that fits the pod is cordoned or not ready
    {
        code: "SUR106", name: "pending-nodes-unavailable", severity: Problem, group: Stuck, needs: PODS_ON_NODES,
        why: "The pod stays Pending until a node is available. This is common while a pool is replaced.",
        instead: "Uncordon or repair a node, or add one.",
        sources: &["https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/"],
    }

    /// nodes fit the pod, but the scheduler does not place it
    {
        code: "SUR107", name: "pending-no-room", severity: Problem, group: Stuck, needs: PODS_ON_NODES,
        why: "Labels, taints and affinity of the pod fit nodes that are not cordoned. Possible causes are missing capacity (memory, CPU, ports, volumes) and affinity rules between pods.",
        instead: "Read the message of the scheduler, and free or add capacity.",
        sources: &["https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/"],
    }

    /// the scheduler finds no node with a free address for a Windows pod on EKS
    {
        code: "SUR108", name: "pending-no-private-address", severity: Problem, group: Stuck, needs: PODS,
        why: "On EKS each Windows pod needs a secondary address of its node. A webhook adds this resource to pods that select Windows in nodeSelector. The addresses of a node are limited by its instance type.",
        instead: "Add nodes or enable prefix delegation; and check that the pod selects Windows by nodeSelector and not by affinity.",
        sources: &["https://docs.aws.amazon.com/eks/latest/userguide/windows-support.html", "https://github.com/aws/amazon-vpc-resource-controller-k8s"],
    }

    /// the kubelet rejected the pod, because its OS field is not that of the node
    {
        code: "SUR109", name: "pod-os-rejected", severity: Problem, group: Stuck, needs: PODS,
        why: "spec.os.name does not place a pod. A pod with an OS field and without a selector is scheduled anywhere, and then rejected.",
        instead: "Set nodeSelector kubernetes.io/os to the same operating system as spec.os.name.",
        sources: &[KUBELET_ADMIT],
    }

    /// the kubelet rejected the pod, because its label kubernetes.io/os is not that of the node
    {
        code: "SUR110", name: "pod-os-label-rejected", severity: Problem, group: Stuck, needs: PODS,
        why: "A label of a pod with the key kubernetes.io/os does not select nodes, but the kubelet compares it.",
        instead: "Remove the label kubernetes.io/os from the labels of the pod template; use nodeSelector instead.",
        sources: &[KUBELET_ADMIT],
    }

    /// the pod requires Linux and Windows at once
    {
        code: "SUR111", name: "pending-impossible-os", severity: Problem, group: Stuck, needs: PODS,
        why: "No node can have both, so the pod stays Pending.",
        instead: "Remove the selector that is wrong.",
        sources: &[SELECTORS],
    }

    /// a controller cannot create its pods
    {
        code: "SUR112", name: "pods-rejected", severity: Problem, group: Rejected, needs: EVENTS,
        why: "The API server rejects them: a quota, Pod Security admission, a webhook, or a field that the operating system forbids.",
        instead: "Read the message, and change the pod template accordingly.",
        sources: &["https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/"],
    }

    /// nodes fit the pod, but its volumes do not let the scheduler place it
    {
        code: "SUR113", name: "pending-volume", severity: Problem, group: Stuck, needs: PODS_ON_NODES,
        why: "A volume can be used only in its zone or on its node, and a node attaches a limited number of volumes.",
        instead: "Add a node in the zone of the volume, or one that attaches more volumes; kubectl describe pv shows where a volume can be used.",
        sources: &["https://kubernetes.io/docs/concepts/storage/persistent-volumes/#node-affinity", "https://kubernetes.io/docs/concepts/storage/storage-limits/"],
    }

    /// the pod needs a feature that nodes do not declare
    {
        code: "SUR114", name: "missing-node-feature", severity: Problem, group: Stuck, needs: PODS_ON_NODES,
        why: "Since Kubernetes 1.36 kubelets declare features in status.declaredFeatures of their node, and the scheduler places a pod that uses one only on a node that declares it. Its message does not name the feature; it is computed here from the fields of the pod. A kubelet rejects a pod that it cannot serve (PodFeatureUnsupported).",
        instead: "Compare status.declaredFeatures of the nodes with what the pod uses; update the nodes, or remove the field from the pod template.",
        sources: &["https://kubernetes.io/docs/concepts/scheduling-eviction/node-declared-features/", "https://github.com/kubernetes/kubernetes/tree/master/staging/src/k8s.io/component-helpers/nodedeclaredfeatures"],
    }

    /// the image has no entry for the operating system and build of the node
    {
        code: "SUR201", name: "image-has-no-platform", severity: Problem, group: Misplaced, needs: PODS,
        why: "The container runtime compares the entries of the image's index with the node. The message is the same for an image of the other operating system and for one of another Windows build.",
        instead: "Find out what the image is for with: mullion image IMAGE --registry. Then set the matching selector, or use another tag.",
        sources: &[CONTAINERD_MATCH, COMPATIBILITY],
    }

    /// the registry denies the pull
    {
        code: "SUR202", name: "pull-denied", severity: Problem, group: Stuck, needs: PODS,
        why: "The credentials are missing, wrong or expired, or have no access to the repository. Some registries answer the same for a repository that does not exist. It has nothing to do with the operating system.",
        instead: "Check imagePullSecrets of the pod and of its service account, and the access of the node to the registry.",
        sources: &[PULL_IMAGES],
    }

    /// the registry has no such image
    {
        code: "SUR203", name: "image-not-found", severity: Problem, group: Stuck, needs: PODS,
        why: "The name or the tag is wrong, or the image was deleted. It has nothing to do with the operating system.",
        instead: "Check the name and the tag of the image.",
        sources: &[PULL_IMAGES],
    }

    /// the node cannot reach the registry
    {
        code: "SUR204", name: "registry-unreachable", severity: Problem, group: Stuck, needs: PODS,
        why: "The name cannot be resolved, the connection fails, or the certificate is not trusted. Proxies, firewalls and certificates are configured for Windows nodes separately from Linux nodes.",
        instead: "Check DNS, proxy, firewall and trusted certificates on the node.",
        sources: &["https://github.com/containerd/containerd/blob/main/docs/hosts.md"],
    }

    /// the registry limits the number of pulls
    {
        code: "SUR205", name: "pull-limited", severity: Problem, group: Stuck, needs: PODS,
        why: "The registry rejects pulls until the limit is reset.",
        instead: "Pull with credentials, or use a mirror or a cache.",
        sources: &["https://docs.docker.com/docker-hub/usage/"],
    }

    /// the image cannot be pulled
    {
        code: "SUR206", name: "pull-failed", severity: Problem, group: Stuck, needs: PODS,
        why: "The message does not show the cause: it is cut, or unknown.",
        instead: "Read the message, and the log of the container runtime on the node.",
        sources: &[PULL_IMAGES],
    }

    /// the reference of the image is malformed
    {
        code: "SUR207", name: "invalid-image-name", severity: Problem, group: Stuck, needs: PODS,
        why: "The kubelet does not try to pull it.",
        instead: "Correct the image in the pod template: lower-case names, one tag.",
        sources: &[PULL_IMAGES],
    }

    /// the layers of the image cannot be unpacked
    {
        code: "SUR208", name: "unpack-failed", severity: Problem, group: Stuck, needs: PODS,
        why: "The image was downloaded. A damaged layer, a virus scanner on the node, or a fault of the disk can be the cause.",
        instead: "Remove the image from the node and pull it again; exclude the directory of the container runtime from the virus scanner.",
        sources: &["https://github.com/containerd/containerd/blob/main/pkg/rootfs/apply.go"],
    }

    /// the node has no room for the image
    {
        code: "SUR209", name: "disk-full", severity: Problem, group: Stuck, needs: PODS,
        why: "Windows base images have 0.3 to 5 GB, and each release is one more.",
        instead: "Enlarge the disk of the pool, or remove images that are not used.",
        sources: &["https://kubernetes.io/docs/concepts/architecture/garbage-collection/#containers-images"],
    }

    /// the format of the image's layers is newer than the host
    {
        code: "SUR210", name: "layers-too-new", severity: Problem, group: Misplaced, needs: PODS,
        why: "The image was built on a newer Windows than the node has.",
        instead: "Use an image for the build of the node, or a node of a newer build.",
        sources: &["https://github.com/microsoft/hcsshim/issues/2566", COMPATIBILITY],
    }

    /// the pause image of the node cannot be pulled, or does not fit the node
    {
        code: "SUR211", name: "pause-image", severity: Problem, group: Stuck, needs: PODS,
        why: "Every pod needs it, so no pod starts on this node. Either the registry cannot be reached, or the image has no entry for the build of the node: pause 3.10.2 and newer have one for Windows Server 2025.",
        instead: "Configure sandbox_image of containerd with a pause image for this build, and check access to its registry.",
        sources: &["https://github.com/kubernetes/kubernetes/blob/master/build/pause/CHANGELOG.md"],
    }

    /// the node has no handler for the RuntimeClass
    {
        code: "SUR212", name: "no-runtime-handler", severity: Problem, group: Stuck, needs: PODS,
        why: "A RuntimeClass is for nodes whose container runtime has its handler. Linux nodes have no Windows handlers, and Windows nodes have no Hyper-V handler unless it is configured.",
        instead: "Set scheduling.nodeSelector in the RuntimeClass, or configure the handler in containerd on the node.",
        sources: &["https://kubernetes.io/docs/concepts/containers/runtime-class/"],
    }

    /// the network of the pod cannot be set up
    {
        code: "SUR213", name: "pod-network", severity: Problem, group: Stuck, needs: PODS,
        why: "The network plugin of the node failed. On Windows it uses the Host Networking Service, whose state can be wrong after a restart.",
        instead: "Read the log of the network plugin on the node; restart the node if other pods fail there too.",
        sources: &["https://kubernetes.io/docs/concepts/services-networking/windows-networking/"],
    }

    /// Windows does not start the container, because its build is not that of the host
    {
        code: "SUR214", name: "build-mismatch-at-start", severity: Problem, group: Misplaced, needs: PODS,
        why: "The image has a single manifest, so the container runtime pulled it without a comparison. With process isolation, Windows does not start an image of another build.",
        instead: "Use an image for the build of the node, or set nodeSelector node.kubernetes.io/windows-build.",
        sources: &[HCSSHIM, COMPATIBILITY],
    }

    /// the container ended while Windows started it
    {
        code: "SUR215", name: "exited-at-start", severity: Problem, group: Stuck, needs: PODS,
        why: "The most common cause is a host whose revision is older than that of the image. Too little memory and a broken update of the host are others.",
        instead: "Update the node to the newest revision of its build; give the container at least 300 MiB for Nano Server and 1 GiB for Server Core.",
        sources: &["https://github.com/microsoft/Windows-Containers/issues/591", HCSSHIM],
    }

    /// Windows cannot create the container: a directory name is invalid
    {
        code: "SUR216", name: "working-directory", severity: Problem, group: Stuck, needs: PODS,
        why: "The working directory or the command of the container does not exist in the image, or the host lacks an update. It is not a mismatch of builds.",
        instead: "Check workingDir and command of the container; update the node.",
        sources: &["https://github.com/antrea-io/antrea/issues/2774"],
    }

    /// Windows cannot create the container
    {
        code: "SUR217", name: "create-failed", severity: Problem, group: Stuck, needs: PODS,
        why: "Mullion does not know the cause in the text, which the finding contains unchanged. An image of another build is one possible cause.",
        instead: "Compare the build of the image with that of the node: mullion image IMAGE --registry.",
        sources: &[HCSSHIM],
    }

    /// the program of the container is not in the image
    {
        code: "SUR218", name: "program-not-found", severity: Problem, group: Stuck, needs: PODS,
        why: "A command for Linux in a Windows image, or the reverse, is the most common cause in a mixed cluster. Nano Server has no PowerShell.",
        instead: "Check command and args of the container.",
        sources: &["https://learn.microsoft.com/virtualization/windowscontainers/manage-containers/container-base-images"],
    }

    /// the kubelet does not start the container, because it runs as an administrator
    {
        code: "SUR219", name: "run-as-non-root", severity: Problem, group: Stuck, needs: PODS,
        why: "runAsNonRoot: true forbids ContainerAdministrator, which is the default user of many Windows images.",
        instead: "Set securityContext.windowsOptions.runAsUserName: ContainerUser, or remove runAsNonRoot.",
        sources: &[WINDOWS_USERS],
    }

    /// a Secret or a ConfigMap that the container reads is missing
    {
        code: "SUR220", name: "config-missing", severity: Problem, group: Stuck, needs: PODS,
        why: "The kubelet waits for it.",
        instead: "Create it, or correct its name in the pod template.",
        sources: &["https://kubernetes.io/docs/concepts/configuration/secret/"],
    }

    /// the container starts and ends again and again
    {
        code: "SUR221", name: "crash-loop", severity: Problem, group: Stuck, needs: PODS,
        why: "The image fits the node. The program ends by itself: its log shows why.",
        instead: "Read the log of the container: kubectl logs --previous.",
        sources: &["https://kubernetes.io/docs/tasks/debug/debug-application/debug-running-pod/"],
    }

    /// the pod does not run, for a reason that Mullion does not know
    {
        code: "SUR222", name: "not-started", severity: Problem, group: Stuck, needs: PODS,
        why: "The finding contains the unchanged message of the cluster.",
        instead: "Read the text, and the log of the kubelet on the node.",
        sources: &["https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/"],
    }

    /// the network plugin of EKS finds no address for the pod
    {
        code: "SUR223", name: "no-address-label", severity: Problem, group: Stuck, needs: PODS,
        why: "On EKS a webhook gives an address to a Windows pod when it is created, if Windows support is on and nodeSelector selects Windows. Affinity does not count, and a Linux pod gets none.",
        instead: "Set nodeSelector kubernetes.io/os in the pod template, check that Windows support is on, and create the pods again.",
        sources: &["https://docs.aws.amazon.com/eks/latest/userguide/windows-support.html", "https://github.com/aws/containers-roadmap/issues/463"],
    }

    /// the source of a volume does not exist on the node
    {
        code: "SUR224", name: "mount-source", severity: Problem, group: Stuck, needs: PODS,
        why: "A hostPath or local volume names a file or a directory that the node does not have, or that is of another type. A path of Linux does not exist on Windows.",
        instead: "Correct the path of the volume, or create the directory on the node; for a Linux pod set nodeSelector kubernetes.io/os: linux.",
        sources: &["https://kubernetes.io/docs/concepts/storage/volumes/#hostpath"],
    }

    /// a Windows workload runs on Windows nodes only by luck
    {
        code: "SUR301", name: "windows-by-luck", severity: Warning, group: Luck, needs: PODS_ON_NODES,
        why: "Nothing in its pod template keeps it off Linux nodes: no nodeSelector, no affinity, no RuntimeClass. The next pod may be scheduled on a Linux node, where it cannot start.",
        instead: "Set nodeSelector kubernetes.io/os: windows in the pod template, or let Mullion do it.",
        sources: &[WINDOWS_GUIDE],
    }

    /// a Linux workload runs on Linux nodes only by luck
    {
        code: "SUR302", name: "linux-by-luck", severity: Warning, group: Luck, needs: PODS_ON_NODES,
        why: "Nothing in its pod template keeps it off Windows nodes, and there are Windows nodes without a taint that does. The next pod may be scheduled on one, where it cannot start.",
        instead: "Set nodeSelector kubernetes.io/os: linux, or taint the Windows nodes; Mullion does both.",
        sources: &[WINDOWS_GUIDE],
    }

    /// the tag of a Windows image names no release, and moves between releases
    {
        code: "SUR303", name: "floating-tag", severity: Warning, group: Fragile, needs: NAMESPACES,
        why: "The next pull may get an image for another Windows release than the node has.",
        instead: "Use a tag with the release, or a digest.",
        sources: &["https://github.com/microsoft/dotnet-framework-docker/issues/1262", COMPATIBILITY],
    }

    /// the image exists, but no longer gets updates
    {
        code: "SUR304", name: "frozen-tag", severity: Warning, group: Fragile, needs: NOTHING_ELSE,
        why: "Publishers stop rebuilding an image and leave its last state in the registry. It gets no security updates.",
        instead: "Use the successor that the finding names, or an image of the same product that its publisher still builds.",
        sources: &["https://github.com/microsoft/dotnet-framework-docker/issues/1265", "https://github.com/PowerShell/PowerShell-Docker"],
    }

    /// the pod tolerates every taint, and selects no operating system
    {
        code: "SUR305", name: "blanket-toleration", severity: Warning, group: Luck, needs: PODS_ON_NODES,
        why: "A toleration with operator Exists and without a key cancels the taint that keeps pods off the nodes of the other operating system.",
        instead: "Tolerate only the taints that are necessary, or set nodeSelector kubernetes.io/os.",
        sources: &[TAINTS],
    }

    /// the pod selects one exact Windows build
    {
        code: "SUR306", name: "exact-build-selector", severity: Notice, group: Fragile, needs: NOTHING_ELSE,
        why: "When the pool is replaced by one of a newer release, the pod stays Pending, even if the newer release runs its image.",
        instead: "Plan to change the selector together with the pool; images for ltsc2022 run on Windows Server 2022 and 2025.",
        sources: &[COMPATIBILITY],
    }

    /// a container of a Windows workload has no memory limit
    {
        code: "SUR307", name: "no-memory-limit", severity: Warning, group: Fragile, needs: NOTHING_ELSE,
        why: "Windows has no out-of-memory killer: it pages to disk, and one container can slow down all pods of the node.",
        instead: "Set resources.limits.memory. The API server sets the same request.",
        sources: &[WINDOWS_RESOURCES],
    }

    /// the workload runs as HostProcess
    {
        code: "SUR308", name: "host-process", severity: Notice, group: Fragile, needs: NOTHING_ELSE,
        why: "Its containers run on the host itself, with its users and files. An update of the host can affect them.",
        instead: "Review it before each upgrade of the node pool.",
        sources: &[HOST_PROCESS],
    }

    /// NetworkPolicies select pods on Windows nodes where no known engine enforces them
    {
        code: "SUR309", name: "network-policy-not-enforced", severity: Warning, group: Unserved, needs: POLICIES,
        why: "Without an engine on the node a NetworkPolicy has no effect, and nothing reports it. For Windows nodes Mullion knows Calico, Antrea and Azure Network Policy Manager, whose support on Windows AKS ended on 2026-09-30. An engine that runs as a service of Windows has no pod, so a survey does not see it. NetworkPolicies are read from dumps only.",
        instead: "Install an engine on the Windows nodes, such as Calico, or restrict the traffic outside of the cluster, such as with network security groups. If a service of Windows enforces the policies, nothing is wrong.",
        sources: &["https://kubernetes.io/docs/concepts/services-networking/network-policies/", "https://github.com/MicrosoftDocs/azure-aks-docs/blob/main/articles/aks/includes/azure-network-policy-manager-windows-retirement.md", "https://docs.tigera.io/calico/latest/getting-started/kubernetes/windows-calico/", "https://github.com/antrea-io/antrea/blob/main/docs/windows.md"],
    }

    /// a volume of a Windows workload needs a CSI driver that no node of a Windows pool has
    {
        code: "SUR310", name: "csi-driver-not-on-windows", severity: Warning, group: Unserved, needs: DRIVERS,
        why: "The scheduler places the pod all the same, and the kubelet cannot mount its volume: the pod stays in ContainerCreating. The driver of a claim is known from its PersistentVolume or from its StorageClass and the CSIDriver, which are read from dumps only. A claim that does not exist yet has the StorageClass of its template, or the default one.",
        instead: "Install the node plugin of the driver for Windows, if it has one, or use a volume of another driver. With preventPodSchedulingIfMissing: true in its CSIDriver, a scheduler of Kubernetes 1.37 or newer leaves out nodes without the driver, so that the pod waits and its message contains why; an autoscaler must then know the CSINodes of new nodes.",
        sources: &["https://kubernetes.io/docs/concepts/storage/storage-limits/", "https://github.com/kubernetes/kubernetes/blob/master/pkg/scheduler/framework/plugins/nodevolumelimits/csi.go", "https://kubernetes.io/docs/concepts/storage/volumes/#csi"],
    }

    /// a Windows workload is in ambient mode of Istio
    {
        code: "SUR311", name: "ambient-mode", severity: Warning, group: Unserved, needs: LABELS,
        why: "Ambient mode redirects the traffic of pods by istio-cni and ztunnel, which run on Linux nodes only. Windows services in such a namespace have answered with status 503.",
        instead: "Set the label istio.io/dataplane-mode: none in the pod template. Clients in the mesh then use plain text, which a PeerAuthentication with mode STRICT denies.",
        sources: &["https://istio.io/latest/docs/ambient/usage/add-workloads/", "https://github.com/istio/istio/issues/58099", "https://github.com/istio/istio/blob/master/manifests/charts/istio-cni/templates/daemonset.yaml"],
    }

    /// a taint keeps a DaemonSet off a Windows pool
    {
        code: "SUR401", name: "daemonset-tainted-off", severity: Warning, group: AbsentDaemonSet, needs: PODS_ON_NODES,
        why: "The nodes of the pool have no pod of it: no logs, no metrics, or no storage driver there.",
        instead: "Add a toleration for the taint to the pod template of the DaemonSet.",
        sources: &[TAINTS],
    }

    /// the selector of a DaemonSet for Windows excludes a Windows pool
    {
        code: "SUR402", name: "daemonset-not-selected", severity: Notice, group: ExcludingDaemonSet, needs: PODS_ON_NODES,
        why: "This is right if another DaemonSet serves the pool, as with one DaemonSet for each build. It is wrong for a pool that was added later.",
        instead: "Check that another DaemonSet serves the pool, or widen the selector.",
        sources: &[SELECTORS],
    }

    /// a DaemonSet fits a Windows pool and has no pod on some of its nodes
    {
        code: "SUR403", name: "daemonset-missing", severity: Warning, group: AbsentDaemonSet, needs: PODS_ON_NODES,
        why: "The controller creates a pod on each node that fits. Events of the DaemonSet may show that pods are rejected by a quota or a webhook.",
        instead: "Read the Events of the DaemonSet: kubectl describe daemonset.",
        sources: &["https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/"],
    }

    /// DaemonSets of a purpose run on Linux nodes, and none of them on a Windows pool
    {
        code: "SUR404", name: "no-windows-agent", severity: Notice, group: Unserved, needs: PODS_ON_NODES,
        why: "Programs for security, logs, metrics and backup run as DaemonSets, and many charts select Linux nodes. Mullion knows the purpose of some images; another DaemonSet, a sidecar or a service of Windows may do the same on the Windows nodes. The finding states where pods are, and not what a product supports.",
        instead: "Check what does this on the Windows nodes. Some products have a DaemonSet of their own for Windows, which must be enabled.",
        sources: &["https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/", "https://github.com/prometheus-community/helm-charts/tree/main/charts/prometheus-windows-exporter", "https://github.com/vmware-tanzu/velero/issues/8424", "https://github.com/falcosecurity/falco/issues/3223"],
    }

    /// support of the Windows release of a pool has ended, or the provider has deleted its node images
    {
        code: "SUR501", name: "release-out-of-support", severity: Problem, group: Fleet, needs: NODES,
        why: "The nodes get no security updates. Without node images, the pool cannot scale, and its nodes cannot be reimaged.",
        instead: "Move the workloads to a pool of a supported release.",
        sources: &[LIFECYCLE],
    }

    /// within 180 days, support of something in the cluster ends, or the provider deletes node images
    {
        code: "SUR502", name: "support-ends-soon", severity: Warning, group: Fleet, needs: NOTHING_ELSE,
        why: "The finding contains the date and its source. It concerns Windows releases, images, container runtimes and Kubernetes versions. From the day after the date, SUR501, SUR504 or SUR507 takes its place.",
        instead: "Plan the move before the date.",
        sources: &[LIFECYCLE],
    }

    /// nodes of a pool have an older revision of Windows than other nodes of the same build
    {
        code: "SUR503", name: "revision-behind", severity: Warning, group: Fleet, needs: NODES,
        why: "They lack security updates. A container whose image is newer than the revision of its host can end while it starts. Revisions are compared only within the fleet, so nodes that are all equally old are not found.",
        instead: "Update the node image of the pool.",
        sources: &["https://github.com/microsoft/Windows-Containers/issues/591"],
    }

    /// the version of the container runtime no longer gets updates
    {
        code: "SUR504", name: "runtime-out-of-support", severity: Warning, group: Fleet, needs: NODES,
        why: "The dates are those of the project; a provider may patch it longer.",
        instead: "Update the node image, which brings a newer container runtime.",
        sources: &["https://containerd.io/releases/"],
    }

    /// Windows nodes have no taint that keeps Linux pods off
    {
        code: "SUR505", name: "windows-pool-without-taint", severity: Warning, group: Fleet, needs: NODES,
        why: "Pods without a node selector can be scheduled on them. Most Linux manifests have none.",
        instead: "Add the taint os=windows:NoSchedule when the pool is created, or let Mullion manage it.",
        sources: &["https://kubernetes.io/docs/concepts/windows/user-guide/#handling-multiple-windows-versions-in-the-same-cluster"],
    }

    /// a node has no label kubernetes.io/os
    {
        code: "SUR506", name: "node-without-os", severity: Warning, group: Fleet, needs: NODES,
        why: "No selector by operating system finds the node.",
        instead: "Find out why its kubelet does not set the label.",
        sources: &["https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-os"],
    }

    /// support of an image or of a Kubernetes version has ended
    {
        code: "SUR507", name: "support-ended", severity: Warning, group: Fleet, needs: NOTHING_ELSE,
        why: "An image without support gets no security updates. A provider may upgrade nodes of an old Kubernetes version by itself, or charge for longer support.",
        instead: "Use a supported version of the image, or upgrade the node pool.",
        sources: &[LIFECYCLE, "https://kubernetes.io/releases/version-skew-policy/"],
    }

    /// the template of a Windows NodePool has no taint that keeps Linux pods off
    {
        code: "SUR508", name: "node-pool-without-taint", severity: Warning, group: Fleet, needs: NOTHING_ELSE,
        why: "Karpenter compares pods with the template, and starts its nodes also for Linux pods without a node selector. A taint that is added to the node later is not part of the comparison: nodes are started for pods that do not tolerate it, and stay without them.",
        instead: "Add the taint os=windows:NoSchedule to spec.template.spec.taints of the NodePool.",
        sources: &["https://github.com/kubernetes/autoscaler/issues/8017", "https://karpenter.sh/docs/concepts/nodepools/"],
    }

    /// the template of a NodePool requires no operating system
    {
        code: "SUR509", name: "node-pool-without-os", severity: Warning, group: Fleet, needs: NOTHING_ELSE,
        why: "Karpenter compares pods with the template. Without the requirement it may start nodes of the pool for pods of the other operating system, which then do not run there.",
        instead: "Add a requirement for kubernetes.io/os with one value to spec.template.spec.requirements of the NodePool.",
        sources: &["https://karpenter.sh/docs/concepts/scheduling/", "https://github.com/kubernetes/autoscaler/issues/8017"],
    }
};

/// The entry with that code or name, in any letter case.
pub fn find_kind(named: &str) -> Option<&'static FindingKind> {
    FINDINGS.iter().find(|kind| kind.code.eq_ignore_ascii_case(named) || kind.name.eq_ignore_ascii_case(named))
}

/// The page of an entry, as Markdown with a heading of level `level`.
pub fn page(kind: &FindingKind, level: usize) -> String {
    let CatalogueEntry { code, name, summary, why, instead, details } = kind;
    let FindingDetails { severity, needs, sources, .. } = details;
    let needs = if needs.is_empty() {
        String::new()
    } else {
        format!(" It is stated only if {} were read.", list_with(needs.iter(), "and"))
    };
    let severity = severity.name();
    let heading = "#".repeat(level);
    let mut text = format!(
        "{heading} {code} {name}\n\nSeverity: {severity}. What was found: {summary}.{needs}\n\n{why}\n\n**Fix.** {instead}\n\nSources:\n\n"
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
            assert!(
                !kind.summary.ends_with('.') && kind.why.ends_with('.') && kind.instead.ends_with('.'),
                "{}",
                kind.code
            );
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

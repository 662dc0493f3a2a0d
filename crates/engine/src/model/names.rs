//! Names of Kubernetes and of Mullion: keys of labels and annotations, and fields of pods.

/// Lists of a pod spec that hold containers, in the order the API server visits them.
pub const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", EPHEMERAL_CONTAINERS];

/// Fields of a container with command lines, below the container.
pub const COMMAND_LINES: [&str; 7] = [
    COMMAND,
    ARGUMENTS,
    "/livenessProbe/exec/command",
    "/readinessProbe/exec/command",
    "/startupProbe/exec/command",
    "/lifecycle/postStart/exec/command",
    "/lifecycle/preStop/exec/command",
];

/// The one of them that the container starts with.
pub const COMMAND: &str = "/command";

/// The one of them that begins with no program, if the container has a command.
pub const ARGUMENTS: &str = "/args";

/// The others, which begin with a program.
pub fn program_commands() -> impl Iterator<Item = &'static str> {
    COMMAND_LINES.into_iter().filter(|field| *field != ARGUMENTS)
}

/// The list of containers that only pods have; templates do not have it.
pub const EPHEMERAL_CONTAINERS: &str = "ephemeralContainers";

/// The label on pods of controllers with the codes of their findings; the controller turns it into an Event.
pub const FINDINGS_LABEL: &str = "mullion.dev/findings";

/// The label with a node's operating system. Every kubelet that works with Kubernetes 1.30 sets it (`initialNode` in
/// `pkg/kubelet/kubelet_node_status.go`).
pub const OS_LABEL: &str = "kubernetes.io/os";

/// The name of [`OS_LABEL`] before Kubernetes 1.14: still set, and deprecated.
pub const OLD_OS_LABEL: &str = "beta.kubernetes.io/os";

/// Both labels with a node's operating system, the current one first.
pub const OS_LABELS: [&str; 2] = [OS_LABEL, OLD_OS_LABEL];

/// The label with a Windows node's build, which the kubelet sets since Kubernetes 1.17: `10.0.20348`.
pub const WINDOWS_BUILD_LABEL: &str = "node.kubernetes.io/windows-build";

/// Taint keys that only virtual-kubelet nodes have.
pub const VIRTUAL_TAINTS: [&str; 2] = ["virtual-kubelet.io/provider", "virtual-node.liqo.io/not-allowed"];

/// Annotations that add to every pod's nodeSelector, and reject pods that contradict them (`PodNodeSelector`;
/// OpenShift's project selector).
pub const NODE_SELECTOR_ANNOTATIONS: [&str; 2] =
    ["scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector"];

/// The annotation with the only tolerations that pods may have, a JSON list (`PodTolerationRestriction`).
pub const TOLERATIONS_WHITELIST_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

/// The label with the Pod Security level that pods must meet.
pub const POD_SECURITY_ENFORCE_LABEL: &str = "pod-security.kubernetes.io/enforce";

/// The label with the Kubernetes version whose Pod Security rules apply.
pub const POD_SECURITY_ENFORCE_VERSION_LABEL: &str = "pod-security.kubernetes.io/enforce-version";

/// Label with the release: `ltsc2022`.
pub const WINDOWS_RELEASE_LABEL: &str = "mullion.dev/windows-release";
/// Label with the update revision, the fourth number of the kernel version: `2655`.
pub const WINDOWS_REVISION_LABEL: &str = "mullion.dev/windows-revision";
/// Annotation with what Mullion added to the node, as JSON: an object with `labels` (key to value), `taint`, and
/// `removed`: the taint that others removed, and when (seconds since 1970).
pub const OWNED_ANNOTATION: &str = "mullion.dev/owned";

/// The annotation with the decision for an object, and what was put on it.
pub const DECISION_ANNOTATION: &str = "mullion.dev/decision";

/// The label that names a Windows pod's image build.
pub const IMAGE_BUILD_LABEL: &str = "mullion.dev/windows-build";

/// What only Mullion puts on pods, besides their spec: the member of `metadata`, and the key.
pub const OWN_POD_METADATA: [(&str, &str); 3] =
    [("annotations", DECISION_ANNOTATION), ("labels", FINDINGS_LABEL), ("labels", IMAGE_BUILD_LABEL)];

/// The prefix of the names of Mullion's RuntimeClasses.
pub const RUNTIME_CLASS_PREFIX: &str = "mullion-windows-";

/// The annotation or label that exempts a workload if it is `true`: on namespaces, and on pods if a policy sets so.
pub const IGNORE_ANNOTATION: &str = "mullion.dev/ignore";

/// The annotation of a pod, or of a pod template, that exempts from rules as far as `optOut.allow` permits.
pub const ALLOW_ANNOTATION: &str = "mullion.dev/allow";

/// Annotation of a namespace: the user IDs that it assigns, `start/size` or `start-end`.
pub const OPENSHIFT_UID_RANGE_ANNOTATION: &str = "openshift.io/sa.scc.uid-range";

/// Annotation of a namespace: the group IDs, ranges separated by commas; if it is missing, those of
/// [`OPENSHIFT_UID_RANGE_ANNOTATION`].
pub const OPENSHIFT_GROUPS_ANNOTATION: &str = "openshift.io/sa.scc.supplemental-groups";

/// Annotation of a namespace: the SELinux level.
pub const OPENSHIFT_LEVEL_ANNOTATION: &str = "openshift.io/sa.scc.mcs";

/// The annotation that sets the operating system of a workload, or of a namespace's workloads.
pub const OS_ANNOTATION: &str = "mullion.dev/os";

//! Patterns of messages. Kubernetes and containerd write them in English; what Windows adds is in the language of the
//! node, so a pattern is the prefix of the operation if there is one.

/// The meaning of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum MessageClass {
    /// The kubelet rejected the pod: its OS field is not that of the node.
    OsFieldRejected,
    /// The kubelet rejected the pod: its label `kubernetes.io/os` is not that of the node.
    OsLabelRejected,
    /// The kubelet rejected the pod: it does not support a feature that the pod needs.
    FeatureRejected,
    /// The container runtime has no network of that name: Docker on Windows has no network `host`.
    HostNetwork,
    /// The plugin of EKS finds no address in the labels of the pod.
    NoAddressLabel,
    /// The kubelet does not start the container as an administrator with `runAsNonRoot`.
    RunAsNonRoot,
    /// The reference of the image is malformed.
    InvalidImageName,
    /// The registry requires credentials, or these have no access.
    PullDenied,
    /// The registry limits the number of pulls.
    PullLimited,
    /// The image has no entry that this node accepts.
    NoPlatform,
    /// The image is for Linux, and the node has Windows.
    LinuxImage,
    /// The image is for Windows, and the node has Linux.
    WindowsImage,
    /// The node has no room for the image.
    DiskFull,
    /// The format of the layers is newer than the host.
    LayersTooNew,
    /// The layers cannot be unpacked for another reason.
    UnpackFailed,
    /// The registry has no such image.
    ImageNotFound,
    /// The registry cannot be reached.
    RegistryUnreachable,
    /// The image cannot be pulled for another reason.
    PullFailed,
    /// The pause image cannot be pulled.
    PauseImage,
    /// The node has no handler of the RuntimeClass.
    NoRuntimeHandler,
    /// The network of the pod cannot be set up.
    PodNetwork,
    /// The source of a mount does not exist on the node, or is of another type.
    MountSource,
    /// Host and image have different builds.
    HostMismatch,
    /// The container cannot be created, because its working directory is missing or the host lacks an update.
    WorkingDirectory,
    /// The container ended while it started.
    ExitedAtStart,
    /// Windows cannot create the container; the text of Windows does not reveal why.
    CreateFailed,
    /// The program of the container is missing in the image.
    ProgramNotFound,
    /// The scheduler found too few addresses for Windows pods on EKS.
    NoPrivateAddress,
    /// The scheduler found no node in the zone of a volume of the pod.
    VolumeAffinity,
    /// The scheduler found no node that can attach another volume.
    VolumeCount,
    /// The scheduler found no node with the CSI driver of a volume.
    VolumeDriver,
    /// The scheduler found nodes that do not declare a feature that the pod needs.
    MissingFeature,
    /// A Secret or ConfigMap that the container reads is missing.
    ConfigMissing,
    /// The container runs and ends repeatedly.
    CrashLoop,
    /// The text repeats what another one reports: `Error: ImagePullBackOff`.
    Empty,
}

/// One way to recognize a class.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) class: MessageClass,
    /// The reason of the status or Event. Empty: any.
    pub(crate) reason: &'static str,
    /// Texts that the message contains, all of them, ignoring case.
    pub(crate) all: &'static [&'static str],
    /// Texts of which the message contains at least one, ignoring case. Empty: none is required.
    pub(crate) any: &'static [&'static str],
    /// The component that writes it, with the file.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and for the test that no pattern lacks one"))]
    pub(crate) source: &'static str,
}

const fn text(
    class: MessageClass,
    all: &'static [&'static str],
    any: &'static [&'static str],
    source: &'static str,
) -> Pattern {
    Pattern { class, reason: "", all, any, source }
}

const fn by_reason(
    class: MessageClass,
    reason: &'static str,
    any: &'static [&'static str],
    source: &'static str,
) -> Pattern {
    Pattern { class, reason, all: &[], any, source }
}

use MessageClass as C;

/// Operations of a pull, as containerd, docker and the kubelet name them.
const PULL: &[&str] = &["pull"];

/// The first match wins: rejections by the kubelet, the scheduler, credentials, platform, layers, other faults of a pull,
/// sandbox, start.
#[rustfmt::skip]
pub(crate) static PATTERNS: &[Pattern] = &[
    by_reason(C::OsFieldRejected, "PodOSNotSupported", &[], "kubelet pkg/kubelet/lifecycle/predicate.go"),
    text(C::OsFieldRejected, &["Failed to admit pod as the OS field doesn't match node OS"], &[], "kubelet pkg/kubelet/lifecycle/predicate.go"),
    by_reason(C::OsLabelRejected, "PodOSSelectorNodeLabelDoesNotMatch", &[], "kubelet pkg/kubelet/lifecycle/predicate.go"),
    text(C::OsLabelRejected, &["Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"], &[], "kubelet pkg/kubelet/lifecycle/predicate.go"),
    by_reason(C::FeatureRejected, "PodFeatureUnsupported", &[], "kubelet pkg/kubelet/lifecycle/handlers.go"),
    text(C::FeatureRejected, &["Pod requires node features that are not available"], &[], "kubelet pkg/kubelet/lifecycle/handlers.go"),
    text(C::RunAsNonRoot, &["which will be regarded as root identity and will break non-root policy"], &[], "kubelet pkg/kubelet/kuberuntime/security_context_windows.go"),
    text(C::NoPrivateAddress, &["Insufficient vpc.amazonaws.com/PrivateIPv4Address"], &[], "kube-scheduler, plugin NodeResourcesFit, on EKS"),
    text(C::VolumeAffinity, &["had volume node affinity conflict"], &[], "kube-scheduler pkg/scheduler/framework/plugins/volumebinding, volumezone"),
    text(C::VolumeCount, &["exceed max volume count"], &[], "kube-scheduler pkg/scheduler/framework/plugins/nodevolumelimits/csi.go"),
    text(C::VolumeDriver, &["CSI driver is not installed on the node"], &[], "kube-scheduler pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, 1.35 to 1.38"),
    // Other nodes may be left out for one of the reasons above.
    text(C::MissingFeature, &["node(s) didn't match Pod's required features"], &[], "kube-scheduler pkg/scheduler/framework/plugins/nodedeclaredfeatures, 1.36 to 1.38"),
    text(C::MissingFeature, &["node declared features check failed - unsatisfied requirements"], &[], "kube-scheduler pkg/scheduler/framework/plugins/nodedeclaredfeatures, 1.35"),
    by_reason(C::InvalidImageName, "InvalidImageName", &[], "kubelet pkg/kubelet/images/image_manager.go"),
    text(C::InvalidImageName, &["couldn't parse image"], &[], "kubelet pkg/kubelet/images/image_manager.go"),

    // Before the envelopes of a pull, because the image of the sandbox is pulled too.
    text(C::PauseImage, &["failed to get sandbox image"], &[], "containerd internal/cri/server/podsandbox/sandbox_run.go"),

    text(C::HostNetwork, &["network host not found"], &[], "moby daemon/network.go on Windows; kubernetes/kubernetes#71130"),
    text(C::NoAddressLabel, &["does not have label vpc.amazonaws.com/PrivateIPv4Address"], &[], "amazon-vpc-cni-plugins plugins/vpc-bridge/config; aws/containers-roadmap#463"),

    text(C::PullLimited, PULL, &["toomanyrequests", "429 Too Many Requests"], "registries; distribution error codes"),
    text(C::PullDenied, PULL, &["401 Unauthorized", "403 Forbidden", "unauthorized:", "authorization failed", "insufficient_scope", "pull access denied", "no basic auth credentials", "authentication required", "denied: "], "containerd core/remotes/docker/pusher.go, resolver.go; distribution error codes"),

    text(C::NoPlatform, &["no match for platform in manifest"], &[], "containerd core/images/handlers.go, core/images/image.go"),
    text(C::NoPlatform, &["no matching manifest for"], &[], "moby daemon/internal/distribution/pull_v2.go, daemon/containerd/image_pull.go"),
    text(C::NoPlatform, &["-based image is incompatible with a "], &[], "moby daemon/internal/distribution/pull_v2_windows.go"),
    text(C::LinuxImage, &["image operating system \"linux\" cannot be used on this platform"], &[], "moby daemon/internal/distribution/config.go"),
    text(C::WindowsImage, &["image operating system \"windows\" cannot be used on this platform"], &[], "moby daemon/internal/distribution/config.go"),
    text(C::NoPlatform, &["image operating system", "cannot be used on this platform"], &[], "moby daemon/internal/distribution/config.go"),
    text(C::NoPlatform, &["no image found in", "for architecture"], &[], "containers/image internal/manifest/oci_index.go"),

    text(C::DiskFull, &[], &["no space left on device", "There is not enough space on the disk", "disk quota exceeded"], "Linux ENOSPC; Windows ERROR_DISK_FULL"),
    text(C::LinuxImage, &["failed to extract layer", "hcsshim::ProcessBaseLayer"], &[], "containerd pkg/rootfs/apply.go on Windows; stress-ng#389"),
    text(C::LinuxImage, &["safefile.OpenRelative", "Win32"], &[], "microsoft/hcsshim internal/safefile; rancher-docs#1228"),
    text(C::LinuxImage, &["failed to register layer"], &["hcsshim::ProcessBaseLayer", "re-exec error"], "moby layer/layer_store.go on Windows"),
    text(C::WindowsImage, &["failed to extract layer", "/Files/", "no such file or directory"], &[], "containerd pkg/rootfs/apply.go on Linux; microsoft/Windows-Containers#452"),
    text(C::LayersTooNew, &[], &["0xc0370112"], "microsoft/hcsshim internal/hcserror/hcserror.go; hcsshim#2566"),
    text(C::UnpackFailed, &[], &["failed to extract layer", "failed to unpack image on snapshotter", "failed to register layer"], "containerd client/pull.go, pkg/rootfs/apply.go"),

    text(C::RegistryUnreachable, PULL, &["dial tcp", "no such host", "i/o timeout", "TLS handshake timeout", "connection refused", "connection reset", "x509:", "context deadline exceeded", "Client.Timeout exceeded", "proxyconnect", "server gave HTTP response", "500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Time"], "Go net, crypto/x509"),
    text(C::ImageNotFound, PULL, &["manifest unknown", "name unknown", "repository does not exist", "not found"], "containerd client/pull.go; distribution error codes"),
    // The whole message of the kubelet, cut before the cause.
    text(C::PullFailed, &[], &["failed to resolve reference", "failed to pull and unpack image", "Failed to pull image"], "containerd internal/cri/server/images/image_pull.go"),

    text(C::NoRuntimeHandler, &["no runtime for", "is configured"], &[], "containerd internal/cri/config/config.go"),
    text(C::PodNetwork, &[], &["failed to setup network for sandbox", "failed to set up sandbox container", "networkPlugin cni failed"], "containerd internal/cri/server/sandbox_run.go"),

    text(C::MountSource, &["MountVolume.SetUp failed"], &["hostPath type check failed", "The system cannot find the path specified", "The system cannot find the file specified", "no such file or directory"], "kubelet pkg/volume/hostpath/host_path.go, pkg/volume/local; kubernetes/kubernetes#71130"),
    text(C::MountSource, &["invalid mount config for type", "bind source path does not exist"], &[], "moby volume/mounts/windows_parser.go"),

    text(C::HostMismatch, &[], &["0xc0370101", "The container operating system does not match the host operating system", "The operating system of the container does not match the operating system of the host"], "microsoft/hcsshim internal/hcs/system.go, errors.go"),
    text(C::ExitedAtStart, &[], &["0xc0370106", "The virtual machine or container exited unexpectedly", "hcs::System::Start"], "microsoft/hcsshim internal/hcs/errors.go, system.go"),
    text(C::WorkingDirectory, &["CreateComputeSystem", "The directory name is invalid"], &[], "microsoft/hcsshim internal/hcs/system.go; antrea-io/antrea#2774"),
    // In the language of the node.
    text(C::CreateFailed, &["CreateComputeSystem"], &[], "microsoft/hcsshim internal/hcs/system.go"),
    text(C::ProgramNotFound, &[], &["hcs::System::CreateProcess", "executable file not found", "hcsshim::CreateProcess"], "microsoft/hcsshim internal/hcs/system.go; runc"),
    text(C::ConfigMissing, &[], &["couldn't find key", "secret \"", "configmap \""], "kubelet pkg/kubelet/kubelet_pods.go"),
    by_reason(C::CrashLoop, "CrashLoopBackOff", &[], "kubelet pkg/kubelet/kuberuntime/kuberuntime_manager.go"),

    text(C::Empty, &[], &["Error: ErrImagePull", "Error: ImagePullBackOff", "Back-off pulling image"], "kubelet pkg/kubelet/images/image_manager.go, kuberuntime_container.go"),
];

//! Classifies a message, and finds the image and the build of the host in it.

use mullion_engine::model::windows::Build;

use crate::messages::table::{MessageClass, PATTERNS};

/// The operation that failed, from the prefix of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Envelope {
    /// The pull of an image.
    Pull,
    /// The sandbox of the pod.
    Sandbox,
    /// The start of a container.
    Start,
    /// Something else.
    Other,
}

/// The meaning of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Translation {
    pub(crate) class: MessageClass,
    pub(crate) envelope: Envelope,
    /// The image in the message.
    pub(crate) image: Option<String>,
    /// The build of the host in the message: `windows(10.0.17763)/amd64`.
    pub(crate) host: Option<Build>,
    /// The build of the image in the message: `a Windows version 10.0.26100-based image`.
    pub(crate) build: Option<Build>,
}

/// The meaning of a message with a reason; `None` if it is unknown.
pub(crate) fn translate(reason: &str, message: &str) -> Option<Translation> {
    let plain = unescape(message);
    let lower = plain.to_ascii_lowercase();
    let has = |text: &str| lower.contains(&text.to_ascii_lowercase());
    let found = PATTERNS.iter().find(|pattern| {
        (pattern.reason.is_empty() || pattern.reason == reason)
            && pattern.all.iter().all(|text| has(text))
            && (pattern.any.is_empty() || pattern.any.iter().any(|text| has(text)))
    })?;
    Some(Translation {
        class: found.class,
        envelope: envelope(reason, &lower),
        image: image(&plain),
        host: host(&lower),
        build: version_after(&lower, BEFORE_BUILD),
    })
}

/// The message without the escapes of `%q`, which the kubelet may apply twice.
pub(crate) fn unescape(message: &str) -> String {
    let mut text = message.to_owned();
    for _ in 0..2 {
        if !text.contains("\\\"") {
            break;
        }
        text = text.replace("\\\\", "\\").replace("\\\"", "\"");
    }
    text
}

/// The texts of operations, in lower case. The first that a message contains counts.
pub(crate) const OPERATIONS: [(&str, Envelope); 10] = [
    ("failed to create pod sandbox", Envelope::Sandbox),
    ("failed create pod sandbox", Envelope::Sandbox),
    ("failed to start sandbox container", Envelope::Sandbox),
    ("failed to get sandbox image", Envelope::Sandbox),
    ("pull", Envelope::Pull),
    ("failed to create containerd task", Envelope::Start),
    ("failed to create shim task", Envelope::Start),
    ("hcs::", Envelope::Start),
    ("hcsshim::", Envelope::Start),
    ("failed to start", Envelope::Start),
];

fn envelope(reason: &str, lower: &str) -> Envelope {
    if reason == "FailedCreatePodSandBox" {
        return Envelope::Sandbox;
    }
    let found = OPERATIONS.iter().find(|(text, _)| lower.contains(text));
    found.map_or(Envelope::Other, |(_, envelope)| *envelope)
}

/// The texts after which an image is quoted.
pub(crate) const BEFORE_IMAGE: [&str; 5] = [
    "failed to pull and unpack image \"",
    "failed to get sandbox image \"",
    "Failed to pull image \"",
    "Back-off pulling image \"",
    "failed to resolve reference \"",
];

fn image(plain: &str) -> Option<String> {
    BEFORE_IMAGE.iter().find_map(|before| {
        let (_, rest) = plain.split_once(before)?;
        let (image, _) = rest.split_once('"')?;
        let short = image.len() <= 512 && !image.contains(char::is_whitespace);
        (short && !image.is_empty()).then(|| image.to_owned())
    })
}

/// The texts, in lower case, before the version of an image, and of a host that cannot run it.
pub(crate) const BEFORE_BUILD: &str = "a windows version ";
pub(crate) const BEFORE_HOST: [&str; 2] = ["no matching manifest for ", "-based image is incompatible with a "];

/// `windows(10.0.17763)/amd64`, and in older versions `windows/amd64 10.0.17763`.
fn host(lower: &str) -> Option<Build> {
    let [manifest, incompatible] = BEFORE_HOST;
    let of_manifest = || {
        let (_, rest) = lower.split_once(manifest)?;
        let rest = rest.strip_prefix("windows")?;
        let at = rest.find("10.0.")?;
        (at <= 16).then(|| version(rest.get(at..)?)).flatten()
    };
    of_manifest().or_else(|| version_after(lower, incompatible))
}

fn version_after(lower: &str, before: &str) -> Option<Build> {
    version(lower.split_once(before)?.1)
}

/// The version at the beginning of a text.
fn version(text: &str) -> Option<Build> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let version = text.get(..end)?.trim_end_matches('.');
    Build::from_os_version(version).map(|(build, _)| build)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use MessageClass as C;
    use proptest::prelude::*;

    use super::*;
    use crate::messages::recognized_text;

    /// Messages from clusters, each with reason and class.
    const CASES: &[(&str, &str, MessageClass)] = &[
        ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS", C::OsFieldRejected),
        ("", "Failed to admit pod as the OS field doesn't match node OS", C::OsFieldRejected),
        (
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            C::OsLabelRejected,
        ),
        (
            "CreateContainerConfigError",
            "container's runAsUserName (ContainerAdministrator) which will be regarded as root identity and will break non-root policy (pod: \"web_shop(1)\", container: web)",
            C::RunAsNonRoot,
        ),
        (
            "Unschedulable",
            "0/3 nodes are available: 3 Insufficient vpc.amazonaws.com/PrivateIPv4Address.",
            C::NoPrivateAddress,
        ),
        (
            "ImagePullBackOff",
            "Back-off pulling image \"r/web:1\": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image \"r/web:1\": no match for platform in manifest: not found",
            C::NoPlatform,
        ),
        (
            "Failed",
            r#"Failed to pull image "r/web:1": rpc error: code = NotFound desc = failed to pull and unpack image \"r/web:1\": no match for platform in manifest sha256:0123: not found"#,
            C::NoPlatform,
        ),
        (
            "ErrImagePull",
            "no matching manifest for windows(10.0.17763)/amd64 in the manifest list entries",
            C::NoPlatform,
        ),
        (
            "ErrImagePull",
            "no matching manifest for windows/amd64 10.0.17763 in the manifest list entries",
            C::NoPlatform,
        ),
        ("ErrImagePull", "no matching manifest for linux/amd64 in the manifest list entries", C::NoPlatform),
        (
            "ErrImagePull",
            "a Windows version 10.0.26100-based image is incompatible with a 10.0.20348 host",
            C::NoPlatform,
        ),
        ("ErrImagePull", "image operating system \"linux\" cannot be used on this platform", C::LinuxImage),
        ("ErrImagePull", "image operating system \"windows\" cannot be used on this platform", C::WindowsImage),
        ("ErrImagePull", "image operating system \"plan9\" cannot be used on this platform", C::NoPlatform),
        (
            "ErrImagePull",
            "choosing image instance: no image found in image index for architecture \"amd64\", variant \"\", OS \"linux\"",
            C::NoPlatform,
        ),
        (
            "ErrImagePull",
            "choosing image instance: no image found in manifest list for architecture amd64, variant , OS linux",
            C::NoPlatform,
        ),
        (
            "ErrImagePull",
            r"failed to pull and unpack image: failed to extract layer sha256:1: hcsshim::ProcessBaseLayer \\?\C:\ProgramData\containerd\snapshots\12: The system cannot find the path specified.: unknown",
            C::LinuxImage,
        ),
        (
            "ErrImagePull",
            r"failed to extract layer sha256:1: safefile.OpenRelative failed in Win32: The path contains invalid characters",
            C::LinuxImage,
        ),
        (
            "ErrImagePull",
            "failed to extract layer sha256:1: mount callback failed: link /var/lib/containerd/tmp/Files/Program Files/a /var/b: no such file or directory: unknown",
            C::WindowsImage,
        ),
        ("ErrImagePull", "failed to unpack image on snapshotter windows: something", C::UnpackFailed),
        (
            "ErrImagePull",
            "failed to extract layer sha256:1: write /var/lib/x: no space left on device: unknown",
            C::DiskFull,
        ),
        (
            "ErrImagePull",
            "failed to pull and unpack image \"r/web:1\": failed to resolve reference \"r/web:1\": r/web:1: not found",
            C::ImageNotFound,
        ),
        (
            "ErrImagePull",
            "failed to pull and unpack image \"r/web:1\": failed to resolve reference \"r/web:1\": pulling from host r failed with status code [manifests 1]: 401 Unauthorized",
            C::PullDenied,
        ),
        (
            "ErrImagePull",
            "Error response from daemon: pull access denied for web, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
            C::PullDenied,
        ),
        (
            "ErrImagePull",
            "failed to pull and unpack image \"web\": failed to copy: httpReadSeeker: unexpected status code: 429 Too Many Requests - toomanyrequests",
            C::PullLimited,
        ),
        (
            "ErrImagePull",
            "failed to pull and unpack image \"r/web:1\": failed to do request: Head: dial tcp: lookup r: no such host",
            C::RegistryUnreachable,
        ),
        ("Failed", "Failed to pull image \"r/web:1\": rpc error: code = Unkno", C::PullFailed),
        (
            "InvalidImageName",
            "Failed to apply default image tag \"A:B:C\": couldn't parse image name",
            C::InvalidImageName,
        ),
        (
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = NotFound desc = failed to get sandbox image \"mcr.microsoft.com/oss/kubernetes/pause:3.9\": failed to pull and unpack image: no match for platform in manifest: not found",
            C::PauseImage,
        ),
        (
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \"runhcs-wcow-hypervisor\" is configured",
            C::NoRuntimeHandler,
        ),
        (
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"12\": plugin type=\"azure-vnet\" failed",
            C::PodNetwork,
        ),
        (
            "StartError",
            "failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem 12ab: The container operating system does not match the host operating system.: unknown",
            C::HostMismatch,
        ),
        (
            "StartError",
            "hcsshim::CreateComputeSystem 12ab: The operating system of the container does not match the operating system of the host. (0xc0370101)",
            C::HostMismatch,
        ),
        (
            "StartError",
            "container 12ab encountered an error during hcs::System::Start: failure in a Windows system call: The virtual machine or container exited unexpectedly. (0xc0370106)",
            C::ExitedAtStart,
        ),
        (
            "StartError",
            "hcs::System::Start 12ab: Der virtuelle Computer oder Container wurde unerwartet beendet.: unknown",
            C::ExitedAtStart,
        ),
        (
            "StartError",
            "ActivateLayer failed in Win32: The virtual disk has an unrecognized format (0xc0370112)",
            C::LayersTooNew,
        ),
        ("StartError", "hcs::CreateComputeSystem 12ab: The directory name is invalid.: unknown", C::WorkingDirectory),
        (
            "StartError",
            "hcs::CreateComputeSystem 12ab: Das Containerbetriebssystem stimmt nicht mit dem Hostbetriebssystem überein.: unknown",
            C::CreateFailed,
        ),
        (
            "StartError",
            "hcs::System::CreateProcess 12ab: The system cannot find the file specified.: unknown",
            C::ProgramNotFound,
        ),
        ("CreateContainerConfigError", "secret \"db\" not found", C::ConfigMissing),
        ("CrashLoopBackOff", "back-off 5m0s restarting failed container=web pod=web-1_shop(1)", C::CrashLoop),
        (
            "FailedCreatePodSandBox",
            "Failed create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox container for pod \"flannel-1\": Error response from daemon: network host not found",
            C::HostNetwork,
        ),
        (
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"79e1\": plugin type=\"vpc-bridge\" name=\"vpc\" failed (add): failed to parse Kubernetes args: pod does not have label vpc.amazonaws.com/PrivateIPv4Address",
            C::NoAddressLabel,
        ),
        (
            "Unschedulable",
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) had volume node affinity conflict.",
            C::VolumeAffinity,
        ),
        ("Unschedulable", "0/1 nodes are available: 1 node(s) exceed max volume count.", C::VolumeCount),
        (
            "Unschedulable",
            "0/2 nodes are available: 2 disk.csi.azure.com CSI driver is not installed on the node.",
            C::VolumeDriver,
        ),
        (
            "Unschedulable",
            "0/3 nodes are available: 2 node(s) didn't match Pod's required features, 1 node(s) had untolerated taint(s).",
            C::MissingFeature,
        ),
        (
            "Unschedulable",
            "0/1 nodes are available: 1 node declared features check failed - unsatisfied requirements: RestartAllContainersOnContainerExits.",
            C::MissingFeature,
        ),
        (
            "PodFeatureUnsupported",
            "Pod requires node features that are not available: VolumeBindMountOptions",
            C::FeatureRejected,
        ),
        (
            "FailedMount",
            "MountVolume.SetUp failed for volume \"xtables-lock\" : open /run/xtables.lock: The system cannot find the path specified.",
            C::MountSource,
        ),
        (
            "FailedMount",
            "MountVolume.SetUp failed for volume \"data\" : hostPath type check failed: /data is not a directory",
            C::MountSource,
        ),
        (
            "FailedMount",
            "MountVolume.SetUp failed for volume \"pv-1\" : stat C:\\data: The system cannot find the file specified.",
            C::MountSource,
        ),
        (
            "Failed",
            "Error: Error response from daemon: invalid mount config for type \"bind\": bind source path does not exist: c:\\var\\log",
            C::MountSource,
        ),
        ("Failed", "Error: ErrImagePull", C::Empty),
        ("BackOff", "Back-off pulling image \"r/web:1\"", C::Empty),
    ];

    #[test]
    fn messages_of_clusters() {
        for (reason, message, class) in CASES {
            let found = translate(reason, message).map(|found| found.class);
            assert_eq!(found, Some(*class), "{reason}: {message}");
            // In the form of an Event, quoted once more.
            let quoted = format!("{message:?}");
            let found = translate(reason, quoted.trim_matches('"')).map(|found| found.class);
            assert_eq!(found, Some(*class), "{quoted}");
        }
    }

    #[test]
    fn every_pattern_has_a_case_and_a_source() {
        for pattern in PATTERNS {
            assert!(CASES.iter().any(|(.., class)| *class == pattern.class), "{:?}", pattern.class);
            assert!(pattern.source.len() > 8, "{pattern:?}");
            assert!(!pattern.reason.is_empty() || !pattern.all.is_empty() || !pattern.any.is_empty(), "{pattern:?}");
        }
    }

    #[test]
    fn other_texts_mean_nothing() {
        for (reason, message) in [
            ("", ""),
            ("Completed", ""),
            ("Unschedulable", "0/3 nodes are available: 3 node(s) had untolerated taint(s)."),
            ("Error", "exec format error"),
            ("FailedMount", "MountVolume.SetUp failed for volume \"a\""),
        ] {
            assert_eq!(translate(reason, message), None, "{message}");
        }
    }

    #[test]
    fn what_a_message_names() {
        let found = translate(
            "ErrImagePull",
            "no matching manifest for windows(10.0.17763)/amd64 in the manifest list entries",
        );
        assert_eq!(found.unwrap().host, Some(Build::new(17763)));
        let found =
            translate("ErrImagePull", "no matching manifest for windows/amd64 10.0.20348 in the manifest list entries");
        assert_eq!(found.unwrap().host, Some(Build::new(20348)));
        let found = translate("ErrImagePull", "no matching manifest for linux/amd64 in the manifest list entries");
        assert_eq!(found.unwrap().host, None);
        let message = "a Windows version 10.0.26100-based image is incompatible with a 10.0.20348 host";
        let found = translate("ErrImagePull", message).unwrap();
        assert_eq!((found.host, found.build), (Some(Build::new(20348)), Some(Build::new(26100))));
        let message = r#"Failed to pull image "r/web:1": rpc error: desc = failed to pull and unpack image \"docker.io/r/web:1\": no match for platform in manifest: not found"#;
        assert_eq!(translate("Failed", message).unwrap().image.as_deref(), Some("docker.io/r/web:1"));
        for reason in ["", "FailedCreatePodSandBox"] {
            let mismatch = "failed to start sandbox container for pod \"a\": hcsshim::CreateComputeSystem 1: The container operating system does not match the host operating system.";
            let found = translate(reason, mismatch).unwrap();
            assert_eq!((found.class, found.envelope), (C::HostMismatch, Envelope::Sandbox));
        }
        let sandbox = "Failed to create pod sandbox: failed to get sandbox image \"pause:3.9\": failed to pull";
        let found = translate("FailedCreatePodSandBox", sandbox).unwrap();
        assert_eq!((found.envelope, found.image.as_deref()), (Envelope::Sandbox, Some("pause:3.9")));
    }

    /// A message is reduced when it is read, and again when a saved inventory is read.
    fn check_reduced(reason: &str, message: &str) {
        let reduced = recognized_text(message);
        assert_eq!(recognized_text(&reduced), reduced, "again: {message}");
        assert!(reduced.len() <= 1024, "{reduced}");
        let (whole, found) = (translate(reason, message), translate(reason, &reduced));
        let facts = |found: &Option<Translation>| {
            found.as_ref().map(|found| (found.class, found.envelope, found.host, found.build))
        };
        assert_eq!(facts(&found), facts(&whole), "{message}: {reduced}");
    }

    #[test]
    fn reduced_messages_mean_the_same() {
        for (reason, message, _) in CASES {
            for message in [(*message).to_owned(), format!("{message:?}"), format!("s3cret {message} s3cret")] {
                check_reduced(reason, &message);
                let image = |text: &str| translate(reason, text).and_then(|found| found.image);
                assert_eq!(image(&recognized_text(&message)), image(&message), "{message}");
                assert!(!recognized_text(&message).contains("s3cret"), "{message}");
            }
        }
        let table = [
            ("", ""),
            ("s3cret", "…"),
            (
                "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 node(s) didn't match Pod's node affinity/selector.",
                "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 node(s) didn't match Pod's node affinity/selector.",
            ),
            (
                "Failed to pull image \"r/web:1\": GET https://u:s3cret@r/v2?token=s3cret: 401 Unauthorized",
                "Failed to pull image \"r/web:1\" … 401 Unauthorized",
            ),
            ("Failed to pull image \"u:s3cret@r/web\"", "Failed to pull image …"),
            ("Failed to pull image \"https://u:s3cret@r/web s3cret\"", "Failed to pull image …"),
            ("exec [\"s3cret\"]: not found, s3cret: not found", "… not found …"),
            (
                "no runtime for \"runhcs-wcow-hypervisor\" is configured",
                "no runtime for \"runhcs-wcow-hypervisor\" is configured",
            ),
        ];
        for (message, expected) in table {
            assert_eq!(recognized_text(message), expected);
        }
    }

    proptest! {
        /// Any mixture of phrases and other words.
        #[test]
        fn reduced_mixtures_mean_the_same(
            parts in prop::collection::vec((0..CASES.len(), 0usize..60, 0usize..200, "[ -~é]{0,12}"), 0..5),
            reason in "|Failed|StartError|FailedCreatePodSandBox",
        ) {
            let cut = |(case, from, length, other): &(usize, usize, usize, String)| {
                let text: String = CASES[*case].1.chars().skip(*from).take(*length).collect();
                format!("{text}{other}")
            };
            check_reduced(&reason, &parts.iter().map(cut).collect::<String>());
        }

        #[test]
        fn any_text_is_translated_or_not(reason in ".{0,20}", message in ".{0,200}") {
            let _ = translate(&reason, &message);
        }

        /// Events are cut after 1 KiB: the remaining part means the same, less, or nothing.
        #[test]
        fn cut_texts_do_not_panic(case in 0..CASES.len(), at in 0usize..300) {
            let (reason, message, _) = CASES[case];
            let _ = translate(reason, mullion_engine::model::text::prefix(message, at));
        }
    }
}

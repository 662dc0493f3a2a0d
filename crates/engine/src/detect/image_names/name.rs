//! The facts in an image name, from tag words and known repositories.

use serde::{Deserialize, Serialize};

use crate::detect::image_names::repository::RepositoryOs;
use crate::detect::image_names::tag::{Context, Reading, TagOs};
use crate::detect::image_names::{repository, tag};
use crate::model::image::{ImageOs, ImageRef};
use crate::model::windows::Build;

/// The facts in a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameFacts {
    /// Operating systems.
    pub(crate) os: ImageOs,
    /// Windows builds; empty if unknown, if there are several, or if the image runs on any build.
    pub(crate) builds: Vec<Build>,
    /// The part of the name they come from; [`ImageSource::None`]: the operating system is unknown.
    pub(crate) source: ImageSource,
}

impl NameFacts {
    /// The facts of a name that contains no evidence.
    const UNKNOWN: Self = Self { os: ImageOs::Unknown, builds: Vec::new(), source: ImageSource::None };

    const fn new(os: ImageOs, source: ImageSource) -> Self {
        Self { os, builds: Vec::new(), source }
    }

    fn windows(build: Option<Build>, source: ImageSource) -> Self {
        Self { os: ImageOs::Windows, builds: build.into_iter().collect(), source }
    }
}

/// The source of an image's operating system. The first two take precedence over names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageSource {
    /// A pattern of a `PodPolicy`.
    Policy,
    /// The registry.
    Registry,
    /// A word of the tag, alone or together with the repository.
    Tag,
    /// The repository alone.
    Repository,
    /// Nothing.
    None,
}

impl ImageSource {
    /// `policy`, `registry`, `tag`, `repository` or `none`, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Registry => "registry",
            Self::Tag => "tag",
            Self::Repository => "repository",
            Self::None => "none",
        }
    }
}

/// One line of `mullion image -o json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageRow<'a> {
    /// The reference as given.
    pub reference: &'a str,
    /// Operating systems.
    pub os: ImageOs,
    /// Windows builds; empty if unknown or any.
    pub builds: Vec<Build>,
    /// The source of the facts.
    pub source: ImageSource,
}

/// The facts in a name, without a look-up in the registry.
///
/// Only a word of the tag decides for Linux. A tag beside a digest counts as if there were no digest: the digest
/// decides what is pulled, and people pin the image that the tag named at that time.
pub(crate) fn from_name(image: &ImageRef<'_>) -> NameFacts {
    let known = repository::find(image);
    let reading = read_tag(image, known);
    match reading.os {
        TagOs::Linux => return NameFacts::new(ImageOs::Linux, ImageSource::Tag),
        TagOs::Both => return NameFacts::new(ImageOs::Multi, ImageSource::Tag),
        TagOs::Silent | TagOs::Windows => {}
    }
    match known {
        Some(RepositoryOs::Decoy) => NameFacts::UNKNOWN,
        Some(RepositoryOs::Windows { untagged, path, .. }) => in_windows_repository(image, reading, untagged, path),
        Some(RepositoryOs::WindowsIfReleased) if reading.build.is_some() => {
            NameFacts::windows(reading.build, ImageSource::Tag)
        }
        _ if reading.os == TagOs::Windows && !(reading.bare && repository::is_toolchain(image)) => {
            NameFacts::windows(reading.build, ImageSource::Tag)
        }
        _ if reading.hint && repository::hint_is_proof(image) => NameFacts::windows(reading.build, ImageSource::Tag),
        Some(RepositoryOs::Multi) if !is_linux_variant(image) => {
            NameFacts::new(ImageOs::Multi, ImageSource::Repository)
        }
        Some(RepositoryOs::MultiUpTo(last)) if image.tag().and_then(major).is_some_and(|major| major <= last) => {
            NameFacts::new(ImageOs::Multi, ImageSource::Repository)
        }
        Some(RepositoryOs::Multi | RepositoryOs::MultiUpTo(_) | RepositoryOs::WindowsIfReleased) | None => {
            NameFacts::UNKNOWN
        }
    }
}

/// The word of the tag that names its operating system, or the whole tag, if only several words together do.
pub(crate) fn os_word<'a>(image: &ImageRef<'a>) -> Option<&'a str> {
    let tag = image.tag()?;
    let names_os = |word: &&str| matches!(tag::read_words(word, Context::BaseImage).os, TagOs::Linux | TagOs::Windows);
    Some(tag.split(['-', '_', '.']).find(names_os).unwrap_or(tag))
}

fn read_tag(image: &ImageRef<'_>, known: Option<RepositoryOs>) -> Reading {
    let context = match known {
        Some(RepositoryOs::Windows { context, .. }) => context,
        Some(RepositoryOs::WindowsIfReleased) => Context::BaseImage,
        _ => Context::Other,
    };
    tag::read_words(image.tag().unwrap_or_default(), context)
}

fn in_windows_repository(
    image: &ImageRef<'_>,
    reading: Reading,
    untagged: Option<Build>,
    path: Option<Build>,
) -> NameFacts {
    let floating = image.digest().is_none() && image.tag().is_none_or(|tag| tag == "latest");
    let by_repository = path.or(if floating { untagged } else { None });
    let source = if reading.os == TagOs::Windows || reading.build.is_some() {
        ImageSource::Tag
    } else {
        ImageSource::Repository
    };
    NameFacts::windows(reading.build.or(by_repository), source)
}

/// Words of the Docker official images that never occur in an index with Windows and are too common to mean Linux
/// elsewhere: `python:3.12-slim`, `nats:2-scratch`, `openjdk:28-ea-oracle`.
const LINUX_VARIANTS: &[&str] = &["slim", "scratch", "oracle"];

fn is_linux_variant(image: &ImageRef<'_>) -> bool {
    let mut words = image.tag().into_iter().flat_map(|tag| tag.split('-'));
    words.any(|word| LINUX_VARIANTS.iter().any(|variant| variant.eq_ignore_ascii_case(word)))
}

/// The major version of a tag that consists only of a version: `6.0`, `7.0.20`.
fn major(tag: &str) -> Option<u32> {
    let version = tag.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if version { tag.split('.').next()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use ImageOs::{Linux, Multi, Unknown, Windows};
    use proptest::prelude::*;

    use super::*;

    fn from_text(text: &str) -> NameFacts {
        ImageRef::parse(text).map_or(NameFacts::UNKNOWN, |image| from_name(&image))
    }

    #[rustfmt::skip]
    const TRAPS: &[(&str, ImageOs, &[u32])] = &[
        ("gcr.io/k8s-staging-e2e-test-images/windows-servercore-cache:1.0-linux-amd64-1809", Linux, &[]),
        ("us-docker.pkg.dev/gke-windows-tools/docker-repo/gke-windows-builder:latest", Unknown, &[]),
        ("us-docker.pkg.dev/gke-windows-tools/docker-repo/gke-windows-builder:windows", Unknown, &[]),
        ("sigwindowstools/hyperv-runtimeclass-mutating-webhook:latest", Unknown, &[]),
        ("registry.k8s.io/gmsa-webhook/k8s-gmsa-webhook:v0.7.0", Unknown, &[]),
        ("602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/windows-vpc-resource-controller:v0.2.7", Unknown, &[]),
        ("dockurr/windows:latest", Unknown, &[]),
        ("dockurr/windows:ltsc2022", Unknown, &[]),
        ("dockurr/windows", Unknown, &[]),
        ("cdrx/pyinstaller-windows:python3", Unknown, &[]),
        // Compilers and virtual machines for Windows, which run on Linux.
        ("fyneio/fyne-cross-images:windows", Unknown, &[]),
        ("docker.io/fyneio/fyne-cross-images:1.3-windows", Unknown, &[]),
        ("therecipe/qt:windows_64_static", Unknown, &[]),
        ("unityci/editor:2021.3.17f1-windows-mono-1.0.1", Unknown, &[]),
        ("unityci/editor:ubuntu-2022.3.29f1-windows-mono-3", Linux, &[]),
        ("unityci/editor:windows-6000.3.8f1-windows-il2cpp-3", Windows, &[]),
        ("electronuserland/builder:wine", Unknown, &[]),
        ("quay.io/containerdisks/windows:ltsc2022", Unknown, &[]),
        ("dockcross/windows-static-x64", Unknown, &[]),
        // A tool for other systems, but the tag names its own system.
        ("acme/app-builder:1.0-windowsservercore-ltsc2022", Windows, &[20348]),
        ("andyzhangx/samba:win-fix", Unknown, &[]),
        ("acme/twin-service:win-2024.1", Unknown, &[]),
        ("mcr.microsoft.com/mssql/server:2022-latest", Unknown, &[]),
        ("mcr.microsoft.com/mssql/server:2022-CU10-ubuntu-22.04", Linux, &[]),
        ("mcr.microsoft.com/dotnet/aspnet:8.0", Unknown, &[]),
        ("mcr.microsoft.com/dotnet/aspnet:10.0", Unknown, &[]),
        ("mcr.microsoft.com/dotnet/aspnet:latest", Unknown, &[]),
        ("mcr.microsoft.com/dotnet/aspnet", Unknown, &[]),
        ("mcr.microsoft.com/dotnet/aspnet:7.0.20", Multi, &[]),
        ("mcr.microsoft.com/dotnet/aspnet:6.0-alpine", Linux, &[]),
        ("registry.example.com:5000/team/api:1809", Unknown, &[]),
        ("registry.example.com:5000/team/api:2004", Unknown, &[]),
        ("registry.example.com:1809/team/api:1", Unknown, &[]),
        ("ltsc2022.example.com/team/api:1", Unknown, &[]),
        ("windows.azurecr.io/api:1", Unknown, &[]),
        ("onebranch.azurecr.io/windows/ltsc2022/vse2022:latest", Windows, &[20348]),
        ("cplatpublic.azurecr.io/golang-1.16.2-nanoserver-1809:max-cpu-workload", Windows, &[17763]),
        ("x.azurecr.io/experimental/sitecore-xc-engine:10.0.0.60234.10194-pbi-422197-0035-10.0.17763.1282-ltsc2019", Windows, &[17763]),
        ("tobiasfenster/traefik-for-windows:v1.7.34", Windows, &[]),
        ("ghcr.io/prometheus-community/windows-exporter:latest", Windows, &[]),
        ("docker.io/rancher/mirrored-prometheus-windows-exporter:0.31.3", Windows, &[]),
        ("quay.io/prometheuscommunity/windows-exporter:0.25.1-ltsc2022", Windows, &[20348]),
        ("ghcr.io/prometheus-community/windows-exporter:0.16.0-2004", Windows, &[19041]),
        ("myregistry/nanoserver-proxy", Unknown, &[]),
        ("mcr.microsoft.com/windows/servercore/iis", Windows, &[]),
        // The repository alone never proves Linux.
        ("nginx:1.27", Unknown, &[]),
        ("busybox", Unknown, &[]),
        ("alpine:3.20", Unknown, &[]),
        ("ubuntu", Unknown, &[]),
        ("nginx:1.27-alpine", Linux, &[]),
        // Since .NET 8, tags without a Windows word contain no Windows image (dotnet/dotnet-docker#4492).
        ("mcr.microsoft.com/dotnet/sdk:9.0-nanoserver-ltsc2025", Windows, &[26100]),
        ("mcr.microsoft.com/dotnet/runtime:10.0-windowsservercore-ltsc2022", Windows, &[20348]),
        ("mcr.microsoft.com/dotnet/aspnet:8.0-nanoserver-1809", Windows, &[17763]),
        ("mcr.microsoft.com/dotnet/aspnet:8.0-noble-chiseled-extra", Linux, &[]),
        // Tags as their publishers build them.
        ("otel/opentelemetry-collector-contrib:0.110.0-windows-2022-amd64", Windows, &[20348]),
        ("datadog/agent:7-winltsc2022-servercore-amd64", Windows, &[20348]),
        ("portainer/agent:windows1809-amd64", Windows, &[17763]),
        ("octopusdeploy/worker-tools:6.1-windows.ltsc2019", Windows, &[17763]),
        ("quay.io/signalfx/splunk-otel-collector-windows:0.154.0-2022", Windows, &[20348]),
        ("quay.io/signalfx/splunk-otel-collector-windows:0.154.0", Windows, &[]),
        ("MCR.MICROSOFT.COM/windows/servercore:LTSC2022", Windows, &[20348]),
        ("10.0.0.1:1809/app:v1", Unknown, &[]),
        // Two operating systems behind one tag, unless the tag names one.
        ("golang:1.27", Multi, &[]),
        ("golang:1.27-windowsservercore", Windows, &[]),
        ("golang:1.27-windowsservercore-ltsc2025", Windows, &[26100]),
        ("golang:1.27-windowsservercore-ltsc2022", Windows, &[20348]),
        ("golang:1.27-bookworm", Linux, &[]),
        ("python:3.12-slim", Unknown, &[]),
        ("nats:2.14-scratch", Unknown, &[]),
        ("openjdk:28-ea-oracle", Unknown, &[]),
        ("eclipse-temurin:25-jdk-resolute", Linux, &[]),
        ("hello-world:nanoserver-1809", Windows, &[17763]),
        ("registry.k8s.io/pause:3.10", Multi, &[]),
        ("rancher/mirrored-pause:3.6-windows-1809-amd64", Windows, &[17763]),
        ("mcr.microsoft.com/powershell:lts-7.4", Multi, &[]),
        ("mcr.microsoft.com/powershell:nanoserver", Windows, &[]),
        // The hint proves Windows only in the repositories that are known to use it for Windows.
        ("mcr.microsoft.com/azuremonitor/containerinsights/ciprod:win-3.1.24", Windows, &[]),
        ("mcr.microsoft.com/azuremonitor/containerinsights/ciprod:3.1.24", Unknown, &[]),
        ("mcr.microsoft.com/azuremonitor/containerinsights/ciprod/prometheus-collector/images:6.8.0-main-03-12-2024-ab-win", Windows, &[]),
        ("gke.gcr.io/gcp-compute-persistent-disk-csi-driver:win-v1", Windows, &[]),
        ("gke.gcr.io/gcp-compute-persistent-disk-csi-driver:v1.13.2", Multi, &[]),
        ("shsk2s.azurecr.io/fluent/fluent-bit:5.1.1-hp", Windows, &[]),
        ("fluent/fluent-bit:5.1.1", Unknown, &[]),
        // Mirrors and their longer paths.
        ("registry.corp/mirror/mcr.microsoft.com/windows/servercore:ltsc2019", Windows, &[17763]),
        ("registry.corp/mirror/mcr.microsoft.com/windows:2004", Windows, &[19041]),
        ("localhost:5000/windows/nanoserver:1909", Windows, &[18363]),
        ("[2001:db8::1]:5000/windows/servercore:20h2", Windows, &[19042]),
        ("winamd64/python:3", Windows, &[]),
        ("winamd64/golang:1.22-nanoserver-1809", Windows, &[17763]),
        ("k8sprow.azurecr.io/nanoserver:1809", Windows, &[17763]),
        ("acme/nanoserver:2.1", Unknown, &[]),
        // Docker Hub's old names.
        ("microsoft/windowsservercore", Windows, &[14393]),
        ("microsoft/nanoserver:latest", Windows, &[14393]),
        ("microsoft/nanoserver:1709", Windows, &[16299]),
        // Host process images run on any build.
        ("mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0", Windows, &[]),
        ("mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi:v1.29.2-windows-hp", Windows, &[]),
        ("sigwindowstools/kube-proxy:v1.27.3-calico-hostprocess", Windows, &[]),
        // A product version beside the Windows release.
        ("mcr.microsoft.com/businesscentral/onprem:1904-cu1-w1-ltsc2019", Windows, &[17763]),
        ("mcr.microsoft.com/businesscentral:1909", Windows, &[]),
        ("mcr.microsoft.com/dotnet/framework/aspnet:4.8", Windows, &[]),
        ("mcr.microsoft.com/dotnet/framework/sdk:4.8-20220614-windowsservercore-ltsc2022", Windows, &[20348]),
    ];

    #[test]
    fn traps() {
        for &(text, os, builds) in TRAPS {
            let answer = from_text(text);
            let builds: Vec<_> = builds.iter().copied().map(Build::new).collect();
            assert_eq!((answer.os, &answer.builds), (os, &builds), "{text}");
            assert_eq!(answer.os == Unknown, answer.source == ImageSource::None, "{text}");
        }
    }

    #[test]
    fn digests() {
        let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let cases: &[(&str, ImageOs, &[u32])] = &[
            ("mcr.microsoft.com/windows/nanoserver:1809", Windows, &[17763]),
            ("mcr.microsoft.com/windows/nanoserver", Windows, &[]),
            // The build of its `latest` is known; that of a digest is not.
            ("microsoft/windowsservercore", Windows, &[]),
            ("acme/windows-node-labeler", Unknown, &[]),
            ("nginx:1.27-alpine", Linux, &[]),
        ];
        for &(name, os, builds) in cases {
            let answer = from_text(&format!("{name}@{digest}"));
            let builds: Vec<_> = builds.iter().copied().map(Build::new).collect();
            assert_eq!((answer.os, answer.builds), (os, builds), "{name}");
        }
    }

    #[test]
    fn no_reference_has_no_facts() {
        for text in [
            "",
            "{{ .image }}-windowsservercore",
            "$(IMAGE):ltsc2022",
            "x:ltsc2022 ",
            "X/windows/servercore:",
            "Nanoserver",
        ] {
            assert_eq!(from_text(text), NameFacts::UNKNOWN, "{text}");
        }
    }

    #[test]
    fn sources() {
        let cases = [
            ("mcr.microsoft.com/windows/servercore:ltsc2022", ImageSource::Tag),
            ("mcr.microsoft.com/windows/servercore:1809", ImageSource::Tag),
            ("mcr.microsoft.com/windows/servercore/iis", ImageSource::Repository),
            ("microsoft/nanoserver", ImageSource::Repository),
            ("golang:1", ImageSource::Repository),
            ("golang:1-alpine", ImageSource::Tag),
            ("x:1-linux-windows", ImageSource::Tag),
            ("nginx", ImageSource::None),
        ];
        for (text, source) in cases {
            assert_eq!(from_text(text).source, source, "{text}");
        }
    }

    #[test]
    fn rows_serialise_as_the_command_prints_them() {
        let row = |reference| {
            let NameFacts { os, builds, source } = from_text(reference);
            serde_json::to_string(&ImageRow { reference, os, builds, source }).unwrap()
        };
        let text = "mcr.microsoft.com/windows/servercore:ltsc2022";
        assert_eq!(
            row(text),
            format!(r#"{{"reference":"{text}","os":"windows","builds":["10.0.20348"],"source":"tag"}}"#)
        );
        assert_eq!(row("{{x}}"), r#"{"reference":"{{x}}","os":"unknown","builds":[],"source":"none"}"#);
    }

    #[test]
    fn sources_have_the_same_names_everywhere() {
        use ImageSource::{None, Policy, Registry, Repository, Tag};
        for source in [Policy, Registry, Tag, Repository, None] {
            assert_eq!(serde_json::to_value(source).unwrap(), source.name());
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_result(text in ".*", near in "[a-z0-9./:@_-]{0,60}") {
            for text in [&text, &near] {
                let answer = from_text(text);
                prop_assert!(answer.builds.is_empty() || answer.os == ImageOs::Windows);
            }
        }

        #[test]
        fn the_registry_never_matters(
            host in "[a-z]{1,8}\\.(io|com)(:[0-9]{2,4})?",
            tail in "(windows/servercore|team/api|library/golang|powershell|dockurr/windows):(ltsc2022|1809|latest|1-linux)"
        ) {
            let here = format!("registry.example.com/{tail}");
            let there = format!("{host}/{tail}");
            prop_assert_eq!(from_text(&here), from_text(&there));
        }

        #[test]
        fn a_linux_word_is_never_windows(
            path in "(mcr\\.microsoft\\.com/windows/servercore|golang|acme/x|winamd64/python|dockurr/windows)",
            tag in "[a-z0-9]{0,4}[-_.]?(ltsc2022|1809|nanoserver|windows)[-_.](linux|alpine|bookworm|ubi9)"
        ) {
            let text = format!("{path}:x{tag}");
            prop_assert_ne!(from_text(&text).os, ImageOs::Windows);
        }
    }
}

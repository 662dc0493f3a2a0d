//! Known repositories: tables of repositories whose operating system is known.
//!
//! Rows match components of the path and not the registry's host (except one row): the same images exist in mirrors,
//! often below a longer path. Words inside a component prove nothing: `windows-vpc-resource-controller` and
//! `gmsa-webhook` run on Linux.

use crate::detect::image_names::tag::{Context, is_toolchain_word, release_word};
use crate::model::image::ImageRef;
use crate::model::windows::Build;

/// The images of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepositoryOs {
    /// Windows only, whatever the tag.
    Windows {
        /// How to read numbers in the tag.
        context: Context,
        /// Build of a reference without tag and digest, or with the tag `latest`.
        untagged: Option<Build>,
        /// Build that the path contains.
        path: Option<Build>,
    },
    /// Windows if the tag contains a release; the name alone could be that of a product.
    WindowsIfReleased,
    /// Linux and Windows images behind one tag.
    Multi,
    /// Linux images, and Windows images behind version tags up to this major version.
    MultiUpTo(u32),
    /// A Linux image with Windows in its name: even its tag does not prove Windows.
    Decoy,
}

/// Where the components of a row match in a repository's path.
pub(crate) enum At {
    /// At its end: `dockurr/windows`.
    End(&'static str),
    /// Anywhere, with more components before and after.
    Within(&'static str),
    /// Last component, or its end after a separator: `mirrored-prometheus-windows-exporter` for `windows-exporter`.
    Name(&'static str),
    /// From the root of the Microsoft Container Registry, or of a mirror that includes its name in the path.
    Microsoft(&'static str),
    /// The whole path at one registry: for names that are too short to be known elsewhere.
    Registry(&'static str, &'static str),
    /// A Docker official image.
    Official(&'static str),
}

struct Row {
    at: At,
    known: RepositoryOs,
    /// The source: repository and, if it helps, file.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and for the test that no row lacks one"))]
    source: &'static str,
}

const fn row(at: At, known: RepositoryOs, source: &'static str) -> Row {
    Row { at, known, source }
}

const WINDOWS: RepositoryOs = RepositoryOs::Windows { context: Context::Other, untagged: None, path: None };
const BASE: RepositoryOs = RepositoryOs::Windows { context: Context::BaseImage, untagged: None, path: None };
const YEAR_NAMED: RepositoryOs = RepositoryOs::Windows { context: Context::YearNamed, untagged: None, path: None };
/// Docker Hub's first base images ended with 1607; their `latest` is still 1607.
const BASE_1607: RepositoryOs =
    RepositoryOs::Windows { context: Context::BaseImage, untagged: Some(Build::new(14393)), path: None };

const BASE_LIFECYCLE: &str = "MicrosoftDocs/Virtualization-Documentation virtualization/windowscontainers/manage-containers/container-base-images.md";
const FRAMEWORK: &str = "microsoft/dotnet-framework-docker README.md";
const DOTNET: &str = "dotnet/dotnet-docker documentation/supported-tags.md: shared tags have no Windows from 8.0 on";
const OLD_SAMPLES: &str =
    "MicrosoftDocs/Virtualization-Documentation windows-container-samples/: names on Docker Hub until 2018";
const DOCKER_LABS: &str = "docker/labs windows/: names on Docker Hub until 2018";
const BUSINESS_CENTRAL: &str =
    "microsoft/navcontainerhelper README.md, NavContainerHelper.md, ContainerHandling/New-NavContainer.ps1";
const OFFICIAL: &str = "docker-library/official-images library/: shared tags with Linux and Windows";
const WINDOWS_TOOLS: &str = "kubernetes-sigs/sig-windows-tools hack/regsync.yaml, hostprocess/";
const CALICO: &str = "projectcalico/calico manifests/calico-windows-vxlan.yaml";
const TIGERA: &str = "tigera/operator pkg/components/calico.go, pkg/components/enterprise.go";
const STEFAN: &str = "StefanScherer/dockerfiles-windows dockertls/, node/, registry/, consul/";
const K2S: &str = "Siemens-Healthineers/K2s k2s/test/e2e/, addons/";
const TESTING: &str = "kubernetes/kubernetes test/images: BASEIMAGE files";
const CSI: &str = "kubernetes-csi/csi-driver-smb deploy/csi-smb-node-windows.yaml";
const AZURE_NETWORKING: &str =
    "Azure/azure-container-networking .pipelines/build/dockerfiles/; Azure/AKS vhd-notes/AKSWindows";
const SPIRE: &str = "spiffe/spire Makefile: images-windows";

/// The first match wins; decoys come first.
#[rustfmt::skip]
static ROWS: &[Row] = &[
    // Linux images whose names or tags look like Windows.
    row(At::End("dockurr/windows"), RepositoryOs::Decoy, "dockur/windows: Windows in a virtual machine in a Linux container"),
    row(At::End("dockurr/windows-arm"), RepositoryOs::Decoy, "dockur/windows-arm"),
    row(At::End("dockur/windows"), RepositoryOs::Decoy, "dockur/windows on ghcr.io"),
    row(At::End("dockur/windows-arm"), RepositoryOs::Decoy, "dockur/windows-arm on ghcr.io"),
    row(At::Name("pyinstaller-windows"), RepositoryOs::Decoy, "cdrx/docker-pyinstaller: Linux with Wine"),
    row(At::Within("dockcross"), RepositoryOs::Decoy, "dockcross/dockcross README.md: cross compilers on Linux"),
    row(At::Name("windows-vpc-resource-controller"), RepositoryOs::Decoy, "the legacy vpc-resource-controller.yaml of Amazon EKS"),
    row(At::Name("windows-machine-config-operator"), RepositoryOs::Decoy, "openshift/windows-machine-config-operator"),
    row(At::Name("windows-servercore-cache"), RepositoryOs::Decoy, "kubernetes/kubernetes test/images/windows: layers for buildx, linux/amd64"),
    row(At::Name("gke-windows-builder"), RepositoryOs::Decoy, "GoogleCloudPlatform/gke-windows-builder"),
    row(At::Name("k8s-gmsa-webhook"), RepositoryOs::Decoy, "kubernetes-sigs/windows-gmsa admission-webhook"),
    row(At::Name("hyperv-runtimeclass-mutating-webhook"), RepositoryOs::Decoy, "kubernetes-sigs/windows-testing helpers/Makefile"),
    row(At::Name("hyperv-webhook"), RepositoryOs::Decoy, "kubernetes-sigs/windows-testing helpers/Makefile"),
    row(At::Name("hpc-webhook"), RepositoryOs::Decoy, "kubernetes-sigs/windows-testing helpers/Makefile"),
    row(At::End("therecipe/qt"), RepositoryOs::Decoy, "therecipe/qt internal/docker/windows_32_shared: cross compiler on Linux, tags windows_64_static"),
    row(At::Within("containerdisks"), RepositoryOs::Decoy, "kubevirt/containerdisks: disks of virtual machines, which Linux pods run"),
    row(At::Name("windowszip"), RepositoryOs::Decoy, "Azure/AgentBaker staging/cse/windows/kubeletfunc.ps1: an artifact, not an image"),

    // Base images and images that Microsoft builds on them.
    row(At::Within("windows/nanoserver"), BASE, BASE_LIFECYCLE),
    row(At::Within("windows/servercore"), BASE, BASE_LIFECYCLE),
    row(At::Within("windows/server"), BASE, BASE_LIFECYCLE),
    row(At::End("windows/nanoserver-insider"), BASE, BASE_LIFECYCLE),
    row(At::End("windows/servercore-insider"), BASE, BASE_LIFECYCLE),
    row(At::Microsoft("windows"), BASE, BASE_LIFECYCLE),
    row(At::Within("dotnet/framework"), BASE, FRAMEWORK),
    row(At::Microsoft("windows-cssc"), WINDOWS, "microsoft/windows-containers-demos django-poll-app/application/nanoserver.Dockerfile"),
    row(At::End("microsoft/windowsservercore"), BASE_1607, OLD_SAMPLES),
    row(At::End("microsoft/nanoserver"), BASE_1607, OLD_SAMPLES),
    row(At::End("microsoft/windowsservercore-insider"), BASE, "MicrosoftDocs/Virtualization-Documentation windowscontainers/quick-start/Using-Insider-Container-Images.md of 2018"),
    row(At::End("microsoft/nanoserver-insider"), BASE, "MicrosoftDocs/Virtualization-Documentation windowscontainers/quick-start/Using-Insider-Container-Images.md of 2018"),
    row(At::End("microsoft/iis"), BASE, OLD_SAMPLES),
    row(At::End("microsoft/dotnet-framework"), BASE, DOCKER_LABS),
    row(At::End("microsoft/wcf"), BASE, "microsoft/wcf-docker README.md"),
    row(At::End("microsoft/mssql-server-windows-developer"), WINDOWS, "microsoft/windows-containers-demos eshop-mvc-modernized-app/application/docker-compose.yml"),
    row(At::End("microsoft/mssql-server-windows-express"), WINDOWS, OLD_SAMPLES),
    row(At::End("microsoft/dynamics-nav"), WINDOWS, BUSINESS_CENTRAL),
    row(At::End("microsoft/bcsandbox"), WINDOWS, BUSINESS_CENTRAL),
    row(At::End("dynamicsnav"), WINDOWS, BUSINESS_CENTRAL),
    row(At::End("businesscentral"), WINDOWS, BUSINESS_CENTRAL),
    row(At::End("businesscentral/onprem"), WINDOWS, BUSINESS_CENTRAL),
    row(At::End("businesscentral/sandbox"), WINDOWS, BUSINESS_CENTRAL),
    row(At::Within("azure-app-service/windows"), WINDOWS, "hashicorp/terraform-provider-azurerm internal/services/appservice/windows_web_app_resource_test.go"),
    row(At::End("nanoserver"), RepositoryOs::WindowsIfReleased, "base image under a private path"),
    row(At::End("servercore"), RepositoryOs::WindowsIfReleased, "base image under a private path"),
    row(At::End("windowsservercore"), RepositoryOs::WindowsIfReleased, "base image under a private path"),

    // Official images built for Windows.
    row(At::Within("winamd64"), BASE, "docker-library/official-images: the Windows builds by themselves"),

    // Curated: repositories known by name to have only Windows images.
    row(At::Name("windows-host-process-containers-base-image"), WINDOWS, "microsoft/windows-host-process-containers-base-image"),
    row(At::Name("windows-exporter"), BASE, "prometheus-community/windows_exporter"),
    row(At::Name("windows_exporter"), BASE, "prometheus-community/windows_exporter"),
    row(At::Name("windows_exporter-package"), WINDOWS, "rancher/charts charts/rancher-monitoring: windowsExporter/values.yaml"),
    row(At::End("rancher/wins"), WINDOWS, "rancher/wins Dockerfile, .github/workflows/release.yaml"),
    row(At::Name("eks-distro-windows-base"), BASE, "aws/eks-distro-build-tooling"),
    row(At::Name("antrea-windows"), WINDOWS, "antrea-io/antrea build/yamls/antrea-windows.yml"),
    row(At::End("calico/windows"), WINDOWS, CALICO),
    row(At::End("calico/windows-upgrade"), WINDOWS, "tigera/operator: ComponentWindowsUpgrade of older releases"),
    row(At::End("calico/node-windows"), WINDOWS, TIGERA),
    row(At::End("calico/cni-windows"), WINDOWS, TIGERA),
    row(At::End("sigwindowstools/kube-proxy"), WINDOWS, WINDOWS_TOOLS),
    row(At::End("sigwindowstools/flannel"), WINDOWS, WINDOWS_TOOLS),
    row(At::End("sigwindowstools/calico-node"), WINDOWS, WINDOWS_TOOLS),
    row(At::End("sigwindowstools/calico-install"), WINDOWS, WINDOWS_TOOLS),
    row(At::End("sig-windows/csi-proxy"), WINDOWS, WINDOWS_TOOLS),
    row(At::End("sig-windows/kube-proxy"), WINDOWS, WINDOWS_TOOLS),
    row(At::End("sig-windows/calico-node"), WINDOWS, WINDOWS_TOOLS),
    row(At::End("sig-windows/calico-install"), WINDOWS, WINDOWS_TOOLS),
    row(At::End("kubeletwin/pause"), WINDOWS, "microsoft/SDN Kubernetes/windows/InstallImages.ps1"),
    row(At::Name("pause-windows"), WINDOWS, "awsdocs/amazon-eks-user-guide latest/ug/nodes/eks-optimized-windows-ami.adoc"),
    row(At::Name("aks-windows-gpu-device-plugin"), WINDOWS, "MicrosoftDocs/azure-aks-docs articles/aks/use-windows-gpu.md"),
    row(At::End("tensorworks/mcdm-device-plugin"), WINDOWS, "TensorWorks/DirectX-Device-Plugins deployments/default-daemonsets.yml"),
    row(At::End("tensorworks/wddm-device-plugin"), WINDOWS, "TensorWorks/DirectX-Device-Plugins deployments/default-daemonsets.yml"),
    row(At::Name("traefik-for-windows"), WINDOWS, "tfenster/traefik-for-windows"),
    row(At::End("stefanscherer/dockertls-windows"), WINDOWS, STEFAN),
    row(At::End("stefanscherer/node-windows"), WINDOWS, STEFAN),
    row(At::End("stefanscherer/registry-windows"), WINDOWS, STEFAN),
    row(At::End("stefanscherer/consul-windows"), WINDOWS, STEFAN),
    row(At::Name("albums-golang-win"), WINDOWS, K2S),
    row(At::Name("pause-win"), WINDOWS, K2S),
    row(At::End("tigera/fluent-bit-windows"), WINDOWS, TIGERA),
    row(At::Name("splunk-otel-collector-windows"), YEAR_NAMED, "signalfx/splunk-otel-collector CHANGELOG.md v0.33.1, and its release notes: <version>-2022"),
    row(At::End("newrelic/infrastructure-windows"), WINDOWS, "newrelic/nri-kubernetes windows/infrastructure-agent/README.md"),
    row(At::Name("spire-agent-windows"), WINDOWS, SPIRE),
    row(At::Name("spire-server-windows"), WINDOWS, SPIRE),
    row(At::Name("oidc-discovery-provider-windows"), WINDOWS, SPIRE),

    // Linux and Windows behind one tag.
    row(At::Name("pause"), RepositoryOs::Multi, "kubernetes/kubernetes build/pause/CHANGELOG.md"),
    row(At::Name("agnhost"), RepositoryOs::Multi, TESTING),
    row(At::Within("e2e-test-images"), RepositoryOs::Multi, TESTING),
    row(At::Within("k8s-staging-e2e-test-images"), RepositoryOs::Multi, TESTING),
    row(At::Name("csi-node-driver-registrar"), RepositoryOs::Multi, CSI),
    row(At::Name("livenessprobe"), RepositoryOs::Multi, CSI),
    row(At::Name("smbplugin"), RepositoryOs::Multi, "kubernetes-csi/csi-driver-smb"),
    row(At::Name("smb-csi"), RepositoryOs::Multi, "kubernetes-csi/csi-driver-smb charts/: mcr.microsoft.com/k8s/csi/smb-csi"),
    row(At::Name("azuredisk-csi"), RepositoryOs::Multi, "kubernetes-sigs/azuredisk-csi-driver"),
    row(At::Name("azurefile-csi"), RepositoryOs::Multi, "kubernetes-sigs/azurefile-csi-driver Makefile"),
    row(At::Name("aws-ebs-csi-driver"), RepositoryOs::Multi, "kubernetes-sigs/aws-ebs-csi-driver Dockerfile"),
    row(At::Name("gcp-compute-persistent-disk-csi-driver"), RepositoryOs::Multi, "kubernetes-sigs/gcp-compute-persistent-disk-csi-driver"),
    row(At::Within("secrets-store/driver"), RepositoryOs::Multi, "kubernetes-sigs/secrets-store-csi-driver docker/BASEIMAGE"),
    row(At::Within("csi-secrets-store/driver"), RepositoryOs::Multi, "kubernetes-sigs/secrets-store-csi-driver docker/BASEIMAGE"),
    row(At::Within("secrets-store/provider-azure"), RepositoryOs::Multi, "Azure/secrets-store-csi-driver-provider-azure"),
    row(At::Name("azure-cni"), RepositoryOs::Multi, AZURE_NETWORKING),
    row(At::Name("azure-cns"), RepositoryOs::Multi, AZURE_NETWORKING),
    row(At::Name("azure-npm"), RepositoryOs::Multi, AZURE_NETWORKING),
    row(At::Name("azure-ipam"), RepositoryOs::Multi, AZURE_NETWORKING),
    row(At::Name("cni-dropgz"), RepositoryOs::Multi, AZURE_NETWORKING),
    row(At::Name("azure-cloud-node-manager"), RepositoryOs::Multi, "kubernetes-sigs/cloud-provider-azure Makefile"),
    row(At::Name("rke2-runtime"), RepositoryOs::Multi, "rancher/rke2"),
    row(At::Name("splunk-otel-collector"), RepositoryOs::Multi, "signalfx/splunk-otel-collector-chart docs/advanced-configuration.md"),
    row(At::End("newrelic/nri-kubernetes"), RepositoryOs::Multi, "newrelic/nri-kubernetes windows/nri-kubernetes/README.md"),
    row(At::End("datadog/agent"), RepositoryOs::Multi, "DataDog/helm-charts"),
    row(At::End("datadoghq/agent"), RepositoryOs::Multi, "DataDog/helm-charts"),
    row(At::Registry("registry.datadoghq.com", "agent"), RepositoryOs::Multi, "DataDog/helm-charts"),
    row(At::End("powershell"), RepositoryOs::Multi, "PowerShell/PowerShell-Docker meta.json manifestLists"),
    row(At::End("microsoft/dotnet"), RepositoryOs::Multi, DOCKER_LABS),
    row(At::Within("dotnet/samples"), RepositoryOs::Multi, DOTNET),
    row(At::Within("dotnet/core"), RepositoryOs::Multi, DOTNET),
    row(At::End("dotnet/runtime"), RepositoryOs::MultiUpTo(7), DOTNET),
    row(At::End("dotnet/aspnet"), RepositoryOs::MultiUpTo(7), DOTNET),
    row(At::End("dotnet/sdk"), RepositoryOs::MultiUpTo(7), DOTNET),
    row(At::End("dotnet/nightly/runtime"), RepositoryOs::MultiUpTo(7), DOTNET),
    row(At::End("dotnet/nightly/aspnet"), RepositoryOs::MultiUpTo(7), DOTNET),
    row(At::End("dotnet/nightly/sdk"), RepositoryOs::MultiUpTo(7), DOTNET),
    row(At::Official("caddy"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("eclipse-temurin"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("golang"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("haxe"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("hello-world"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("hylang"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("julia"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("mongo"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("nats"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("nats-streaming"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("openjdk"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("pypy"), RepositoryOs::Multi, OFFICIAL),
    row(At::Official("python"), RepositoryOs::Multi, OFFICIAL),
];

/// Repositories in which a bare `win`, `hp` or `hpc` in a tag means Windows. Most repositories use `windows-hp`, which
/// needs no row.
#[rustfmt::skip]
static HINT_IS_PROOF: &[Row] = &[
    row(At::Name("ciprod"), WINDOWS, "microsoft/Docker-Provider ReleaseNotes.md: ciprod:win-3.1.24"),
    row(At::Name("cidev"), WINDOWS, "microsoft/Docker-Provider README.md: tags of cidev are those of ciprod"),
    row(At::End("fluent/fluent-bit"), WINDOWS, "Siemens-Healthineers/K2s addons/logging/manifests/logging/fluentbit/windows/daemonset-windows.yaml: 5.1.1-hp"),
    row(At::End("prometheus-collector/images"), WINDOWS, "Azure/prometheus-collector RELEASENOTES.md: tags that end in -win"),
    row(At::Name("gcp-compute-persistent-disk-csi-driver"), WINDOWS, "kubernetes/enhancements keps/sig-windows/1122-windows-csi-support: win-v1"),
    row(At::Name("csi-node-driver-registrar"), WINDOWS, "kubernetes/enhancements keps/sig-windows/1122-windows-csi-support: win-v1"),
];

/// Whether the last component names a tool that builds for other systems: `fyneio/fyne-cross-images:windows` is a Linux
/// image.
pub(crate) fn is_toolchain(image: &ImageRef<'_>) -> bool {
    image.repository().rsplit('/').next().is_some_and(|name| name.split(['-', '_', '.']).any(is_toolchain_word))
}

/// Components of a base image at the end of a repository's name: `golang-1.16.2-nanoserver-1809` (microsoft/hcsshim's tests).
const BASE_COMPONENTS: &[&str] = &["nanoserver", "servercore", "windowsservercore"];

/// The row's images for the repository; `None` for most.
pub(crate) fn find(image: &ImageRef<'_>) -> Option<RepositoryOs> {
    let row = ROWS.iter().find(|row| row.at.matches(image)).map(|row| row.known);
    row.or_else(|| {
        let path = path_build(image.repository())?;
        Some(RepositoryOs::Windows { context: Context::Other, untagged: None, path: Some(path) })
    })
}

/// Whether a bare `win`, `hp` or `hpc` in this repository's tags means Windows.
pub(crate) fn hint_is_proof(image: &ImageRef<'_>) -> bool {
    HINT_IS_PROOF.iter().any(|row| row.at.matches(image))
}

/// The build that a path contains: `windows/ltsc2022/vse2022` by its components, `golang-1.16.2-nanoserver-1809` by its
/// end.
fn path_build(path: &str) -> Option<Build> {
    if let Some(rest) = after_components(path, "windows") {
        let release = rest.split('/').next()?;
        if release.starts_with("ltsc") {
            return release_word(release);
        }
    }
    let (rest, release) = path.rsplit_once('-')?;
    let base = rest.rsplit(['-', '/']).next()?;
    // After the last `-` of the last component, if something precedes it: the component alone is in the table.
    (BASE_COMPONENTS.contains(&base) && !release.contains('/')).then(|| release_word(release)).flatten()
}

/// The rest of a path after `components`, at any depth.
fn after_components<'a>(path: &'a str, components: &str) -> Option<&'a str> {
    let mut rest = path;
    loop {
        if let Some(after) = rest.strip_prefix(components).and_then(|after| after.strip_prefix('/')) {
            return Some(after);
        }
        (_, rest) = rest.split_once('/')?;
    }
}

fn starts_with_components(path: &str, components: &str) -> bool {
    path.strip_prefix(components).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl At {
    pub(crate) fn matches(&self, image: &ImageRef<'_>) -> bool {
        let path = image.repository();
        match *self {
            Self::End(components) => image.ends_with(components),
            Self::Within(components) => image.ends_with(components) || after_components(path, components).is_some(),
            Self::Name(name) => {
                path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', '-', '_', '.']))
            }
            Self::Microsoft(components) => {
                image.microsoft_path().is_some_and(|path| starts_with_components(path, components))
            }
            Self::Registry(host, whole) => image.registry() == Some(host) && path == whole,
            Self::Official(name) => image.official_name() == Some(name),
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use super::*;

    fn known(text: &str) -> Option<RepositoryOs> {
        find(&ImageRef::parse(text).unwrap())
    }

    #[test]
    fn every_row_has_a_source_and_is_reachable() {
        for (index, row) in ROWS.iter().chain(HINT_IS_PROOF).enumerate() {
            assert!(row.source.len() > 5, "row {index}");
        }
        for (index, row) in ROWS.iter().enumerate() {
            let example = match row.at {
                At::End(path) | At::Within(path) | At::Name(path) => {
                    format!("registry.example.com/{path}")
                }
                At::Microsoft(path) => format!("mcr.microsoft.com/{path}"),
                At::Registry(host, path) => format!("{host}/{path}"),
                At::Official(name) => name.to_owned(),
            };
            let image = ImageRef::parse(&example).unwrap();
            let first = ROWS.iter().position(|row| row.at.matches(&image)).unwrap();
            // A wider row may come before only if it has the same images.
            assert!(first == index || ROWS[first].known == row.known, "{example} is taken by row {first}");
        }
    }

    #[test]
    fn components_are_whole() {
        let path_build_of =
            |build| RepositoryOs::Windows { context: Context::Other, untagged: None, path: Some(Build::new(build)) };
        let cases = [
            ("mcr.microsoft.com/windows/servercore", Some(BASE)),
            ("mcr.microsoft.com/windows/servercore/iis", Some(BASE)),
            ("mcr.microsoft.com/windows", Some(BASE)),
            ("mcr.azk8s.cn/windows/nanoserver", Some(BASE)),
            ("registry.corp/mirror/mcr.microsoft.com/windows", Some(BASE)),
            ("registry.corp/mirror/mcr.microsoft.com/windows/insider", Some(BASE)),
            ("quay.io/mohashai/random/windows/servercore", Some(BASE)),
            ("registry.corp/windows", None),
            ("registry.corp/windows/api", None),
            ("registry.corp/mywindows/servercore", Some(RepositoryOs::WindowsIfReleased)),
            ("registry.corp/windows/servercore2", None),
            ("registry.corp/windows/serverless", None),
            ("windows.azurecr.io/api", None),
            ("mcr.microsoft.com/windowsill", None),
            ("acme/nanoserver-proxy", None),
            ("acme/windows-node-labeler", None),
            ("grafana/windows-exporter-dashboards", None),
            ("rancher/mirrored-prometheus-windows-exporter", Some(BASE)),
            ("acme/mywindows-exporter", None),
            ("onebranch.azurecr.io/windows/ltsc2022/vse2022", Some(path_build_of(20348))),
            ("x.io/golang-1.16.2-nanoserver-1809", Some(path_build_of(17763))),
            ("x.io/app-servercore-ltsc2022", Some(path_build_of(20348))),
            ("x.io/nanoserver-1809-proxy", None),
            ("x.io/nanoserver-1809/proxy", None),
            ("x.io/app-1809", None),
            ("registry.datadoghq.com/agent", Some(RepositoryOs::Multi)),
            ("jenkins/agent", None),
            ("acme/golang", None),
            ("golang", Some(RepositoryOs::Multi)),
        ];
        for (text, expected) in cases {
            assert_eq!(known(text), expected, "{text}");
        }
    }
}

//! Node labels whose value names one Windows release.

use crate::model::names::WINDOWS_BUILD_LABEL;
use crate::model::windows::Build;

/// Labels of cloud providers, with the builds and their values. Sources: Azure/AKS docs `use-windows-hpc` and
/// `windows-annual-channel`; GoogleCloudPlatform/kubernetes-engine-samples `windows`.
const PROVIDER_LABELS: [(&str, &[(Build, &str)]); 2] = [
    (
        "kubernetes.azure.com/os-sku",
        &[
            (Build::new(17763), "Windows2019"),
            (Build::new(20348), "Windows2022"),
            (Build::new(25398), "WindowsAnnual"),
            (Build::new(26100), "Windows2025"),
        ],
    ),
    (
        "cloud.google.com/gke-windows-os-version",
        &[(Build::new(17763), "2019"), (Build::new(20348), "2022"), (Build::new(26100), "2025")],
    ),
];

/// The labels of cloud providers that name a release.
pub fn provider_release_labels() -> impl Iterator<Item = &'static str> {
    PROVIDER_LABELS.iter().map(|(label, _)| *label)
}

/// Whether each value of the label is one build: that of the kubelet, or one of a provider.
pub fn names_build(label: &str) -> bool {
    label == WINDOWS_BUILD_LABEL || provider_release_labels().any(|known| known == label)
}

/// The value that nodes with that build have of a provider's label.
pub fn provider_release(label: &str, build: Build) -> Option<&'static str> {
    values(label).find(|(known, _)| *known == build).map(|(_, value)| value)
}

/// The build that a value of such a label means: of the kubelet's label, exactly as the kubelet writes it.
pub(crate) fn named_build(label: &str, value: &str) -> Option<Build> {
    if label == WINDOWS_BUILD_LABEL {
        return value.parse().ok();
    }
    values(label).find(|(_, known)| *known == value).map(|(build, _)| build)
}

fn values(label: &str) -> impl Iterator<Item = (Build, &'static str)> {
    let of = PROVIDER_LABELS.iter().filter(move |(known, _)| *known == label);
    of.flat_map(|(_, values)| values.iter().copied())
}

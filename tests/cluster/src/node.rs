//! Nodes as a kubelet would register them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

/// KWOK ignores objects with this annotation (any value): a node or pod keeps the status that the test sets.
pub const UNMANAGED: &str = "kwok.x-k8s.io/unmanaged";

/// Nodes with this label belong to a [`crate::Kubelet`], which runs their pods.
pub(crate) const PLAYED: &str = "mullion-cluster/kubelet";

/// A node with the labels, `nodeInfo`, capacity and conditions that a kubelet reports. Change what matters for the
/// test.
///
/// ```
/// # use mullion_cluster::NodeSpec;
/// let node = NodeSpec::windows("w2022", "10.0.20348.2655").taint("os=Windows:NoSchedule").label("pool", "win").build()?;
/// assert_eq!(node.metadata.labels.unwrap()["node.kubernetes.io/windows-build"], "10.0.20348");
/// # anyhow::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct NodeSpec {
    name: String,
    os: &'static str,
    kernel: String,
    os_image: String,
    architecture: String,
    runtime: String,
    kubelet: String,
    labels: BTreeMap<String, String>,
    removed_labels: BTreeSet<String>,
    annotations: BTreeMap<String, String>,
    taints: Vec<String>,
    allocatable: BTreeMap<String, String>,
    ready: bool,
}

impl NodeSpec {
    /// A Windows node; `version` is `nodeInfo.kernelVersion`: major.minor.build.revision, as in `10.0.20348.2655`.
    pub fn windows(name: &str, version: &str) -> Self {
        let build = version.rsplit_once('.').map_or(version, |(build, _revision)| build);
        // `osImage` is the registry's ProductName.
        let product = match build {
            "10.0.17763" => "Windows Server 2019 Datacenter",
            "10.0.20348" => "Windows Server 2022 Datacenter",
            "10.0.26100" => "Windows Server 2025 Datacenter",
            _ => "Windows Server Datacenter",
        };
        Self::new(name, "windows", version, product).label("node.kubernetes.io/windows-build", build)
    }

    /// A Linux node.
    pub fn linux(name: &str) -> Self {
        Self::new(name, "linux", "6.1.0-28-amd64", "Debian GNU/Linux 12 (bookworm)")
    }

    fn new(name: &str, os: &'static str, kernel: &str, os_image: &str) -> Self {
        let resources = [("cpu", "16"), ("memory", "64Gi"), ("ephemeral-storage", "100Gi"), ("pods", "110")];
        Self {
            name: name.to_owned(),
            os,
            kernel: kernel.to_owned(),
            os_image: os_image.to_owned(),
            architecture: "amd64".to_owned(),
            runtime: "containerd://1.7.17".to_owned(),
            kubelet: "v1.36.3".to_owned(),
            labels: BTreeMap::new(),
            removed_labels: BTreeSet::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            allocatable: resources.map(|(name, amount)| (name.to_owned(), amount.to_owned())).into(),
            ready: true,
        }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets a label, including one that a kubelet sets.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Leaves out a label that a kubelet would set.
    #[must_use]
    pub fn without_label(mut self, key: &str) -> Self {
        self.removed_labels.insert(key.to_owned());
        self
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint in the format of `kubectl taint`: `key=value:Effect` or `key:Effect`.
    #[must_use]
    pub fn taint(mut self, taint: &str) -> Self {
        self.taints.push(taint.to_owned());
        self
    }

    /// `nodeInfo.containerRuntimeVersion`, such as `containerd://2.0.5`.
    #[must_use]
    pub fn runtime(mut self, version: &str) -> Self {
        version.clone_into(&mut self.runtime);
        self
    }

    /// `nodeInfo.osImage`.
    #[must_use]
    pub fn os_image(mut self, image: &str) -> Self {
        image.clone_into(&mut self.os_image);
        self
    }

    /// `nodeInfo.kernelVersion`.
    #[must_use]
    pub fn kernel_version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.kernel);
        self
    }

    /// `nodeInfo.kubeletVersion`, with the `v`.
    #[must_use]
    pub fn kubelet_version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.kubelet);
        self
    }

    /// `amd64` or `arm64`: `nodeInfo.architecture` and the labels.
    #[must_use]
    pub fn architecture(mut self, architecture: &str) -> Self {
        architecture.clone_into(&mut self.architecture);
        self
    }

    /// Sets an allocatable resource (and the same capacity), such as `.allocatable("pods", "2000")`.
    #[must_use]
    pub fn allocatable(mut self, resource: &str, amount: &str) -> Self {
        self.allocatable.insert(resource.to_owned(), amount.to_owned());
        self
    }

    /// A node whose kubelet reports that it is not ready: KWOK does not manage it, and it keeps the not-ready taints.
    #[must_use]
    pub fn not_ready(mut self) -> Self {
        self.ready = false;
        self
    }

    /// A node with pods that run as real processes: a [`crate::Kubelet`] manages it instead of KWOK.
    #[must_use]
    pub fn played(self) -> Self {
        self.label(PLAYED, "")
    }

    /// Whether the node will become ready.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// The taints, parsed.
    ///
    /// # Errors
    /// If a taint is not in the format of `kubectl taint`; the error contains it.
    pub fn taints(&self) -> Result<Vec<Taint>> {
        self.taints.iter().map(|taint| parse_taint(taint)).collect()
    }

    /// The object, with its status.
    pub fn build(&self) -> Result<Node> {
        let mut labels: BTreeMap<String, String> = [
            ("kubernetes.io/os", self.os),
            ("kubernetes.io/arch", &self.architecture),
            ("kubernetes.io/hostname", &self.name),
            ("beta.kubernetes.io/os", self.os),
            ("beta.kubernetes.io/arch", &self.architecture),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        labels.extend(self.labels.clone());
        labels.retain(|key, _| !self.removed_labels.contains(key));
        let mut annotations = self.annotations.clone();
        let mut conditions = Vec::new();
        if labels.contains_key(PLAYED) {
            conditions.push(json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}));
        }
        if !self.ready {
            annotations.insert(UNMANAGED.to_owned(), "not ready".to_owned());
            conditions.push(json!({"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "container runtime is down"}));
        }
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": annotations},
            "spec": {"taints": self.taints()?},
            "status": {
                "capacity": self.allocatable,
                "allocatable": self.allocatable,
                "addresses": [{"type": "Hostname", "address": self.name}],
                "conditions": conditions,
                "nodeInfo": {
                    "operatingSystem": self.os,
                    "architecture": self.architecture,
                    "osImage": self.os_image,
                    "kernelVersion": self.kernel,
                    "containerRuntimeVersion": self.runtime,
                    "kubeletVersion": self.kubelet,
                    "kubeProxyVersion": "",
                    "machineID": self.name,
                    "systemUUID": self.name,
                    "bootID": self.name,
                },
            },
        });
        serde_json::from_value(node).with_context(|| format!("build the node {:?}", self.name))
    }
}

fn parse_taint(text: &str) -> Result<Taint> {
    let Some((left, effect @ ("NoSchedule" | "PreferNoSchedule" | "NoExecute"))) = text.rsplit_once(':') else {
        bail!(
            "the taint {text:?} is not key=value:Effect or key:Effect with NoSchedule, PreferNoSchedule or NoExecute"
        );
    };
    let (key, value) = left.split_once('=').map_or((left, None), |(key, value)| (key, Some(value.to_owned())));
    Ok(Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use super::*;

    #[test]
    fn a_windows_node_has_what_a_kubelet_sets() {
        let spec = NodeSpec::windows("w", "10.0.26100.1742")
            .without_label("beta.kubernetes.io/os")
            .label("kubernetes.io/arch", "odd");
        let node = serde_json::to_value(spec.taint("a=b:NoExecute").allocatable("pods", "5").build().unwrap()).unwrap();
        let labels = &node["metadata"]["labels"];
        assert_eq!(labels["node.kubernetes.io/windows-build"], "10.0.26100");
        assert_eq!(labels["kubernetes.io/os"], "windows");
        assert_eq!(labels["kubernetes.io/arch"], "odd");
        assert!(labels.get("beta.kubernetes.io/os").is_none());
        assert_eq!(node["status"]["nodeInfo"]["osImage"], "Windows Server 2025 Datacenter");
        assert_eq!(node["status"]["nodeInfo"]["kernelVersion"], "10.0.26100.1742");
        assert_eq!(node["status"]["capacity"]["pods"], "5");
        assert_eq!(node["spec"]["taints"], json!([{"key": "a", "value": "b", "effect": "NoExecute"}]));
    }

    #[test]
    fn a_linux_node_has_no_windows_label_and_may_be_unready() {
        let node = NodeSpec::linux("l").not_ready().build().unwrap();
        assert!(!node.metadata.labels.unwrap().contains_key("node.kubernetes.io/windows-build"));
        assert!(node.metadata.annotations.unwrap().contains_key(UNMANAGED));
        assert_eq!(node.status.unwrap().conditions.unwrap()[0].status, "False");
    }

    #[test]
    fn taints_are_parsed_as_kubectl_writes_them() {
        let taint = |text: &str| NodeSpec::linux("l").taint(text).taints().map(|taints| taints[0].clone());
        assert_eq!(taint("os:NoSchedule").unwrap().value, None);
        assert_eq!(taint("os=:NoSchedule").unwrap().value.as_deref(), Some(""));
        for bad in ["os=Windows", "os=Windows:noschedule", "", ":"] {
            assert!(taint(bad).unwrap_err().to_string().contains(&format!("{bad:?}")));
        }
    }
}

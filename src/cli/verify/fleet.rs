//! The nodes of the cluster, as far as checks need them. The kubelet's own report counts as the truth about operating
//! system and build, and labels are what is checked.

use std::collections::{BTreeMap, BTreeSet};

use mullion_engine::model::Os;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::names::WINDOWS_BUILD_LABEL;
use mullion_engine::model::quantity::Quantity;
use mullion_engine::model::windows::{Build, ExtraRelease, generation_for, release_name, runs};
use mullion_engine::node::{NodeFacts, facts};
use mullion_snapshot::{LabelMap, objects};
use serde_json::Value;

use crate::cli::verify::room::Amounts;
use crate::report::verify::FleetGroup;

/// The most versions of a kind that a group lists.
const VERSIONS: usize = 20;

/// A node.
#[derive(Debug, Clone, Default)]
pub(super) struct FleetNode {
    pub(super) name: String,
    /// `status.nodeInfo.operatingSystem`, else the label.
    pub(super) os: Option<Os>,
    /// From `status.nodeInfo.kernelVersion`, else the label.
    pub(super) build: Option<Build>,
    pub(super) labels: LabelMap,
    /// `None` if they are too large to use.
    pub(super) taints: Option<Vec<Taint>>,
    pub(super) ready: bool,
    pub(super) cordoned: bool,
    pub(super) kubelet: String,
    pub(super) runtime: String,
    pub(super) allocatable: Amounts,
}

/// All nodes but virtual ones, whose pods run elsewhere.
#[derive(Debug, Clone, Default)]
pub(super) struct Fleet {
    pub(super) nodes: Vec<FleetNode>,
    /// Releases that the policies add.
    pub(super) releases: Vec<ExtraRelease>,
}

impl FleetNode {
    /// A node; `None` for a virtual node, and for what is not a node.
    pub(super) fn from_json(object: &Value) -> Option<Self> {
        let NodeFacts { name, labels, taints, kernel_version, .. } = objects::facts_from_json(object)?;
        if name.is_empty() || facts::is_virtual(&labels, &taints) {
            return None;
        }
        let in_status = |pointer: &str| object.get("status")?.pointer(pointer);
        let info = |pointer: &str| in_status(pointer).and_then(Value::as_str).unwrap_or_default();
        let os = Os::from_name(info("/nodeInfo/operatingSystem")).or_else(|| facts::os(&labels));
        let of_kernel = Build::from_kernel_version(&kernel_version).map(|(build, _)| build);
        let of_label = || labels.get(WINDOWS_BUILD_LABEL).and_then(|label| Build::from_label(label));
        let is_ready = |condition: &Value| {
            let is = |key: &str, value: &str| condition.get(key).and_then(Value::as_str) == Some(value);
            is("type", "Ready") && is("status", "True")
        };
        let mut conditions = in_status("/conditions").and_then(Value::as_array).into_iter().flatten();
        let amount = |pointer: &str| in_status(pointer).and_then(Quantity::of);
        Some(Self {
            name,
            os,
            build: of_kernel.or_else(of_label).filter(|_| os == Some(Os::Windows)),
            taints: Taint::all_from_json(&taints).ok(),
            ready: conditions.any(is_ready),
            cordoned: object.pointer("/spec/unschedulable") == Some(&Value::Bool(true)),
            kubelet: info("/nodeInfo/kubeletVersion").to_owned(),
            runtime: info("/nodeInfo/containerRuntimeVersion").to_owned(),
            allocatable: Amounts {
                pods: amount("/allocatable/pods").map(Quantity::units).unwrap_or_default(),
                milli_cpu: amount("/allocatable/cpu").map(Quantity::thousandths).unwrap_or_default(),
                memory: amount("/allocatable/memory").map(Quantity::units).unwrap_or_default(),
            },
            labels,
        })
    }

    /// Whether the node runs images of that build.
    pub(super) fn runs_image(&self, image: Build, releases: &[ExtraRelease]) -> bool {
        let host = self.build.filter(|_| self.os == Some(Os::Windows));
        host.is_some_and(|host| runs(host, image, generation_for(host, &self.runtime), releases))
    }
}

impl Fleet {
    /// The Windows nodes.
    pub(super) fn windows(&self) -> impl Iterator<Item = &FleetNode> {
        self.nodes.iter().filter(|node| node.os == Some(Os::Windows))
    }

    /// The builds of Windows nodes, ascending.
    pub(super) fn builds(&self) -> BTreeSet<Build> {
        self.windows().filter_map(|node| node.build).collect()
    }

    /// The node of that name.
    pub(super) fn node(&self, name: &str) -> Option<&FleetNode> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// `ltsc2022`.
    pub(super) fn release(&self, build: Build) -> String {
        release_name(build, &self.releases).into_owned()
    }

    /// The nodes by operating system and build.
    pub(super) fn groups(&self) -> Vec<FleetGroup> {
        let mut groups: BTreeMap<(Option<Os>, Option<Build>), FleetGroup> = BTreeMap::new();
        for node in &self.nodes {
            let group = groups.entry((node.os, node.build)).or_default();
            group.nodes += 1;
            group.ready += usize::from(node.ready);
            for (versions, version) in [(&mut group.kubelets, &node.kubelet), (&mut group.runtimes, &node.runtime)] {
                if versions.len() < VERSIONS && !versions.contains(version) {
                    versions.push(version.clone());
                }
            }
        }
        let named = |((os, build), group): ((Option<Os>, Option<Build>), FleetGroup)| FleetGroup {
            os: os.map(Os::name).unwrap_or_default().to_owned(),
            build: build.map(|build| build.to_string()),
            release: build.map(|build| self.release(build)),
            ..group
        };
        groups.into_iter().map(named).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    /// A ready node as its kubelet registers it; `kernel`: that of a Windows node.
    pub(in crate::cli::verify) fn node(name: &str, kernel: Option<&str>, taints: &[&str]) -> FleetNode {
        let os = if kernel.is_some() { "windows" } else { "linux" };
        let mut labels = json!({"kubernetes.io/os": os, "kubernetes.io/hostname": name});
        if let Some((build, _)) = kernel.and_then(|kernel| kernel.rsplit_once('.')) {
            labels["node.kubernetes.io/windows-build"] = json!(build);
        }
        let taints: Vec<Value> = taints.iter().map(|taint| json!(Taint::parse(taint).unwrap())).collect();
        FleetNode::from_json(&json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {
                "nodeInfo": {"operatingSystem": os, "kernelVersion": kernel.unwrap_or("6.1.0"), "kubeletVersion": "v1.36.3"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"pods": "110", "cpu": "4", "memory": "8Gi"},
            },
        }))
        .unwrap()
    }

    #[test]
    fn the_kubelet_decides_about_the_build_and_not_the_label() {
        let mut object = json!({"metadata": {"name": "w", "labels": {"kubernetes.io/os": "windows",
            "node.kubernetes.io/windows-build": "10.0.20348"}}, "status": {"nodeInfo": {"kernelVersion": "10.0.17763.6893"}}});
        let build = |object: &Value| FleetNode::from_json(object).unwrap().build;
        assert_eq!(build(&object), Some(Build::new(17_763)));
        object["status"] = json!({});
        assert_eq!(build(&object), Some(Build::new(20_348)));
        object["metadata"]["labels"]["type"] = json!("virtual-kubelet");
        assert!(FleetNode::from_json(&object).is_none());
        for odd in [json!({}), json!([]), json!({"metadata": {"name": ""}}), json!({"metadata": {"name": 7}})] {
            assert!(FleetNode::from_json(&odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn groups_count_nodes_by_build() {
        let nodes = vec![
            node("l1", None, &[]),
            node("w1", Some("10.0.20348.2655"), &[]),
            node("w2", Some("10.0.20348.1"), &[]),
            node("w3", Some("10.0.26100.1"), &[]),
        ];
        let fleet = Fleet { nodes, releases: Vec::new() };
        let groups = fleet.groups();
        let shown: Vec<_> = groups.iter().map(|group| (&*group.os, group.release.as_deref(), group.ready)).collect();
        assert_eq!(shown, [("linux", None, 1), ("windows", Some("ltsc2022"), 2), ("windows", Some("ltsc2025"), 1)]);
        assert_eq!(groups[1].kubelets, ["v1.36.3"]);
    }
}

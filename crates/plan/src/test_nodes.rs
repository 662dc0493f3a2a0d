//! Small fleets and workloads for the tests of constraints, changes and dates.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use jiff::civil::{Date, date};
use mullion_engine::model::windows::Build;
use mullion_policy::PolicySet;
use serde_json::json;

use crate::context::PlanContext;
use crate::report::{PlannedContainer, PlannedWorkload, Verdict};
use crate::workload_move::WorkloadMove;
use mullion_survey::SurveyContext;
use mullion_survey::facts::Facts;
use mullion_survey::facts::behavior_changes::Use;
use mullion_survey::inventory::{Inventory, InventoryReader};
use mullion_survey::report::{Knowledge, ObjectRef, Source};

/// The day of the tests.
pub(crate) const TODAY: Date = date(2026, 11, 22);

/// A pool with one node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestPool<'a> {
    pub(crate) name: &'a str,
    /// `17763.8389`
    pub(crate) windows: &'a str,
    pub(crate) kubelet: &'a str,
    pub(crate) runtime: &'a str,
}

/// A pool with the build, the version of the kubelet, and an old containerd.
pub(crate) fn pool<'a>(name: &'a str, windows: &'a str, kubelet: &'a str) -> TestPool<'a> {
    TestPool { name, windows, kubelet, runtime: "containerd://1.6.35+azure" }
}

/// A cluster of a provider with Windows pools. `control_plane`: empty if it was not read.
pub(crate) fn inventory(provider: &str, control_plane: &str, pools: &[TestPool<'_>]) -> Inventory {
    let label = match provider {
        "AKS" => "kubernetes.azure.com/agentpool",
        "EKS" => "eks.amazonaws.com/nodegroup",
        "GKE" => "cloud.google.com/gke-nodepool",
        _ => "karpenter.sh/nodepool",
    };
    let mut reader = InventoryReader::default();
    for pool in pools {
        let build = pool.windows.split('.').next().unwrap();
        let mut labels = json!({
            "kubernetes.io/os": "windows",
            "node.kubernetes.io/windows-build": format!("10.0.{build}"),
            label: pool.name,
        });
        match provider {
            "OpenShift" => labels["node.openshift.io/os_id"] = json!("Windows"),
            "RKE2" => labels["node.kubernetes.io/instance-type"] = json!("rke2"),
            _ => {}
        }
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": format!("{}-1", pool.name), "labels": labels},
            "status": {"nodeInfo": {
                "kernelVersion": format!("10.0.{}", pool.windows),
                "containerRuntimeVersion": pool.runtime,
                "kubeletVersion": pool.kubelet,
            }},
        });
        reader.add(node, None, &mut |_| {});
    }
    if !control_plane.is_empty() {
        reader.kubernetes(control_plane);
    }
    reader.finish()
}

/// The inputs of a plan.
pub(crate) fn context<'a>(facts: &'a Facts, policies: &'a PolicySet, target: u32) -> PlanContext<'a> {
    PlanContext {
        survey: SurveyContext {
            cluster: "test",
            source: Source::Dump,
            today: TODAY,
            mullion: "0.0.0",
            policies,
            facts,
        },
        policies_given: false,
        facts_file: None,
        target: Build::new(target),
        from: None,
        provider: None,
        kubernetes: None,
        strict_match: false,
    }
}

/// A container with an image for these builds.
pub(crate) fn container(image: &str, builds: &[&str], verdict: Verdict) -> PlannedContainer {
    PlannedContainer {
        name: "app".to_owned(),
        image: image.to_owned(),
        builds: builds.iter().map(|build| (*build).to_owned()).collect(),
        known_from: Knowledge::Registry,
        verdict,
        ..PlannedContainer::default()
    }
}

/// A workload that moves, with pods in these pools.
pub(crate) fn workload(name: &str, pools: &[usize], containers: Vec<PlannedContainer>, uses: &[Use]) -> WorkloadMove {
    let report = PlannedWorkload {
        object: ObjectRef { namespace: "a".into(), kind: "Deployment".into(), name: name.into() },
        containers,
        pods: Some(1),
        ..PlannedWorkload::default()
    };
    WorkloadMove {
        report,
        uses: uses.iter().map(|one| (*one, "spec".to_owned())).collect(),
        pools: pools.iter().copied().collect(),
        homes: pools.iter().copied().collect(),
        moves: true,
        ..WorkloadMove::default()
    }
}

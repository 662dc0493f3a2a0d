//! Taint blockers: the DaemonSets and pods that would be worse off if a node got a taint.
//!
//! `NoSchedule` evicts nothing, but a pod that ends is not replaced: after a rollout, an eviction or a failure the
//! DaemonSet controller creates no pod for a node with taints that the template does not tolerate. So the taint waits
//! until every DaemonSet that belongs on the node and every pod that runs there tolerates it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::detect::{DetectionInput, decide, images_of, volume_images_of};
use crate::model::cluster::{ClusterSnapshot, Namespace, Taint, opts_out};
use crate::model::image::ImageOs;
use crate::model::names::OS_LABELS;
use crate::model::pod_view::Pod;
use crate::model::scheduling::{
    OsWanted, SchedulingConstraints, TolerationTerm, selector_os, tolerated, toleration_value,
};
use crate::model::settings::{HonourIgnore, Mode, NodeSettings, Settings, TolerationsMode, policy_taint};
use crate::model::{Basis, DetectedOs, Os, OsDecision, ReviewRequest, WorkloadKind, WorkloadObject};
use crate::node::facts::NodeFacts;
use crate::node::managed::is_managed_label;

/// The facts of a DaemonSet that matter for taints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DaemonSetFacts {
    /// `namespace/name`.
    pub name: String,
    /// The constraints of its template.
    pub placement: SchedulingConstraints,
    /// See [`belongs`].
    pub belongs: bool,
    /// Whether any of its pods is Ready, on any node.
    pub any_ready: bool,
}

/// A pod that is bound to the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct BoundPod {
    /// `namespace/name`.
    pub name: String,
    /// `namespace/name` of the DaemonSet that owns it.
    pub daemon_set: Option<String>,
    /// Condition `Ready`.
    pub ready: bool,
    /// See [`is_windows_pod`].
    pub windows: bool,
    /// Its tolerations.
    pub tolerations: Vec<TolerationTerm>,
    /// Whether its replacement will have the toleration: an enforcing policy matches it and adds tolerations.
    pub covered: bool,
    /// A mirror of a static pod: the kubelet runs it regardless of taints.
    pub mirror: bool,
}

/// What a taint waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintBlocker {
    /// A DaemonSet, as `namespace/name`.
    DaemonSet(String),
    /// A pod, as `namespace/name`.
    Pod(String),
    /// What could not be determined, as a phrase.
    Unknown(&'static str),
}

impl TaintBlocker {
    /// Kind, namespace and name; `None` if it is not known.
    pub fn object(&self) -> Option<(&'static str, &str, &str)> {
        let (kind, name) = match self {
            Self::DaemonSet(name) => ("DaemonSet", name),
            Self::Pod(name) => ("Pod", name),
            Self::Unknown(_) => return None,
        };
        name.split_once('/').map(|(namespace, name)| (kind, namespace, name))
    }
}

impl fmt::Display for TaintBlocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DaemonSet(name) => write!(f, "DaemonSet {name}"),
            Self::Pod(name) => write!(f, "Pod {name}"),
            Self::Unknown(what) => f.write_str(what),
        }
    }
}

/// Whether a DaemonSet belongs on a node, based only on its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonSetClaim {
    /// It is not for this node, or tolerates the taint.
    None,
    /// It selects Windows nodes, its images are for Windows or for both systems, or its namespace or policy decides so:
    /// see [`belongs`]. It does not matter whether its pods are Ready, because a broken DaemonSet will be repaired.
    Certain,
    /// Nothing decides its OS, as with Linux DaemonSets that were written for clusters of one OS. A Ready pod on the
    /// node confirms the claim.
    Doubtful,
}

/// Whether a DaemonSet is meant for Windows nodes too: its decision is Windows, or it is for both operating systems,
/// because its images exist for both or its author sets `any`. Whether its template matches a certain node is not
/// checked.
///
/// `settings`: what the policies set for it. It does not matter whether a policy is disabled or exempts the namespace,
/// because the DaemonSet exists in any case.
pub fn belongs(daemon_set: WorkloadObject<'_>, snapshot: &ClusterSnapshot, settings: &Settings) -> bool {
    let Some((decision, multi)) = detect(daemon_set, snapshot, settings) else { return false };
    match decision.os {
        DetectedOs::Windows => true,
        DetectedOs::Undecided => multi || !decision.placement,
        DetectedOs::Linux | DetectedOs::Conflict => false,
    }
}

/// Whether a bound pod is a Windows pod by its fields, scope or images. A Windows node proves nothing unless the pod
/// runs there.
pub fn is_windows_pod(pod: WorkloadObject<'_>, snapshot: &ClusterSnapshot, settings: &Settings) -> bool {
    detect(pod, snapshot, settings)
        .is_some_and(|(decision, _)| decision.os == DetectedOs::Windows && decision.basis != Basis::Place)
}

/// The decision, and whether an image exists for both systems.
fn detect(workload: WorkloadObject<'_>, snapshot: &ClusterSnapshot, settings: &Settings) -> Option<(OsDecision, bool)> {
    let pod = Pod::of(workload.kind, workload.object)?;
    let images = images_of(&pod, settings, None, snapshot);
    let volume_images = volume_images_of(&pod, settings, None, snapshot);
    let multi = images.iter().any(|image| image.facts.os == ImageOs::Multi);
    let decision = decide(&DetectionInput {
        request: &ReviewRequest::creation(workload),
        pod,
        namespace: snapshot.namespaces.get(workload.namespace),
        snapshot,
        settings,
        images: &images,
        volume_images: &volume_images,
        earlier_placement: None,
        ignores_default: false,
    });
    Some((decision, multi))
}

/// Whether a DaemonSet's nodeSelector keeps it on Linux nodes.
pub fn selects_linux(daemon_set: &Value) -> bool {
    Pod::of(WorkloadKind::DaemonSet, daemon_set).is_some_and(|pod| selector_os(&pod).0 == OsWanted::Only(Os::Linux))
}

/// Whether Windows pods under these settings get the toleration of the policy's taint: an enforcing policy adds it, and
/// neither pod nor namespace opts out. `pod`: the pod's labels and annotations.
pub fn reaches(
    settings: &Settings,
    namespace: Option<&Namespace>,
    pod: Option<[&BTreeMap<String, String>; 2]>,
    nodes: &NodeSettings,
) -> bool {
    let taint = policy_taint(nodes);
    let listed = || settings.add_tolerations.iter().any(|one| tolerated(&[toleration_value(one)], &taint));
    let adds = match settings.tolerations {
        TolerationsMode::Learn => true,
        TolerationsMode::Listed => listed(),
        TolerationsMode::Never => false,
    };
    let ignores = |maps: [&BTreeMap<String, String>; 2]| maps.into_iter().any(opts_out);
    let by_namespace = || namespace.and_then(Namespace::opt_out).is_some();
    let opted_out = match settings.ignore {
        HonourIgnore::Never => false,
        HonourIgnore::Namespaces => by_namespace(),
        HonourIgnore::Pods => by_namespace() || pod.is_some_and(ignores),
    };
    settings.mode == Mode::Enforce && adds && !opted_out
}

/// The DaemonSet's claim to this node once it has `taint`, based only on its template.
pub fn claim(daemon_set: &DaemonSetFacts, node: &NodeFacts, taint: &Taint) -> DaemonSetClaim {
    let placement = &daemon_set.placement;
    let fits =
        |labels: &BTreeMap<String, String>| placement.fits(&node.name, |key| labels.get(key).map(String::as_str));
    let at_home = || {
        let taints = node.taints.iter().filter_map(Taint::from_json);
        taints
            .filter(|taint| taint.effect != "PreferNoSchedule" && !taint.describes_state())
            .all(|taint| placement.tolerates(&taint))
    };
    if placement.tolerates(taint) || !fits(&node.labels) || !at_home() {
        return DaemonSetClaim::None;
    }
    // A template that would also match the same machine with Linux selects no OS.
    if daemon_set.belongs || !fits(&as_linux(&node.labels)) {
        DaemonSetClaim::Certain
    } else if daemon_set.any_ready {
        DaemonSetClaim::Doubtful
    } else {
        DaemonSetClaim::None
    }
}

/// Whether [`blockers`] may find blockers among the node's pods, or needs the pods to decide a doubtful claim.
/// `covered`: see `all_covered`.
pub fn needs_pods(node: &NodeFacts, taint: &Taint, daemons: &[DaemonSetFacts], covered: bool) -> bool {
    !covered
        || taint.effect == "NoExecute"
        || daemons.iter().any(|daemon_set| claim(daemon_set, node, taint) == DaemonSetClaim::Doubtful)
}

/// All blockers, DaemonSets first.
///
/// With a `NoExecute` taint every pod that does not tolerate it counts, covered or not, because it would be evicted
/// immediately.
pub fn blockers(node: &NodeFacts, taint: &Taint, daemons: &[DaemonSetFacts], pods: &[BoundPod]) -> Vec<TaintBlocker> {
    let present: BTreeSet<&str> =
        pods.iter().filter(|pod| pod.ready).filter_map(|pod| pod.daemon_set.as_deref()).collect();
    let waits = |daemon_set: &&DaemonSetFacts| match claim(daemon_set, node, taint) {
        DaemonSetClaim::None => false,
        DaemonSetClaim::Certain => true,
        DaemonSetClaim::Doubtful => present.contains(daemon_set.name.as_str()),
    };
    let daemons = daemons.iter().filter(waits).map(|daemon_set| TaintBlocker::DaemonSet(daemon_set.name.clone()));
    let evicts = taint.effect == "NoExecute";
    let suffers = |pod: &&BoundPod| {
        (pod.ready || pod.windows)
            && !pod.mirror
            && (evicts || (pod.daemon_set.is_none() && !pod.covered))
            && !pod.tolerations.iter().any(|toleration| toleration.covers(taint))
    };
    let pods = pods.iter().filter(suffers).map(|pod| TaintBlocker::Pod(pod.name.clone()));
    daemons.chain(pods).collect()
}

fn as_linux(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut labels = labels.clone();
    labels.retain(|key, _| !is_managed_label(key));
    for key in OS_LABELS {
        labels.entry(key.to_owned()).and_modify(|os| "linux".clone_into(os));
    }
    labels
}

#[cfg(test)]
mod tests;

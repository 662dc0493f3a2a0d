//! A preview of a workload's pods: how they are placed once they are created, and where they could run then.
//!
//! Mullion changes a template at the template's own request only where the API server would reject it. Its pods are
//! placed one by one, when their controller creates them.

use std::fmt::{self, Display, Formatter};

use serde::Deserialize;

use crate::admission::response::respond;
use crate::admission::review::{Review, review};
use crate::detect::images_of;
use crate::model::cluster::{ClusterSnapshot, Node, Nodes, RuntimeClass, Taint};
use crate::model::declared_features::{DeclaredFeature, NodeFeatures, needed_features};
use crate::model::image::ImageOs;
use crate::model::pod_view::Pod;
use crate::model::scheduling::SchedulingConstraints;
use crate::model::settings::ReviewSettings;
use crate::model::windows::Build;
use crate::model::{Endpoint, MinorVersion, Os, ReviewRequest};
use crate::place::pod_builds;

/// The review with the changes of the pods: for a template, what its pods get.
pub fn review_pods(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, settings: &ReviewSettings<'_>) -> Review {
    review(&ReviewRequest { into_templates: true, ..*request }, snapshot, settings)
}

/// The nodes for the pods of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodNodes<'w> {
    /// The nodes on which the scheduler, or the DaemonSet controller, may put the pods.
    pub schedulable: Vec<&'w str>,
    /// The schedulable nodes that can run the pods: their operating system and Windows build fit all images that are
    /// known.
    pub runnable: Vec<&'w str>,
    /// The nodes that cannot run the pods, with the first obstacle of each.
    pub left_out: Vec<(&'w str, NodeObstacle<'w>)>,
}

/// Why the pods of a workload cannot run on a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeObstacle<'w> {
    /// The pods select other nodes than their RuntimeClass, so the API server rejects them.
    RuntimeClass,
    /// `spec.nodeName` is another node.
    NodeName,
    /// The node lacks this label of the node selector.
    NodeSelector {
        /// Key of the label.
        key: String,
        /// The wanted value.
        value: String,
    },
    /// The required node affinity does not match.
    NodeAffinity,
    /// The pods do not tolerate this taint.
    Taint(&'w Taint),
    /// The taints of the node are too large to use, so whether the pods tolerate them is unknown.
    UnknownTaints,
    /// The node does not declare a feature that the scheduler requires.
    MissingFeature(&'static DeclaredFeature),
    /// Whether the scheduler requires this feature, or the node declares it, is not known.
    UnknownFeature(&'static DeclaredFeature),
    /// The node is cordoned.
    Unschedulable,
    /// The pods, or one of their images, are for another operating system.
    OperatingSystem,
    /// No image is known to run on this Windows build.
    Build(Build),
    /// The node has no operating system label, so whether the images run there is unknown.
    UnknownSystem,
    /// The Windows build of the node is not known, so whether the images run there is unknown.
    UnknownBuild,
}

impl NodeObstacle<'_> {
    /// Whether a fact about the node is not known, so that the pods may run there.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::UnknownTaints | Self::UnknownFeature(_) | Self::UnknownSystem | Self::UnknownBuild)
    }
}

impl Display for NodeObstacle<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::RuntimeClass => f.write_str("the RuntimeClass of the pods selects other nodes than they do"),
            Self::NodeName => f.write_str("spec.nodeName is another node"),
            Self::NodeSelector { key, value } => write!(f, "spec.nodeSelector has {key}: {value}"),
            Self::NodeAffinity => f.write_str("the required node affinity does not match"),
            Self::Taint(taint) => write!(f, "the pods do not tolerate the taint {taint}"),
            Self::UnknownTaints => f.write_str("the taints of the node are too large to use"),
            Self::MissingFeature(DeclaredFeature { name, field, .. }) => {
                write!(f, "the node does not declare {name}, which the scheduler requires for {field}")
            }
            Self::UnknownFeature(DeclaredFeature { name, field, .. }) => {
                write!(f, "whether the scheduler requires {name}, for {field}, and the node declares it, is not known")
            }
            Self::Unschedulable => f.write_str("the node is cordoned"),
            Self::OperatingSystem => f.write_str("the pods are for another operating system"),
            Self::Build(build) => write!(f, "an image does not run on Windows build {build}"),
            Self::UnknownSystem => f.write_str("the node has no operating system label"),
            Self::UnknownBuild => f.write_str("the build of the node is not known"),
        }
    }
}

/// The features that pods need of their node, each with whether the scheduler is known to require it.
struct NeededFeatures(Vec<(&'static DeclaredFeature, bool)>);

impl NeededFeatures {
    /// Those that the scheduler of this API server may require. Without its version, that of kubelets shows which are required:
    /// the API server is not older.
    fn of(pod: Pod<'_>, api_server: Option<MinorVersion>, nodes: &Nodes) -> Self {
        let mut needed: Vec<_> = needed_features(pod).collect();
        needed.retain(|feature| api_server.is_none_or(|version| version >= feature.since));
        let version = if needed.is_empty() { None } else { api_server.or_else(|| nodes.newest_kubelet()) };
        let is_required = |feature: &DeclaredFeature| version.is_some_and(|version| version >= feature.since);
        Self(needed.into_iter().map(|feature| (feature, is_required(feature))).collect())
    }

    /// The first that the scheduler requires and the node does not declare.
    fn missing(&self, declared: Option<NodeFeatures>) -> Option<&'static DeclaredFeature> {
        let declared = declared?;
        self.0.iter().find(|(feature, is_required)| *is_required && !declared.has(feature)).map(|(feature, _)| *feature)
    }

    /// The first that the node may not declare, and the scheduler may require.
    fn unknown(&self, declared: Option<NodeFeatures>) -> Option<&'static DeclaredFeature> {
        let lacks = |feature: &DeclaredFeature| declared.is_none_or(|declared| !declared.has(feature));
        self.0.iter().find(|(feature, _)| lacks(feature)).map(|(feature, _)| *feature)
    }
}

/// Why the scheduler, or the DaemonSet controller, does not put the pods on a node; `other_build`: the build of the node, if
/// no image is known to run on it. `declared`: the features of the node.
fn scheduling_obstacle<'w>(
    node: &'w Node,
    placement: &SchedulingConstraints,
    other_build: Option<Build>,
    needed: &NeededFeatures,
    declared: Option<NodeFeatures>,
) -> Option<NodeObstacle<'w>> {
    let label = |key: &str| node.labels.get(key);
    if !placement.names(&node.name) {
        return Some(NodeObstacle::NodeName);
    }
    if let Some((key, value)) = placement.missing_label(label) {
        return Some(NodeObstacle::NodeSelector { key: key.to_owned(), value: value.to_owned() });
    }
    if !placement.affinity_fits(&node.name, label) {
        // Mullion excludes builds with the affinity.
        return Some(other_build.map_or(NodeObstacle::NodeAffinity, NodeObstacle::Build));
    }
    if let Some(feature) = needed.missing(declared) {
        return Some(NodeObstacle::MissingFeature(feature));
    }
    let Some(taints) = node.taints.parsed() else { return Some(NodeObstacle::UnknownTaints) };
    let mut repelling = taints.iter().filter(|taint| taint.effect != "PreferNoSchedule" && !placement.tolerates(taint));
    let repelled = repelling.next().map(NodeObstacle::Taint);
    let cordoned = || node.unschedulable.then_some(NodeObstacle::Unschedulable);
    repelled.or_else(cordoned).or_else(|| needed.unknown(declared).map(NodeObstacle::UnknownFeature))
}

/// The nodes of the snapshot for the pods with Mullion's changes; `None` if the snapshot contains no nodes.
pub fn find_nodes<'w>(
    request: &ReviewRequest<'_>,
    snapshot: &'w ClusterSnapshot,
    settings: &ReviewSettings<'_>,
) -> Option<PodNodes<'w>> {
    let nodes = snapshot.nodes.as_ref()?;
    let workload = &request.workload;
    let mut placed = workload.object.clone();
    let review = review_pods(request, snapshot, settings);
    let patch = respond(&review, &placed, Endpoint::Mutate).patch;
    // If the patch does not apply, the object stays unchanged.
    let applied = json_patch::patch(&mut placed, &patch).is_ok();
    let object = if applied { &placed } else { workload.object };
    let pod = Pod::of(workload.kind, object)?;
    let mut placement = SchedulingConstraints::deserialize(pod.get("/spec")?).ok()?;
    let class = pod.text("/spec/runtimeClassName").and_then(|name| snapshot.runtime_class(name));
    if class.is_some_and(|class| !placement.takes_over(class)) {
        let left_out = nodes.iter().map(|node| (node.name.as_str(), NodeObstacle::RuntimeClass));
        return Some(PodNodes { left_out: left_out.collect(), ..PodNodes::default() });
    }
    let images = images_of(&pod, &review.settings, request.images, snapshot);
    let builds = pod_builds(&images, snapshot, settings.nodes);
    let by_build = !pod.host_process() && !class.is_some_and(RuntimeClass::is_hypervisor) && !builds.known.is_empty();
    let other_build = |node: &Node| node.build.filter(|build| by_build && !builds.hosts.contains(build));
    let other_os = |os: Os| {
        let decided = review.decision.decided().is_some_and(|decided| decided != os);
        let other = if os == Os::Linux { Os::Windows } else { Os::Linux };
        decided || images.iter().any(|image| image.facts.os == ImageOs::from(other))
    };
    let (linux_fails, windows_fails) = (other_os(Os::Linux), other_os(Os::Windows));
    let not_runnable = |node: &Node| match node.os {
        Some(Os::Linux) if linux_fails => Some(NodeObstacle::OperatingSystem),
        Some(Os::Windows) if windows_fails => Some(NodeObstacle::OperatingSystem),
        Some(Os::Windows) if by_build && node.build.is_none() => Some(NodeObstacle::UnknownBuild),
        Some(Os::Windows) => other_build(node).map(NodeObstacle::Build),
        None if linux_fails || windows_fails || by_build => Some(NodeObstacle::UnknownSystem),
        Some(Os::Linux) | None => None,
    };
    let needed = NeededFeatures::of(pod, snapshot.api_server, nodes);
    let mut found = PodNodes::default();
    for node in nodes.iter() {
        let name = node.name.as_str();
        let obstacle = scheduling_obstacle(node, &placement, other_build(node), &needed, nodes.features_of(node));
        let obstacle = obstacle.or_else(|| {
            found.schedulable.push(name);
            not_runnable(node)
        });
        match obstacle {
            Some(obstacle) => found.left_out.push((name, obstacle)),
            None => found.runnable.push(name),
        }
    }
    Some(found)
}

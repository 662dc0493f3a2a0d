//! The Linux default: what an undecided workload gets in a cluster that has Windows nodes too.
//!
//! Most charts set no operating system because they were written for clusters with only Linux nodes. The default sets
//! Linux for them, unless any hint contradicts it.

use crate::detect::input::DetectionInput;
use crate::detect::node_pool::node_constraints;
use crate::model::cluster::{Node, namespace_restrictions};
use crate::model::image::ImageOs;
use crate::model::scheduling::{OsWanted, marks};
use crate::model::settings::{LinuxDefault, NodeSettings};
use crate::model::{DetectedOs, EvidenceOs, Os, OsDecision, scheduling};

/// Which kind of workload may get the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultCandidate {
    /// A pod, or a template of any kind but DaemonSet.
    Ordinary,
    /// A CREATE of a DaemonSet.
    NewDaemonSet,
    /// An UPDATE of a DaemonSet, or a DaemonSet's pod: its nodes are chosen already.
    ExistingDaemonSet,
}

/// Why an undecided workload does not get the Linux default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoDefault {
    /// Another source decided, or declined placement.
    Decided,
    /// Its node selector or affinity requires an operating system that is neither Windows nor Linux.
    OtherSystem,
    /// `detect.default: Nothing`.
    Policy,
    /// There are no Windows nodes.
    NotMixed,
    /// Parts of it that could decide are only in the cluster.
    UnknownPart,
    /// A path, a program or a label in it indicates Windows.
    LooksWindows,
    /// The nodes of an existing DaemonSet are chosen already.
    ExistingDaemonSet,
    /// A DaemonSet whose images exist for both systems may be meant for every node.
    EveryNode,
    /// The pod is bound to a node already.
    Bound,
    /// Its RuntimeClass may name an operating system, and is not in the snapshot.
    UnknownRuntimeClass,
    /// The handler of its RuntimeClass is for Windows.
    WindowsHandler,
    /// It has node constraints or a RuntimeClass, and the cluster's are unknown; or it has too many node constraints.
    UnknownCluster,
    /// Its namespace has a node selector that cannot be used, so its node constraints are unknown.
    NamespaceSelector,
    /// No live Linux node satisfies its node constraints.
    NoLinuxNode,
    /// Every Linux node has a taint that marks it as Linux: in such a cluster a pod without selector is meant for
    /// Windows.
    LinuxIsMarked,
    /// A schedulable node has no operating system label.
    UnlabelledNode,
}

/// Who should do something about a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Concern {
    /// Nobody: it is the user's choice, or requires no action.
    Nobody,
    /// The author of the workload should write the operating system.
    Author,
    /// The same, and a finding reports it.
    Reported,
}

impl NoDefault {
    /// Whom the reason concerns, and the reason as a clause.
    fn entry(self) -> (Concern, &'static str) {
        use Concern::{Author, Nobody, Reported};
        match self {
            Self::Decided => (Nobody, "something else decided"),
            Self::OtherSystem => {
                (Author, "its node selector or affinity requires an operating system that is neither windows nor linux")
            }
            Self::Policy => (Nobody, "the policy gives no default"),
            Self::NotMixed => (Nobody, "the cluster has no Windows nodes"),
            Self::UnknownPart => (Nobody, "parts of it that could decide are only in the cluster"),
            Self::LooksWindows => (Reported, "something in it looks like Windows"),
            Self::ExistingDaemonSet => (Nobody, "a DaemonSet's nodes are chosen already"),
            Self::EveryNode => (Author, "its images exist for Windows too, and a DaemonSet may mean every node"),
            Self::Bound => (Nobody, "its node is chosen already"),
            Self::UnknownRuntimeClass => (Reported, "its RuntimeClass is not known"),
            Self::WindowsHandler => (Reported, "the handler of its RuntimeClass is for Windows"),
            Self::UnknownCluster => (Author, "its node constraints or its RuntimeClass cannot be checked"),
            Self::NamespaceSelector => (Reported, "the node selector of its namespace is too large to use"),
            Self::NoLinuxNode => (Reported, "no Linux node satisfies its node constraints"),
            Self::LinuxIsMarked => (Author, "every Linux node has a taint that marks it, so no selector means Windows"),
            Self::UnlabelledNode => (Reported, "a node has no operating system label"),
        }
    }

    /// The reason as a clause.
    pub fn clause(self) -> &'static str {
        self.entry().1
    }

    /// Whether another reason than the workload's own decision or the cluster's settings prevents the default, so that its
    /// author should write the operating system.
    pub fn needs_author(self) -> bool {
        self.entry().0 != Concern::Nobody
    }

    /// Whether it is reported as a finding.
    pub fn is_reported(self) -> bool {
        self.entry().0 == Concern::Reported
    }
}

/// Checks whether an undecided workload gets Linux; the error is the reason why it does not.
pub(crate) fn check_linux_default(
    input: &DetectionInput<'_>,
    decision: &OsDecision,
    nodes: &NodeSettings,
    candidate: DefaultCandidate,
) -> Result<(), NoDefault> {
    let DetectionInput { pod, snapshot, .. } = input;
    if decision.os != DetectedOs::Undecided || !decision.placement {
        let other = decision.os == DetectedOs::Undecided
            && [scheduling::selector_os(pod).0, scheduling::node_constraints::affinity_os(pod)]
                .contains(&OsWanted::Unknown);
        return Err(if other { NoDefault::OtherSystem } else { NoDefault::Decided });
    }
    match input.settings.default {
        LinuxDefault::Nothing => return Err(NoDefault::Policy),
        LinuxDefault::LinuxWhenMixed if !snapshot.mixed() => return Err(NoDefault::NotMixed),
        LinuxDefault::LinuxWhenMixed | LinuxDefault::Linux => {}
    }
    if input.request.is_partly_unknown {
        return Err(NoDefault::UnknownPart);
    }
    if decision.evidence.iter().any(|evidence| evidence.os == EvidenceOs::LooksWindows) {
        return Err(NoDefault::LooksWindows);
    }
    match candidate {
        DefaultCandidate::ExistingDaemonSet => return Err(NoDefault::ExistingDaemonSet),
        DefaultCandidate::NewDaemonSet if input.images.iter().any(|image| image.facts.os == ImageOs::Multi) => {
            return Err(NoDefault::EveryNode);
        }
        DefaultCandidate::NewDaemonSet | DefaultCandidate::Ordinary => {}
    }
    if pod.text("/spec/nodeName").is_some() || scheduling::node_constraints::affinity_node_name(pod).is_some() {
        return Err(NoDefault::Bound);
    }
    if let Some(name) = pod.text("/spec/runtimeClassName") {
        match snapshot.runtime_class(name) {
            None if snapshot.runtime_classes.is_none() => return Err(NoDefault::UnknownCluster),
            None => return Err(NoDefault::UnknownRuntimeClass),
            Some(class) if class.handler_os() == Some(Os::Windows) => {
                return Err(NoDefault::WindowsHandler);
            }
            Some(_) => {}
        }
    }
    if namespace_restrictions::unusable_selector(input.namespace).is_some() {
        return Err(NoDefault::NamespaceSelector);
    }
    let constraints = node_constraints(input);
    let Some(known) = &snapshot.nodes else {
        return if constraints.is_empty() { Ok(()) } else { Err(NoDefault::UnknownCluster) };
    };
    let linux = || known.iter().filter(|node| node.os == Some(Os::Linux));
    let fits = |node: &Node| node.os == Some(Os::Linux) && constraints.fit(node);
    if !constraints.comparable_with(known) {
        return Err(NoDefault::UnknownCluster);
    }
    if !constraints.is_empty() && !known.samples(constraints.keys()).any(fits) {
        return Err(NoDefault::NoLinuxNode);
    }
    // Taints that are too large to use may mark the node.
    let marked = |node: &Node| {
        node.taints.parsed().is_none_or(|taints| taints.iter().any(|taint| marks(&nodes.linux_taints, taint)))
    };
    if linux().next().is_some() && linux().all(marked) {
        return Err(NoDefault::LinuxIsMarked);
    }
    if known.has_unknown_os() {
        return Err(NoDefault::UnlabelledNode);
    }
    Ok(())
}

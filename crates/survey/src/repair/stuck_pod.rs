//! A pod that can never start where it is, with the evidence for it and what is done about it.

use std::fmt;
use std::sync::Arc;

use mullion_engine::model::Os;
use mullion_engine::model::dns_name::is_dns_subdomain;
use mullion_engine::model::text::{list_with, shorten};
use mullion_engine::model::windows::Build;

use crate::report::Knowledge;

/// The maximum length of a foreign text in a sentence, in characters.
const MAX_TEXT: usize = 200;

/// A pod that can never start where it is, or that hangs in deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: another pod may get its name.
    pub uid: String,
    /// The node it is bound to.
    pub node: String,
    /// Its controller.
    pub owner: Option<PodOwner>,
    /// What shows that it can never start there.
    pub evidence: StuckEvidence,
    /// What is done about it.
    pub action: RepairAction,
    /// Its images, init containers included.
    pub(crate) images: Vec<String>,
    /// The pod template of its owner when it was read.
    pub(crate) template: Arc<str>,
}

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodOwner {
    /// Its kind: `ReplicaSet`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The Deployment of a ReplicaSet.
    pub deployment: Option<String>,
}

impl PodOwner {
    /// The object that people edit: kind and name of the Deployment of a ReplicaSet, else of the owner.
    pub fn edited(&self) -> (&str, &str) {
        match &self.deployment {
            Some(deployment) => ("Deployment", deployment),
            None => (&self.kind, &self.name),
        }
    }
}

/// What shows that a pod can never start where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StuckEvidence {
    /// An image is for the other operating system.
    ImageSystem {
        /// The image.
        image: String,
        /// The operating system of the image.
        os: Os,
        /// What states it.
        known_from: Knowledge,
    },
    /// An image is for other Windows builds than that of the node.
    ImageBuild {
        /// The image.
        image: String,
        /// The builds of the image.
        builds: Vec<Build>,
        /// The build of the node.
        host: Build,
        /// What states the builds of the image.
        known_from: Knowledge,
    },
    /// The node pulled an image, or tried to start it, and reports that it is for another platform.
    Rejected {
        /// The message.
        message: String,
    },
    /// It has not started for a long time, its successor is of the other operating system, and an Event says why.
    Unstarted {
        /// The operating system of its successor.
        os: Os,
        /// The reason of the Event.
        reason: String,
        /// The message of the Event.
        message: String,
    },
    /// The kubelet rejected the pod, because it is for another operating system.
    Refused {
        /// The message.
        message: String,
    },
    /// It is being deleted for longer than its grace and a minute.
    Deleting {
        /// When its grace ended, as RFC 3339.
        since: String,
    },
    /// It has not started for a long time, and nothing shows why.
    Unknown {
        /// Why it is suspected, as a clause.
        because: String,
    },
}

impl StuckEvidence {
    /// A word for it in JSON and in metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::ImageSystem { .. } => "imageOfOtherSystem",
            Self::ImageBuild { .. } => "imageOfOtherBuild",
            Self::Rejected { .. } => "imageRejectedByNode",
            Self::Unstarted { .. } => "unstarted",
            Self::Refused { .. } => "refusedByKubelet",
            Self::Deleting { .. } => "deleting",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// `, as its tag states`.
fn source(known_from: Knowledge) -> &'static str {
    match known_from {
        Knowledge::Policy => "as a policy states",
        Knowledge::Registry => "as its registry reports",
        Knowledge::Name => "as its name states",
        Knowledge::Running | Knowledge::Unknown => "as containers show",
    }
}

impl fmt::Display for StuckEvidence {
    /// A clause: `its image nginx:1.27 is a Linux image, as its name states`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ImageSystem { image, os, known_from } => {
                write!(f, "its image {image} is a {} image, {}", os.title(), source(*known_from))
            }
            Self::ImageBuild { image, builds, host, known_from } => {
                let builds = list_with(builds, "and");
                write!(
                    f,
                    "its image {image} is for Windows build {builds}, {}, and the node has {host}",
                    source(*known_from)
                )
            }
            Self::Rejected { message } => write!(f, "the node rejects its image: {}", shorten(message, MAX_TEXT)),
            Self::Unstarted { os, reason, message } => {
                let (os, message) = (os.title(), shorten(message, MAX_TEXT));
                write!(
                    f,
                    "no container started in ten minutes, its successor is a {os} pod, and Event {reason} says: {message}"
                )
            }
            Self::Refused { message } => write!(f, "the kubelet rejected it: {}", shorten(message, MAX_TEXT)),
            Self::Deleting { since } => write!(f, "it is being deleted, and its grace ended at {since}"),
            Self::Unknown { because } => write!(f, "no container started in ten minutes, and {because}"),
        }
    }
}

/// What is done about a stuck pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairAction {
    /// It can be evicted: its owner makes it again, and one of these nodes gets its successor.
    Evict {
        /// The nodes.
        nodes: Arc<[Arc<str>]>,
        /// Whether it has volumes of `PersistentVolumeClaim`s, whose nodes are not known yet.
        has_claims: bool,
    },
    /// Its owner has already replaced it.
    Replaced,
    /// Its DaemonSet leaves the node when its template is updated.
    RestartDaemonSet,
    /// It is left to a person.
    Leave(LeaveReason),
}

impl RepairAction {
    /// A word for it in JSON and in metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Evict { .. } => "evict",
            Self::Replaced => "replaced",
            Self::RestartDaemonSet => "restartDaemonSet",
            Self::Leave(_) => "leave",
        }
    }
}

/// Why a pod is left to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaveReason {
    /// Nothing makes it again.
    BarePod,
    /// The kubelet of its node makes it from a file.
    StaticPod,
    /// Its owner is of a kind of which it is not known whether it makes pods again.
    OwnerKind(String),
    /// Its owner was not read.
    OwnerNotRead,
    /// Its owner does not make it again, for this reason.
    OwnerEnds(&'static str),
    /// Its StatefulSet has two revisions, and which of them its successor gets is not known.
    TwoRevisions,
    /// Its Job has too few attempts left.
    Attempts {
        /// The pods of the Job that failed, those that are evicted before this one included.
        failed: u64,
        /// `backoffLimit`.
        limit: u64,
    },
    /// The pod failure policy of its Job, or its limit for each index, may end the Job.
    FailurePolicy,
    /// Its successor is denied: the reason.
    Denied(String),
    /// Whether the API server calls Mullion for its successor is not known: the reason.
    ReviewNotKnown(String),
    /// Its successor may land on this node again, or on one of the same kind.
    LandsThereAgain,
    /// Its successor may land on another node that cannot run it.
    LandsElsewhere,
    /// No node that is ready fits its successor.
    NoNode,
    /// Its volumes are on nodes that do not fit its successor.
    Volumes,
    /// Where its volumes are was not read.
    VolumesNotRead,
    /// Its node is not ready, so its kubelet ends no pod.
    NodeNotReady,
    /// Whether one of its containers ever ran is not known.
    StartNotKnown,
    /// Nothing shows why it does not start.
    EvidenceUnknown,
    /// It hangs in deletion.
    Deleting,
}

impl fmt::Display for LeaveReason {
    /// A clause: `nothing makes it again`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BarePod => {
                f.write_str("it has no owner that makes it again: delete it, and create it again from its manifest")
            }
            Self::StaticPod => f.write_str("it is a static pod: move its manifest off the node"),
            Self::OwnerKind(kind) => write!(f, "it is not known whether its owner, a {kind}, makes pods again"),
            Self::OwnerNotRead => f.write_str("its owner was not read"),
            Self::OwnerEnds(why) => write!(f, "its owner does not make it again: {why}"),
            Self::TwoRevisions => f.write_str(
                "its StatefulSet is between two revisions, and it is not known which one its successor gets",
            ),
            Self::Attempts { failed, limit } => {
                write!(
                    f,
                    "its Job has too few attempts left: an eviction counts as one, {failed} failed, and backoffLimit is {limit}"
                )
            }
            Self::FailurePolicy => {
                f.write_str("an eviction may end its Job, by podFailurePolicy or backoffLimitPerIndex")
            }
            Self::Denied(why) => write!(f, "its successor would be denied: {}", shorten(why, MAX_TEXT)),
            Self::ReviewNotKnown(why) => {
                write!(f, "it is not known whether Mullion reviews its successor: {}", shorten(why, MAX_TEXT))
            }
            Self::LandsThereAgain => {
                f.write_str("its successor may land on this node, or on one of the same kind, again")
            }
            Self::LandsElsewhere => f.write_str("its successor may land on another node that cannot run it"),
            Self::NoNode => f.write_str("no node that is ready fits its successor"),
            Self::Volumes => f.write_str("its volumes are not on a node that fits its successor"),
            Self::VolumesNotRead => f.write_str("where its volumes are was not read"),
            Self::NodeNotReady => f.write_str("its node is not ready, so nothing can end it there"),
            Self::StartNotKnown => f.write_str("it is not known whether one of its containers ever ran"),
            Self::EvidenceUnknown => f.write_str("nothing shows that it cannot start there"),
            Self::Deleting => f.write_str("if its node is healthy and nothing of it runs there, force its deletion"),
        }
    }
}

impl StuckPod {
    /// The command for a person; `None` if there is none, or if a name is not one of Kubernetes.
    pub fn command(&self) -> Option<String> {
        let of = |kind: &str, name: &str| format!("{}/{name} -n {}", kind.to_lowercase(), self.namespace);
        let pod = of("pod", &self.name);
        let owner = self.owner.as_ref().map(PodOwner::edited);
        let names = [self.namespace.as_str(), &self.name, &self.node];
        if !names.iter().chain(owner.iter().map(|(_, name)| name)).all(|name| is_dns_subdomain(name)) {
            return None;
        }
        let explain =
            |owner: Option<(&str, &str)>| owner.map(|(kind, name)| format!("mullion explain {}", of(kind, name)));
        match &self.action {
            RepairAction::Evict { .. } => None,
            RepairAction::Replaced => Some(format!("kubectl delete {pod}")),
            RepairAction::RestartDaemonSet => {
                owner.map(|(_, name)| format!("kubectl rollout restart {}", of("daemonset", name)))
            }
            RepairAction::Leave(reason) => match reason {
                LeaveReason::StaticPod => None,
                LeaveReason::BarePod => Some(format!("kubectl delete {pod}")),
                LeaveReason::OwnerKind(_)
                | LeaveReason::OwnerNotRead
                | LeaveReason::StartNotKnown
                | LeaveReason::EvidenceUnknown => Some(format!("kubectl describe {pod}")),
                LeaveReason::OwnerEnds(_) => owner
                    .filter(|(kind, _)| is_built_in(kind))
                    .map(|(kind, name)| format!("kubectl describe {}", of(kind, name))),
                LeaveReason::TwoRevisions => {
                    owner.map(|(_, name)| format!("kubectl rollout status {}", of("statefulset", name)))
                }
                LeaveReason::Attempts { .. } | LeaveReason::FailurePolicy => {
                    owner.map(|(_, name)| format!("kubectl delete {}", of("job", name)))
                }
                LeaveReason::Denied(_)
                | LeaveReason::LandsThereAgain
                | LeaveReason::LandsElsewhere
                | LeaveReason::NoNode => explain(owner),
                LeaveReason::ReviewNotKnown(_) => Some("mullion status".to_owned()),
                LeaveReason::Volumes | LeaveReason::VolumesNotRead => {
                    Some(format!("kubectl get persistentvolumeclaims -n {} -o wide", self.namespace))
                }
                LeaveReason::NodeNotReady => Some(format!("kubectl describe node {}", self.node)),
                LeaveReason::Deleting => Some(format!("kubectl delete {pod} --grace-period=0 --force")),
            },
        }
    }
}

/// Whether a kind is one of Kubernetes, of which `mullion explain` and kubectl know the name.
fn is_built_in(kind: &str) -> bool {
    mullion_engine::model::WorkloadKind::from_name(kind).is_some()
}

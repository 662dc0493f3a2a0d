//! The decision about the operating system of one workload, and the evidence for it.

use serde::{Deserialize, Serialize};

use crate::model::operating_system::{Os, ScopeOs};
use crate::model::pod_view::Pod;

/// The decision, and its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsDecision {
    /// Which operating system.
    pub os: DetectedOs,
    /// What kind of evidence decided.
    pub basis: Basis,
    /// Whether Mullion may add placement by operating system; false if the evidence is `any`.
    pub placement: bool,
    /// The deciding evidence first, then all other evidence.
    pub evidence: Vec<Evidence>,
}

/// Which operating system a workload needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DetectedOs {
    /// Windows.
    Windows,
    /// Linux.
    Linux,
    /// No evidence, or not enough.
    Undecided,
    /// Two placements exclude each other: no node matches the pod.
    Conflict,
}

/// What kind of evidence decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Author, namespace, policy or image.
    Intent,
    /// Only the node that the pod is bound to.
    Place,
    /// The Linux default.
    Default,
    /// Nothing decided.
    None,
}

/// One piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The operating system.
    pub os: EvidenceOs,
    /// Where it was found.
    pub source: EvidenceSource,
}

/// The operating system that a piece of evidence stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceOs {
    /// One operating system.
    Os(Os),
    /// Either, set on purpose: no placement.
    Any,
    /// An image that exists for both. It decides nothing.
    Multi,
    /// A hint of Windows: never enough to decide for Windows, always enough to prevent the Linux default.
    LooksWindows,
}

/// The source of a piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvidenceSource {
    /// A field of the object, as a JSON pointer into it.
    Field(String),
    /// An annotation of the namespace.
    Namespace(String),
    /// A policy's `detect.os`, with file and line if known.
    Policy(String),
    /// A node's name.
    Node(String),
    /// An image.
    Image {
        /// Pointer to the container's `image`.
        pointer: String,
        /// The reference.
        image: String,
        /// `policy`, `registry`, `tag` or `repository`.
        how: &'static str,
    },
}

impl OsDecision {
    pub(crate) fn undecided(evidence: Vec<Evidence>, placement: bool) -> Self {
        Self { os: DetectedOs::Undecided, basis: Basis::None, placement, evidence }
    }

    pub(crate) fn os(os: Os, basis: Basis, evidence: Vec<Evidence>) -> Self {
        Self { os: os.into(), basis, placement: true, evidence }
    }

    /// The operating system, if one was decided.
    pub fn decided(&self) -> Option<Os> {
        self.os.decided()
    }

    /// Whether the workload's images decided or could decide: neither the workload itself nor a scope sets an operating
    /// system.
    pub fn depends_on_images(&self) -> bool {
        let first = self.evidence.first().map(|first| (&first.os, &first.source));
        self.os != DetectedOs::Conflict
            && !matches!(
                first,
                Some((
                    EvidenceOs::Os(_) | EvidenceOs::Any,
                    EvidenceSource::Field(_) | EvidenceSource::Namespace(_) | EvidenceSource::Policy(_)
                ))
            )
    }
}

impl DetectedOs {
    /// The operating system, if one was decided.
    pub fn decided(self) -> Option<Os> {
        match self {
            Self::Windows => Some(Os::Windows),
            Self::Linux => Some(Os::Linux),
            Self::Undecided | Self::Conflict => None,
        }
    }

    /// `windows`, `linux`, `undecided` or `conflict`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Windows => Os::Windows.name(),
            Self::Linux => Os::Linux.name(),
            Self::Undecided => "undecided",
            Self::Conflict => "conflict",
        }
    }
}

impl From<Os> for DetectedOs {
    fn from(os: Os) -> Self {
        match os {
            Os::Linux => Self::Linux,
            Os::Windows => Self::Windows,
        }
    }
}

impl From<ScopeOs> for EvidenceOs {
    fn from(os: ScopeOs) -> Self {
        match os {
            ScopeOs::Windows => Self::Os(Os::Windows),
            ScopeOs::Linux => Self::Os(Os::Linux),
            ScopeOs::Any => Self::Any,
        }
    }
}

impl Evidence {
    pub(crate) fn field(pod: &Pod<'_>, os: Os, pointer: &str) -> Self {
        Self { os: EvidenceOs::Os(os), source: EvidenceSource::Field(pod.at(pointer)) }
    }
}

/// One decision from pieces of evidence that must agree; `None` if there is no evidence.
pub(crate) fn agree(evidence: Vec<Evidence>) -> Option<OsDecision> {
    let conflict = |evidence| OsDecision { os: DetectedOs::Conflict, basis: Basis::Intent, placement: false, evidence };
    agree_or(evidence, conflict)
}

/// The same, with another decision from pieces of evidence that differ.
pub(crate) fn agree_or(
    evidence: Vec<Evidence>,
    otherwise: impl FnOnce(Vec<Evidence>) -> OsDecision,
) -> Option<OsDecision> {
    let mut systems = evidence.iter().filter_map(|evidence| match evidence.os {
        EvidenceOs::Os(os) => Some(os),
        _ => None,
    });
    let os = systems.next()?;
    let agreed = systems.all(|other| other == os);
    Some(if agreed { OsDecision::os(os, Basis::Intent, evidence) } else { otherwise(evidence) })
}

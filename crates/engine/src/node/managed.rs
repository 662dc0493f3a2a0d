//! What Mullion puts on a Windows node: the labels of [`MANAGED_LABELS`], the policy's taint, and
//! [`OWNED_ANNOTATION`](crate::model::names::OWNED_ANNOTATION), which records both.
//!
//! Plans, the record, what a kubelet's own record may claim, withdrawal, and the facts that are kept of a node follow from
//! the list. Another label is one more entry.

use crate::model::names::{WINDOWS_BUILD_LABEL, WINDOWS_RELEASE_LABEL, WINDOWS_REVISION_LABEL};
use crate::model::settings::{Mode, NodeLabel, NodeSettings};
use crate::model::windows::{Build, release_name};

/// A label that Mullion sets on Windows nodes. No Linux node has it.
#[derive(Debug)]
pub struct ManagedLabel {
    /// Its key.
    pub key: &'static str,
    /// Whether it is in Mullion's own domain. Then it is Mullion's even if its record was lost. Another value of any
    /// other label is someone else's, and stays.
    pub own_domain: bool,
    /// The word in `labels` of the NodePolicy that selects it; `None` if every policy does.
    selected_by: Option<NodeLabel>,
    /// The value for a node; `None` if it is not known yet, for example before the kubelet has reported.
    pub(crate) value: fn(&LabelFacts<'_>) -> Option<String>,
}

/// The facts from which the values of labels follow.
#[derive(Debug)]
pub(crate) struct LabelFacts<'a> {
    pub(crate) policy: &'a NodeSettings,
    /// Build and revision of the node's kernel.
    pub(crate) kernel: Option<(Build, Option<u32>)>,
    /// The build in a label that someone else set, which is correct by definition, because selectors use it; else that of
    /// the kernel.
    pub(crate) build: Option<Build>,
}

/// Every label that Mullion sets on Windows nodes, in the order of reasons.
pub const MANAGED_LABELS: [ManagedLabel; 3] = [
    ManagedLabel {
        key: WINDOWS_BUILD_LABEL,
        own_domain: false,
        selected_by: None,
        value: |facts| facts.kernel.map(|(build, _)| build.to_string()),
    },
    ManagedLabel {
        key: WINDOWS_RELEASE_LABEL,
        own_domain: true,
        selected_by: Some(NodeLabel::Release),
        value: |facts| facts.build.map(|build| release_name(build, &facts.policy.releases).into_owned()),
    },
    ManagedLabel {
        key: WINDOWS_REVISION_LABEL,
        own_domain: true,
        selected_by: Some(NodeLabel::Revision),
        value: |facts| facts.kernel?.1.map(|revision| revision.to_string()),
    },
];

/// Whether Mullion sets a label with that key.
pub(crate) fn is_managed_label(key: &str) -> bool {
    MANAGED_LABELS.iter().any(|label| label.key == key)
}

impl ManagedLabel {
    /// Whether nodes under the policy get it.
    pub(crate) fn is_selected(&self, policy: &NodeSettings) -> bool {
        policy.mode != Mode::Disabled && self.selected_by.is_none_or(|word| policy.labels.contains(&word))
    }
}

//! The reasons of Mullion's Events, with their type and action. `docs/reference/events.md` describes each for users.

use crate::controller::events::{EventType, NewEvent};

/// Why an Event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventReason {
    /// One word: `TaintWaits`. At most 128 characters.
    pub(crate) name: &'static str,
    r#type: EventType,
    action: &'static str,
}

// === nodes and RuntimeClasses ===

pub(crate) const TAINT_WAITS: EventReason = normal("TaintWaits", "Taint");
pub(crate) const TAINT_CONTESTED: EventReason = warning("TaintContested", "Taint");
pub(crate) const TAINT_NOT_OWNED: EventReason = warning("TaintNotOwned", "Taint");
pub(crate) const CHANGES_UNDONE: EventReason = warning("ChangesUndone", "Patch");
pub(crate) const WOULD_CHANGE: EventReason = normal("WouldChange", "Audit");
pub(crate) const TOO_MANY_RUNTIME_CLASSES: EventReason = warning("TooManyRuntimeClasses", "RuntimeClass");
pub(crate) const WRITE_DENIED: EventReason = warning("WriteDenied", "Write");

// === owners of pods ===

pub(crate) const NODES_LEFT_OUT: EventReason = warning("NodesLeftOut", "Review");
pub(crate) const PODS_MISSED: EventReason = warning("PodsMissed", "Review");
pub(crate) const PODS_MISPLACED: EventReason = warning("PodsMisplaced", "Review");
pub(crate) const PODS_STUCK: EventReason = warning("PodsStuck", "Review");
pub(crate) const WINDOWS_FINDINGS: EventReason = warning("WindowsFindings", "Review");

// === the webhook, and the policy files ===

pub(crate) const WEBHOOK_REACHABLE: EventReason = normal("WebhookReachable", "Probe");
pub(crate) const WEBHOOK_UNREACHABLE: EventReason = warning("WebhookUnreachable", "Probe");
pub(crate) const POLICIES_IN_FORCE: EventReason = normal("PoliciesInForce", "LoadPolicies");
pub(crate) const POLICY_FILES_BAD: EventReason = warning("PolicyFilesBad", "LoadPolicies");
pub(crate) const EXEMPTION_ENDED: EventReason = normal("ExemptionEnded", "LoadPolicies");

const fn normal(name: &'static str, action: &'static str) -> EventReason {
    EventReason { name, r#type: EventType::Normal, action }
}

const fn warning(name: &'static str, action: &'static str) -> EventReason {
    EventReason { name, r#type: EventType::Warning, action }
}

impl EventReason {
    /// The Event with this note.
    pub(crate) fn event(self, note: String) -> NewEvent {
        NewEvent { r#type: self.r#type, reason: self.name, action: self.action, note }
    }
}

//! The result of one check.

use serde::Serialize;

/// A line of the status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct StatusCheck {
    pub(crate) section: Section,
    /// The name, which stays the same in all versions: `webhook-reached`.
    pub(crate) name: &'static str,
    pub(crate) result: CheckResult,
    /// The result, as a clause without a period.
    pub(crate) message: String,
    /// The items that the result is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) items: Vec<String>,
    /// What to do; empty if no action is required.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) next: String,
}

/// A part of the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Section {
    Installation,
    Webhook,
    Certificates,
    Policies,
    Nodes,
    Workloads,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CheckResult {
    Good,
    /// Worth knowing; no action is required now.
    Notice,
    /// A person must act.
    Bad,
    /// Not known, so a person must investigate.
    Unknown,
}

impl CheckResult {
    /// Whether the check requires a person.
    pub(crate) fn needs_a_person(self) -> bool {
        matches!(self, Self::Bad | Self::Unknown)
    }
}

impl Section {
    /// The heading in text.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Installation => "Installation",
            Self::Webhook => "Webhook",
            Self::Certificates => "Certificates",
            Self::Policies => "Policies",
            Self::Nodes => "Nodes",
            Self::Workloads => "Workloads",
        }
    }
}

impl StatusCheck {
    fn new(section: Section, name: &'static str, result: CheckResult, message: impl Into<String>) -> Self {
        Self { section, name, result, message: message.into(), items: Vec::new(), next: String::new() }
    }

    /// A good result.
    pub(crate) fn good(section: Section, name: &'static str, message: impl Into<String>) -> Self {
        Self::new(section, name, CheckResult::Good, message)
    }

    /// A result that is worth knowing.
    pub(crate) fn notice(
        section: Section,
        name: &'static str,
        message: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { next: next.into(), ..Self::new(section, name, CheckResult::Notice, message) }
    }

    /// A result that requires a person.
    pub(crate) fn bad(
        section: Section,
        name: &'static str,
        message: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { next: next.into(), ..Self::new(section, name, CheckResult::Bad, message) }
    }

    /// A result that is not known. `what`: the subject; `why`: a clause.
    pub(crate) fn unknown(
        section: Section,
        name: &'static str,
        what: &str,
        why: &str,
        next: impl Into<String>,
    ) -> Self {
        let message = format!("{what} not known: {why}");
        Self { next: next.into(), ..Self::new(section, name, CheckResult::Unknown, message) }
    }

    /// The same check with these items.
    #[must_use]
    pub(crate) fn with_items(self, items: Vec<String>) -> Self {
        Self { items, ..self }
    }

    /// Whether `--wait` waits for it. It does not wait for problems with workloads, because only people can resolve
    /// them.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.section != Section::Workloads && self.result.needs_a_person()
    }
}

#[cfg(test)]
pub(crate) mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The check of that name. It must have that result, a next step unless it is good, and these parts in message and
    /// items.
    #[track_caller]
    pub(crate) fn expect_check(
        checks: Vec<StatusCheck>,
        name: &str,
        result: CheckResult,
        parts: &[&str],
    ) -> StatusCheck {
        let check = checks.into_iter().find(|check| check.name == name).unwrap();
        assert_eq!(check.result, result, "{check:?}");
        let text = format!("{}\n{}", check.message, check.items.join("\n"));
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(check.next.is_empty(), result == CheckResult::Good, "{check:?}");
        check
    }
}

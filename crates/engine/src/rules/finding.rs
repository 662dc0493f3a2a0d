//! Findings: what is wrong in a workload, and where.

use std::borrow::Cow;

use crate::model::Edit;
use crate::model::json_pointer::field_path;
use crate::model::settings::Action;
use crate::rules::help::{Help, bounded};
use crate::rules::rule::Rule;

/// One place in one workload where one rule fired.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Finding {
    /// `MUL201`.
    pub code: &'static str,
    /// `run-as-user`.
    pub rule: &'static str,
    /// The action that the policies set, before [`finding_outcome`](crate::admission::finding_outcome) applies the
    /// request category.
    pub action: Action,
    /// Whether a repair is not reported, because the value has no effect on Linux either.
    pub quiet: bool,
    /// Whether its rule is a [hint](crate::rules::rule::RuleDetails::hint).
    pub hint: bool,
    /// Whether its rule is [about the pod as a whole](crate::rules::rule::RuleDetails::about_whole).
    pub about_whole: bool,
    /// JSON pointer into the object.
    pub pointer: String,
    /// The same place as the API server writes it: `spec.containers[0].securityContext.runAsUser`.
    pub path: String,
    /// Why it cannot work: one sentence without a period; at most 1,024 bytes.
    pub message: Cow<'static, str>,
    /// What to write instead.
    pub help: Help,
    /// What a repair adds where it removes the field; `None` if it adds nothing.
    pub replacement: Option<Edit>,
    /// Whether Kubernetes would reject the pod too.
    pub rejected_by: RejectedBy,
    /// Whether it is about a field that `spec.os.name: windows` forbids.
    pub forbidden_by_os: bool,
    /// Whether the API server rejects its value beside `spec.os.name: windows`: the field is forbidden there, or only
    /// other values are accepted.
    pub rejected_beside_os: bool,
    /// On UPDATE: whether the old object had it too; then it does not deny the update.
    pub pre_existing: bool,
}

/// The component that would reject a pod with this finding without Mullion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RejectedBy {
    /// None: the pod runs, possibly not as intended.
    None,
    /// The kubelet, once the pod is bound.
    Kubelet,
    /// The API server, with 422.
    ApiServer,
}

impl Finding {
    /// A finding of `rule` with a help text of its own.
    pub(crate) fn new(rule: &Rule, action: Action, pointer: String, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: rule.code,
            rule: rule.name,
            action,
            quiet: false,
            hint: rule.hint,
            about_whole: rule.about_whole,
            path: field_path(&pointer),
            pointer,
            message: bounded(message.into()),
            help: Help::from(rule.instead),
            replacement: None,
            rejected_by: RejectedBy::None,
            forbidden_by_os: false,
            rejected_beside_os: false,
            pre_existing: false,
        }
    }

    /// Whether it is repaired without a message, because the value has no effect; `action`: its outcome.
    pub fn is_silent_repair(&self, action: Action) -> bool {
        action == Action::Repair && self.quiet
    }

    /// `MUL201 run-as-user: spec.…runAsUser: Windows has no numeric user ids; write windowsOptions.runAsUserName: ContainerUser`.
    pub fn sentence(&self) -> String {
        format!("{} {}: {}: {}", self.code, self.rule, self.path, self.message_with_help())
    }

    /// As much of [`sentence`](Self::sentence) as fits into `limit` characters, shortened in this order: what to write
    /// instead, the path, the rule's name. The reason always stays. `before` is a prefix, `done` is what was done with
    /// the field; with `done` there is nothing to write instead.
    pub fn line(&self, before: &str, done: &str, limit: usize) -> String {
        let Self { code, rule, path, message, .. } = self;
        let text = if done.is_empty() { self.message_with_help() } else { message.to_string() };
        let short = short_path(path);
        let lines = [
            format!("{before}{code} {rule}: {path}{done}: {text}"),
            format!("{before}{code} {rule}: {short}{done}: {text}"),
            format!("{before}{code} {rule}: {short}{done}: {message}"),
            format!("{before}{code}: {short}{done}: {message}"),
        ];
        let [.., shortest] = &lines;
        let shortest = shortest.clone();
        lines.into_iter().find(|line| line.chars().count() <= limit).unwrap_or(shortest)
    }

    /// Why, and what to write instead: `Windows has no numeric user ids; write windowsOptions.runAsUserName: ContainerUser`.
    pub fn message_with_help(&self) -> String {
        if self.help.is_empty() { self.message.to_string() } else { format!("{}; {}", self.message, self.help) }
    }
}

/// A field path without the parts that every pod has: `spec.template.spec.containers[0].securityContext.privileged` is
/// `containers[0]…privileged`.
fn short_path(path: &str) -> String {
    const STARTS: [&str; 4] =
        ["spec.jobTemplate.spec.template.spec.", "spec.template.spec.", "template.spec.", "spec."];
    let below = STARTS.into_iter().find_map(|start| path.strip_prefix(start)).unwrap_or(path);
    below.replacen("].securityContext.", "]…", 1)
}

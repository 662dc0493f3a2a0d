//! Subjects of which nobody says an operating system, where that will hurt.

use serde_json::Value;

use crate::engine::constraint::affinity_node_name;
use crate::engine::finding::Finding;
use crate::engine::linux_default::NoDefault;
use crate::engine::rules::{Context, Rule};
use crate::engine::verdict::{Says, Source, Verdict};

/// A toleration of every taint on a pod that any node may get: the usual way a Linux agent comes to a Windows node.
pub(super) fn tolerates_everything(cx: &Context<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Context { pod, decision, .. } = cx;
    let meant = |says| matches!(says, Says::Any | Says::Multi);
    let open = decision.verdict == Verdict::Undecided && !decision.evidence.iter().any(|seen| meant(seen.says));
    let bound = || pod.text("/spec/nodeName").is_some() || affinity_node_name(pod).is_some();
    if !open || !cx.world.mixed() || bound() {
        return;
    }
    let everything = |toleration: &Value| {
        let text = |name| toleration.get(name).and_then(Value::as_str).unwrap_or_default();
        text("key").is_empty() && text("operator") == "Exists" && matches!(text("effect"), "" | "NoSchedule")
    };
    if let Some(at) = pod.items("/spec/tolerations").iter().position(everything) {
        out.push(cx.finding(rule, pod.at(&format!("/spec/tolerations/{at}")), rule.why));
    }
}

/// The Linux default was not given, for a reason its author can do something about.
pub(super) fn no_default(cx: &Context<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Some(reason) = cx.no_default.filter(|reason| reason.deserves_a_word()) else { return };
    let looks = cx.decision.evidence.iter().find_map(|seen| match &seen.source {
        Source::Field(pointer) if seen.says == Says::LooksWindows && reason == NoDefault::LooksWindows => Some(pointer),
        _ => None,
    });
    let (pointer, message) = if let Some(pointer) = looks {
        (pointer.clone(), "this looks like Windows".to_owned())
    } else {
        let why = reason.clause();
        (cx.pod.at("/spec"), format!("no operating system is asked for, and Linux is not assumed: {why}"))
    };
    out.push(cx.finding(rule, pointer, message));
}

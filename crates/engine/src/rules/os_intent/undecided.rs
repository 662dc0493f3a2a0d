//! Rules about workloads whose operating system is undecided although it matters.

use serde_json::Value;

use crate::detect::NoDefault;
use crate::model::names::OS_LABEL;
use crate::model::scheduling::affinity_node_name;
use crate::model::{DetectedOs, EvidenceOs, EvidenceSource, Os};
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::rule::Rule;

/// A toleration of every taint on a pod that may run on any node: the usual way in which a Linux agent gets onto a
/// Windows node.
pub(crate) fn tolerates_everything(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let (pod, decision) = (&cx.input.pod, cx.decision);
    let any_os = |os| matches!(os, EvidenceOs::Any | EvidenceOs::Multi);
    let open = decision.os == DetectedOs::Undecided && !decision.evidence.iter().any(|seen| any_os(seen.os));
    let bound = || pod.text("/spec/nodeName").is_some() || affinity_node_name(pod).is_some();
    if !open || !cx.input.snapshot.mixed() || bound() {
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

/// The Linux default was not applied, for a reason that the author can change.
pub(crate) fn no_default(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Some(reason) = cx.no_default.filter(|reason| reason.is_reported()) else { return };
    let looks = cx.decision.evidence.iter().find_map(|seen| match &seen.source {
        EvidenceSource::Field(pointer) if seen.os == EvidenceOs::LooksWindows && reason == NoDefault::LooksWindows => {
            Some(pointer)
        }
        _ => None,
    });
    let Some(pointer) = looks else {
        let why = reason.clause();
        let message = format!("no operating system is set, and Linux is not assumed: {why}");
        out.push(cx.finding(rule, cx.input.pod.at("/spec"), message));
        return;
    };
    let mut found = cx.finding(rule, pointer.clone(), "looks like Windows");
    found.help = format!("add nodeSelector {OS_LABEL}: {}", Os::Windows.name()).into();
    out.push(found);
}

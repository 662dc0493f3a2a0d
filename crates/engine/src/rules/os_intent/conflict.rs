//! Conflicting placements, and options of one operating system on a workload that is placed on the other.

use crate::model::json_pointer::{escape, field_path};
use crate::model::names::{OS_ANNOTATION, OS_LABEL};
use crate::model::settings::Action;
use crate::model::{Basis, DetectedOs, Evidence, EvidenceOs, EvidenceSource, OsDecision};
use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::os_intent::undone::{REMEDY, selector_became};
use crate::rules::rule::{OTHERS, Rule};

pub(crate) fn placements(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let (pod, decision) = (&cx.input.pod, cx.decision);
    if decision.os != DetectedOs::Conflict {
        return;
    }
    let mut placements: Vec<String> = Vec::new();
    for evidence in &decision.evidence {
        let EvidenceOs::Os(os) = evidence.os else { continue };
        match &evidence.source {
            EvidenceSource::Field(pointer) => placements.push(format!("{} selects {}", field_path(pointer), os.name())),
            EvidenceSource::Node(name) => placements.push(format!("node {name} has {}", os.name())),
            EvidenceSource::Namespace(_) | EvidenceSource::Policy(_) | EvidenceSource::Image { .. } => {}
        }
    }
    let pointer = decision.evidence.iter().find_map(|evidence| match &evidence.source {
        EvidenceSource::Field(pointer) => Some(pointer.clone()),
        _ => None,
    });
    let pointer = pointer.unwrap_or_else(|| pod.at("/spec"));
    let message = if placements.len() > 1 {
        format!("{}: {}", placements.join(", "), rule.why)
    } else {
        format!("its node constraints require Linux and Windows: {}", rule.why)
    };
    let mut found = cx.finding(rule, pointer, message);
    if let Some((annotation, became)) = cx.annotation.and_then(|it| Some((it, selector_became(cx, it)?))) {
        found.help =
            format!("Mullion set {OS_LABEL}: {}, and {OTHERS} {became} it later: {REMEDY}", annotation.os).into();
    }
    if rejected_where_it_is_bound(decision) {
        found.rejected_by = RejectedBy::Kubelet;
    }
    out.push(found);
}

/// A pod without a node stays Pending. If it is bound by name to a node that a field contradicts, the kubelet rejects
/// it with `PodOSNotSupported` or `NodeAffinity` (pkg/kubelet/lifecycle/predicate.go). The kubelet does not read
/// annotations.
fn rejected_where_it_is_bound(decision: &OsDecision) -> bool {
    let node = decision.evidence.iter().find(|evidence| matches!(evidence.source, EvidenceSource::Node(_)));
    let annotation = escape(OS_ANNOTATION);
    let differs = |evidence: &Evidence, node: &Evidence| match &evidence.source {
        EvidenceSource::Field(pointer) => evidence.os != node.os && !pointer.ends_with(&annotation),
        _ => false,
    };
    node.is_some_and(|node| decision.evidence.iter().any(|evidence| differs(evidence, node)))
}

/// The API server rejects any `windowsOptions` beside `spec.os.name: linux`, even `{}` (`validateLinux`). Without that
/// field they are ignored on Linux, and empty ones have no effect.
pub(crate) fn windows_options_on_linux(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    const OPTIONS: &str = "/securityContext/windowsOptions";
    const OF_POD: &str = "/spec/securityContext/windowsOptions";
    let rejected = cx.input.pod.text("/spec/os/name") == Some("linux");
    if !rejected && cx.decision.os != DetectedOs::Linux {
        return;
    }
    let of_pod = cx.input.pod.get(OF_POD).map(|options| (cx.input.pod.at(OF_POD), options));
    // Most Linux pods have none, so pointers are built only if there are some.
    let of_containers = cx
        .containers()
        .filter_map(|container| container.get(OPTIONS).map(|options| (cx.at(&container, OPTIONS), options)));
    for (pointer, options) in of_pod.into_iter().chain(of_containers) {
        if rejected {
            let mut found = cx.finding(rule, pointer, "the API server rejects them together with spec.os.name: linux");
            found.rejected_by = RejectedBy::ApiServer;
            // This does not depend on the policy's action: a weaker one would leave the denial to the API server and
            // its message.
            found.action = cx.soften(Action::Deny);
            out.push(found);
        } else if options.as_object().is_some_and(|options| !options.is_empty()) {
            let mut found = cx.finding(rule, pointer, rule.why);
            found.action = cx.action(rule, Action::Warn);
            // With them it would have been a Windows pod before the default.
            if cx.annotation.is_some_and(|annotation| annotation.basis == Basis::Default) {
                found.message =
                    format!("{OTHERS} added them after Mullion had placed the pod on Linux by default").into();
                found.help = REMEDY.into();
            }
            out.push(found);
        }
    }
}

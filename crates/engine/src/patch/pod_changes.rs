//! The changes of a pod: its own at CREATE, or those of a template's pods.

use crate::model::cluster::RuntimeClass;
use crate::model::{Basis, Change, DecisionAnnotation, Os};
use crate::patch::annotation::{annotation_of, with_decision};
use crate::patch::repair::{rejected_by_server, repair};
use crate::place::{PlacementChanges, WorkloadContext};
use crate::rules::Finding;

/// The changes; `daemon_set`: whether the pod belongs to a DaemonSet, whose controller has chosen its node already.
pub(crate) fn pod_changes(cx: &WorkloadContext<'_>, findings: &[Finding], daemon_set: bool) -> Vec<Change> {
    let mut placed = PlacementChanges::on(cx.input.object());
    match cx.placed_on() {
        None => {
            repair(rejected_by_server(findings), &mut placed.changes);
            for os in cx.tolerated_systems() {
                cx.add_tolerations(*os, &mut placed);
            }
        }
        // A pod that is bound to a Linux node needs nothing from Mullion.
        Some(Os::Linux) if cx.decision.basis == Basis::Place => {}
        Some(Os::Linux) => {
            cx.add_node_selector(Os::Linux, &mut placed);
            cx.add_tolerations(Os::Linux, &mut placed);
        }
        Some(Os::Windows) => windows_pod(cx, findings, daemon_set, &mut placed),
    }
    annotate(cx, placed)
}

fn windows_pod(cx: &WorkloadContext<'_>, findings: &[Finding], daemon_set: bool, placed: &mut PlacementChanges<'_>) {
    let pod = &cx.input.pod;
    cx.add_node_selector(Os::Windows, placed);
    cx.add_tolerations(Os::Windows, placed);
    if cx.decision.basis == Basis::Place {
        return;
    }
    let bound = pod.text("/spec/nodeName").is_some();
    if cx.input.is_daemon_set() {
        cx.exclude_builds_in_template(placed);
    } else if !daemon_set && !bound && cx.build_matters() {
        let class = cx.assign_runtime_class(placed);
        if !class.is_some_and(RuntimeClass::is_hypervisor) {
            cx.constrain_build(placed);
        }
    }
    if cx.runs_only_on_windows(placed) {
        // This comes before the OS field, which depends only on fields that it forbids: these are removed whether it is
        // set or not.
        repair(findings.iter().filter(|finding| !finding.forbidden_by_os), &mut placed.changes);
        cx.set_os_field(findings, placed);
    }
    if !daemon_set && !cx.input.request.into_templates {
        cx.add_build_label(placed);
    }
}

/// On a pod the annotation is for people, and stays as it was first written unless the operating system changes. It
/// must record what is placed now, because a second call for one request would take a selector that is not recorded for
/// the author's. Inside a template there is no annotation.
fn annotate(cx: &WorkloadContext<'_>, mut placed: PlacementChanges<'_>) -> Vec<Change> {
    let os = cx.decision.decided();
    if placed.changes.is_empty() || cx.input.request.into_templates || os.is_none() {
        return placed.changes;
    }
    let words = placed.words.clone();
    let annotation = match DecisionAnnotation::of(cx.input.object()).filter(|it| Os::from_name(&it.os) == os) {
        Some(it)
            if words.is_empty() || it.basis == cx.decision.basis && words.iter().all(|word| it.has_placed(word)) =>
        {
            None
        }
        Some(it) => Some(with_decision(cx, it).beside(words)),
        None => Some(annotation_of(cx, words)),
    };
    placed.changes.extend(annotation.map(|annotation| annotation.change()));
    placed.changes
}

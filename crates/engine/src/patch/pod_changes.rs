//! The changes of a pod: its own at CREATE, or those of a template's pods.

use crate::model::cluster::RuntimeClass;
use crate::model::{Basis, Change, DecisionAnnotation, Os};
use crate::patch::annotation::{annotation_of, with_decision};
use crate::patch::os_field::set_os_field;
use crate::patch::repair::{rejected_by_server, repair};
use crate::place::{
    PlacementChanges, WorkloadContext, add_build_label, add_node_selector, add_tolerations, assign_runtime_class,
    constrain_build, exclude_builds_in_template, runs_only_on_windows,
};
use crate::rules::Finding;

/// The changes; `daemon_set`: whether the pod belongs to a DaemonSet, whose controller has chosen its node already.
pub(crate) fn pod_changes(cx: &WorkloadContext<'_>, findings: &[Finding], daemon_set: bool) -> Vec<Change> {
    let mut placed = PlacementChanges::on(cx.input.object());
    match cx.placed_on() {
        None => {
            repair(rejected_by_server(findings), &mut placed.changes);
            for os in cx.tolerated_systems() {
                add_tolerations(cx, *os, &mut placed);
            }
        }
        // A pod that is bound to a Linux node needs nothing from Mullion.
        Some(Os::Linux) if cx.decision.basis == Basis::Place => {}
        Some(Os::Linux) => {
            add_node_selector(cx, Os::Linux, &mut placed);
            add_tolerations(cx, Os::Linux, &mut placed);
        }
        Some(Os::Windows) => windows_pod(cx, findings, daemon_set, &mut placed),
    }
    annotate(cx, placed)
}

fn windows_pod(cx: &WorkloadContext<'_>, findings: &[Finding], daemon_set: bool, placed: &mut PlacementChanges<'_>) {
    let pod = &cx.input.pod;
    add_node_selector(cx, Os::Windows, placed);
    add_tolerations(cx, Os::Windows, placed);
    if cx.decision.basis == Basis::Place {
        return;
    }
    let bound = pod.text("/spec/nodeName").is_some();
    if cx.input.is_daemon_set() {
        exclude_builds_in_template(cx, placed);
    } else if !daemon_set && !bound && cx.build_matters() {
        let class = assign_runtime_class(cx, placed);
        if !class.is_some_and(RuntimeClass::is_hypervisor) {
            constrain_build(cx, placed);
        }
    }
    if runs_only_on_windows(cx, placed) {
        // This comes before the OS field, which depends only on fields that it forbids: these are removed whether it is
        // set or not.
        repair(findings.iter().filter(|finding| !finding.forbidden_by_os), &mut placed.changes);
        set_os_field(cx, findings, placed);
    }
    if !daemon_set && !cx.input.request.into_templates {
        add_build_label(cx, placed);
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

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

/// The changes; `daemon_set`: whether the pod belongs to a DaemonSet, whose controller has chosen its node already;
/// `is_settled`: whether nothing is reported about the pod, and no registry could change its review.
pub(crate) fn pod_changes(
    cx: &WorkloadContext<'_>,
    findings: &[Finding],
    daemon_set: bool,
    is_settled: bool,
) -> Vec<Change> {
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
    annotate(cx, placed, is_settled)
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
/// the author's. A brief one, after which the API server does not call `/validate`, stays only while there is nothing to report:
/// the author may have written it, and another webhook may have changed the pod since. Inside a template there is no
/// annotation.
fn annotate(cx: &WorkloadContext<'_>, mut placed: PlacementChanges<'_>, is_settled: bool) -> Vec<Change> {
    if cx.input.request.into_templates {
        return placed.changes;
    }
    let os = cx.decision.decided();
    let present = DecisionAnnotation::of(cx.input.object());
    let is_too_brief = !is_settled && present.as_ref().is_some_and(DecisionAnnotation::is_brief);
    let annotation = if placed.changes.is_empty() || os.is_none() {
        present.filter(|_| is_too_brief).map(DecisionAnnotation::in_full)
    } else {
        let words = placed.words.clone();
        let is_covered = |it: &DecisionAnnotation| {
            words.is_empty() || it.basis == cx.decision.basis && words.iter().all(|word| it.has_placed(word))
        };
        match present.filter(|it| Os::from_name(&it.os) == os) {
            Some(it) if is_covered(&it) => is_too_brief.then(|| it.in_full()),
            Some(it) if is_too_brief => Some(with_decision(cx, it.in_full()).beside(words)),
            Some(it) => Some(with_decision(cx, it).beside(words)),
            None if is_settled => Some(annotation_of(cx, words).in_brief()),
            None => Some(annotation_of(cx, words)),
        }
    };
    placed.changes.extend(annotation.map(|annotation| annotation.change()));
    placed.changes
}

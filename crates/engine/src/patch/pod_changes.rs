//! The changes of a pod: its own at CREATE, or those of a template's pods.

use crate::model::cluster::RuntimeClass;
use crate::model::names::{DECISION_ANNOTATION, OS_LABEL};
use crate::model::{Basis, Change, Os, SELECTOR};
use crate::patch::annotation::annotation_of;
use crate::patch::repair::{rejected_by_server, repair};
use crate::place::{PlacementChanges, WorkloadContext};
use crate::rules::Finding;

/// The changes; `daemon_set`: the pod belongs to a DaemonSet, whose controller has chosen its node already.
pub(crate) fn pod_changes(cx: &WorkloadContext<'_>, findings: &[Finding], daemon_set: bool) -> Vec<Change> {
    let mut placed = PlacementChanges::on(cx.input.object());
    match cx.placed_on() {
        None => repair(rejected_by_server(findings), &mut placed.changes),
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
    if !daemon_set && !bound && cx.build_matters() {
        let class = cx.assign_runtime_class(placed);
        if !class.is_some_and(RuntimeClass::is_hypervisor) {
            cx.constrain_build(placed);
        }
    }
    // Before the OS field, which depends only on fields that it forbids: these are removed whether it is set or not.
    repair(findings.iter().filter(|finding| !finding.forbidden_by_os), &mut placed.changes);
    let given = placed.words.iter().any(|word| word == SELECTOR);
    let stands = given || pod.strings("/spec/nodeSelector").any(|pair| pair == (OS_LABEL, "windows"));
    cx.set_os_field(findings, stands, placed);
    if !daemon_set && !cx.input.request.into_templates {
        cx.add_build_label(placed);
    }
}

/// On a pod the annotation is for people, and stays as it was first written unless the operating system changes; a
/// template gets none inside.
fn annotate(cx: &WorkloadContext<'_>, mut placed: PlacementChanges<'_>) -> Vec<Change> {
    let os = cx.decision.decided();
    let outdated = || cx.annotation.is_some_and(|it| os.is_some() && Os::from_name(&it.os) != os);
    let due = cx.input.pod.annotation(DECISION_ANNOTATION).is_none() || outdated();
    if !placed.changes.is_empty() && due && !cx.input.request.into_templates && os.is_some() {
        placed.changes.push(annotation_of(cx, placed.words.clone()).change());
    }
    placed.changes
}

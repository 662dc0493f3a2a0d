//! The OS field of a pod, `spec.os.name`: set on a Windows pod if no field is left that it forbids.

use serde_json::json;

use crate::model::Edit;
use crate::model::cluster::PodSecurity;
use crate::model::settings::{Action, OsFieldMode};
use crate::patch::repair::repair;
use crate::place::{PlacementChanges, WorkloadContext};
use crate::rules::Finding;

/// Sets the OS field to `windows` and removes every field that it forbids, or does neither. It does neither if Pod
/// Security would reject the pod because of the OS field: with those fields the pod is admitted, and runs.
///
/// Call it only for a pod that [`runs_only_on_windows`](crate::place::runs_only_on_windows).
pub(crate) fn set_os_field(cx: &WorkloadContext<'_>, findings: &[Finding], placed: &mut PlacementChanges<'_>) {
    let clean = !findings.iter().any(|finding| finding.action != Action::Repair && finding.rejected_beside_os);
    let stands = cx.input.pod.has_windows_os_field();
    let wanted = cx.input.settings.spec_os == OsFieldMode::WhenClean
        && clean
        && !PodSecurity::of(cx.input.namespace).rejects_windows_os();
    // The author's value stays, even a name that Mullion does not know, or an empty field.
    let taken = cx.input.pod.get("/spec/os").is_some();
    if !stands && (!wanted || taken) {
        return;
    }
    repair(findings.iter().filter(|finding| finding.forbidden_by_os), &mut placed.changes);
    if !stands {
        let edit = Edit::Set { pointer: cx.input.pod.at("/spec/os"), value: json!({"name": "windows"}) };
        placed.push("no field is left that it forbids", edit, "os");
    }
}

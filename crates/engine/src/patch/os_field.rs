//! The OS field of a pod, `spec.os.name`: set on a Windows pod once no field is left that it forbids.

use serde_json::json;

use crate::model::Edit;
use crate::model::cluster::PodSecurity;
use crate::model::settings::{Action, OsFieldMode};
use crate::patch::repair::repair;
use crate::place::{PlacementChanges, WorkloadContext};
use crate::rules::Finding;

impl WorkloadContext<'_> {
    /// Sets the OS field to `windows` and removes every field it forbids, all or nothing. Not where Pod Security would
    /// reject the pod for it: with the fields the pod passes there, and runs.
    ///
    /// Only for a pod that [`runs_only_on_windows`](Self::runs_only_on_windows).
    pub fn set_os_field(&self, findings: &[Finding], placed: &mut PlacementChanges<'_>) {
        let forbidden = || findings.iter().filter(|finding| finding.forbidden_by_os);
        let stays = |finding: &Finding| finding.action != Action::Repair && finding.rejected_beside_os;
        let clean = !findings.iter().any(stays);
        let stands = self.input.pod.has_windows_os_field();
        let wanted = self.input.settings.spec_os == OsFieldMode::WhenClean
            && clean
            && !PodSecurity::of(self.input.namespace).rejects_windows_os();
        // What the author wrote stays, even a name Mullion does not know, or an empty field.
        let taken = self.input.pod.get("/spec/os").is_some();
        if !stands && (!wanted || taken) {
            return;
        }
        repair(forbidden(), &mut placed.changes);
        if !stands {
            let edit = Edit::Set { pointer: self.input.pod.at("/spec/os"), value: json!({"name": "windows"}) };
            placed.push("no field is left that it forbids", edit, "os");
        }
    }
}

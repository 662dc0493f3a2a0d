//! MUL225: the AppArmor annotation from before `appArmorProfile`.
//!
//! For pods without `spec.os.name: windows` the API server copies it into the field after all mutating webhooks
//! (kubernetes: pkg/registry/core/pod/strategy.go, `applyAppArmorVersionSkew`), and a Windows kubelet rejects the pod
//! for the field (`pkg/security/apparmor/validate_disabled.go`). It is not a row of
//! [`linux_only`](crate::rules::linux_only::check), because it is not a field and its key contains the container's
//! name.

use crate::model::json_pointer::escape;
use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::rule::rules;

rules! {
    /// the AppArmor annotation on a Windows pod
    APP_ARMOR_ANNOTATION {
        code: "MUL225", name: "app-armor-annotation", default: Repair,
        why: "Windows has no AppArmor",
        instead: "leave it out",
        repair: true,
    }
}

/// The annotation's key, up to the container's name.
const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Findings about the annotation on a Windows pod without the author's OS field. Beside that field the annotation has
/// no effect.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    if cx.input.pod.has_windows_os_field() {
        return;
    }
    for (key, profile) in cx.input.pod.strings("/metadata/annotations").filter(|(key, _)| key.starts_with(PREFIX)) {
        let pointer = cx.input.pod.at(&format!("/metadata/annotations/{}", escape(key)));
        let mut found = cx.finding(&APP_ARMOR_ANNOTATION, pointer, APP_ARMOR_ANNOTATION.why);
        found.quiet = matches!(profile, "runtime/default" | "unconfined" | "");
        if profile != "unconfined" {
            found.rejected_by = RejectedBy::Kubelet;
        }
        out.push(found);
    }
}

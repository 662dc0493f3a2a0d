//! Pod Security: what the labels of a namespace reject in Windows pods.

use crate::model::cluster::{PodSecurity, PodSecurityLevel};
use crate::model::names::{POD_SECURITY_ENFORCE_LABEL, POD_SECURITY_ENFORCE_VERSION_LABEL};
use crate::model::settings::OsFieldMode;
use crate::model::{Basis, Os};
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::rule::Rule;

/// The first version whose `restricted` exempts Windows pods.
const FIRST_FOR_WINDOWS: &str = "v1.25";

/// Findings of `pod-security`.
pub(crate) fn check(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let security = PodSecurity::of(cx.input.namespace);
    if security.level == PodSecurityLevel::Privileged || !cx.is_windows() {
        return;
    }
    if let Some(pointer) = cx.input.pod.host_process_field() {
        let level = security.level.name();
        let message = format!("the namespace enforces Pod Security {level}, which rejects it");
        let mut found = cx.finding(rule, cx.input.pod.at(&pointer), message);
        found.help = format!("use a namespace with label {POD_SECURITY_ENFORCE_LABEL}: privileged").into();
        out.push(found);
        return;
    }
    let Some(minor) = security.minor.filter(|_| security.rejects_windows_os()) else { return };
    let (pointer, message) = if cx.input.pod.has_windows_os_field() {
        ("/spec/os/name", format!("Pod Security restricted of v1.{minor} requires fields that windows forbids"))
    } else if would_set_os_field(cx) {
        let message = format!("spec.os is not set: Pod Security restricted of v1.{minor} requires what it forbids");
        ("/spec", message)
    } else {
        return;
    };
    let mut found = cx.finding(rule, cx.input.pod.at(pointer), message);
    found.help = format!(
        "kubectl label namespace {} --overwrite {POD_SECURITY_ENFORCE_VERSION_LABEL}={FIRST_FOR_WINDOWS}",
        cx.input.request.workload.namespace
    )
    .into();
    out.push(found);
}

/// Whether the OS field would be set if Pod Security did not reject it.
fn would_set_os_field(cx: &WorkloadContext<'_>) -> bool {
    cx.placed_on() == Some(Os::Windows)
        && cx.decision.basis != Basis::Place
        && cx.input.settings.spec_os == OsFieldMode::WhenClean
        && cx.input.pod.get("/spec/os").is_none()
}

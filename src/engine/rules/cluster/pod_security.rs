//! Pod Security: what the labels of a namespace refuse of Windows pods.

use crate::engine::finding::Finding;
use crate::engine::limits::{ENFORCE, ENFORCE_VERSION, Level, PodSecurity};
use crate::engine::pod::Pod;
use crate::engine::rules::{Context, Rule};
use crate::engine::verdict::Basis;
use crate::engine::world::Os;
use crate::policy::SpecOsMode;

/// The first version whose `restricted` lets Windows pods off.
const FIRST_FOR_WINDOWS: &str = "v1.25";

/// Findings of `pod-security`.
pub(super) fn check(cx: &Context<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let security = PodSecurity::of(cx.namespace);
    if security.level == Level::Privileged || !cx.is_windows() {
        return;
    }
    if let Some(pointer) = host_process(&cx.pod) {
        let level = security.level.name();
        let message = format!("the namespace enforces Pod Security {level}, which refuses it");
        let mut found = cx.finding(rule, cx.pod.at(&pointer), message);
        found.help = format!("use a namespace with label {ENFORCE}: privileged");
        out.push(found);
        return;
    }
    let Some(minor) = security.minor.filter(|_| security.refuses_windows_os()) else { return };
    let (pointer, message) = if cx.pod.says_windows_os() {
        ("/spec/os/name", format!("Pod Security restricted of v1.{minor} demands fields that windows forbids"))
    } else if seals(cx) {
        let message = format!("spec.os is not set: Pod Security restricted of v1.{minor} demands what it forbids");
        ("/spec", message)
    } else {
        return;
    };
    let mut found = cx.finding(rule, cx.pod.at(pointer), message);
    found.help =
        format!("kubectl label namespace {} --overwrite {ENFORCE_VERSION}={FIRST_FOR_WINDOWS}", cx.namespace_name);
    out.push(found);
}

/// Whether `spec.os` would be set, were it not for Pod Security.
fn seals(cx: &Context<'_>) -> bool {
    cx.placed_on == Some(Os::Windows)
        && cx.decision.basis != Basis::Place
        && cx.site().settings.spec_os == SpecOsMode::WhenClean
        && cx.pod.get("/spec/os").is_none()
}

/// Where the pod says that it is a HostProcess pod, below the pod.
fn host_process(pod: &Pod<'_>) -> Option<String> {
    const OPTION: &str = "/securityContext/windowsOptions/hostProcess";
    let says = |value: Option<&serde_json::Value>| value.and_then(serde_json::Value::as_bool).unwrap_or(false);
    if says(pod.get(&format!("/spec{OPTION}"))) {
        return Some(format!("/spec{OPTION}"));
    }
    let container = pod.containers().find(|container| says(container.get(OPTION)))?;
    Some(container.pointer() + OPTION)
}

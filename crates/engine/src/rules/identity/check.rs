//! 4xx: the user of a container: runAsUserName, gMSA, HostProcess.
//!
//! MUL401 to MUL404 report exactly what the API server itself rejects, at the same field paths, whatever the pod's
//! operating system is (Kubernetes 1.36, pkg/apis/core/validation/validation.go,
//! `validateWindowsSecurityContextOptions` and `validateWindowsHostProcessPod`). `--allow-privileged=false` is a
//! setting of the cluster and not a finding. The other rules report what the API server accepts and a Windows node
//! cannot do.

use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::identity::security_context::{SecurityContext, places};
use crate::rules::identity::{gmsa, host_process, non_root, user_name};

/// Findings about user names, gMSA and HostProcess.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    if cx.is_windows() && cx.is_whole_pod() {
        host_process::annotations(cx, out);
    }
    let pod = SecurityContext::of_pod(&cx.input.pod);
    let mut containers = cx.input.pod.containers().map(SecurityContext::of_container);
    // Every rule is about one of the options, and most pods do not have any.
    if pod.options().is_none() && !containers.any(|container| container.options().is_some()) {
        return;
    }
    let windows = cx.is_windows();
    for place in places(cx) {
        user_name::check(place, cx, out);
        gmsa::check(place, windows, cx, out);
    }
    host_process::check(pod, cx, out);
    if windows {
        host_process::users(pod, cx, out);
        non_root::check(pod, cx, out);
    }
}

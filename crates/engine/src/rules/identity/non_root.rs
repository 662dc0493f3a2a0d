//! `runAsNonRoot` on pods for which Windows cannot enforce it.

use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::identity::rules::{HOST_PROCESS_NON_ROOT, RUN_AS_NON_ROOT};
use crate::rules::identity::security_context::SecurityContext;

/// `windowsRootUserName` of `pkg/kubelet/kuberuntime/security_context_windows.go`. `verifyRunAsNonRoot` compares
/// ignoring case and leaves the container in `CreateContainerConfigError`. The user of an image is not known.
const ROOT: &str = "ContainerAdministrator";

/// Findings for each container to which `runAsNonRoot` applies: its own value takes precedence over its pod's.
pub(crate) fn check(pod: SecurityContext<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let whole = cx.is_whole_pod();
    // Reported once, however many containers inherit it from the pod.
    let (mut host_process, mut root) = (None, None);
    for container in cx.containers().map(SecurityContext::of_container) {
        let own = container.non_root();
        if own.or(pod.non_root()) != Some(true) {
            continue;
        }
        if container.runs_on_host(pod) {
            let found = |pointer| cx.finding(&HOST_PROCESS_NON_ROOT, pointer, HOST_PROCESS_NON_ROOT.why);
            if own.is_some() {
                out.push(found(container.at(cx, "/runAsNonRoot")));
            } else if whole {
                host_process.get_or_insert_with(|| found(pod.at(cx, "/runAsNonRoot")));
            }
        }
        let name = container.text("runAsUserName");
        if !name.or(pod.text("runAsUserName")).is_some_and(|name| name.eq_ignore_ascii_case(ROOT)) {
            continue;
        }
        let found = |pointer| Finding {
            rejected_by: RejectedBy::Kubelet,
            ..cx.finding(&RUN_AS_NON_ROOT, pointer, RUN_AS_NON_ROOT.why)
        };
        if name.is_none() && own.is_some() {
            out.push(found(container.at(cx, "/runAsNonRoot")));
        } else if name.is_some() || !whole {
            out.push(found(container.option_at(cx, "runAsUserName")));
        } else {
            root.get_or_insert_with(|| found(pod.option_at(cx, "runAsUserName")));
        }
    }
    out.extend(host_process);
    out.extend(root);
}

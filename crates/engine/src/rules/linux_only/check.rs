//! The check of fields that work on Linux only: one function for all rows of the table.

use serde_json::Value;

use crate::model::Edit;
use crate::model::pod_view::Container;
use crate::model::settings::Action;
use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::linux_only::table::{FIELDS, HostProcess, LinuxOnlyField, ValueGrade};
use crate::rules::linux_only::{controller_users, openshift};
use crate::rules::rule::{OTHERS, Rule};

/// Findings about Linux-only fields of a Windows pod.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    for field in FIELDS {
        let grade = |value| field.grade(value, cx.host_process);
        if cx.is_whole_pod()
            && let Some(pointer) = field.pod
            && let Some((value, grade)) = cx.input.pod.get(pointer).and_then(|value| Some((value, grade(value)?)))
        {
            out.push(found(field, grade, value, cx.input.pod.at(pointer), None, cx));
        }
        let Some(below) = field.container else { continue };
        for container in cx.containers() {
            if let Some((value, grade)) = container.get(below).and_then(|v| Some((v, grade(v)?))) {
                out.push(found(field, grade, value, cx.at(&container, below), Some(container), cx));
            }
        }
    }
}

fn found(
    field: &'static LinuxOnlyField,
    grade: ValueGrade,
    value: &Value,
    pointer: String,
    container: Option<Container<'_>>,
    cx: &WorkloadContext<'_>,
) -> Finding {
    let pod = &cx.input.pod;
    let rule = &field.rule;
    let stamped = openshift::stamped(rule.name, value, pod, cx.input.namespace)
        || controller_users::is_of_a_controller(rule.name, value, container, pod);
    let grade = if stamped { ValueGrade::Soft } else { grade };
    let by_grade = match grade {
        ValueGrade::Fine | ValueGrade::Harmless | ValueGrade::Soft => Action::Repair,
        ValueGrade::Hard => rule.default,
    };
    let mut finding = cx.finding(rule, pointer, rule.why);
    let by_policy = cx.action(rule, by_grade);
    // A policy's action is for values with an effect. A value that is harmless, or that the cluster or a controller sets
    // on every pod, is repaired unless the policy exempts from the whole rule.
    finding.action = if (grade == ValueGrade::Harmless || stamped) && by_policy != Action::Allow {
        Action::Repair
    } else {
        by_policy
    };
    finding.quiet = grade == ValueGrade::Harmless || stamped;
    if let HostProcess::Soft(anyway) = field.host_process
        && cx.host_process
    {
        finding.message = anyway.into();
        finding.help = "leave it out".into();
    }
    if finding.action == Action::Deny
        && let Some(help) = debugging(rule, cx)
    {
        finding.help = help.into();
    }
    if by_policy != Action::Allow
        && !stamped
        && cx.translates(rule)
        && let Some((pointer, user)) = user_for(value, &finding.pointer, cx)
    {
        finding.action = Action::Repair;
        finding.message = format!("{}; it runs as {user}", rule.why).into();
        finding.help = "".into();
        finding.replacement = Some(Edit::Set { pointer, value: Value::from(user) });
    }
    if field.kubelet_rejects.is_some_and(|values| values.holds(value)) {
        finding.rejected_by = RejectedBy::Kubelet;
    }
    finding.forbidden_by_os = field.forbidden_by_os;
    finding.rejected_beside_os = field.forbidden_by_os || field.server_rejects.is_some();
    let rejected = field.forbidden_by_os || field.server_rejects.is_some_and(|values| values.holds(value));
    if rejected && pod.has_windows_os_field() {
        finding.rejected_by = RejectedBy::ApiServer;
        // The author set the OS field: a finding that would only warn must be repaired, because otherwise the API
        // server rejects the pod.
        if matches!(finding.action, Action::Allow | Action::Warn) {
            finding.action = if rule.repair { Action::Repair } else { cx.soften(Action::Deny) };
        }
        // Mullion never sets the OS field in a template, so an annotation there that contains it was written by someone
        // else.
        let is_pod = pod.pointer.is_empty();
        if field.forbidden_by_os && is_pod && cx.annotation.is_some_and(|annotation| annotation.has_placed("os")) {
            mark_added_after_os_field(&mut finding);
        }
    }
    finding
}

/// The help for a field that `kubectl debug` itself adds (kubectl: pkg/cmd/debug/profiles.go): the user cannot leave it
/// out, but there is a profile without it. A debug session is an ephemeral container, a pod that is bound to a node by
/// its own field, or a copy of the pod, for which every profile with such fields adds `shareProcessNamespace`. On a Windows
/// node, the profile sysadmin makes a HostProcess pod from kubectl 1.38 on.
fn debugging(rule: &Rule, cx: &WorkloadContext<'_>) -> Option<&'static str> {
    let is_pod = cx.input.pod.pointer.is_empty();
    let on_node = is_pod && cx.input.pod.label("app.kubernetes.io/managed-by") == Some("kubectl-debug");
    let copy = || is_pod && cx.input.pod.get("/spec/shareProcessNamespace").and_then(Value::as_bool) == Some(true);
    match rule.name {
        "privileged" | "capabilities" | "host-network" | "host-pid" | "host-ipc" if on_node => Some(
            "leave it out, as kubectl debug --profile=baseline does, or have a HostProcess container by \
             --profile=sysadmin of kubectl 1.38 or newer, and before by --custom with windowsOptions.hostProcess: true and a \
             runAsUserName",
        ),
        "privileged" | "capabilities" if !cx.is_whole_pod() || copy() => {
            Some("leave it out, as kubectl debug --profile=baseline does")
        }
        _ => None,
    }
}

/// Marks a field that was added to a pod after Mullion had set the OS field, so that no author wrote it. It is removed
/// and reported even if it is harmless, because it may be added again, and then the API server rejects the pod.
fn mark_added_after_os_field(finding: &mut Finding) {
    finding.action = Action::Repair;
    finding.quiet = false;
    finding.replacement = None;
    finding.message = format!("{OTHERS} added it after Mullion had set spec.os").into();
    finding.help = "keep that off Windows pods, or set place.specOS to Never".into();
}

/// The Windows user that replaces a numeric one, and the pointer of its name: 0 becomes ContainerAdministrator, and any
/// other user that must not be root becomes ContainerUser. Only the author knows the other users. `None` if a user name
/// is set already, or for HostProcess pods, which run as users of the host.
fn user_for(value: &Value, pointer: &str, cx: &WorkloadContext<'_>) -> Option<(String, &'static str)> {
    const NAME: &str = "/windowsOptions/runAsUserName";
    let below = pointer.strip_prefix(cx.input.pod.pointer)?;
    let (level, _) = below.rsplit_once('/')?;
    let own = |field: &str| cx.input.pod.get(&format!("{level}{field}"));
    let inherited = |field: &str| own(field).or_else(|| cx.input.pod.get(&format!("/spec/securityContext{field}")));
    let not_root = inherited("/runAsNonRoot").and_then(Value::as_bool).unwrap_or(false);
    let user = match value.as_u64()? {
        0 if !not_root && (level != "/spec/securityContext" || !any_container_must_not_be_root(cx)) => {
            "ContainerAdministrator"
        }
        1.. if not_root => "ContainerUser",
        _ => return None,
    };
    (inherited(NAME).is_none() && !cx.host_process).then(|| (cx.input.pod.at(&format!("{level}{NAME}")), user))
}

/// Whether a container must not be root and would inherit the pod's user. As ContainerAdministrator, the kubelet
/// rejects it, as it rejects user 0 on Linux.
fn any_container_must_not_be_root(cx: &WorkloadContext<'_>) -> bool {
    cx.input.pod.containers().any(|container| {
        let own = |field: &str| container.get(&format!("/securityContext{field}"));
        own("/runAsNonRoot").and_then(Value::as_bool) == Some(true)
            && own("/windowsOptions/runAsUserName").is_none()
            && own("/runAsUser").and_then(Value::as_u64).is_none_or(|user| user == 0)
    })
}

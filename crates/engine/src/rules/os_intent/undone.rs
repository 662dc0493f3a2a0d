//! Findings about what Mullion added to a pod or a DaemonSet's template, and others removed in the same request.

use crate::model::json_pointer::escape;
use crate::model::names::{OS_LABEL, WINDOWS_BUILD_LABEL};
use crate::model::scheduling::node_constraints;
use crate::model::settings::{Action, Mode, OsFieldMode};
use crate::model::{BUILD, DecisionAnnotation, Os};
use crate::place::{MissingToleration, WorkloadContext, missing_tolerations, tolerations_whitelist, wants_build};
use crate::rules::finding::Finding;
use crate::rules::rule::{OTHERS, Rule};

/// The remedy: webhook configurations are called in the order of their names, and Mullion's name is `mullion`.
pub(crate) const REMEDY: &str = "have its configuration sort before mullion, or leave Windows pods alone";

const CHANGED: &str = "changed";
const REMOVED: &str = "removed";

/// Findings of `undone`: only about what Mullion would add again.
pub(crate) fn check(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Some((own, os)) = cx.annotation.and_then(|own| Some((own, Os::from_name(&own.os)?))) else { return };
    // In other modes Mullion changes nothing that others could undo.
    if cx.input.settings.mode != Mode::Enforce {
        return;
    }
    // The annotation of a DaemonSet is older than the request: its author may have changed the intent since.
    if !cx.input.pod.pointer.is_empty() && cx.placed_on() != Some(os) {
        return;
    }
    let mut add = |pointer: &str, what: &str, became: &str| {
        let message = format!("Mullion {what}, and {OTHERS} {became} it later");
        out.push(cx.finding(rule, cx.input.pod.at(pointer), message));
    };
    if let Some(became) = selector_became(cx, own) {
        let key = if became == CHANGED { format!("/{}", escape(OS_LABEL)) } else { String::new() };
        add(&format!("/spec/nodeSelector{key}"), &format!("set {OS_LABEL}: {}", os.name()), became);
    }
    let whitelist = tolerations_whitelist(cx);
    for MissingToleration { value, word, .. } in missing_tolerations(cx, os) {
        if own.has_placed(&word) && !whitelist.rejects(&value) {
            add("/spec/tolerations", &format!("added {word}"), REMOVED);
        }
    }
    if own.has_placed(BUILD) && wants_build(cx) && !node_constraints::constrains(&cx.input.pod, WINDOWS_BUILD_LABEL) {
        add("/spec/affinity", "kept it off nodes that cannot run its images", REMOVED);
    }
    if own.has_placed("runtimeClassName") && cx.input.pod.text("/spec/runtimeClassName").is_none() {
        add("/spec/runtimeClassName", "set it", REMOVED);
    }
    if own.has_placed("os")
        && !cx.input.pod.has_windows_os_field()
        && cx.input.settings.spec_os == OsFieldMode::WhenClean
    {
        add("/spec/os", "set it", REMOVED);
        // The fields that it forbids were removed with it. If nothing keeps the pod on Windows nodes, it could run on
        // Linux without what its author requires there.
        let guarded = cx.input.pod.strings("/spec/nodeSelector").any(|pair| pair == (OS_LABEL, Os::Windows.name()));
        if let Some(last) = out.last_mut().filter(|_| !guarded) {
            last.action = cx.action(rule, Action::Deny);
        }
    }
}

/// What happened to the nodeSelector that Mullion set; `None` if it is still there.
pub(crate) fn selector_became(cx: &WorkloadContext<'_>, own: &DecisionAnnotation) -> Option<&'static str> {
    let now = cx.input.pod.strings("/spec/nodeSelector").find(|(key, _)| *key == OS_LABEL).map(|(_, value)| value);
    let became = if now.is_some() { CHANGED } else { REMOVED };
    (own.placed_selector() && now != Some(own.os.as_str())).then_some(became)
}

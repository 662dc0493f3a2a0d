//! Operating system names and labels that are misspelled, outdated, or harmful where they are.

use serde_json::Value;

use crate::model::json_pointer::{escape, member};
use crate::model::names::{OLD_OS_LABEL, OS_ANNOTATION, OS_LABEL, OS_LABELS};
use crate::model::scheduling::{OsWanted, node_constraints};
use crate::model::settings::Action;
use crate::model::{Os, ScopeOs};
use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::rule::Rule;

/// Node labels under `beta.kubernetes.io` and what replaced them (kubernetes: pkg/api/node/util.go,
/// `deprecatedNodeLabels`).
const DEPRECATED: [(&str, &str); 3] = [
    (OLD_OS_LABEL, OS_LABEL),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Required and preferred node affinity: lists of terms, and where the requirements are in each.
const TERM_LISTS: [(&str, &str); 2] = [
    (node_constraints::REQUIRED_TERMS, "/matchExpressions"),
    ("/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution", "/preference/matchExpressions"),
];

/// A pod label `kubernetes.io/os` that differs from its node's: the kubelet compares the two (kubernetes:
/// pkg/kubelet/lifecycle/predicate.go, `rejectPodAdmissionBasedOnOSSelector`).
pub(crate) fn label(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let (Some(os), Some(written)) = (cx.decision.decided(), cx.input.pod.label(OS_LABEL)) else { return };
    if written == os.name() {
        return;
    }
    let pointer = cx.input.pod.at(&format!("/metadata/labels/{}", escape(OS_LABEL)));
    let message = format!("the kubelet of a {} node rejects a pod with this label", os.title());
    let mut found = cx.finding(rule, pointer, message);
    found.rejected_by = RejectedBy::Kubelet;
    // A Linux pod is never denied for a label that may have no purpose.
    if os == Os::Linux {
        found.action = found.action.min(Action::Warn);
    }
    out.push(found);
}

/// Keys under `beta.kubernetes.io` in selectors and affinity, one finding for each place.
pub(crate) fn deprecated(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let mut add = |pointer: String, key: &str| {
        if let Some((old, new)) = DEPRECATED.iter().find(|(old, _)| *old == key) {
            let mut found = cx.finding(rule, pointer, format!("{old} is deprecated since Kubernetes 1.14"));
            found.help = format!("use {new}").into();
            out.push(found);
        }
    };
    for (key, _) in cx.input.pod.strings("/spec/nodeSelector") {
        if key.starts_with("beta.") {
            add(cx.input.pod.at(&format!("/spec/nodeSelector/{}", escape(key))), key);
        }
    }
    for_each_expression(cx, |pointer, expression| {
        let key = expression.get("key").and_then(Value::as_str).unwrap_or_default();
        if key.starts_with("beta.") {
            add(pointer() + "/key", key);
        }
    });
}

/// Names that are neither `linux` nor `windows`: no node matches them, and in an annotation they have no effect.
pub(crate) fn unknown(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    out.extend(spec_os(cx, rule));
    let mut add = |pointer: String, written: &str, message: String| {
        out.push(named(cx.finding(rule, pointer, message), written));
    };
    if node_constraints::selector_os(&cx.input.pod).0 == OsWanted::Unknown {
        for label in OS_LABELS {
            let selector = cx.input.pod.strings("/spec/nodeSelector").find(|(key, _)| *key == label);
            if let Some((_, written)) = selector.filter(|(_, written)| Os::from_name(written).is_none()) {
                let pointer = cx.input.pod.at(&format!("/spec/nodeSelector/{}", escape(label)));
                add(pointer, written, format!("there is no operating system {written}: {}", rule.why));
            }
        }
    }
    for_each_expression(cx, |pointer, expression| {
        let text = |name| expression.get(name).and_then(Value::as_str).unwrap_or_default();
        if !OS_LABELS.contains(&text("key")) || text("operator") != "In" {
            return;
        }
        let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
        let strange = values.enumerate().filter_map(|(at, value)| Some((at, value.as_str()?)));
        for (at, written) in strange.filter(|(_, written)| Os::from_name(written).is_none()) {
            let message = format!("there is no operating system {written}: {}", rule.why);
            add(format!("{}/values/{at}", pointer()), written, message);
        }
    });
    if let Some(written) =
        cx.input.pod.annotation(OS_ANNOTATION).filter(|written| ScopeOs::from_name(written).is_none())
    {
        let pointer = cx.input.pod.at(&format!("/metadata/annotations/{}", escape(OS_ANNOTATION)));
        let message = format!("{written} is not a value of {OS_ANNOTATION}, which takes windows, linux or any");
        add(pointer, written, message);
    }
}

fn spec_os(cx: &WorkloadContext<'_>, rule: &'static Rule) -> Option<Finding> {
    let os = cx.input.pod.get("/spec/os").filter(|os| os.is_object())?;
    let written = os.get("name").and_then(Value::as_str).unwrap_or_default();
    if Os::from_name(written).is_some() {
        return None;
    }
    // The field path that the API server uses (kubernetes: pkg/apis/core/validation/validation.go, `validateOS`).
    let (pointer, message) = match written {
        "" => ("/spec/os/name", format!("a name is required: {}", rule.why)),
        _ => ("/spec/os", format!("there is no operating system {written}: {}", rule.why)),
    };
    let mut found = named(cx.finding(rule, cx.input.pod.at(pointer), message), written);
    found.rejected_by = RejectedBy::ApiServer;
    Some(found)
}

/// Adds the intended name if only the letter case is wrong.
fn named(mut found: Finding, written: &str) -> Finding {
    if let Some(os) = Os::from_name(&written.to_ascii_lowercase()) {
        found.help = format!("write {}", os.name()).into();
    }
    found
}

/// Every requirement of the required and preferred node affinity, with its pointer.
fn for_each_expression(cx: &WorkloadContext<'_>, mut visit: impl FnMut(&dyn Fn() -> String, &Value)) {
    for (terms, expressions) in TERM_LISTS {
        for (term_at, term) in cx.input.pod.items(terms).iter().enumerate() {
            let list = member(term, expressions).and_then(Value::as_array).into_iter().flatten();
            for (at, expression) in list.enumerate() {
                visit(&|| cx.input.pod.at(&format!("{terms}/{term_at}{expressions}/{at}")), expression);
            }
        }
    }
}

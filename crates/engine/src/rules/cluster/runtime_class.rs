//! The RuntimeClass of a pod: whether it exists, and whether it agrees with the pod.
//!
//! The API server rejects a disagreement before it calls any webhook (plugin/pkg/admission/runtimeclass/admission.go),
//! so these findings are for templates and files. Different operating systems are `conflicting-os`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::cluster::RuntimeClass;
use crate::model::json_pointer::escape;
use crate::model::names::OS_LABELS;
use crate::model::quantity::Quantity;
use crate::model::scheduling::node_constraints;
use crate::model::{DetectedOs, Os};
use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::rule::Rule;

/// How many names of RuntimeClasses a finding lists.
const LISTED: usize = 5;

const NAME: &str = "/spec/runtimeClassName";

/// Findings of `runtime-class-missing` and `runtime-class-conflict`.
pub(crate) fn check(cx: &WorkloadContext<'_>, missing: &'static Rule, conflict: &'static Rule, out: &mut Vec<Finding>) {
    let Some(name) = cx.input.pod.text(NAME) else {
        if cx.is_windows() && has_overhead(cx) {
            let message = "no RuntimeClass defines it, and the API server rejects overhead of the pod's own";
            out.push(overhead_finding(cx, conflict, message.to_owned()));
        }
        return;
    };
    let class = cx.input.snapshot.runtime_class(name);
    if !cx.is_windows() {
        if let Some(class) = class.filter(|class| cx.decision.os == DetectedOs::Linux && is_for(class, Os::Windows)) {
            out.push(handler_finding(cx, conflict, class, Os::Linux));
        }
        return;
    }
    let Some(class) = class else {
        let Some(classes) = &cx.input.snapshot.runtime_classes else { return };
        let message = format!("the cluster has no RuntimeClass {name}, and the API server rejects pods that name it");
        let mut found = cx.finding(missing, cx.input.pod.at(NAME), message);
        let usable = classes.iter().filter(|(_, class)| !is_for(class, Os::Linux));
        let names: Vec<&str> = usable.map(|(name, _)| name.as_str()).take(LISTED).collect();
        if !names.is_empty() {
            found.help = format!("create it, or name one that is there: {}", names.join(", ")).into();
        }
        out.push(found);
        return;
    };
    placement(cx, conflict, name, class, out);
    if class.is_hypervisor() && cx.host_process {
        let message =
            format!("HostProcess containers have no Hyper-V isolation, which handler {} gives", class.handler);
        let mut found = cx.finding(conflict, cx.input.pod.at(NAME), message);
        found.rejected_by = RejectedBy::Kubelet;
        found.help = "remove runtimeClassName, or name a class with process isolation".into();
        out.push(found);
    }
    if is_for(class, Os::Linux) {
        out.push(handler_finding(cx, conflict, class, Os::Windows));
    }
    if has_overhead(cx) && !same_overhead(cx, &class.overhead) {
        let defined: Vec<String> = class.overhead.iter().map(|(name, amount)| format!("{name}: {amount}")).collect();
        let defined = if defined.is_empty() { "none".to_owned() } else { defined.join(", ") };
        let message = format!("RuntimeClass {name} defines {defined}, and the API server rejects any other");
        out.push(overhead_finding(cx, conflict, message));
    }
}

/// Compares the class's selector with the pod's selector and required affinity, except for the operating system.
fn placement(cx: &WorkloadContext<'_>, rule: &'static Rule, name: &str, class: &RuntimeClass, out: &mut Vec<Finding>) {
    let before = out.len();
    let required = || class.node_selector.iter().filter(|(key, _)| !OS_LABELS.contains(&key.as_str()));
    let selector = cx.input.pod.get("/spec/nodeSelector");
    for (key, value) in required() {
        let own = selector.and_then(|selector| selector.get(key)?.as_str());
        let differs = own.is_some_and(|other| other != value);
        if differs {
            let pointer = cx.input.pod.at(&format!("/spec/nodeSelector/{}", escape(key)));
            let message =
                format!("RuntimeClass {name} requires {value}, and the API server rejects a pod that differs");
            let mut found = cx.finding(rule, pointer, message);
            found.help = format!("write {value}, remove it, or name another RuntimeClass").into();
            out.push(found);
        }
    }
    if out.len() > before || cx.input.pod.items(node_constraints::REQUIRED_TERMS).is_empty() {
        return;
    }
    let labels: BTreeMap<String, String> = required().map(|(key, value)| (key.clone(), value.clone())).collect();
    if !node_constraints::admits(&cx.input.pod, &labels) {
        let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let message = format!("no node satisfies this and RuntimeClass {name}, which requires {}", pairs.join(", "));
        out.push(cx.finding(rule, cx.input.pod.at(node_constraints::REQUIRED_TERMS), message));
    }
}

fn is_for(class: &RuntimeClass, os: Os) -> bool {
    class.handler_os() == Some(os)
}

fn handler_finding(cx: &WorkloadContext<'_>, rule: &'static Rule, class: &RuntimeClass, pod: Os) -> Finding {
    let message = format!("{} nodes have no handler {}, so the pod never starts", pod.title(), class.handler);
    let mut found = cx.finding(rule, cx.input.pod.at(NAME), message);
    found.rejected_by = RejectedBy::Kubelet;
    found.help = format!("name a RuntimeClass for {}, or remove runtimeClassName", pod.title()).into();
    found
}

fn has_overhead(cx: &WorkloadContext<'_>) -> bool {
    cx.input.pod.get("/spec/overhead").and_then(Value::as_object).is_some_and(|overhead| !overhead.is_empty())
}

fn same_overhead(cx: &WorkloadContext<'_>, defined: &BTreeMap<String, String>) -> bool {
    let own = cx.input.pod.get("/spec/overhead").and_then(Value::as_object);
    own.is_none_or(|own| {
        own.len() == defined.len()
            && own.iter().all(|(name, amount)| defined.get(name).is_some_and(|other| same_amount(amount, other)))
    })
}

fn overhead_finding(cx: &WorkloadContext<'_>, rule: &'static Rule, message: String) -> Finding {
    let mut found = cx.finding(rule, cx.input.pod.at("/spec/overhead"), message);
    found.help = "remove overhead: the API server adds what the RuntimeClass defines".into();
    found
}

/// Whether two quantities are equal, such as `1` and `1000m`. Text that is not a quantity equals only itself.
fn same_amount(a: &Value, b: &str) -> bool {
    a.as_str() == Some(b) || Quantity::of(a).is_some_and(|a| Quantity::parse(b) == Some(a))
}

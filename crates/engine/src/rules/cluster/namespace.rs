//! A namespace's annotations, compared with the pod and with what Mullion would add.
//!
//! Mullion does not add what they reject: see [`place`](crate::place). The message reports it, with the annotation that
//! would admit it.

use serde_json::Value;

use crate::model::cluster::{TolerationsWhitelist, namespace_restrictions};
use crate::model::json_pointer::escape;
use crate::model::names::{OS_LABEL, OS_LABELS, WINDOWS_BUILD_LABEL};
use crate::model::settings::BuildMode;
use crate::model::text::list;
use crate::model::{Basis, DetectedOs, Os, names};
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::rule::Rule;

/// Findings of `namespace-node-selector`.
pub(crate) fn node_selector(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    if namespace_restrictions::node_selector(cx.input.namespace).next().is_none()
        || cx.decision.os == DetectedOs::Conflict
    {
        return;
    }
    // `what` returns a message with the value that the namespace requires. The messages are short, because a warning
    // has 120 characters.
    let mut add = |pointer: &str, key: &str, value: &str, what: &dyn Fn(&str) -> String| {
        let Some((annotation, required)) = cx.contradiction(key, value) else { return };
        let mut found = cx.finding(rule, cx.input.pod.at(pointer), what(required));
        found.help = annotate(cx, annotation, &without(cx, annotation, key)).into();
        out.push(found);
    };
    for (key, value) in cx.input.pod.strings("/spec/nodeSelector") {
        if cx.is_windows() || OS_LABELS.contains(&key) {
            let pointer = format!("/spec/nodeSelector/{}", escape(key));
            add(&pointer, key, value, &|required| {
                format!("the namespace requires {required}, and admission rejects all else")
            });
        }
    }
    if let Some(os) = given(cx).filter(|os| cx.lacks_node_selector(*os)) {
        let added = |required: &str| {
            format!("the namespace requires {OS_LABEL}={required}, so {OS_LABEL}={} is not added", os.name())
        };
        add("/spec/nodeSelector", OS_LABEL, os.name(), &added);
    }
    if let Some(build) = exact_build(cx) {
        let added = |other: &str| format!("the namespace requires build {other}, so the image's {build} is not added");
        add("/spec/nodeSelector", WINDOWS_BUILD_LABEL, &build, &added);
    }
    if let Some(class) = cx.own_runtime_class().filter(|_| cx.is_windows()) {
        for (key, value) in &class.node_selector {
            let brought = |other: &str| format!("this RuntimeClass requires {value}, the namespace {key}={other}");
            add("/spec/runtimeClassName", key, value, &brought);
        }
    }
}

/// Findings of `namespace-tolerations`.
pub(crate) fn tolerations(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Some(text) =
        cx.input.namespace.and_then(|namespace| namespace.annotations.get(names::TOLERATIONS_WHITELIST_ANNOTATION))
    else {
        return;
    };
    let whitelist = cx.whitelist();
    if whitelist == TolerationsWhitelist::Anything {
        return;
    }
    let rejected = |all: Vec<Value>| -> Vec<Value> { all.into_iter().filter(|one| whitelist.rejects(one)).collect() };
    let missing = given(cx).map(|os| cx.missing_tolerations(os)).unwrap_or_default();
    let missing = rejected(missing.into_iter().map(|missing| missing.value).collect());
    if !missing.is_empty() {
        let message = match &whitelist {
            TolerationsWhitelist::Unreadable(_) => {
                "the namespace's tolerationsWhitelist cannot be read, so none is added".to_owned()
            }
            _ => format!("the namespace's tolerationsWhitelist rejects {}, so the pod may wait", shown(&missing)),
        };
        out.push(with_help(
            cx,
            cx.finding(rule, cx.input.pod.at("/spec/tolerations"), message),
            &whitelist,
            text,
            missing,
        ));
    }
    let class = cx.own_runtime_class().filter(|_| cx.is_windows());
    let brought = class.map(|class| rejected(class.tolerations.clone())).unwrap_or_default();
    if !brought.is_empty() {
        let message = format!("the namespace's tolerationsWhitelist rejects {}, which this adds", shown(&brought));
        let found = cx.finding(rule, cx.input.pod.at("/spec/runtimeClassName"), message);
        out.push(with_help(cx, found, &whitelist, text, brought));
    }
}

/// The operating system whose selector and tolerations the pod gets.
fn given(cx: &WorkloadContext<'_>) -> Option<Os> {
    cx.placed_on().filter(|os| *os == Os::Windows || cx.decision.basis != Basis::Place)
}

/// The build that the pod gets as nodeSelector by policy.
fn exact_build(cx: &WorkloadContext<'_>) -> Option<String> {
    let required = cx.placed_on() == Some(Os::Windows)
        && cx.decision.basis != Basis::Place
        && cx.input.settings.build == BuildMode::Exact
        && cx.input.pod.text("/spec/nodeName").is_none()
        && cx.build_matters()
        && cx.wants_build();
    cx.builds.single().filter(|_| required).map(|build| build.to_string())
}

fn with_help(
    cx: &WorkloadContext<'_>,
    mut found: Finding,
    whitelist: &TolerationsWhitelist,
    text: &str,
    rejected: Vec<Value>,
) -> Finding {
    found.help = if let TolerationsWhitelist::Unreadable(error) = whitelist {
        format!("write a JSON list that holds {}: {error}", Value::from(rejected)).into()
    } else {
        let mut list: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
        list.extend(rejected);
        // A quote in JSON text can be escaped like this, and the shell does not interpret it.
        let list = Value::from(list).to_string().replace('\'', "\\u0027");
        annotate(cx, names::TOLERATIONS_WHITELIST_ANNOTATION, &list).into()
    };
    found
}

/// Tolerations as `key=value:Effect`.
fn shown(tolerations: &[Value]) -> String {
    let one = |toleration: &Value| {
        let text = |name| toleration.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let value = text("value").map(|value| format!("={value}")).unwrap_or_default();
        let effect = text("effect").map(|effect| format!(":{effect}")).unwrap_or_default();
        format!("{}{value}{effect}", text("key").unwrap_or("*"))
    };
    list(tolerations.iter().map(one))
}

/// The namespace's node selector without that key. The annotation is never removed, because then the plugin's default
/// for the whole cluster would apply.
fn without(cx: &WorkloadContext<'_>, annotation: &str, key: &str) -> String {
    let kept = namespace_restrictions::node_selector(cx.input.namespace)
        .filter(|(of, other, _)| *of == annotation && *other != key);
    kept.map(|(_, key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn annotate(cx: &WorkloadContext<'_>, annotation: &str, value: &str) -> String {
    format!("kubectl annotate namespace {} --overwrite '{annotation}={value}'", cx.input.request.workload.namespace)
}

//! A namespace's annotations, compared with the pod and with what Mullion would add.
//!
//! Mullion does not add what they reject: see [`place`](crate::place). The message reports it, with the annotation that
//! would admit it.

use std::sync::Arc;

use serde_json::Value;

use crate::model::cluster::{Contradiction, Fact, TolerationsWhitelist, Unusable, namespace_restrictions};
use crate::model::json_pointer::escape;
use crate::model::names::{OS_LABEL, OS_LABELS, TOLERATIONS_WHITELIST_ANNOTATION, WINDOWS_BUILD_LABEL};
use crate::model::settings::BuildMode;
use crate::model::text::{list, shown};
use crate::model::{Basis, DetectedOs, Os};
use crate::place::{WorkloadContext, lacks_node_selector, missing_tolerations, tolerations_whitelist, wants_build};
use crate::rules::finding::Finding;
use crate::rules::help::Help;
use crate::rules::rule::Rule;

/// How many tolerations a finding lists.
const LISTED: usize = 5;

/// Findings of `namespace-node-selector`.
pub(crate) fn node_selector(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Some(namespace) = cx.input.namespace.filter(|_| cx.decision.os != DetectedOs::Conflict) else { return };
    let unusable = namespace_restrictions::unusable_selector(Some(namespace));
    if let Some((annotation, why)) = unusable
        && (cx.is_windows() || given(cx).is_some_and(|os| lacks_node_selector(cx, os)))
    {
        let message = format!("the namespace's node selector {why}, so none is added");
        let mut found = cx.finding(rule, cx.input.pod.at("/spec/nodeSelector"), message);
        found.help = shorten_annotation(cx, annotation);
        out.push(found);
    }
    if namespace_restrictions::node_selector(Some(namespace)).next().is_none() {
        return;
    }
    let name: Arc<str> = cx.input.request.workload.namespace.into();
    // `what` returns a message with the value that the namespace requires. The messages are short, because a warning
    // has 120 characters.
    let mut add = |pointer: &str, key: &str, value: &str, what: &dyn Fn(&str) -> String| {
        let Some(Contradiction::Requires(annotation, selector, required)) =
            namespace_restrictions::contradiction(cx.input.namespace, key, value)
        else {
            return;
        };
        let mut found = cx.finding(rule, cx.input.pod.at(pointer), what(&shown(required)));
        found.help = Help::RemoveKey {
            namespace: Arc::clone(&name),
            annotation,
            selector: Arc::clone(selector),
            key: key.into(),
        };
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
    if let Some(os) = given(cx).filter(|os| lacks_node_selector(cx, *os)) {
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
            let value_shown = shown(value);
            let brought =
                |other: &str| format!("this RuntimeClass requires {value_shown}, the namespace {}={other}", shown(key));
            add("/spec/runtimeClassName", key, value, &brought);
        }
    }
}

/// Findings of `namespace-tolerations`.
pub(crate) fn tolerations(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let whitelist = tolerations_whitelist(cx);
    if whitelist == TolerationsWhitelist::Anything {
        return;
    }
    let missing: Vec<Value> = given(cx)
        .map(|os| missing_tolerations(cx, os))
        .unwrap_or_default()
        .into_iter()
        .map(|missing| missing.value)
        .filter(|one| whitelist.rejects(one))
        .collect();
    if !missing.is_empty() {
        let message = match &whitelist {
            TolerationsWhitelist::Unusable(Unusable::Unreadable(_)) => {
                "the namespace's tolerationsWhitelist cannot be read, so none is added".to_owned()
            }
            TolerationsWhitelist::Unusable(why) => {
                format!("the namespace's tolerationsWhitelist {why}, so none is added")
            }
            _ => format!("the namespace's tolerationsWhitelist rejects {}, so the pod may wait", listed(&missing)),
        };
        let found = cx.finding(rule, cx.input.pod.at("/spec/tolerations"), message);
        out.push(with_help(cx, found, &whitelist, missing));
    }
    let Some(class) = cx.own_runtime_class().filter(|_| cx.is_windows()) else { return };
    let at = cx.input.pod.at("/spec/runtimeClassName");
    match &class.tolerations {
        Fact::Parsed(all) => {
            let brought: Vec<Value> = all.iter().filter(|one| whitelist.rejects(one)).cloned().collect();
            if !brought.is_empty() {
                let message =
                    format!("the namespace's tolerationsWhitelist rejects {}, which this adds", listed(&brought));
                out.push(with_help(cx, cx.finding(rule, at, message), &whitelist, brought));
            }
        }
        Fact::Unusable(why) => {
            let message = format!("the list of tolerations that this adds {why}; the namespace may reject them");
            let mut found = cx.finding(rule, at, message);
            found.help = "shorten the tolerations of the RuntimeClass".into();
            out.push(found);
        }
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
        && wants_build(cx);
    cx.builds.single().filter(|_| required).map(|build| build.to_string())
}

fn with_help(
    cx: &WorkloadContext<'_>,
    mut found: Finding,
    whitelist: &TolerationsWhitelist<'_>,
    rejected: Vec<Value>,
) -> Finding {
    match whitelist {
        TolerationsWhitelist::Anything => {}
        TolerationsWhitelist::Only(admitted) => {
            let namespace = cx.input.request.workload.namespace.into();
            found.help = Help::Admit { namespace, admitted: Arc::clone(admitted), more: rejected };
        }
        TolerationsWhitelist::Unusable(Unusable::Unreadable(error)) => {
            found.help = format!("write a JSON list that holds {}: {error}", Value::from(rejected)).into();
        }
        TolerationsWhitelist::Unusable(Unusable::TooLarge(_)) => {
            found.help = shorten_annotation(cx, TOLERATIONS_WHITELIST_ANNOTATION);
        }
    }
    found
}

fn shorten_annotation(cx: &WorkloadContext<'_>, annotation: &str) -> Help {
    format!("shorten annotation {annotation} of namespace {}", cx.input.request.workload.namespace).into()
}

/// The first tolerations as `key=value:Effect`, and how many more there are.
fn listed(tolerations: &[Value]) -> String {
    let one = |toleration: &Value| {
        let text = |name| toleration.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let value = text("value").map(|value| format!("={}", shown(value))).unwrap_or_default();
        let effect = text("effect").map(|effect| format!(":{}", shown(effect))).unwrap_or_default();
        format!("{}{value}{effect}", text("key").map_or_else(|| "*".to_owned(), shown))
    };
    let first: Vec<String> = tolerations.iter().take(LISTED).map(one).collect();
    match tolerations.len().saturating_sub(LISTED) {
        0 => list(first),
        more => format!("{} and {more} more", list(first)),
    }
}

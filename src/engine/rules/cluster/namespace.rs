//! A namespace's annotations against what the pod says, and against what Mullion would add.
//!
//! What they refuse is not added: see `engine/placement.rs`. The sentence says so, and how the annotation must read.

use serde_json::Value;

use crate::engine::build::build_matters;
use crate::engine::constraint::{OS_LABELS, WINDOWS_BUILD_LABEL, escape};
use crate::engine::finding::Finding;
use crate::engine::limits::{self, Whitelist};
use crate::engine::rules::{Context, Rule};
use crate::engine::verdict::{Basis, Verdict};
use crate::engine::world::Os;
use crate::policy::BuildMode;

/// Findings of `namespace-node-selector`.
pub(super) fn node_selector(cx: &Context<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    if limits::node_selector(cx.namespace).next().is_none() || cx.decision.verdict == Verdict::Conflict {
        return;
    }
    let site = cx.site();
    // `what` makes a sentence of the value that the namespace asks for; short ones: a warning has 120 characters.
    let mut add = |pointer: &str, key: &str, value: &str, what: &dyn Fn(&str) -> String| {
        let Some((annotation, asked)) = site.contradiction(key, value) else { return };
        let mut found = cx.finding(rule, cx.pod.at(pointer), what(asked));
        found.help = annotate(cx, annotation, &without(cx, annotation, key));
        out.push(found);
    };
    for (key, value) in cx.pod.strings("/spec/nodeSelector") {
        if cx.is_windows() || OS_LABELS.contains(&key) {
            let pointer = format!("/spec/nodeSelector/{}", escape(key));
            add(&pointer, key, value, &|asked| {
                format!("the namespace asks for {asked}, and admission refuses all else")
            });
        }
    }
    let [os_label, _] = OS_LABELS;
    if let Some(os) = given(cx).filter(|os| site.lacks_node_selector(*os)) {
        let added = |asked: &str| {
            format!("the namespace asks for {os_label}={asked}, so {os_label}={} is not added", os.name())
        };
        add("/spec/nodeSelector", os_label, os.name(), &added);
    }
    if let Some(build) = exact_build(cx) {
        let added = |asked: &str| format!("the namespace asks for build {asked}, so the image's {build} is not added");
        add("/spec/nodeSelector", WINDOWS_BUILD_LABEL, &build, &added);
    }
    if let Some(class) = site.own_runtime_class().filter(|_| cx.is_windows()) {
        for (key, value) in &class.node_selector {
            let brought = |asked: &str| format!("this RuntimeClass asks for {value}, the namespace for {key}={asked}");
            add("/spec/runtimeClassName", key, value, &brought);
        }
    }
}

/// Findings of `namespace-tolerations`.
pub(super) fn tolerations(cx: &Context<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Some(text) = cx.namespace.and_then(|namespace| namespace.annotations.get(limits::WHITELIST)) else { return };
    let site = cx.site();
    let whitelist = site.whitelist();
    if whitelist == Whitelist::Anything {
        return;
    }
    let refused = |all: Vec<Value>| -> Vec<Value> { all.into_iter().filter(|one| whitelist.refuses(one)).collect() };
    let missing = given(cx).map(|os| site.missing_tolerations(os)).unwrap_or_default();
    let missing = refused(missing.into_iter().map(|missing| missing.value).collect());
    if !missing.is_empty() {
        let message = match &whitelist {
            Whitelist::Unreadable(_) => {
                "the namespace's tolerationsWhitelist cannot be read, so none is added".to_owned()
            }
            _ => format!("the namespace's tolerationsWhitelist refuses {}, so the pod may wait", shown(&missing)),
        };
        out.push(with_advice(cx, cx.finding(rule, cx.pod.at("/spec/tolerations"), message), &whitelist, text, missing));
    }
    let class = site.own_runtime_class().filter(|_| cx.is_windows());
    let brought = class.map(|class| refused(class.tolerations.clone())).unwrap_or_default();
    if !brought.is_empty() {
        let message = format!("the namespace's tolerationsWhitelist refuses {}, which this brings", shown(&brought));
        let found = cx.finding(rule, cx.pod.at("/spec/runtimeClassName"), message);
        out.push(with_advice(cx, found, &whitelist, text, brought));
    }
}

/// The operating system whose selector and tolerations the pod is given.
fn given(cx: &Context<'_>) -> Option<Os> {
    cx.placed_on.filter(|os| *os == Os::Windows || cx.decision.basis != Basis::Place)
}

/// The build that policy has the pod ask for by nodeSelector.
fn exact_build(cx: &Context<'_>) -> Option<String> {
    let site = cx.site();
    let asked = cx.placed_on == Some(Os::Windows)
        && cx.decision.basis != Basis::Place
        && site.settings.build == BuildMode::Exact
        && cx.pod.text("/spec/nodeName").is_none()
        && build_matters(&cx.pod, cx.world)
        && site.wants_build(cx.builds);
    cx.builds.single().filter(|_| asked).map(|build| build.to_string())
}

fn with_advice(
    cx: &Context<'_>,
    mut found: Finding,
    whitelist: &Whitelist,
    text: &str,
    refused: Vec<Value>,
) -> Finding {
    found.help = if let Whitelist::Unreadable(error) = whitelist {
        format!("write a JSON list that holds {}: {error}", Value::from(refused))
    } else {
        let mut list: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
        list.extend(refused);
        // Inside a JSON text a quote can be written so, and the shell leaves it alone.
        let list = Value::from(list).to_string().replace('\'', "\\u0027");
        annotate(cx, limits::WHITELIST, &list)
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
    tolerations.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The namespace's node selector without that key. Never no annotation at all: then the plugin's default for the whole
/// cluster would count.
fn without(cx: &Context<'_>, annotation: &str, key: &str) -> String {
    let kept = limits::node_selector(cx.namespace).filter(|(of, other, _)| *of == annotation && *other != key);
    kept.map(|(_, key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn annotate(cx: &Context<'_>, annotation: &str, value: &str) -> String {
    format!("kubectl annotate namespace {} --overwrite '{annotation}={value}'", cx.namespace_name)
}

//! The RuntimeClass of a Windows pod.

use serde_json::Value;

use crate::model::cluster::{Node, RuntimeClass, namespace_restrictions};
use crate::model::names::{OS_LABEL, RUNTIME_CLASS_PREFIX, WINDOWS_BUILD_LABEL};
use crate::model::scheduling::{NodeConstraints, node_constraints};
use crate::model::settings::{BuildMode, NodeSettings, RuntimeClassMode};
use crate::model::windows::{Build, release_name, server_releases};
use crate::model::{Edit, Os};
use crate::place::context::WorkloadContext;
use crate::place::placement_changes::PlacementChanges;
use crate::place::tolerations::tolerations_whitelist;

/// The RuntimeClass that Mullion manages for a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildRuntimeClass {
    /// The class of Mullion, with the handler of the policy.
    Existing(String),
    /// The class must be created under this name.
    Missing(String),
    /// Someone else created a class of this name. Mullion does not change it, and assigns it to no pod.
    Foreign(String),
}

/// The RuntimeClass for a build. `standing` returns, for a name, whether the class is Mullion's, and its handler.
///
/// The name is `mullion-windows-<release>`. If a class of Mullion with that name has another handler, which is
/// immutable and which running pods need for every sandbox, the name is `mullion-windows-<release>-<handler>`, and both
/// exist.
pub fn runtime_class_of_build<'a>(
    build: Build,
    nodes: &NodeSettings,
    standing: impl Fn(&str) -> Option<(bool, &'a str)>,
) -> BuildRuntimeClass {
    let handler = nodes.runtime_classes.handler.as_str();
    let plain = format!("{RUNTIME_CLASS_PREFIX}{}", release_name(build, &nodes.releases));
    let judge = |name: String| match standing(&name) {
        None => Ok(BuildRuntimeClass::Missing(name)),
        Some((false, _)) => Ok(BuildRuntimeClass::Foreign(name)),
        Some((true, found)) if found == handler => Ok(BuildRuntimeClass::Existing(name)),
        Some((true, _)) => Err(name),
    };
    // Only someone else can have created the second name with another handler, so it is foreign.
    judge(plain).or_else(|name| judge(format!("{name}-{handler}"))).unwrap_or_else(BuildRuntimeClass::Foreign)
}

/// Assigns the RuntimeClass: see the modes of `place.runtimeClass`. The API server rejects a pod if the class is
/// missing, if its selector contradicts the pod's, or if the namespace rejects its selector or tolerations. Such a
/// class is never assigned.
pub(crate) fn assign_runtime_class<'a>(
    cx: &WorkloadContext<'a>,
    placed: &mut PlacementChanges<'_>,
) -> Option<&'a RuntimeClass> {
    if cx.input.pod.text("/spec/runtimeClassName").is_some() || cx.input.pod.get("/spec/overhead").is_some() {
        return None;
    }
    let name = match cx.input.settings.runtime_class {
        RuntimeClassMode::Never => None,
        RuntimeClassMode::Named => cx.input.settings.runtime_class_name.clone(),
        RuntimeClassMode::PerRelease => class_of_release(cx),
    };
    let name = name?;
    let class = cx.input.snapshot.runtime_class(&name)?;
    if !agrees(cx, class) || !lets_in(cx, class) {
        return None;
    }
    let edit = Edit::Set { pointer: cx.input.pod.at("/spec/runtimeClassName"), value: Value::from(name) };
    placed.push(
        "the policy names it, or it is the class of the only release that can run the pod",
        edit,
        "runtimeClassName",
    );
    Some(class)
}

/// Whether a class's nodeSelector leaves nodes for a Windows pod: it excludes nothing that the pod selects or gets.
fn agrees(cx: &WorkloadContext<'_>, class: &RuntimeClass) -> bool {
    let given = |key: &str, value: &str| match key {
        OS_LABEL => value == Os::Windows.name(),
        WINDOWS_BUILD_LABEL if !class.is_hypervisor() => {
            let wanted = cx.builds.single().filter(|_| cx.input.settings.build == BuildMode::Exact);
            wanted.is_none_or(|build| build.to_string() == value)
                && !cx.builds.incompatible.iter().any(|build| build.to_string() == value)
        }
        _ => true,
    };
    class.node_selector.iter().all(|(key, value)| given(key, value))
        && node_constraints::admits(&cx.input.pod, &class.node_selector)
}

/// Whether the namespace admits the selector and the tolerations of the class.
fn lets_in(cx: &WorkloadContext<'_>, class: &RuntimeClass) -> bool {
    let whitelist = tolerations_whitelist(cx);
    let tolerations = class.tolerations.parsed();
    let mut selector = class.node_selector.iter();
    selector.all(|(key, value)| namespace_restrictions::contradiction(cx.input.namespace, key, value).is_none())
        && tolerations.is_some_and(|all| !all.iter().any(|one| whitelist.rejects(one)))
}

/// `mullion-windows-<release>`, if exactly one server release can run the pod (or the policy requires equality), a
/// live node has that build, and the class is Mullion's.
fn class_of_release(cx: &WorkloadContext<'_>) -> Option<String> {
    let build = if cx.input.settings.build == BuildMode::Exact {
        cx.builds.single()?
    } else {
        let mut servers = cx.builds.hosts.iter().filter(|host| {
            server_releases().any(|release| release.build == **host)
                || cx.node_settings.releases.iter().any(|release| release.build == **host)
        });
        let only = servers.next()?;
        if servers.next().is_some() {
            return None;
        }
        *only
    };
    // A class is for one build, so it is not assigned while a node of another build, such as Windows 11, can run
    // the pod too. A node must also satisfy the pod's constraints; a virtual node, or a pool at zero, has no build.
    if namespace_restrictions::unusable_selector(cx.input.namespace).is_some() {
        return None;
    }
    let required = NodeConstraints::of(
        &cx.input.pod,
        namespace_restrictions::node_selector(cx.input.namespace).map(|(_, key, value)| (key, value)),
    );
    let live = cx.input.snapshot.nodes.as_ref().is_some_and(|nodes| {
        let exact = cx.input.settings.build == BuildMode::Exact;
        let others = || nodes.windows_builds().iter().any(|other| *other != build && cx.builds.hosts.contains(other));
        let fits = |node: &Node| node.build == Some(build) && required.fit(node);
        nodes.windows_builds().contains(&build)
            && !nodes.has_unknown_build()
            && required.comparable_with(nodes)
            && (required.is_empty() || nodes.samples(required.keys()).any(fits))
            && (exact || !others())
    });
    let class = runtime_class_of_build(build, cx.node_settings, |name| {
        cx.input.snapshot.runtime_class(name).map(|class| (class.ours, class.handler.as_str()))
    });
    match class {
        BuildRuntimeClass::Existing(name) if live => Some(name),
        _ => None,
    }
}

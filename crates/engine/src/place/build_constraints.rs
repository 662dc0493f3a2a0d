//! Build constraints: node selector, node affinity and label for the Windows builds of a pod's images.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::model::cluster::namespace_restrictions;
use crate::model::json_pointer::escape;
use crate::model::names::{IMAGE_BUILD_LABEL, WINDOWS_BUILD_LABEL};
use crate::model::pod_view::Pod;
use crate::model::scheduling::node_constraints;
use crate::model::settings::BuildMode;
use crate::model::windows::Build;
use crate::model::{BUILD, Basis, Edit, Os};
use crate::place::context::WorkloadContext;
use crate::place::placement_changes::PlacementChanges;
use crate::place::pool_terms::pool_terms;

/// The maximum number of builds that are excluded from a pod's nodes, in all terms together: 13 KB of a patch. The
/// release table has about ten, and real pods have a few terms. A pod with thousands of terms, or with images of other
/// builds, is left unchanged, because a patch with every build in every term would not fit into memory.
const MAX_EXCLUSIONS: usize = 1_000;

const EXCLUDED: &str = "nodes of these builds cannot run its images";

const AT_ZERO: &str = "only pools without nodes can run its images";

/// The node affinity requirement that excludes these builds. `NotIn` also admits nodes without the label, such as
/// autoscaler templates and virtual nodes.
pub(crate) fn build_exclusion(builds: &BTreeSet<Build>) -> Value {
    let values: Vec<String> = builds.iter().map(ToString::to_string).collect();
    json!({"key": WINDOWS_BUILD_LABEL, "operator": "NotIn", "values": values})
}

/// Whether the number of exclusions, one of each build in every one of the pod's terms, is within the limit.
pub(crate) fn can_exclude(pod: &Pod<'_>, builds: usize) -> bool {
    can_exclude_in(pod.items(node_constraints::REQUIRED_TERMS).len(), builds)
}

fn can_exclude_in(terms: usize, builds: usize) -> bool {
    builds.saturating_mul(terms.max(1)) <= MAX_EXCLUSIONS
}

/// Adds the build constraint: see the modes of `place.build`. Adds nothing if the author constrains the build.
pub(crate) fn constrain_build(cx: &WorkloadContext<'_>, placed: &mut PlacementChanges<'_>) {
    match cx.input.settings.build {
        BuildMode::Never => {}
        _ if !wants_build(cx) => {}
        BuildMode::Exact if cx.builds.single().is_some() => {
            if let Some(build) = cx.builds.single()
                && namespace_restrictions::contradiction(cx.input.namespace, WINDOWS_BUILD_LABEL, &build.to_string())
                    .is_none()
            {
                let pointer = cx.input.pod.at(&format!("/spec/nodeSelector/{}", escape(WINDOWS_BUILD_LABEL)));
                let edit = Edit::Set { pointer, value: Value::from(build.to_string()) };
                placed.push("the policy requires nodes of the image's own build", edit, BUILD);
            }
        }
        // Equality requires one build; a pod with several images' builds only excludes the builds that cannot run
        // it.
        BuildMode::Exact | BuildMode::Compatible => {
            let exclusion = build_exclusion(&cx.builds.incompatible);
            if let Some(terms) = pool_terms(cx, &exclusion)
                && can_exclude_in(terms.len(), cx.builds.incompatible.len())
            {
                let pointer = cx.input.pod.at(node_constraints::REQUIRED_TERMS);
                placed.push(AT_ZERO, Edit::Set { pointer, value: Value::from(terms) }, BUILD);
            } else {
                exclude_builds(cx, &cx.builds.incompatible, placed);
            }
        }
    }
}

/// Whether there is a build to require or to exclude, and it is not constrained yet: neither by the author nor by
/// the pod's RuntimeClass, whose selector the API server adds.
pub(crate) fn wants_build(cx: &WorkloadContext<'_>) -> bool {
    let hopeless = !cx.builds.common || cx.builds.incompatible.is_empty();
    !hopeless && !node_constraints::constrains(&cx.input.pod, WINDOWS_BUILD_LABEL) && !class_requires_build(cx)
}

/// Required affinity that excludes builds that cannot run the pod.
fn exclude_builds(cx: &WorkloadContext<'_>, builds: &BTreeSet<Build>, placed: &mut PlacementChanges<'_>) {
    if can_exclude(&cx.input.pod, builds.len()) {
        add_build_exclusion(&cx.input.pod, &build_exclusion(builds), placed);
    }
}

/// Adds the affinity to a new DaemonSet's template, from which its controller decides which nodes get a pod.
pub(crate) fn exclude_builds_in_template(cx: &WorkloadContext<'_>, placed: &mut PlacementChanges<'_>) {
    if takes_build_exclusion(cx)
        && !node_constraints::constrains(&cx.input.pod, WINDOWS_BUILD_LABEL)
        && let Some(builds) = impossible_builds(cx)
    {
        exclude_builds(cx, &builds, placed);
    }
}

/// Whether the template of a DaemonSet may exclude builds, regardless of its images and its affinity.
pub(crate) fn takes_build_exclusion(cx: &WorkloadContext<'_>) -> bool {
    let pod = &cx.input.pod;
    cx.input.settings.build == BuildMode::Compatible
        && cx.build_matters()
        && !has_unknown_class(cx)
        && !class_requires_build(cx)
        && pod.text("/spec/nodeName").is_none()
}

/// The builds to exclude in the template of a DaemonSet: those that cannot run its images by any rule. `None` if
/// the builds of an image are unknown, if no build runs all images, or if every build does.
pub(crate) fn impossible_builds(cx: &WorkloadContext<'_>) -> Option<BTreeSet<Build>> {
    if cx.placed_on() != Some(Os::Windows)
        || cx.decision.basis == Basis::Place
        || !cx.builds.complete
        || !cx.builds.common
    {
        return None;
    }
    let incompatible = cx.builds.incompatible.iter().copied();
    let builds: BTreeSet<Build> =
        incompatible.filter(|build| cx.builds.is_impossible(*build, cx.node_settings)).collect();
    (!builds.is_empty()).then_some(builds)
}

/// Whether the pod's RuntimeClass is unknown. It may be one with a hypervisor.
pub(crate) fn has_unknown_class(cx: &WorkloadContext<'_>) -> bool {
    cx.input.pod.text("/spec/runtimeClassName").is_some() && cx.own_runtime_class().is_none()
}

/// Whether the pod's RuntimeClass requires a build.
fn class_requires_build(cx: &WorkloadContext<'_>) -> bool {
    cx.own_runtime_class().is_some_and(|class| class.node_selector.contains_key(WINDOWS_BUILD_LABEL))
}

/// Adds a requirement to the required node affinity. Terms are alternatives, so each of them gets it; an additional term
/// would widen what the author requires.
pub(crate) fn add_build_exclusion(pod: &Pod<'_>, requirement: &Value, placed: &mut PlacementChanges<'_>) {
    let terms = pod.items(node_constraints::REQUIRED_TERMS);
    let terms_pointer = pod.at(node_constraints::REQUIRED_TERMS);
    if terms.is_empty() {
        let value = json!([{"matchExpressions": [requirement]}]);
        placed.push(EXCLUDED, Edit::Set { pointer: terms_pointer, value }, BUILD);
        return;
    }
    for (index, term) in terms.iter().enumerate() {
        let present = node_constraints::expressions(term).contains(requirement);
        // A term without requirements matches no node; with this requirement it would match some.
        if present || node_constraints::is_empty_term(term) {
            continue;
        }
        let pointer = format!("{terms_pointer}/{index}/matchExpressions");
        placed.push(EXCLUDED, Edit::Append { pointer, value: requirement.clone() }, BUILD);
    }
}

/// Adds the label with the build of the pod's images, if they have one.
pub(crate) fn add_build_label(cx: &WorkloadContext<'_>, placed: &mut PlacementChanges<'_>) {
    let Some(build) = cx.builds.single() else { return };
    if cx.input.pod.label(IMAGE_BUILD_LABEL).is_none() {
        let pointer = cx.input.pod.at(&format!("/metadata/labels/{}", escape(IMAGE_BUILD_LABEL)));
        let edit = Edit::Set { pointer, value: Value::from(build.to_string()) };
        placed.push("its images are for this build", edit, "label");
    }
}

//! Builds that the author selects by node labels and that do not run the images. They are known without a cluster.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::detect::ContainerImage;
use crate::model::json_pointer::escape;
use crate::model::names::WINDOWS_BUILD_LABEL;
use crate::model::scheduling::{REQUIRED_TERMS, expressions, is_empty_term, requirement_holds};
use crate::model::text::{list, shown};
use crate::model::windows::{Build, known_host_builds, named_build, names_build, provider_release, release_name};
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::images::proposal::{ImageChange, ImageProposal, fleet, such_as};
use crate::rules::images::rules::SELECTED_BUILD;

/// The maximum number of values of labels for builds in one pod. Windows has about twenty builds.
const MAX_VALUES: usize = 32;

/// The field with the RuntimeClass, below the pod.
const CLASS: &str = "/spec/runtimeClassName";

/// A requirement of the pod about a label whose value is a build.
pub(crate) struct BuildRequirement<'a> {
    /// Below the pod.
    pointer: String,
    label: &'a str,
    operator: &'a str,
    values: Vec<&'a str>,
}

impl<'a> BuildRequirement<'a> {
    /// The node has this value.
    fn equal(pointer: String, label: &'a str, value: &'a str) -> Self {
        Self { pointer, label, operator: "In", values: vec![value] }
    }

    /// `node.kubernetes.io/windows-build: 10.0.17763`.
    pub(crate) fn text(&self) -> String {
        let values = list(self.values.iter().map(|value| shown(value)));
        match self.operator {
            "In" => format!("{}: {values}", self.label),
            operator => format!("{} {operator} {values}", self.label),
        }
    }

    /// The label with the value of nodes with that build.
    pub(crate) fn with_build(&self, build: Build) -> Option<String> {
        let value = match provider_release(self.label, build) {
            Some(value) => value.to_owned(),
            None if self.label == WINDOWS_BUILD_LABEL => build.to_string(),
            None => return None,
        };
        Some(format!("{}: {value}", self.label))
    }

    /// Whether nodes with that build can satisfy it. They can if the meaning of a value is unknown.
    pub(crate) fn admits(&self, build: Build) -> bool {
        if self.label == WINDOWS_BUILD_LABEL {
            return requirement_holds(self.operator, &self.values, Some(&build.to_string()));
        }
        if self.values.iter().any(|value| named_build(self.label, value).is_none()) {
            return true;
        }
        match provider_release(self.label, build) {
            Some(value) => requirement_holds(self.operator, &self.values, Some(value)),
            // Each value means another build.
            None => self.operator != "In",
        }
    }

    /// Whether no node has any of these values, because the kubelet writes three numbers: `getOSSpecificLabels` in
    /// `pkg/kubelet/kubelet_node_status_windows.go`. Templates may have values that are filled in later.
    fn is_on_no_node(&self) -> bool {
        let is_wrong = |value: &&str| named_build(self.label, value).is_none() && !value.contains(['$', '{', '<']);
        self.label == WINDOWS_BUILD_LABEL
            && self.operator == "In"
            && !self.values.is_empty()
            && self.values.iter().all(is_wrong)
    }
}

/// The requirements of nodeSelector, RuntimeClass and required node affinity. Without the affinity if its terms are
/// alternatives; empty if there are too many values.
pub(crate) fn build_requirements<'a>(cx: &WorkloadContext<'a>) -> Vec<BuildRequirement<'a>> {
    let pod = &cx.input.pod;
    let selector = pod.strings("/spec/nodeSelector").filter(|(label, _)| names_build(label));
    let selector = selector
        .map(|(label, value)| BuildRequirement::equal(format!("/spec/nodeSelector/{}", escape(label)), label, value));
    let class = cx.own_runtime_class().into_iter().flat_map(|class| &class.node_selector);
    let class = class.filter(|(label, _)| names_build(label));
    let class = class.map(|(label, value)| BuildRequirement::equal(CLASS.to_owned(), label, value));
    let terms = pod.items(REQUIRED_TERMS).iter().enumerate().filter(|(_, term)| !is_empty_term(term));
    let terms: Vec<_> = terms.take(2).collect();
    let only = if let [only] = terms.as_slice() { Some(*only) } else { None };
    let affinity = only.into_iter().flat_map(|(at, term)| {
        expressions(term).iter().enumerate().filter_map(move |(index, expression)| {
            let text = |name| expression.get(name).and_then(Value::as_str);
            let label = text("key").filter(|label| names_build(label))?;
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            Some(BuildRequirement {
                pointer: format!("{REQUIRED_TERMS}/{at}/matchExpressions/{index}"),
                label,
                operator: text("operator")?,
                values: values.filter_map(Value::as_str).take(MAX_VALUES + 1).collect(),
            })
        })
    });
    let found: Vec<_> = selector.chain(class).chain(affinity).take(MAX_VALUES + 1).collect();
    let is_small = found.iter().map(|required| required.values.len()).sum::<usize>() <= MAX_VALUES;
    if is_small { found } else { Vec::new() }
}

/// Reports a selector that no node satisfies, or whose nodes do not run the images.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let required = build_requirements(cx);
    if let Some(wrong) = required.iter().find(|required| required.is_on_no_node()) {
        out.push(on_no_node(cx, wrong));
    } else if !required.is_empty() && cx.builds.common && cx.build_matters() {
        out.extend(of_other_build(cx, &required));
    }
}

fn on_no_node(cx: &WorkloadContext<'_>, wrong: &BuildRequirement<'_>) -> Finding {
    let message = format!("no node has {}: the kubelet writes 10.0. and the number of the build", wrong.text());
    let mut found = cx.finding(&SELECTED_BUILD, cx.input.pod.at(&wrong.pointer), message);
    let builds: BTreeSet<Build> = wrong.values.iter().filter_map(|value| Build::from_label(value)).collect();
    let build = builds.first().copied().or_else(|| cx.builds.single());
    let write = build.map_or_else(|| "10.0.20348 for Windows Server 2022".to_owned(), |build| build.to_string());
    found.help = format!("write {WINDOWS_BUILD_LABEL}: {write}").into();
    found
}

fn of_other_build(cx: &WorkloadContext<'_>, required: &[BuildRequirement<'_>]) -> Option<Finding> {
    let first = cx.builds.known.first()?;
    let named = required.iter().flat_map(|one| one.values.iter().filter_map(|value| named_build(one.label, value)));
    let own = cx.builds.known.iter().flat_map(|image| image.facts.builds.iter().copied()).take(MAX_VALUES);
    let candidates: BTreeSet<Build> =
        known_host_builds().chain(cx.builds.hosts.iter().copied()).chain(named).chain(own).collect();
    let (impossible, possible): (BTreeSet<Build>, BTreeSet<Build>) =
        candidates.into_iter().partition(|build| cx.builds.is_impossible(*build, cx.node_settings));
    let selects = |build: &Build| required.iter().all(|required| required.admits(*build));
    if possible.iter().any(selects) {
        return None;
    }
    let blamed = required.iter().find(|required| !possible.iter().any(|build| required.admits(*build)));
    let blamed = blamed.or(required.first())?;
    let name = |build: Build| release_name(build, &cx.node_settings.releases);
    let selected: BTreeSet<Build> = impossible.into_iter().filter(selects).collect();
    // The rule about RuntimeClasses reports a pod that selects other nodes than its class.
    if selected.is_empty() && required.iter().any(|required| required.pointer == CLASS) {
        return None;
    }
    let misfit = |image: &&&ContainerImage<'_>| !image.facts.builds.iter().any(|build| selected.contains(build));
    let image = cx.builds.known.iter().find(misfit).unwrap_or(first);
    let of = list(image.facts.builds.iter().map(|build| name(*build)));
    let message = if selected.is_empty() {
        format!(
            "no Windows build satisfies its node selector and affinity: {}",
            list(required.iter().map(BuildRequirement::text))
        )
    } else {
        format!(
            "{} selects {}, which does not run its image for {of}",
            blamed.text(),
            list(selected.iter().map(|build| name(*build)))
        )
    };
    let mut found = cx.finding(&SELECTED_BUILD, cx.input.pod.at(&blamed.pointer), message);
    // A build of the fleet if it runs the images, else that of the image.
    let live = fleet(cx).into_iter().rev().find(|build| possible.contains(build));
    let target = live.or_else(|| image.facts.builds.iter().copied().find(|build| possible.contains(build)));
    let select = target.and_then(|build| blamed.with_build(build)).map(|label| format!("select {label}"));
    let tag = ImageProposal::find(image.image, selected.iter().rev().copied()).and_then(|fit| match fit.change {
        ImageChange::Tag(tag) => Some(format!("use another tag, {}", such_as(&tag))),
        ImageChange::Rebuild(..) => None,
    });
    let ways: Vec<String> = select.into_iter().chain(tag).collect();
    if !ways.is_empty() {
        found.help = ways.join(", or ").into();
    }
    Some(found)
}

//! Image builds that no host, or no node, runs; and tags that would run.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::detect::ContainerImage;
use crate::detect::image_names::Confidence;
use crate::model::Os;
use crate::model::cluster::Nodes;
use crate::model::names::WINDOWS_BUILD_LABEL;
use crate::model::scheduling::{NodeConstraints, admits};
use crate::model::settings::BuildMode;
use crate::model::text::list;
use crate::model::windows::{Build, LTSC_NAMES, is_image_build, known_host_builds, release_name};
use crate::place::{WorkloadContext, runs_on, wants_build};
use crate::rules::finding::Finding;
use crate::rules::images::proposal::{ImageChange, ImageProposal, fleet, reference, runnable, such_as};
use crate::rules::images::selected_builds::build_requirements;
use crate::rules::rule::Rule;

/// No build runs all images: the pod cannot run anywhere.
pub(crate) fn no_common_build(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Some(first) = cx.builds.known.first() else { return };
    let images: Vec<String> =
        cx.builds.known.iter().map(|image| format!("{} is for {}", image.image, list(&image.facts.builds))).collect();
    let mut found = cx.finding(rule, cx.at(&first.container, "/image"), rule.why);
    found.help = format!("{}; {}", images.join(", "), rule.instead).into();
    if let Some(tags) = one_release(cx) {
        found.help = format!("{}, {}", found.help, tags.join(" and ")).into();
    }
    out.push(found);
}

/// Other tags for the images that need one, if all images can use one release that a node runs: if possible, the newest
/// that some of them use already. If no node is known, only a release that some of them use.
fn one_release(cx: &WorkloadContext<'_>) -> Option<Vec<String>> {
    let used = |build: &Build| cx.builds.known.iter().any(|image| image.facts.builds.contains(build));
    let nodes_are_known = !fleet(cx).is_empty();
    let ltsc: BTreeSet<Build> = LTSC_NAMES.iter().map(|(_, build)| *build).collect();
    let mut targets: Vec<Build> = ltsc.into_iter().filter(|build| nodes_are_known || used(build)).rev().collect();
    if nodes_are_known {
        targets = runnable(targets, cx);
    }
    targets.sort_by_key(|build| !used(build));
    targets.into_iter().find_map(|target| {
        let (mut tags, mut known) = (Vec::new(), HashSet::new());
        for image in misfits(cx, target) {
            let ImageChange::Tag(tag) = ImageProposal::find(image.image, [target])?.change else { return None };
            if known.insert(tag.image.clone()) {
                tags.push(such_as(&tag));
            }
        }
        Some(tags)
    })
}

/// Known images that hosts of that build cannot run.
fn misfits<'a>(cx: &WorkloadContext<'a>, host: Build) -> impl Iterator<Item = &'a ContainerImage<'a>> {
    let (builds, snapshot, nodes) = (cx.builds, cx.input.snapshot, cx.node_settings);
    builds.known.iter().copied().filter(move |image| !runs_on(host, &image.facts.builds, snapshot, nodes))
}

/// Any build runs all images, but no Windows node that the pod may use has it.
pub(crate) fn no_node_for_build(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    // If the policy requires equality, and the author requires no other build, only the image's own build can run it.
    let exact = cx.input.settings.build == BuildMode::Exact;
    let equal = cx.builds.single().filter(|own| {
        let own = || own.to_string();
        exact
            && (wants_build(cx)
                || cx
                    .input
                    .pod
                    .strings("/spec/nodeSelector")
                    .any(|(key, value)| key == WINDOWS_BUILD_LABEL && value == own()))
    });
    let will_do = |build: &Build| match equal {
        Some(own) => own == *build,
        None => cx.builds.hosts.contains(build),
    };
    // A node of an unknown build may run them.
    let nodes = cx.input.snapshot.nodes.as_ref().filter(|nodes| !nodes.has_unknown_build());
    let Some(all) = nodes.map(Nodes::windows_builds) else { return };
    if all.is_empty() || all.iter().all(will_do) {
        return;
    }
    let open = if equal.is_some() { all.clone() } else { open_to(cx, all) };
    let expected = cx.node_settings.expected_pools.iter().map(|pool| pool.build);
    let expected = expected.filter(|build| admits(&cx.input.pod, &label(*build)));
    if open.is_empty() || open.iter().copied().chain(expected).any(|build| will_do(&build)) {
        return;
    }
    let nodes = if open.len() < all.len() { "the nodes it selects" } else { "Windows nodes" };
    let releases = list(open.iter().map(|build| release_name(*build, &cx.node_settings.releases)));
    let other = all.iter().rev().copied().find(will_do).filter(|_| equal.is_none());
    let elsewhere = other.map(|build| select_instead(cx, build));
    let report = |image: &ContainerImage<'_>, fit: Option<ImageProposal>, out: &mut Vec<Finding>| {
        let wanted = list(&image.facts.builds);
        let alone = open.iter().any(|host| runs_on(*host, &image.facts.builds, cx.input.snapshot, cx.node_settings));
        let node = if elsewhere.is_some() { "node that it selects" } else { "node" };
        let short = match equal {
            Some(own) => format!("no node has {own}, as the policy requires"),
            None if alone => format!("no {node} runs {wanted} and its other images"),
            None => format!("no {node} runs {wanted}"),
        };
        // A build that would work comes before the list, which can be long, because warnings are shortened.
        let release = fit.as_ref().map(|fit| release_name(fit.build, &cx.node_settings.releases));
        let fits = release.map(|release| format!("; {release} would fit")).unwrap_or_default();
        let message = format!("{short}{fits}; {nodes} have {releases}");
        let mut found = cx.finding(rule, cx.at(&image.container, "/image"), message);
        let pool = match &elsewhere {
            Some(select) => select.clone(),
            None => format!("add nodes for {wanted}"),
        };
        found.help = match fit.as_ref().map(|fit| (&fit.change, fit.remarks())) {
            Some((ImageChange::Tag(tag), remarks)) if tag.confidence == Confidence::Table => {
                format!("it cannot start; use {}, or {pool}{remarks}", reference(tag)).into()
            }
            Some((ImageChange::Tag(tag), remarks)) if elsewhere.is_some() => {
                format!("it cannot start; {pool}, or use another tag, {}{remarks}", such_as(tag)).into()
            }
            Some((ImageChange::Tag(tag), remarks)) => {
                format!("it cannot start; {}, {}{remarks}", rule.instead, such_as(tag)).into()
            }
            Some((ImageChange::Rebuild(from, _), remarks)) => {
                format!("it cannot start; build it again FROM {from}, or {pool}{remarks}").into()
            }
            None if elsewhere.is_some() => format!("it cannot start; {pool}").into(),
            None => format!("it cannot start; {} instead of {}", rule.instead, image.image).into(),
        };
        out.push(found);
    };
    if let Some(own) = equal {
        let fitting = open.iter().rev().copied().find(|host| is_image_build(*host) && *host != own);
        for image in &cx.builds.known {
            report(image, ImageProposal::find(image.image, fitting), out);
        }
        return;
    }
    // The build with the fewest images to change; of several, the newest.
    let Some(best) = open.iter().rev().min_by_key(|host| misfits(cx, **host).count()) else { return };
    let images: Vec<Build> = known_host_builds()
        .filter(|image| is_image_build(*image) && runs_on(*best, &[*image], cx.input.snapshot, cx.node_settings))
        .collect();
    for image in misfits(cx, *best) {
        report(image, ImageProposal::find(image.image, images.iter().rev().copied()), out);
    }
}

/// What to select so that the pod gets to the cluster's nodes of that build.
fn select_instead(cx: &WorkloadContext<'_>, build: Build) -> String {
    let release = release_name(build, &cx.node_settings.releases);
    let nodes = format!("the nodes of {release} that the cluster has");
    let required = build_requirements(cx).into_iter().filter(|one| !one.admits(build));
    match required.into_iter().find_map(|one| Some((one.with_build(build)?, one.text()))) {
        Some((select, instead)) => format!("select {select} instead of {instead}, for {nodes}"),
        None => format!("change its node selector or affinity so that it selects {nodes}"),
    }
}

fn label(build: Build) -> BTreeMap<String, String> {
    [(WINDOWS_BUILD_LABEL.to_owned(), build.to_string())].into()
}

/// Builds of the Windows nodes that satisfy the pod's selector and affinity. For most pods these are all builds.
fn open_to(cx: &WorkloadContext<'_>, all: &BTreeSet<Build>) -> BTreeSet<Build> {
    let required = NodeConstraints::of(&cx.input.pod, std::iter::empty());
    let Some(nodes) = cx.input.snapshot.nodes.as_ref().filter(|_| !required.is_empty()) else { return all.clone() };
    let windows =
        || nodes.samples(required.keys().chain([WINDOWS_BUILD_LABEL])).filter(|node| node.os == Some(Os::Windows));
    // Samples represent nodes with the same labels. If a build is known only from the kernel version, nodes with the
    // same labels may have several.
    if !required.comparable_with(nodes) || windows().any(|node| node.labels.get(WINDOWS_BUILD_LABEL).is_none()) {
        return all.clone();
    }
    windows().filter(|node| required.fit(node)).filter_map(|node| node.build).collect()
}

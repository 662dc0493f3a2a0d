//! Tags of releases without support, and floating tags.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::detect::image_names::{ImageSource, floating, for_build, usual_name};
use crate::model::cluster::Nodes;
use crate::model::image::{ImageOs, ImageRef};
use crate::model::text::{list, list_with};
use crate::model::windows::{Build, LTSC, STABLE_ABI_FROM, out_of_support, release_name};
use crate::place::{WorkloadContext, runs_on};
use crate::rules::finding::Finding;
use crate::rules::rule::Rule;

/// Images whose every build is of a release that gets no security updates; and images that run only on such nodes.
pub(crate) fn build_end_of_life(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let before = out.len();
    let target = OnceCell::new();
    for image in &cx.builds.known {
        let builds = &image.facts.builds;
        let Some(newest) = builds.iter().max().and_then(|build| out_of_support(*build)) else { continue };
        if builds.iter().any(|build| out_of_support(*build).is_none()) {
            continue;
        }
        let message = format!("Windows Server {} gets no security updates since {}", newest.name, newest.end);
        let mut found = cx.finding(rule, cx.at(&image.container, "/image"), message);
        let target = *target.get_or_init(|| best_of(LTSC, cx));
        let later = ImageRef::parse(image.image).ok().and_then(|image| for_build(&image, target?));
        found.help = match later {
            Some(later) => format!("use {later}, built again on that release").into(),
            None => format!("{} than {}", rule.instead, list(builds)).into(),
        };
        out.push(found);
    }
    let live = cx.input.snapshot.nodes.as_ref().map(Nodes::windows_builds);
    let newest = live.and_then(|live| live.last()).and_then(|build| out_of_support(*build));
    if let (Some(newest), Some(live), Some(first), true) = (newest, live, cx.builds.known.first(), out.len() == before)
        && live.iter().all(|build| out_of_support(*build).is_some())
    {
        let message = format!("the Windows nodes get no security updates since {} ({})", newest.end, newest.name);
        let mut found = cx.finding(rule, cx.at(&first.container, "/image"), message);
        found.help = "add nodes of a later release, which run it too".into();
        out.push(found);
    }
}

/// Images with a tag that moves between releases. A policy that lists the image has decided its builds.
pub(crate) fn floating_windows_tag(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    for image in cx
        .input
        .images
        .iter()
        .filter(|image| image.facts.os == ImageOs::Windows && image.facts.source != ImageSource::Policy)
    {
        let Ok(reference) = ImageRef::parse(image.image) else { continue };
        let Some(tag) = floating(&reference) else { continue };
        let message = format!("its tag names no release: {}", tag.moved);
        let mut found = cx.finding(rule, cx.at(&image.container, "/image"), message);
        found.help = match best_of(tag.releases, cx) {
            Some(build) => format!("use one that does, such as {}", tag.pinned(&reference, build)).into(),
            // A tag of these releases would be one that no node can run.
            None => format!(
                "use an image for {}, as the nodes are: this tag is for {}, which they cannot run",
                list_with(fleet(cx).iter().map(|build| release_name(*build, &cx.node_settings.releases)), "or"),
                list_with(tag.releases.iter().map(|build| usual_name(*build)), "and")
            )
            .into(),
        };
        out.push(found);
    }
}

/// The newest of these image builds, ascending, that a Windows node runs; `None` if no node runs one of them. If no
/// Windows node is known: 2022, which most hosts run, or the newest one.
fn best_of(builds: &[Build], cx: &WorkloadContext<'_>) -> Option<Build> {
    let fleet = fleet(cx);
    if fleet.is_empty() {
        return builds.iter().find(|build| **build == STABLE_ABI_FROM).or(builds.last()).copied();
    }
    let runs =
        |build: &&Build| fleet.iter().any(|host| runs_on(*host, &[**build], cx.input.snapshot, cx.node_settings));
    builds.iter().rev().find(runs).copied()
}

/// The builds of the Windows nodes, and of pools that may be empty.
fn fleet(cx: &WorkloadContext<'_>) -> BTreeSet<Build> {
    let live = cx.input.snapshot.nodes.as_ref().map(Nodes::windows_builds);
    let expected = cx.node_settings.expected_pools.iter().map(|pool| pool.build);
    live.into_iter().flatten().copied().chain(expected).collect()
}

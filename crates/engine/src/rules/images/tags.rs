//! Tags of releases without support, and floating tags.

use std::cell::OnceCell;

use crate::detect::image_names::{ImageSource, floating, for_build};
use crate::model::cluster::Nodes;
use crate::model::image::{ImageOs, ImageRef};
use crate::model::text::list;
use crate::model::windows::{Build, LTSC, STABLE_ABI_FROM, out_of_support};
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
        if let Some(build) = best_of(tag.releases, cx) {
            found.help = format!("use one that does, such as {}", tag.pinned(&reference, build)).into();
        }
        out.push(found);
    }
}

/// The newest of these image builds, ascending, that a Windows node runs. If none does or no node is known: 2022, which
/// most hosts run, or the newest one.
fn best_of(builds: &[Build], cx: &WorkloadContext<'_>) -> Option<Build> {
    let live = cx.input.snapshot.nodes.as_ref().map(Nodes::windows_builds);
    let runs = |build: &&Build| {
        live.is_some_and(|live| live.iter().any(|host| runs_on(*host, &[**build], cx.input.snapshot, cx.node_settings)))
    };
    let widest = || builds.iter().find(|build| **build == STABLE_ABI_FROM).or(builds.last());
    builds.iter().rev().find(runs).or_else(widest).copied()
}

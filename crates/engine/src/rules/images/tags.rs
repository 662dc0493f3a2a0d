//! Tags of releases without support, and floating tags.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::detect::ImageFacts;
use crate::detect::image_names::{Confidence, ImageSource, pin, shared_tag};
use crate::model::cluster::Nodes;
use crate::model::image::{ImageOs, ImageRef};
use crate::model::published_images::{PublishedImages, PublishedTags, SharedTag};
use crate::model::text::{list, list_with};
use crate::model::windows::{Build, LTSC, out_of_support, release_name};
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::images::proposal::{ImageChange, ImageProposal, fleet, reference, remarks_on, runnable, such_as};
use crate::rules::rule::Rule;

/// Images for which every build is of a release that gets no security updates, and images that run only on such nodes.
pub(crate) fn build_end_of_life(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let before = out.len();
    let targets = OnceCell::new();
    for image in &cx.builds.known {
        let builds = &image.facts.builds;
        let Some(newest) = builds.iter().max().and_then(|build| out_of_support(*build)) else { continue };
        if builds.iter().any(|build| out_of_support(*build).is_none()) {
            continue;
        }
        let message = format!("Windows Server {} has had no security updates since {}", newest.name, newest.end);
        let mut found = cx.finding(rule, cx.at(&image.container, "/image"), message);
        let targets = targets.get_or_init(|| runnable(LTSC.iter().copied(), cx));
        let later = ImageProposal::find(image.image, targets.iter().copied());
        found.help = match later.as_ref().map(|later| (&later.change, later.remarks())) {
            Some((ImageChange::Tag(tag), remarks)) if tag.confidence == Confidence::Table => {
                format!("use {}, built again on that release{remarks}", reference(tag)).into()
            }
            Some((ImageChange::Tag(tag), remarks)) => {
                format!("{} than {}, {}{remarks}", rule.instead, list(builds), such_as(tag)).into()
            }
            Some((ImageChange::Rebuild(from, _), remarks)) => format!("build it again FROM {from}{remarks}").into(),
            None => format!("{} than {}", rule.instead, list(builds)).into(),
        };
        out.push(found);
    }
    let nodes = cx.input.snapshot.nodes.as_ref().filter(|nodes| !nodes.has_unknown_build());
    let live = nodes.map(Nodes::windows_builds);
    let newest = live.and_then(|live| live.last()).and_then(|build| out_of_support(*build));
    if let (Some(newest), Some(live), Some(first), true) = (newest, live, cx.builds.known.first(), out.len() == before)
        && live.iter().all(|build| out_of_support(*build).is_some())
    {
        let message = format!("the Windows nodes have had no security updates since {} ({})", newest.end, newest.name);
        let mut found = cx.finding(rule, cx.at(&first.container, "/image"), message);
        found.help = "add nodes of a later release, which run it too".into();
        out.push(found);
    }
}

/// Images of containers and volumes with a tag that moves between releases. If a policy lists the image, the policy decides its builds.
pub(crate) fn floating_windows_tag(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let tables = PublishedImages::shipped();
    let is_concerned = |facts: &ImageFacts| facts.os == ImageOs::Windows && facts.source != ImageSource::Policy;
    let of_containers = cx.input.images.iter().filter(|image| is_concerned(&image.facts));
    let of_containers = of_containers.map(|image| (image.image, cx.at(&image.container, "/image")));
    let of_volumes = cx.input.volume_images.iter().filter(|image| is_concerned(&image.facts));
    let of_volumes = of_volumes.map(|image| (image.image, cx.input.pod.at(&image.pointer())));
    for (image, pointer) in of_containers.chain(of_volumes) {
        let Ok(parsed) = ImageRef::parse(image) else { continue };
        let Some((row, shared)) = shared_tag(tables, &parsed) else { continue };
        let message = format!("its tag names no release: {}", shared.moved);
        let mut found = cx.finding(rule, pointer, message);
        let pinned = pinned_builds(row, shared, cx).into_iter().find_map(|build| pin(tables, &parsed, build));
        found.help = match &pinned {
            Some(pinned) => format!("use one that does, {}{}", such_as(pinned), remarks_on(pinned)).into(),
            None => no_runnable_image(row, cx).unwrap_or_else(|| rule.instead.to_owned()).into(),
        };
        out.push(found);
    }
}

/// The builds for which the tag can be pinned, best first: those of its own images that a node runs, then others, which
/// may have another version of the product.
fn pinned_builds(row: &PublishedTags, shared: &SharedTag, cx: &WorkloadContext<'_>) -> Vec<Build> {
    let (own, others): (Vec<Build>, Vec<Build>) = row.builds().partition(|build| shared.builds.contains(build));
    runnable(own, cx).into_iter().chain(runnable(others, cx)).collect()
}

/// What to do if the nodes run no image of the row. A tag of the row would be one that no node can run. `None` if no
/// node is known.
fn no_runnable_image(row: &PublishedTags, cx: &WorkloadContext<'_>) -> Option<String> {
    let nodes = fleet(cx);
    let builds: Vec<Build> = row.builds().collect();
    (!nodes.is_empty()).then(|| {
        format!(
            "use an image for {}, as the nodes are: this repository has images for {}, which they cannot run",
            list_with(nodes.iter().map(|build| release_name(*build, &cx.node_settings.releases)), "or"),
            list_with(builds.iter().map(|build| usual_name(*build)), "and")
        )
    })
}

/// The name of a release in tags. For 2016 `release_name` returns the number, because no node has that release.
fn usual_name(build: Build) -> Cow<'static, str> {
    if build == Build::new(14393) { "ltsc2016".into() } else { release_name(build, &[]) }
}

//! Images that contradict each other, or the pod's operating system.

use std::collections::{HashMap, HashSet};

use crate::detect::image_names::{ImageSource, os_word};
use crate::detect::{ContainerImage, ImageFacts, place_of};
use crate::model::image::{ImageOs, ImageRef};
use crate::model::pod_view::Container;
use crate::model::text::shown;
use crate::model::{EvidenceSource, Os};
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::rule::{OTHERS, Rule};
use crate::rules::sidecar_injectors::{Injector, Systems, injector_of};

/// Containers of one pod with images for different systems. A sidecar from an injector is recognized by its name and
/// image, whatever its tag.
pub(crate) fn mixed(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let is = |os| move |image: &&ContainerImage<'_>| image.facts.os == os;
    let windows = cx.input.images.iter().find(is(ImageOs::Windows));
    if windows.is_none() && !cx.is_windows() {
        return;
    }
    let mut linux = cx.input.images.iter().filter(|image| image.facts.os != ImageOs::Windows);
    let (injected, authored): (Vec<_>, Vec<_>) =
        linux.by_ref().map(|image| (image, linux_injector(image))).partition(|(_, injector)| injector.is_some());
    for (image, injector) in injected {
        let Some(injector) = injector else { continue };
        let message =
            format!("{} added container {}, and its image is for Linux", injector.name, shown(image.container.name()));
        let mut found = cx.finding(rule, cx.at(&image.container, "/image"), message);
        if let Some(opt_out) = opt_out(injector) {
            found.help = opt_out.into();
        }
        out.push(found);
    }
    let Some(windows) = windows else { return };
    let (later, authored): (Vec<_>, Vec<_>) =
        authored.into_iter().map(|(image, _)| image).partition(|image| cx.was_added_later(&image.container));
    for image in later.into_iter().filter(is(ImageOs::Linux)) {
        out.push(later_container(cx, rule, image));
    }
    if let Some(linux) = authored.into_iter().find(is(ImageOs::Linux)) {
        let [of_linux, of_windows] = [linux, windows].map(|image| shown(image.container.name()));
        let message = format!("the image of {of_linux} is for Linux, and that of {of_windows} for Windows");
        let mut found = cx.finding(rule, cx.at(&linux.container, "/image"), message);
        found.help = format!("{} and {}: {}", linux.image, windows.image, rule.instead).into();
        out.push(found);
    }
}

/// What shows the operating system of an image, as the end of a clause: ` by its tag (alpine)`.
fn by_evidence(image: &str, facts: &ImageFacts) -> String {
    match facts.source {
        ImageSource::Policy => " by a policy".to_owned(),
        ImageSource::Registry => " by its registry".to_owned(),
        ImageSource::Repository => " by its repository".to_owned(),
        ImageSource::Tag => {
            let word = ImageRef::parse(image).ok().and_then(|image| os_word(&image));
            word.map_or_else(|| " by its tag".to_owned(), |word| format!(" by its tag ({})", shown(word)))
        }
        ImageSource::None => String::new(),
    }
}

/// A Linux container that was added to a Windows pod after Mullion reviewed it.
fn later_container(cx: &WorkloadContext<'_>, rule: &'static Rule, image: &ContainerImage<'_>) -> Finding {
    let name = shown(image.container.name());
    let message = format!("{OTHERS} added container {name} after Mullion, and its image is for Linux");
    let mut found = cx.finding(rule, cx.at(&image.container, "/image"), message);
    found.help = "keep that off Windows pods: most injectors leave a pod out by label or annotation".into();
    found
}

/// Attributes findings to injectors, because authors cannot edit a container that an injector added. Other findings
/// about it disappear with the sidecar, and hints are dropped.
pub(crate) fn attribute_to_injectors(cx: &WorkloadContext<'_>, found: &mut Vec<Finding>) {
    if found.is_empty() {
        return;
    }
    let place = |container: &Container<'_>| (container.list, container.index);
    let injected: HashMap<_, _> =
        cx.input.images.iter().filter_map(|image| Some((place(&image.container), linux_injector(image)?))).collect();
    if injected.is_empty() {
        return;
    }
    found.retain_mut(|finding| {
        let inside = cx.input.pod.container_of(&finding.pointer).filter(|(_, below)| *below != "/image");
        let injector = inside.and_then(|(container, _)| Some((injected.get(&place(&container))?, container)));
        let Some((injector, container)) = injector else { return true };
        finding.help = format!("{} added container {}", injector.name, shown(container.name())).into();
        if let Some(opt_out) = opt_out(injector) {
            finding.help = format!("{}: {opt_out}", finding.help).into();
        }
        !finding.hint
    });
}

/// How a pod opts out of an injector's sidecar.
fn opt_out(injector: &Injector) -> Option<String> {
    injector.opt_outs.first().map(|it| format!("keep it off with {it}"))
}

/// The injector that added a container, if its image exists for Linux only.
fn linux_injector(image: &ContainerImage<'_>) -> Option<&'static Injector> {
    // The report of a policy or a registry about the image takes precedence over the injector.
    if !matches!(image.facts.os, ImageOs::Unknown | ImageOs::Linux) {
        return None;
    }
    injector_of(image.container.name(), image.image).filter(|injector| injector.systems == Systems::Linux)
}

/// Images that contradict the pod, its namespace or a policy. If another image agrees with these, the finding is
/// [`mixed`].
pub(crate) fn other_os(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Some(os) = cx.decision.decided() else { return };
    let by_image =
        matches!(cx.decision.evidence.first().map(|first| &first.source), Some(EvidenceSource::Image { .. }));
    let other = os.other();
    let (agrees, contradicts) = (ImageOs::from(os), ImageOs::from(other));
    if by_image && let Some(place) = place_of(&cx.input.pod, cx.input.snapshot).filter(|place| *place != os) {
        on_other_node(cx, rule, os, place, out);
    }
    if by_image || cx.input.images.iter().any(|image| image.facts.os == agrees) {
        return;
    }
    for image in cx.input.images.iter().filter(|image| image.facts.os == contradicts) {
        if os == Os::Windows && linux_injector(image).is_some() {
            continue;
        }
        if os == Os::Windows && cx.was_added_later(&image.container) {
            out.push(later_container(cx, rule, image));
            continue;
        }
        let by = by_evidence(image.image, &image.facts);
        let message = format!("this image is for {}{by}, and the pod for {}", other.title(), os.title());
        let mut found = cx.finding(rule, cx.at(&image.container, "/image"), message);
        found.help =
            format!("use a {} image instead of {}, or place the pod on {}", os.title(), image.image, other.title())
                .into();
        out.push(found);
    }
}

/// Images of volumes that contradict the pod. That of a Linux pod is reported only if it is for Windows alone.
pub(crate) fn volumes_for_other_os(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Some(os) = cx.decision.decided() else { return };
    let other = os.other();
    for image in cx.input.volume_images.iter().filter(|image| image.facts.os == other.into()) {
        let by = by_evidence(image.image, &image.facts);
        let message = format!("this image is for {}{by}, and the pod for {}", other.title(), os.title());
        let mut found = cx.finding(rule, cx.input.pod.at(&image.pointer()), message);
        found.help = format!("use an image with the files for {} instead of {}", os.title(), image.image).into();
        out.push(found);
    }
}

/// Images of a pod that is bound to a node of the other system, if nothing else decides the pod's system.
fn on_other_node(cx: &WorkloadContext<'_>, rule: &'static Rule, os: Os, place: Os, out: &mut Vec<Finding>) {
    for image in cx.input.images.iter().filter(|image| image.facts.os == os.into()) {
        let by = by_evidence(image.image, &image.facts);
        let message = format!("this image is for {}{by}, and the pod's node runs {}", os.title(), place.title());
        let mut found = cx.finding(rule, cx.at(&image.container, "/image"), message);
        found.help =
            format!("choose a {} node, or a {} image instead of {}", os.title(), place.title(), image.image).into();
        out.push(found);
    }
}

/// The images of the containers that the rules check: of all, or of the new ephemeral ones.
pub(crate) fn checked_images<'c>(cx: &'c WorkloadContext<'_>) -> impl Iterator<Item = &'c ContainerImage<'c>> {
    let checked: HashSet<_> = cx.containers().map(|container| (container.list, container.index)).collect();
    cx.input.images.iter().filter(move |image| checked.contains(&(image.container.list, image.container.index)))
}

/// Images of new ephemeral containers, which run on the pod's node.
pub(crate) fn ephemeral(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let Some(os) = place_of(&cx.input.pod, cx.input.snapshot).or_else(|| cx.decision.decided()) else { return };
    let other = os.other();
    for image in checked_images(cx).filter(|image| image.facts.os == other.into()) {
        let by = by_evidence(image.image, &image.facts);
        let message = format!("this image is for {}{by}, and the pod runs on {}", other.title(), os.title());
        let mut found = cx.finding(rule, cx.at(&image.container, "/image"), message);
        found.help = format!("use a {} image instead of {}", os.title(), image.image).into();
        out.push(found);
    }
}

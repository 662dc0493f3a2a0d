//! The containers and image volumes of a workload with their verdicts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::image::ImageOs;
use mullion_engine::model::text::{counted, lower_first, upper_first};
use mullion_engine::model::windows::Build;
use mullion_engine::rules::{Injector, Systems, injector_of};

use crate::context::PlanContext;
use crate::report::{PlannedContainer, Verdict};
use crate::scope::MoveScope;
use crate::verdicts::baseline::mismatch;
use crate::verdicts::evidence::{ImageEvidence, Isolation, runtime_class};
use crate::verdicts::gap::Gap;
use crate::verdicts::judge::{ImageJudge, ImageVerdict};
use mullion_survey::analysis::{ContainerPlace, RunningImages, ViewContainer, WorkloadView};
use mullion_survey::inventory::{Inventory, PodShape};

/// The containers and image volumes of a workload with their verdicts, and what is not known of their images.
#[derive(Default)]
pub(crate) struct JudgedContainers {
    pub(crate) containers: Vec<PlannedContainer>,
    pub(crate) image_volumes: Vec<PlannedContainer>,
    pub(crate) gaps: BTreeSet<Gap>,
}

/// Judges the init, regular and injected containers of a workload, and its image volumes. `moves`: whether it may move, so
/// that what its new nodes need is worth a note.
pub(crate) fn containers(
    view: &WorkloadView<'_>,
    running: &RunningImages,
    inventory: &Inventory,
    scope: &MoveScope,
    context: PlanContext<'_>,
    moves: bool,
) -> JudgedContainers {
    let isolation = Isolation::of(view, inventory);
    let judge = ImageJudge { inventory, running, scope, context };
    let in_pods = images_in_pods(view, |shape| shape.containers.iter().map(|one| (&*one.name, &*one.image)));
    let mut judged = JudgedContainers::default();
    if isolation == Isolation::UnreadRuntimeClass {
        judged.gaps.insert(Gap::UnreadRuntimeClass);
    }
    for container in view.containers.iter().filter(|container| container.place != ContainerPlace::Ephemeral) {
        let image = &container.report.image;
        let injected_by = InjectedBy::of(container, view);
        let judge_image = |image: &str| {
            let mut evidence = ImageEvidence::new(image, view, running, inventory, isolation);
            if evidence.builds.is_empty() && injected_by.as_ref().is_some_and(InjectedBy::is_linux) {
                evidence.os = ImageOs::Linux;
            }
            judge.judge(&evidence)
        };
        let mut verdict = judge_image(image);
        if container.place != ContainerPlace::Pods {
            add_other_images(&mut verdict, container, &in_pods, judge_image);
        }
        if let Some(platforms) = inventory.snapshot.images.get(image).filter(|_| isolation == Isolation::Process) {
            verdict.notes.extend(mismatch(platforms, view, inventory));
        }
        let is_there = running.pulled_on(image).any(|host| host == scope.target);
        if moves && !(isolation == Isolation::HostProcess && is_there) {
            add_class(&mut verdict, view, isolation);
        }
        judged.gaps.extend(verdict.gap);
        judged.containers.push(planned(container, verdict, injected_by.as_ref(), inventory, scope.target));
    }
    let in_pods = images_in_pods(view, |shape| shape.image_volumes.iter().map(|one| (&*one.name, &*one.image)));
    for volume in &view.image_volumes {
        let judge_image =
            |image: &str| judge.judge(&ImageEvidence::new(image, view, running, inventory, Isolation::Volume));
        let mut verdict = judge_image(&volume.report.image);
        let injected_by = InjectedBy::of(volume, view);
        if injected_by.is_none() {
            add_other_images(&mut verdict, volume, &in_pods, judge_image);
        }
        judged.gaps.extend(verdict.gap);
        judged.image_volumes.push(planned(volume, verdict, injected_by.as_ref(), inventory, scope.target));
    }
    judged
}

impl JudgedContainers {
    /// The worst verdict.
    pub(crate) fn worst(&self) -> Verdict {
        let all = self.containers.iter().chain(&self.image_volumes);
        all.map(|image| image.verdict).max().unwrap_or(Verdict::Unknown)
    }
}

/// Images by the name of their container or volume, with the number of pods: those of all revisions that have pods.
type ImagesInPods<'v> = HashMap<&'v str, BTreeMap<&'v str, usize>>;

/// The images of its pods. `images`: names and images of a shape.
fn images_in_pods<'v, I: Iterator<Item = (&'v str, &'v str)>>(
    view: &'v WorkloadView<'_>,
    images: impl Fn(&'v PodShape) -> I,
) -> ImagesInPods<'v> {
    let mut found = ImagesInPods::new();
    for pod in view.pods.iter().filter(|pod| !pod.ended) {
        for (name, image) in images(&pod.shape) {
            *found.entry(name).or_default().entry(image).or_default() += 1;
        }
    }
    found
}

/// Adds what pods of other revisions have in its place.
fn add_other_images(
    verdict: &mut ImageVerdict,
    own: &ViewContainer,
    in_pods: &ImagesInPods<'_>,
    judge: impl Fn(&str) -> ImageVerdict,
) {
    for (other, pods) in in_pods.get(own.report.name.as_str()).into_iter().flatten() {
        if *other != own.report.image {
            add_other_image(verdict, other, *pods, judge(other));
        }
    }
}

/// Pods of another revision start again with their own image, so a worse verdict of that counts.
fn add_other_image(verdict: &mut ImageVerdict, image: &str, pods: usize, other: ImageVerdict) {
    if other.verdict <= verdict.verdict {
        return;
    }
    let because =
        format!("{} of it {} {image} instead: {}", counted(pods, "pod"), runs(pods), lower_first(&other.because));
    *verdict = ImageVerdict {
        because,
        proposal: None,
        from_line: other.from_line,
        notes: vec!["Finish or undo the rollout before the move.".to_owned()],
        ..other
    };
}

const fn runs(pods: usize) -> &'static str {
    if pods == 1 { "runs" } else { "run" }
}

fn add_class(verdict: &mut ImageVerdict, view: &WorkloadView<'_>, isolation: Isolation) {
    match isolation {
        Isolation::VirtualMachine => verdict.notes.push(
            "Its pods run in virtual machines: the new nodes need virtualization, the handler of the RuntimeClass, and a pause image with an entry for their build."
                .to_owned(),
        ),
        Isolation::UnreadRuntimeClass => verdict.notes.push(format!(
            "Its RuntimeClass {} was not read: check that it exists and that the new nodes have its handler.",
            runtime_class(view).unwrap_or_default()
        )),
        Isolation::HostProcess => verdict.notes.push(
            "HostProcess containers run on the host itself: test this one on the new release.".to_owned(),
        ),
        Isolation::Process | Isolation::Volume => {}
    }
}

/// What added a container or a volume that the author did not write.
enum InjectedBy {
    Known(&'static Injector),
    /// A webhook without a row in the table of injectors.
    Webhook,
}

impl InjectedBy {
    fn of(container: &ViewContainer, view: &WorkloadView<'_>) -> Option<Self> {
        let injector = || injector_of(&container.report.name, &container.report.image).map(Self::Known);
        match container.place {
            ContainerPlace::Pods => Some(injector().unwrap_or(Self::Webhook)),
            // A pod stands for its owner, or nothing else was read: webhooks add containers to it too.
            ContainerPlace::Object(..) if view.kind == WorkloadKind::Pod => injector(),
            ContainerPlace::VolumeOfPods => Some(Self::Webhook),
            ContainerPlace::Object(..) | ContainerPlace::Ephemeral | ContainerPlace::Volume(_) => None,
        }
    }

    /// Whether no image of it is for Windows.
    fn is_linux(&self) -> bool {
        matches!(self, Self::Known(injector) if injector.systems == Systems::Linux)
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Known(injector) => injector.name,
            Self::Webhook => "a webhook",
        }
    }
}

fn planned(
    container: &ViewContainer,
    verdict: ImageVerdict,
    injected_by: Option<&InjectedBy>,
    inventory: &Inventory,
    target: Build,
) -> PlannedContainer {
    let ImageVerdict { verdict, because, proposal, from_line, mut notes, find_out, builds, known_from, .. } = verdict;
    if let Some(injector) = injected_by.filter(|_| verdict != Verdict::RunsAsIs) {
        let name = upper_first(injector.name());
        let what = if container.place == ContainerPlace::VolumeOfPods { "volume" } else { "container" };
        notes.push(format!("{name} adds this {what} to the pods: its image is set there, not in the workload."));
    }
    let pulled = proposal.as_ref().map_or(container.report.image.as_str(), |proposal| proposal.image.as_str());
    PlannedContainer {
        name: container.report.name.clone(),
        image: container.report.image.clone(),
        injected_by: injected_by.map(|injector| injector.name().to_owned()),
        builds: builds.iter().map(ToString::to_string).collect(),
        known_from,
        verdict,
        because,
        pull_bytes: inventory.pull_bytes(pulled, target),
        proposal,
        from_line,
        notes,
        find_out,
    }
}

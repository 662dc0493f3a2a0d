//! Pods that are misplaced or stuck now, and the meaning of messages about them.

use mullion_engine::model::cluster::Taint;
use mullion_engine::model::declared_features::DeclaredFeature;
use mullion_engine::model::image::ImageOs;
use mullion_engine::model::names::OS_LABELS;
use mullion_engine::model::text::{counted, list, list_with, lower_first, upper_first};
use mullion_engine::model::windows::Build;
use mullion_engine::model::{DetectedOs, Os};

use crate::analysis::findings::{Findings, FoundPlace};
use crate::analysis::fleet::{Fleet, FleetNode};
use crate::analysis::images::{PodImage, image_of_message};
use crate::analysis::node_classes::{NodeClasses, Obstacle, with_class};
use crate::analysis::owners::OwnedPods;
use crate::analysis::workload_view::{FleetRules, ViewContainer, WorkloadView};
use crate::catalogue::{FindingGroup, find_kind};
use crate::inventory::{Inventory, PodRecord};
use crate::messages::{Envelope, MessageClass, Translation, translate};
use crate::report::Knowledge;

/// The facts that pods are compared with.
pub(crate) struct StuckContext<'a> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) fleet: &'a Fleet<'a>,
    pub(crate) classes: &'a NodeClasses<'a>,
    pub(crate) rules: FleetRules<'a>,
}

/// One text about a pod.
struct PodText<'a> {
    path: String,
    reason: &'a str,
    message: &'a str,
    container: Option<u16>,
    exit_code: Option<i64>,
    translation: Option<Translation>,
    from_status: bool,
}

/// Adds the findings about the pods of a workload. Returns the indexes of pools with the numbers of the workload's
/// misplaced pods.
pub(crate) fn find(
    view: &WorkloadView<'_>,
    owned: &OwnedPods<'_>,
    context: &StuckContext<'_>,
    found: &mut Findings<'_>,
) -> Vec<usize> {
    let mut misplaced = Vec::new();
    for pod in &view.pods {
        if let Some(pool) = find_in_pod(view, pod, context, found) {
            misplaced.push(pool);
        }
    }
    find_rejected(view, owned, context, found);
    misplaced
}

fn find_in_pod(
    view: &WorkloadView<'_>,
    pod: &PodRecord,
    context: &StuckContext<'_>,
    found: &mut Findings<'_>,
) -> Option<usize> {
    if pod.ready || !pod.reported {
        return None;
    }
    if pod.ended {
        // A pod that failed by itself is not reported here; rejections by the kubelet are.
        let rejection = texts(pod, context).into_iter().find(|text| {
            matches!(
                text.translation.as_ref().map(|translation| translation.class),
                Some(MessageClass::OsFieldRejected | MessageClass::OsLabelRejected | MessageClass::FeatureRejected)
            )
        })?;
        let node = pod.node.as_deref().and_then(|name| context.fleet.node(name));
        add_translated(view, pod, node, rejection, context, found);
        return None;
    }
    let Some(name) = pod.node.as_deref() else {
        if pod.unschedulable {
            find_pending(view, pod, context, found);
        }
        return None;
    };
    let node = context.fleet.node(name);
    let best = best_text(pod, context);
    if let Some(node) = node
        && !pod.started
        && let Some(place) = misplacement(view, pod, node, best.as_ref(), context)
    {
        found.add(&view.object, place);
        return Some(node.pool);
    }
    if let Some(best) = best {
        let pool = node.map(|node| node.pool);
        return add_translated(view, pod, node, best, context, found).then_some(pool).flatten();
    }
    None
}

/// The texts about a pod: those of its status, and if none of its containers ever ran, those of its Events.
fn texts<'a>(pod: &'a PodRecord, context: &StuckContext<'a>) -> Vec<PodText<'a>> {
    let of_status = pod.problems.iter().filter(|text| !text.path.contains("conditions")).map(|text| PodText {
        path: text.path.to_string(),
        reason: &text.reason,
        message: &text.message,
        container: text.container,
        exit_code: text.exit_code,
        translation: translate(&text.reason, &text.message),
        from_status: true,
    });
    let mut all: Vec<PodText<'a>> = of_status.collect();
    if !pod.started {
        all.extend(context.inventory.events_of(pod).map(|event| PodText {
            path: format!("message of Event {}", event.reason),
            reason: &event.reason,
            message: &event.message,
            container: None,
            exit_code: None,
            translation: translate(&event.reason, &event.message),
            from_status: false,
        }));
    }
    all
}

/// The most informative text: by class, with those of the status first.
fn best_text<'a>(pod: &'a PodRecord, context: &StuckContext<'a>) -> Option<PodText<'a>> {
    let mut all = texts(pod, context);
    if pod.started {
        // If a container ran, its image fits; only what its status waits for remains.
        all.retain(|text| text.path.contains(".waiting.") || text.path.contains("lastState"));
        let exit_code = all.iter().find_map(|text| text.exit_code);
        let mut waiting: Vec<PodText<'_>> = all.into_iter().filter(|text| text.path.contains(".waiting.")).collect();
        for text in &mut waiting {
            text.exit_code = text.exit_code.or(exit_code);
        }
        all = waiting;
    } else {
        // Mounts of volumes and others; `Unhealthy` and similar reasons are not about the start.
        all.retain(|text| text.translation.is_some() || text.from_status || text.reason.starts_with("Failed"));
    }
    let rank = |text: &PodText<'_>| {
        let class = text.translation.as_ref().map(|translation| translation.class);
        (class.is_none(), class == Some(MessageClass::Empty), class, !text.from_status, text.message.is_empty())
    };
    all.into_iter().min_by_key(rank)
}

/// A pod that is on a node that cannot run it, and that never ran.
fn misplacement<'p>(
    view: &WorkloadView<'_>,
    pod: &'p PodRecord,
    node: &FleetNode<'p>,
    best: Option<&PodText<'p>>,
    context: &StuckContext<'_>,
) -> Option<FoundPlace<'p>> {
    // A failure of the sandbox does not show anything about the images of the containers.
    let is_evidence = |best: &&PodText<'_>| {
        let found = best.translation.as_ref();
        found.is_some_and(|found| {
            let of_pod = matches!(found.class, MessageClass::HostNetwork | MessageClass::NoAddressLabel);
            of_pod || found.envelope != Envelope::Sandbox
        })
    };
    let best = best.filter(is_evidence);
    let class = best.and_then(|best| best.translation.as_ref()).map(|translation| translation.class);
    // These are more specific than that the node is the wrong one.
    if matches!(
        class,
        Some(MessageClass::OsFieldRejected | MessageClass::OsLabelRejected | MessageClass::FeatureRejected)
    ) {
        return None;
    }
    let os = node.node.os?;
    let host = node.node.build;
    let evident = |os: ImageOs| {
        view.containers.iter().find(|container| container.os == os).map(|container| container.report.image.clone())
    };
    let image = best.and_then(|best| TextImage::of(view, pod, best));
    let by_message = match class {
        // Another node is no remedy for the image of a volume.
        _ if image.as_ref().is_some_and(|image| image.volume.is_some()) => None,
        Some(MessageClass::LinuxImage) => Some(Os::Linux),
        Some(MessageClass::HostNetwork) if view.intended != Some(Os::Windows) => Some(Os::Linux),
        // Windows pods have this label; without it, the pod is what it otherwise counts as.
        Some(MessageClass::NoAddressLabel) => view.os.decided(),
        Some(MessageClass::WindowsImage) => Some(Os::Windows),
        // The image without an entry is known, and often also what it is for.
        Some(MessageClass::NoPlatform) => {
            let known = image.as_ref().and_then(|image| image.container(view));
            [Os::Linux, Os::Windows].into_iter().find(|os| known.is_some_and(|known| known.os == ImageOs::from(*os)))
        }
        _ => None,
    };
    let intended = by_message.or(view.intended);
    let path = best.map_or_else(|| "spec.nodeName".to_owned(), |best| best.path.clone());
    let raw = best.map(|best| best.message);
    let (on_pod, on_node) = (Some(&*pod.name), Some(&*node.node.name));
    let place = |code, cause: String, message: String, action: Option<String>| FoundPlace {
        cause,
        pod: on_pod,
        node: on_node,
        action,
        raw,
        ..FoundPlace::new(code, path.as_str(), message)
    };
    let here = place_of(node);
    // Another node does not help against these.
    let pull = match class {
        Some(MessageClass::PullDenied) => " Its registry denies the pull too.",
        Some(MessageClass::ImageNotFound) => " Its registry has no such image either.",
        _ => "",
    };
    if intended == Some(os.other()) {
        let image = image.filter(|image| image.volume.is_none()).map(|image| image.image);
        let image = image.or_else(|| evident(ImageOs::from(os.other())));
        let other = os.other().title();
        let why = match class {
            Some(MessageClass::HostNetwork) => {
                "the pod uses the network of the host, which only Linux pods do with Docker".to_owned()
            }
            Some(MessageClass::NoAddressLabel) if view.intended.is_none() => {
                format!("it counts as {other}: {}", view.because)
            }
            Some(MessageClass::NoAddressLabel) => format!("it counts as {other} because of {}", view.because),
            _ if by_message.is_some() => format!("it is a {other} image"),
            _ => format!("it counts as {other} because of {}", view.because),
        };
        let code = if os == Os::Windows { "SUR101" } else { "SUR102" };
        let message = match image {
            Some(image) => format!("The image {image} cannot run on {here}: {why}.{pull}"),
            None => format!("The pods cannot run on {here}: {why}.{pull}"),
        };
        let system = os.other().name();
        let action = view.set_selector("kubernetes.io/os", system);
        return Some(place(code, format!("{host:?}"), message, Some(action)));
    }
    let host = host.filter(|_| os == Os::Windows && view.process_isolated)?;
    let misfit = view.misfit(host, &context.rules)?;
    let builds = list(&misfit.builds);
    let message = format!(
        "The image {} is for Windows build {builds}, and a host of build {host} cannot run it.{pull}",
        misfit.report.image
    );
    let action = format!("{} Or use an image for {host}.", select_build(view, context, &misfit.builds));
    Some(place("SUR103", format!("{}{host}", misfit.report.image), message, Some(action)))
}

/// The selector for a build of the fleet that runs the image.
fn select_build(view: &WorkloadView<'_>, context: &StuckContext<'_>, builds: &[Build]) -> String {
    let mut hosts: Vec<Build> = context.fleet.pools.iter().filter_map(|pool| pool.build).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.retain(|host| context.rules.runs(*host, builds));
    match hosts.first() {
        Some(host) => view.set_selector("node.kubernetes.io/windows-build", &host.to_string()),
        None => format!("Add a node pool that runs images for {}: this cluster has none.", list(builds)),
    }
}

/// The image that a text is about, and the name of its volume if it is one of a volume.
struct TextImage {
    image: String,
    volume: Option<String>,
}

impl TextImage {
    fn of(view: &WorkloadView<'_>, pod: &PodRecord, text: &PodText<'_>) -> Option<Self> {
        let translation = text.translation.as_ref();
        let of_status = || pod.shape.containers.get(usize::from(text.container?)).map(PodImage::Container);
        let found = match translation {
            Some(translation) => image_of_message(pod, text.container, translation),
            None => of_status(),
        };
        match found {
            Some(PodImage::Volume(volume)) => {
                return Some(Self { image: volume.image.to_string(), volume: Some(volume.name.to_string()) });
            }
            Some(PodImage::Container(container)) if text.container.is_some() => {
                return Some(Self { image: container.image.to_string(), volume: None });
            }
            _ => {}
        }
        let named = translation.and_then(|translation| translation.image.clone());
        let only = || match (view.containers.as_slice(), view.image_volumes.as_slice()) {
            ([one], []) => Some(one.report.image.clone()),
            _ => None,
        };
        Some(Self { image: named.or_else(only)?, volume: None })
    }

    /// `The image r/web:1`, `The image r/tools:1 of volume tools`.
    fn title(&self) -> String {
        let volume = self.volume.as_ref().map(|name| format!(" of volume {name}")).unwrap_or_default();
        format!("The image {}{volume}", self.image)
    }

    /// What to do about the image of a volume that is for other nodes.
    fn remedy_of_volume(&self, view: &WorkloadView<'_>, class: Option<MessageClass>) -> Option<String> {
        use MessageClass as C;
        let is_it = |one: &&ViewContainer| Some(&one.report.name) == self.volume.as_ref();
        let volume = view.image_volumes.iter().find(is_it)?;
        let is_for_others = matches!(class, Some(C::NoPlatform | C::LinuxImage | C::WindowsImage));
        is_for_others.then(|| format!("Use an image for the nodes of its pods in {}.", view.image_path(volume)))
    }

    /// What is known of it as the image of a container.
    fn container<'v>(&self, view: &'v WorkloadView<'_>) -> Option<&'v ViewContainer> {
        let is_it = |one: &&ViewContainer| one.report.image == self.image;
        if self.volume.is_some() { None } else { view.containers.iter().find(is_it) }
    }
}

/// `Windows nodes of build 10.0.20348`, `Linux nodes`.
fn place_of(node: &FleetNode<'_>) -> String {
    match (node.node.os, node.node.build) {
        (Some(Os::Windows), Some(build)) => format!("Windows nodes of build {build}"),
        (Some(os), _) => format!("{} nodes", os.title()),
        (None, _) => "nodes without an operating system".to_owned(),
    }
}

/// Adds the finding for a translated text; true if it means that the pod is misplaced.
#[allow(clippy::too_many_lines, reason = "a table from class to code and sentence")]
fn add_translated(
    view: &WorkloadView<'_>,
    pod: &PodRecord,
    node: Option<&FleetNode<'_>>,
    text: PodText<'_>,
    context: &StuckContext<'_>,
    found: &mut Findings<'_>,
) -> bool {
    use MessageClass as C;
    let translation = text.translation.as_ref();
    let sandbox = translation.is_some_and(|found| found.envelope == Envelope::Sandbox);
    let image = TextImage::of(view, pod, &text).filter(|_| !sandbox);
    let named = image.as_ref().map_or_else(|| "The image".to_owned(), TextImage::title);
    let host = node.and_then(|node| node.node.build).or(translation.and_then(|found| found.host));
    let here = node.map_or_else(|| "the node".to_owned(), place_of);
    let container = text.container.and_then(|at| pod.shape.containers.get(usize::from(at)));
    let container = match container {
        _ if sandbox => "The sandbox of the pod".to_owned(),
        Some(container) => format!("The container {}", container.name),
        None => "A container".to_owned(),
    };
    let class = translation.map(|found| found.class);
    let known = image.as_ref().and_then(|image| image.container(view));
    let stated = translation.and_then(|found| found.build);
    let builds = stated.as_ref().map(std::slice::from_ref).or(known.map(|one| one.builds.as_slice()));
    let builds = builds.unwrap_or_default();
    let is_excluded =
        stated.is_some() || host.zip(known).is_some_and(|(host, known)| known.excludes(host, &context.rules));
    let ran_elsewhere = host.zip(known).is_some_and(|(host, known)| {
        known.report.known_from == Knowledge::Running && known.lacks(host, &context.rules)
    });
    let mut action = image.as_ref().and_then(|image| image.remedy_of_volume(view, class));
    let is_of_volume = image.as_ref().is_some_and(|image| image.volume.is_some());
    let (code, message) = match class {
        Some(C::HostMismatch | C::NoPlatform | C::LayersTooNew | C::LinuxImage | C::WindowsImage) if sandbox => {
            action = pause_image_of_docker(node);
            ("SUR211", format!("The pause image does not fit {here}."))
        }
        Some(C::LinuxImage | C::WindowsImage) if node.is_none() || is_of_volume => {
            let system = if class == Some(C::LinuxImage) { Os::Linux } else { Os::Windows };
            let uses = if is_of_volume { "mount" } else { "run" };
            ("SUR201", format!("{named} is a {} image, and the node of its pods cannot {uses} it.", system.title()))
        }
        Some(C::HostMismatch | C::CreateFailed | C::NoPlatform | C::LayersTooNew)
            if node.is_some() && is_excluded && !sandbox && view.process_isolated =>
        {
            action = Some(select_build(view, context, builds));
            ("SUR103", format!("{named} is for Windows build {}, and {here} cannot run it.", list(builds)))
        }
        // The failure excludes the build of this node; where the image ran is no more than one way out.
        Some(C::HostMismatch | C::NoPlatform) if node.is_some() && ran_elsewhere && view.process_isolated => {
            action = Some(select_build(view, context, builds));
            ("SUR103", format!("{named} ran on nodes of build {}, and {here} cannot run it.", list(builds)))
        }
        Some(C::NoPlatform) => {
            let message = match node.and_then(|node| node.node.os) {
                Some(Os::Linux) => {
                    format!("{named} has no entry for {here}: it is a Windows image, or has none for their processor.")
                }
                _ => format!("{named} has no entry for {here}: it is a Linux image, or one for other Windows builds."),
            };
            ("SUR201", message)
        }
        Some(C::OsFieldRejected) => {
            ("SUR109", format!("The kubelet rejected the pod on {here}: spec.os.name is another operating system."))
        }
        Some(C::OsLabelRejected) => (
            "SUR110",
            format!("The kubelet rejected the pod on {here}: its label kubernetes.io/os is another operating system."),
        ),
        Some(C::FeatureRejected) => {
            action = feature_action(&pod.shape.needed_features, view);
            let needs = match pod.shape.needed_features.as_slice() {
                [] => "a feature that the kubelet does not have".to_owned(),
                needed => features(needed),
            };
            ("SUR114", format!("The kubelet rejected the pod on {here}: it needs {needs}."))
        }
        Some(C::RunAsNonRoot) => {
            ("SUR219", format!("{container} sets runAsNonRoot and runs as ContainerAdministrator."))
        }
        Some(C::InvalidImageName) => ("SUR207", format!("{named} is not a valid reference.")),
        Some(C::PullDenied) => ("SUR202", format!("The registry denies the pull of {}.", lower_first(&named))),
        Some(C::PullLimited) => ("SUR205", format!("The registry limits pulls of {}.", lower_first(&named))),
        Some(C::LinuxImage) => ("SUR101", format!("{named} is a Linux image, and its pods are on {here}.")),
        Some(C::WindowsImage) => ("SUR102", format!("{named} is a Windows image, and its pods are on {here}.")),
        Some(C::DiskFull) => ("SUR209", format!("The disk is too full to unpack {}.", lower_first(&named))),
        Some(C::LayersTooNew) => ("SUR210", format!("The layers of {} are newer than {here}.", lower_first(&named))),
        Some(C::UnpackFailed) => ("SUR208", format!("{named} was pulled, and cannot be unpacked on {here}.")),
        Some(C::ImageNotFound) => {
            ("SUR203", format!("The registry has no {}.", lower_first(&named).trim_start_matches("the ")))
        }
        Some(C::RegistryUnreachable) => {
            ("SUR204", format!("The node cannot reach the registry of {}.", lower_first(&named)))
        }
        Some(C::PullFailed | C::Empty) => ("SUR206", format!("{named} cannot be pulled; the text does not show why.")),
        Some(C::PauseImage) => {
            action = pause_image_of_docker(node);
            (
                "SUR211",
                format!("The pause image{} cannot be pulled on {here}, so no pod starts there.", image_suffix(&text)),
            )
        }
        Some(C::NoRuntimeHandler) => {
            let handler = text
                .message
                .split_once("no runtime for \"")
                .and_then(|(_, rest)| rest.split('"').find(|word| !word.is_empty()));
            let handler = handler.map_or_else(String::new, |handler| format!(" {handler}"));
            let class =
                pod.shape.runtime_class.as_ref().map_or_else(String::new, |class| format!(" of RuntimeClass {class}"));
            ("SUR212", format!("{here} have no runtime handler{handler}{class}."))
        }
        Some(C::HostNetwork) => {
            let field = view.path("spec.hostNetwork");
            action = Some(format!(
                "Remove {field}: of the Windows containers, only HostProcess uses the network of the host."
            ));
            ("SUR213", format!("The network of the pod cannot be set up on {here}: there is no network `host`."))
        }
        Some(C::NoAddressLabel) => {
            let (message, remedy) = without_address(view, pod);
            action = remedy;
            ("SUR223", message.to_owned())
        }
        Some(C::MountSource) => ("SUR224", format!("The source of a volume of the pod is not on {here}.")),
        Some(C::PodNetwork) => ("SUR213", format!("The network of the pod cannot be set up on {here}.")),
        Some(C::HostMismatch) => (
            "SUR214",
            format!(
                "{named} is not for the Windows build of its nodes, {}.",
                host.map_or_else(|| "which is unknown".to_owned(), |host| host.to_string())
            ),
        ),
        Some(C::ExitedAtStart) => ("SUR215", format!("{container} ended while Windows started it on {here}.")),
        Some(C::WorkingDirectory) => ("SUR216", format!("{container} cannot be created: a directory name is invalid.")),
        Some(C::CreateFailed) => {
            ("SUR217", format!("{container} cannot be created on {here}; the cause in the text is not known."))
        }
        Some(C::ProgramNotFound) => {
            ("SUR218", format!("The program of {} is not in {}.", lower_first(&container), lower_first(&named)))
        }
        Some(C::ConfigMissing) => {
            ("SUR220", format!("{container} waits for a Secret or a ConfigMap that does not exist."))
        }
        Some(C::CrashLoop) => {
            ("SUR221", format!("{container} starts and ends again and again{}.", exit_text(text.exit_code)))
        }
        Some(C::NoPrivateAddress | C::VolumeAffinity | C::VolumeCount | C::VolumeDriver | C::MissingFeature) | None => {
            let reason = if text.reason.is_empty() { "without a reason" } else { text.reason };
            ("SUR222", format!("The pod does not run on {here}: {reason}."))
        }
    };
    let cause = format!(
        "{}{}{}",
        image.map(|image| image.image).unwrap_or_default(),
        host.map_or(0, Build::number),
        if class.is_none() { text.reason } else { "" }
    );
    let place = FoundPlace {
        cause,
        pod: Some(&pod.name),
        node: pod.node.as_deref(),
        action,
        raw: Some(text.message),
        ..FoundPlace::new(code, text.path, upper_first(&message))
    };
    found.add(&view.object, place);
    find_kind(code).is_some_and(|kind| kind.group == FindingGroup::Misplaced)
}

fn image_suffix(text: &PodText<'_>) -> String {
    let image = text.translation.as_ref().and_then(|translation| translation.image.as_ref());
    image.map_or_else(String::new, |image| format!(" {image}"))
}

/// How Docker gets its pause image; containerd has another way, which the catalogue names.
fn pause_image_of_docker(node: Option<&FleetNode<'_>>) -> Option<String> {
    node.filter(|node| node.node.container_runtime.starts_with("docker://")).map(|_| {
        "Start the kubelet of the node with --pod-infra-container-image and a pause image for its build, and check access to the registry."
            .to_owned()
    })
}

/// Why a pod on EKS has no address, and what to do, unless it is a Linux pod. The webhook of EKS sets the label when the pod
/// is created, and reads nodeSelector alone (aws/amazon-vpc-resource-controller-k8s
/// `webhooks/core/pod_webhook.go`).
fn without_address(view: &WorkloadView<'_>, pod: &PodRecord) -> (&'static str, Option<String>) {
    let mut selected = pod.shape.constraints.node_selector.iter().flatten();
    if selected.any(|(key, value)| OS_LABELS.contains(&key.as_str()) && value == Os::Windows.name()) {
        let message = "The pod selects Windows in nodeSelector and has no address of EKS: Windows support was off when it was created.";
        let action = "Set enable-windows-ipam: \"true\" in ConfigMap kube-system/amazon-vpc-cni, and delete the pod, so that it is created again.";
        (message, Some(action.to_owned()))
    } else if view.is_windows() {
        let message = "The pod has no address of EKS: nodeSelector did not select Windows when it was created, and affinity does not count.";
        (message, Some(view.set_selector("kubernetes.io/os", Os::Windows.name())))
    } else {
        (
            "The pod has no address of EKS: it is a Linux pod, or nodeSelector did not select Windows when it was created.",
            None,
        )
    }
}

/// Exit codes of Windows that identify a cause (ntstatus.h).
const EXIT_CODES: [(u32, &str); 4] = [
    (0xC000_0005, "access violation"),
    (0xC000_0135, "a DLL is missing in the image"),
    (0xC000_0142, "a DLL cannot be initialized"),
    (0xC000_013A, "ended by Ctrl+C, as at a shutdown"),
];

fn exit_text(code: Option<i64>) -> String {
    let Some(code) = code else { return String::new() };
    // The kubelet reports the unsigned or the signed number.
    let status = u32::try_from(code).ok().or_else(|| i32::try_from(code).ok().map(i32::cast_unsigned));
    match status.filter(|status| *status > 0xFFFF) {
        Some(status) => {
            let meaning = EXIT_CODES.iter().find(|(known, _)| *known == status);
            let meaning = meaning.map_or_else(String::new, |(_, text)| format!(": {text}"));
            format!(", last with exit code 0x{status:08X}{meaning}")
        }
        None => format!(", last with exit code {code}"),
    }
}

/// A pod for which the scheduler finds no node.
fn find_pending(view: &WorkloadView<'_>, pod: &PodRecord, context: &StuckContext<'_>, found: &mut Findings<'_>) {
    let status = pod.problems.iter().find(|text| text.path.contains("conditions"));
    let raw = status.map(|text| &*text.message);
    let path = status.map_or_else(|| "status.conditions".to_owned(), |text| text.path.to_string());
    let runtime_class = context.inventory.runtime_class(pod.shape.runtime_class.as_deref());
    let constraints = with_class(&pod.shape.constraints, runtime_class);
    let mut add = |code, cause: String, message: String, action: Option<String>| {
        let (pod, node) = (Some(&*pod.name), pod.target.as_deref());
        let place = FoundPlace { cause, pod, node, action, raw, ..FoundPlace::new(code, path.as_str(), message) };
        found.add(&view.object, place);
    };
    let class = raw.and_then(|raw| translate("", raw)).map(|found| found.class);
    if class == Some(MessageClass::NoPrivateAddress) {
        add("SUR108", String::new(), "No node has a free address for this Windows pod.".to_owned(), None);
        return;
    }
    if view.os == DetectedOs::Conflict {
        add("SUR111", String::new(), format!("The pod requires Linux and Windows at once: {}.", view.because), None);
        return;
    }
    if !context.fleet.known {
        add(
            "SUR222",
            String::new(),
            "The scheduler finds no node; the nodes were not read, so the reason cannot be computed.".to_owned(),
            None,
        );
        return;
    }
    let target = pod.target.as_deref().and_then(|name| context.fleet.node(name));
    let rejects = class == Some(MessageClass::MissingFeature);
    // An API server that stores such a field has a scheduler that compares features.
    let needed = pod.shape.needed_features.as_slice();
    let Some(obstacle) = context.classes.obstacle(&constraints, needed, target) else {
        let message = "The scheduler finds no node; too many pods select nodes by host name to compute why.";
        add("SUR107", String::new(), message.to_owned(), None);
        return;
    };
    match obstacle {
        Obstacle::Selector(missing) => {
            let (wanted, message) = missing_labels(&missing);
            let action = format!("Change {}, or add a node with this label.", view.path("spec.nodeSelector"));
            add("SUR104", wanted, message, Some(action));
        }
        Obstacle::Labels(keys) => {
            let message = if keys.is_empty() {
                "No node fits the pod.".to_owned()
            } else {
                format!(
                    "No node satisfies nodeSelector and affinity together; they are about {}.",
                    list_with(&keys, "and")
                )
            };
            add("SUR104", keys.join(","), message, None);
        }
        Obstacle::Features(lacking, nodes) => {
            let names = list_with(lacking.iter().map(|feature| feature.name), "and");
            add("SUR114", names, undeclared(&lacking, nodes), feature_action(&lacking, view));
        }
        Obstacle::Room(nodes) | Obstacle::UnknownFeatures(nodes) if rejects => {
            add("SUR114", String::new(), left_out(needed, nodes), feature_action(needed, view));
        }
        Obstacle::UnknownFeatures(nodes) => {
            let declare = if nodes == 1 { "declares" } else { "declare" };
            let (nodes, features) = (counted(nodes, "node"), features(needed));
            let message = format!(
                "The scheduler finds no node; whether {nodes} that would fit the pod {declare} {features} is not known."
            );
            add("SUR222", String::new(), message, feature_action(needed, view));
        }
        Obstacle::Taints(taints) => {
            let nodes = |(taint, nodes): &(Taint, usize)| format!("{taint} on {}", counted(*nodes, "node"));
            let message = format!(
                "Every node that fits the pod has a taint that the pod does not tolerate: {}.",
                list_with(taints.iter().map(nodes), "and")
            );
            let names = list_with(taints.iter().map(|(taint, _)| taint), "and");
            let action = format!("Add a toleration for {names} to {}.", view.path("spec.tolerations"));
            add("SUR105", names, message, Some(action));
        }
        Obstacle::Unavailable(nodes) => {
            let are = if nodes == 1 { "is" } else { "are" };
            let message =
                format!("{} that would fit the pod {are} cordoned or not ready.", upper_first(&counted(nodes, "node")));
            add("SUR106", String::new(), message, None);
        }
        Obstacle::Room(nodes) => {
            let (code, message) = without_room(nodes, class);
            add(code, String::new(), message, None);
        }
    }
}

/// The labels that no node has, and the sentence about them.
fn missing_labels(missing: &[(String, Vec<String>)]) -> (String, String) {
    let wanted = list_with(missing.iter().map(|(label, _)| label), "and");
    let have = missing.iter().map(|(label, values)| {
        let key = label.split('=').next().unwrap_or(label);
        if values.is_empty() {
            format!("no node has the label {key}")
        } else {
            format!("nodes have {key}={}", list_with(values, "or"))
        }
    });
    let message = format!("No node has the label {wanted}: {}.", list_with(have, "and"));
    (wanted, message)
}

/// The sentence about nodes that do not declare these features.
fn undeclared(lacking: &[&'static DeclaredFeature], nodes: usize) -> String {
    let does = if nodes == 1 { "does" } else { "do" };
    let nodes = upper_first(&counted(nodes, "node"));
    format!("{nodes} that would fit the pod {does} not declare {}.", features(lacking))
}

/// The sentence about a pod for which the scheduler leaves out nodes. Its message does not name the feature, and states nothing
/// about the other nodes. `nodes`: those that fit by their labels.
fn left_out(needed: &[&'static DeclaredFeature], nodes: usize) -> String {
    let which = match needed {
        [] => "; no rule that Mullion knows shows which one".to_owned(),
        needed => format!(": {}", features(needed)),
    };
    format!(
        "Labels of {} fit the pod, but the scheduler leaves out nodes that do not declare a feature that it needs{which}.",
        counted(nodes, "node")
    )
}

/// `the feature A, for a, and the feature B, for b`.
fn features(needed: &[&'static DeclaredFeature]) -> String {
    list_with(needed.iter().map(|feature| format!("the feature {}, for {}", feature.name, feature.field)), "and")
}

/// How to get a node that declares these features, or a pod that does not need them; `None` if they are not known.
fn feature_action(needed: &[&'static DeclaredFeature], view: &WorkloadView<'_>) -> Option<String> {
    let fields = list_with(needed.iter().map(|feature| feature.field), "and");
    let by = needed.iter().map(|feature| format!("A kubelet declares {} {}.", feature.name, feature.declared_by));
    let by: Vec<String> = by.collect();
    let them = if needed.len() == 1 { "it" } else { "them" };
    let (spec, by) = (view.path("spec"), by.join(" "));
    (!needed.is_empty()).then(|| format!("Remove {fields} from {spec}, or add a node that declares {them}. {by}"))
}

/// The code and the sentence for a pod that labels and taints of nodes fit. `class`: of the message of the scheduler.
fn without_room(nodes: usize, class: Option<MessageClass>) -> (&'static str, String) {
    let (code, why) = match class {
        Some(MessageClass::VolumeAffinity) => ("SUR113", "but a volume of it is in another zone or on another node"),
        Some(MessageClass::VolumeCount) => ("SUR113", "but none of them attaches more volumes"),
        Some(MessageClass::VolumeDriver) => ("SUR113", "but some do not have the CSI driver of a volume of it"),
        _ => ("SUR107", "but the scheduler does not place it: capacity is missing, or rules between pods prevent it"),
    };
    (code, format!("Labels and taints of {} fit the pod, {why}.", counted(nodes, "node")))
}

/// Controllers that cannot create their pods.
fn find_rejected(view: &WorkloadView<'_>, owned: &OwnedPods<'_>, context: &StuckContext<'_>, found: &mut Findings<'_>) {
    // Events are kept for an hour, so if there are pods, the fault may be resolved.
    if !view.pods.is_empty() {
        return;
    }
    for key in std::iter::once(&owned.key).chain(&owned.direct) {
        let events = context.inventory.events.get(key).into_iter().flatten();
        let Some(event) = events.filter(|event| &*event.reason == "FailedCreate").max_by(|a, b| a.time.cmp(&b.time))
        else {
            continue;
        };
        let path = format!("message of Event FailedCreate of {} {}", key.kind, key.name);
        let message = "The workload has no pods, because the API server rejects them.";
        let place = FoundPlace { raw: Some(&event.message), ..FoundPlace::new("SUR112", path, message) };
        found.add(&view.object, place);
        return;
    }
}

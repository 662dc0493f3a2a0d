//! Workloads that work now but may fail after a small change.

use mullion_engine::detect::image_names::{Retag, frozen_since, retag};
use mullion_engine::model::Os;
use mullion_engine::model::image::{ImageOs, ImageRef};
use mullion_engine::model::names::EPHEMERAL_CONTAINERS;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::published_images::PublishedImages;
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::text::{list_with, upper_first};
use mullion_engine::model::windows::{Build, names_build};
use serde_json::Value;

use crate::analysis::findings::{Findings, FoundPlace};
use crate::analysis::fleet::Fleet;
use crate::analysis::node_classes::NodeClasses;
use crate::analysis::workload_view::{FloatingTag, WorkloadView};

/// Adds what is fragile in a workload. `images`: the table of published images.
pub(crate) fn find(
    view: &WorkloadView<'_>,
    fleet: &Fleet<'_>,
    classes: &NodeClasses<'_>,
    images: &PublishedImages,
    found: &mut Findings<'_>,
) {
    find_luck(view, fleet, classes, found);
    find_build_selector(view, found);
    if !view.is_windows() {
        return;
    }
    find_tags(view, images, found);
    if view.host_process {
        let path = view.path("spec.securityContext.windowsOptions.hostProcess");
        let message = "This workload runs as HostProcess: on the host itself.";
        found.add(&view.object, FoundPlace::new("SUR308", path, message));
    } else {
        find_memory(view, found);
    }
}

/// Workloads that can be scheduled on nodes of the other operating system.
fn find_luck(view: &WorkloadView<'_>, fleet: &Fleet<'_>, classes: &NodeClasses<'_>, found: &mut Findings<'_>) {
    let Some(own) = view.os.decided() else { return };
    // A class that was not read may select nodes, and a webhook may have changed pods.
    if view.has_unread_class || view.has_unread_pods {
        return;
    }
    // An image for both systems runs on both.
    if !fleet.has(own) || view.containers.iter().all(|container| container.os == ImageOs::Multi) {
        return;
    }
    let Some(other) = classes.admitting(&view.constraints, own.other()) else { return };
    let pool = fleet.pools.get(other.pool).map(|pool| pool.name.clone()).unwrap_or_default();
    let title = own.other().title();
    let blanket = blanket(&view.constraints);
    if let Some(at) = blanket
        && classes.admitting(&without_blanket(&view.constraints), own.other()).is_none()
    {
        let path = view.path(&format!("spec.tolerations[{at}]"));
        let message = format!(
            "This {} workload tolerates every taint, so the taint of {title} pool {pool} does not keep it off.",
            own.title()
        );
        let action = Some(view.set_selector("kubernetes.io/os", own.name()));
        found.add(&view.object, FoundPlace { action, ..FoundPlace::new("SUR305", path, message) });
        return;
    }
    let because = if view.intended == Some(own) {
        String::new()
    } else if view.is_known_from_pods {
        " Its operating system is known only from where it runs.".to_owned()
    } else {
        format!(" It counts as {}: {}.", own.title(), view.because)
    };
    let code = if own == Os::Windows { "SUR301" } else { "SUR302" };
    let message = format!(
        "This {} workload can be scheduled on {title} nodes too, such as those of pool {pool}: no selector and no taint prevents it.{because}",
        own.title()
    );
    let action = Some(format!("{} Or let Mullion do it.", view.set_selector("kubernetes.io/os", own.name())));
    found.add(&view.object, FoundPlace { action, ..FoundPlace::new(code, view.path("spec.nodeSelector"), message) });
}

/// The position of a toleration for every taint.
fn blanket(constraints: &SchedulingConstraints) -> Option<usize> {
    let empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
    constraints
        .tolerations
        .iter()
        .flatten()
        .position(|toleration| empty(&toleration.key) && toleration.operator.as_deref() == Some("Exists"))
}

fn without_blanket(constraints: &SchedulingConstraints) -> SchedulingConstraints {
    let mut rest = constraints.clone();
    while let Some(at) = blanket(&rest) {
        if let Some(tolerations) = &mut rest.tolerations {
            tolerations.remove(at);
        }
    }
    rest
}

fn find_build_selector(view: &WorkloadView<'_>, found: &mut Findings<'_>) {
    // A RuntimeClass or a webhook may have added what a pod selects.
    if view.is_stand_in {
        return;
    }
    let selected = view.authored.node_selector.iter().flatten();
    let selected = selected.filter(|(key, _)| names_build(key));
    let mut pinned: Vec<String> = selected.map(|(key, value)| format!("{key}={value}")).collect();
    let mut path = view.path("spec.nodeSelector");
    if pinned.is_empty() {
        let required = view.authored.affinity.iter().filter_map(|all| all.node_affinity.as_ref()?.required.as_ref());
        let terms = required.flat_map(|terms| terms.node_selector_terms.iter().flatten());
        for expression in terms.flat_map(|term| term.match_expressions.iter().flatten()) {
            if let (Some([value]), "In", true) =
                (expression.values.as_deref(), expression.operator.as_str(), names_build(&expression.key))
            {
                pinned.push(format!("{}={value}", expression.key));
            }
        }
        // Two terms are alternatives.
        if pinned.len() > 1 {
            return;
        }
        path = view.path("spec.affinity.nodeAffinity");
    }
    if pinned.is_empty() {
        return;
    }
    let message = format!("This workload runs only on nodes with {}.", list_with(pinned, "and"));
    found.add(&view.object, FoundPlace::new("SUR306", path, message));
}

fn find_tags(view: &WorkloadView<'_>, tables: &PublishedImages, found: &mut Findings<'_>) {
    for FloatingTag { path, image, message, help } in &view.floating {
        let moved = message.strip_prefix("its tag names no release: ").unwrap_or(message);
        let message = format!("The tag of image {image} names no release: {moved}.");
        let (cause, action) = (path.clone(), Some(sentence(help)).filter(|help| help.len() > 1));
        found.add(&view.object, FoundPlace { cause, action, ..FoundPlace::new("SUR303", path, message) });
    }
    for container in view.images() {
        let image = &container.report.image;
        let Ok(reference) = ImageRef::parse(image) else { continue };
        let Some(since) = frozen_since(tables, &reference) else { continue };
        let path = view.image_path(container);
        let message = format!("The image {image} has had no updates since {since}.");
        let (cause, action) = (image.clone(), successor(tables, &reference, &container.builds));
        found.add(&view.object, FoundPlace { cause, action, ..FoundPlace::new("SUR304", path, message) });
    }
}

/// What to use in place of an image that gets no updates, on nodes of the newest build that runs it now.
fn successor(tables: &PublishedImages, image: &ImageRef<'_>, builds: &[Build]) -> Option<String> {
    match retag(tables, image, *builds.iter().max()?) {
        Retag::Another(proposed) => Some(format!("Use {}.", proposed.image)),
        Retag::NoTag { from: Some(from), .. } => Some(format!("Build the image again from {from}.")),
        Retag::NoTag { from: None, .. } | Retag::Keep | Retag::Pinned => None,
    }
}

fn find_memory(view: &WorkloadView<'_>, found: &mut Findings<'_>) {
    let Some(pod) = Pod::of(view.kind, &view.value) else { return };
    // A limit of the pod as a whole (Kubernetes 1.34).
    if pod.get("/spec/resources/limits/memory").is_some() {
        return;
    }
    let without = pod.containers().filter(|container| {
        container.list != EPHEMERAL_CONTAINERS && container.get("/resources/limits/memory").is_none_or(Value::is_null)
    });
    for container in without {
        let name = container.get("/name").and_then(Value::as_str).unwrap_or_default();
        let path = view.path(&format!("spec.{}[{}].resources.limits.memory", container.list, container.index));
        let message = format!("The container {name} has no memory limit.");
        let place = FoundPlace { cause: name.to_owned(), ..FoundPlace::new("SUR307", path, message) };
        found.add(&view.object, place);
    }
}

fn sentence(clause: &str) -> String {
    format!("{}.", upper_first(clause).trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_image_without_updates_has_a_successor() {
        let framework = "mcr.microsoft.com/dotnet/framework/aspnet";
        let cases = [
            (
                format!("{framework}:4.8-windowsservercore-ltsc2022"),
                20348,
                format!("Use {framework}:4.8.1-windowsservercore-ltsc2022."),
            ),
            (
                format!("{framework}:4.7.2-windowsservercore-ltsc2019"),
                17763,
                format!("Build the image again from {framework}:4.8-windowsservercore-ltsc2019."),
            ),
        ];
        for (image, build, expected) in cases {
            let reference = ImageRef::parse(&image).expect("a reference");
            assert!(frozen_since(PublishedImages::shipped(), &reference).is_some(), "{image}");
            let action = successor(PublishedImages::shipped(), &reference, &[Build::new(build)]);
            assert_eq!(action, Some(expected), "{image}");
        }
        for image in ["example.com/powershell:lts-nanoserver-1809", "mcr.microsoft.com/windows/nanoserver:ltsc2022"] {
            let reference = ImageRef::parse(image).expect("a reference");
            assert_eq!(frozen_since(PublishedImages::shipped(), &reference), None, "{image}");
        }
    }
}

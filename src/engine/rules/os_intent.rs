//! 1xx: what the subject says about operating systems, where it cannot all be meant.

use super::{Actions, Rule, finding};
use crate::engine::finding::{Finding, RefusedBy};
use crate::engine::image::ImageOs;
use crate::engine::images::ContainerImage;
use crate::engine::pod::Pod;
use crate::engine::verdict::{Decision, Says, Source, Verdict, windows_options};
use crate::policy::Action;

/// The rules of this file.
pub static RULES: [Rule; 3] = [CONFLICTING_OS, MIXED_OS_CONTAINERS, WINDOWS_OPTIONS_ON_LINUX];

const CONFLICTING_OS: Rule = Rule {
    code: "MUL101",
    name: "conflicting-os",
    summary: "two placements ask for different operating systems",
    default: Action::Deny,
    repair: false,
    why: "no node can satisfy both",
    instead: "keep the one that is meant and remove the other",
};

const MIXED_OS_CONTAINERS: Rule = Rule {
    code: "MUL102",
    name: "mixed-os-containers",
    summary: "containers of one pod have images for different operating systems",
    default: Action::Warn,
    repair: false,
    why: "all containers of a pod share one operating system",
    instead: "put them into two pods, or use images for one system",
};

const WINDOWS_OPTIONS_ON_LINUX: Rule = Rule {
    code: "MUL103",
    name: "windows-options-on-linux",
    summary: "windowsOptions on a pod that is placed on Linux",
    default: Action::Warn,
    repair: false,
    why: "Linux nodes ignore windowsOptions",
    instead: "remove windowsOptions, or place the pod on Windows",
};

/// Findings about what the subject says of operating systems.
pub fn check(
    pod: &Pod<'_>,
    decision: &Decision,
    images: &[ContainerImage<'_>],
    actions: Actions<'_>,
    out: &mut Vec<Finding>,
) {
    conflicting_os(pod, decision, actions, out);
    mixed_os_containers(pod, images, actions, out);
    if decision.verdict == Verdict::Linux
        && let Some(pointer) = windows_options(pod)
    {
        let mut found = finding(&RULES[2], actions, pod.at(&pointer), WINDOWS_OPTIONS_ON_LINUX.why.to_owned());
        if pod.text("/spec/os/name") == Some("linux") {
            found.refused_by = RefusedBy::ApiServer;
            "the API server refuses them beside spec.os.name: linux".clone_into(&mut found.message);
        }
        out.push(found);
    }
}

fn conflicting_os(pod: &Pod<'_>, decision: &Decision, actions: Actions<'_>, out: &mut Vec<Finding>) {
    if decision.verdict != Verdict::Conflict {
        return;
    }
    let mut says: Vec<String> = Vec::new();
    for evidence in &decision.evidence {
        let Says::Os(os) = evidence.says else { continue };
        match &evidence.source {
            Source::Field(pointer) => {
                says.push(format!("{} says {}", crate::engine::finding::field_path(pointer), os.name()));
            }
            Source::Node(name) => says.push(format!("node {name} has {}", os.name())),
            Source::Namespace(_) | Source::Policy(_) | Source::Image { .. } => {}
        }
    }
    let pointer = decision.evidence.iter().find_map(|evidence| match &evidence.source {
        Source::Field(pointer) => Some(pointer.clone()),
        _ => None,
    });
    let pointer = pointer.unwrap_or_else(|| pod.at("/spec"));
    let message = if says.len() > 1 {
        format!("{}: {}", says.join(", "), CONFLICTING_OS.why)
    } else {
        format!("its node constraints ask for Linux and for Windows: {}", CONFLICTING_OS.why)
    };
    out.push(finding(&RULES[0], actions, pointer, message));
}

fn mixed_os_containers(pod: &Pod<'_>, images: &[ContainerImage<'_>], actions: Actions<'_>, out: &mut Vec<Finding>) {
    let first = |os| images.iter().find(|image| image.facts.os == os);
    let (Some(windows), Some(linux)) = (first(ImageOs::Windows), first(ImageOs::Linux)) else { return };
    let message = format!("this image is for Linux and that of container {} for Windows", windows.container.name());
    let pointer = pod.at(&(linux.container.pointer() + "/image"));
    let mut found = finding(&RULES[1], actions, pointer, message);
    found.help = format!("{} and {}: {}", linux.image, windows.image, MIXED_OS_CONTAINERS.instead);
    out.push(found);
}

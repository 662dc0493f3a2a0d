//! 5xx: the platforms that the registry reports for an image, and which of them nodes pull.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::detect::ContainerImage;
use crate::model::cluster::Nodes;
use crate::model::image::{OsVersion, Platform, Platforms};
use crate::model::names::WINDOWS_BUILD_LABEL;
use crate::model::scheduling::{affinity_node_name, constrains};
use crate::model::text::{list, shorten};
use crate::model::windows::{Build, release_name};
use crate::place::{WorkloadContext, runs_on};
use crate::rules::finding::Finding;
use crate::rules::images::rules::{HOST_PROCESS_ENTRY, MISSING_OS_VERSION};
use crate::rules::rule::Rule;

/// Findings about Windows images for which a registry has reported platforms.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let reported = cx.input.images.iter().filter_map(|image| Some((image, image.facts.platforms.as_deref()?)));
    let counts = cx.build_matters();
    // Computed once, when first needed: a pod may have thousands of images and of node constraints.
    let hosts = OnceCell::new();
    for (image, platforms) in reported {
        let (rule, message) = if counts {
            (&MISSING_OS_VERSION, unclear_version(image, platforms, &MISSING_OS_VERSION))
        } else if cx.host_process {
            (&HOST_PROCESS_ENTRY, no_entry(cx, hosts.get_or_init(|| possible_hosts(cx)), platforms))
        } else {
            continue;
        };
        if let Some(message) = message {
            out.push(cx.finding(rule, cx.at(&image.container, "/image"), message));
        }
    }
}

/// How much of an `os.version` is quoted, in characters, so that the sentence around it fits into a warning.
const VERSION_QUOTED: usize = 40;

/// What is wrong with the versions of an image; `None` if nothing is.
fn unclear_version(image: &ContainerImage<'_>, platforms: &Platforms, rule: &Rule) -> Option<String> {
    // A single manifest is pulled on any node, so its version matters only if no other source contains the build.
    if !platforms.index && !image.facts.builds.is_empty() {
        return None;
    }
    let all = platforms.windows().count();
    let missing = platforms.windows().filter(|entry| entry.version() == OsVersion::Missing).count();
    match missing {
        0 => {
            let malformed = platforms.windows().find(|entry| entry.version() == OsVersion::Malformed)?;
            let text = shorten(malformed.os_version.as_deref().unwrap_or_default(), VERSION_QUOTED);
            let so = if platforms.index { "no node takes that entry" } else { "which nodes run it is unknown" };
            Some(format!("os.version {text:?} is not a Windows version: {so}"))
        }
        _ if all == 1 => Some(rule.why.to_owned()),
        _ => Some(format!("{missing} of {all} Windows entries: {}", rule.why)),
    }
}

/// Of the possible hosts of a HostProcess pod, those for which the index has no entry; `None` if there are none.
fn no_entry(cx: &WorkloadContext<'_>, hosts: &BTreeSet<Build>, platforms: &Platforms) -> Option<String> {
    let left_out = hosts.iter().filter(|host| !takes(**host, platforms, cx));
    let left_out: Vec<String> =
        left_out.map(|host| format!("{} ({host})", release_name(*host, &cx.node_settings.releases))).collect();
    (!left_out.is_empty())
        .then(|| format!("its index has no entry for nodes of {}: they cannot pull it", list(left_out)))
}

/// Builds of the nodes on which the pod may run; empty if its author selects them.
fn possible_hosts(cx: &WorkloadContext<'_>) -> BTreeSet<Build> {
    let Some(nodes) = cx.input.snapshot.nodes.as_ref() else { return BTreeSet::new() };
    if let Some(name) = cx.input.pod.text("/spec/nodeName").or_else(|| affinity_node_name(&cx.input.pod)) {
        return nodes.get(name).and_then(|node| node.build).into_iter().collect();
    }
    if constrains(&cx.input.pod, WINDOWS_BUILD_LABEL) {
        return BTreeSet::new();
    }
    Nodes::windows_builds(nodes).clone()
}

/// Whether a node of that build finds an entry to pull.
fn takes(host: Build, platforms: &Platforms, cx: &WorkloadContext<'_>) -> bool {
    let takes = |entry: &Platform| match entry.version() {
        OsVersion::Build(build) => runs_on(host, &[build], cx.input.snapshot, cx.node_settings),
        OsVersion::Missing => true,
        OsVersion::Malformed => false,
    };
    !platforms.index || platforms.windows().next().is_none() || platforms.windows().any(takes)
}

//! Checks that need no Mullion: the release of Kubernetes, the fleet, free names, and rights for an installation.

use std::collections::BTreeMap;

use mullion_engine::model::MinorVersion;
use mullion_engine::model::Os;
use mullion_engine::model::names::RUNTIME_CLASS_PREFIX;
use mullion_engine::model::text::{counted, list, shorten};
use mullion_engine::place::{BuildRuntimeClass, runtime_class_of_build};

use crate::cli::verify::checks::outcome::CheckOutcome;
use crate::cli::verify::facts::{ClusterFacts, Read};
use crate::cli::verify::fleet::Fleet;
use crate::cli::verify::table::Right;
use crate::controller::CONFIGURATION;
use crate::report::verify::FleetGroup;

/// The first minor release of Kubernetes with which Mullion works: docs/reference/support.md.
const FIRST_RELEASE: &str = "1.30";
/// The longest name in an item, in characters.
const MAX_NAME: usize = 80;

/// `kubernetes-version`.
pub(in crate::cli::verify) fn kubernetes_version(version: &Read<String>) -> CheckOutcome {
    let version = match version {
        Ok(version) => version,
        Err(why) => return CheckOutcome::skipped(format!("version not known: {why}")),
    };
    match MinorVersion::of(version) {
        None => CheckOutcome::skipped(format!("version {version:?} cannot be compared")),
        release if release < MinorVersion::of(FIRST_RELEASE) => {
            CheckOutcome::failed(format!("Kubernetes {version}, and Mullion needs {FIRST_RELEASE}"))
        }
        Some(_) => CheckOutcome::ok(format!("Kubernetes {version}")),
    }
}

/// `fleet`.
pub(in crate::cli::verify) fn fleet(fleet: &Fleet) -> CheckOutcome {
    let unknown = fleet.nodes.iter().filter_map(|node| match (node.os, node.build) {
        (None, _) => Some(format!("node {}: no operating system", shorten(&node.name, MAX_NAME))),
        (Some(Os::Windows), None) => Some(format!("node {}: no Windows build", shorten(&node.name, MAX_NAME))),
        _ => None,
    });
    let unknown: Vec<String> = unknown.collect();
    let seen = groups(&fleet.groups());
    let bad = format!("{} without operating system or build", counted(unknown.len(), "node"));
    CheckOutcome::of_faults(seen, bad, unknown)
}

/// `3 linux, 2 windows ltsc2022`.
fn groups(groups: &[FleetGroup]) -> String {
    if groups.is_empty() {
        return "no nodes".to_owned();
    }
    list(groups.iter().map(|FleetGroup { os, release, nodes, .. }| {
        let release = release.as_ref().map(|release| format!(" {release}")).unwrap_or_default();
        format!("{nodes} {os}{release}")
    }))
}

/// `install-rights`.
pub(in crate::cli::verify) fn install_rights(missing: &[Right]) -> CheckOutcome {
    let missing: Vec<String> = missing.iter().map(Right::words).collect();
    let bad = format!("{} missing", counted(missing.len(), "right"));
    CheckOutcome::of_faults("all rights for the objects of the chart", bad, missing)
}

/// `free-names`.
pub(in crate::cli::verify) fn free_names(facts: &ClusterFacts) -> CheckOutcome {
    let mut taken = Vec::new();
    match &facts.registration {
        Ok(Some(_)) => taken.push(format!("webhook configurations {CONFIGURATION}: Mullion is already installed")),
        Ok(None) => {}
        Err(why) => return CheckOutcome::skipped(format!("webhook configurations not known: {why}")),
    }
    let (fleet, classes) = match (&facts.fleet, &facts.snapshot.runtime_classes) {
        (Ok(fleet), Some(classes)) => (fleet, classes),
        (Err(why), _) => return CheckOutcome::skipped(format!("nodes not known: {why}")),
        (_, None) => return CheckOutcome::skipped("RuntimeClasses not known"),
    };
    let standing: BTreeMap<&str, (bool, &str)> =
        classes.iter().map(|(name, class)| (name.as_str(), (class.ours, class.handler.as_str()))).collect();
    for build in fleet.builds() {
        let class = runtime_class_of_build(build, &facts.node_settings(), |name| standing.get(name).copied());
        if let BuildRuntimeClass::Foreign(name) = class {
            taken.push(format!("RuntimeClass {name}: someone else created it"));
        }
    }
    let good = format!("no webhook configuration {CONFIGURATION}, no RuntimeClass {RUNTIME_CLASS_PREFIX}* of others");
    CheckOutcome::of_faults(good, "these names are taken", taken)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::cli::verify::fleet::tests::node;
    use crate::report::verify::VerifyStatus::{self, Failed, Ok as Good, Skipped};

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, expected) in [
            ("v1.30.14", Good),
            ("v1.37.2-eks-abc", Good),
            ("1.36+", Good),
            ("v2.0.0", Good),
            ("v1.29.9", Failed),
            ("v1.9.0", Failed),
            ("unknown", Skipped),
            ("", Skipped),
        ] {
            assert_eq!(kubernetes_version(&Ok(version.to_owned())).status, expected, "{version}");
        }
        assert_eq!(kubernetes_version(&Err("no".to_owned())).status, Skipped);
    }

    #[test]
    fn nodes_without_build_are_named() {
        let mut nodes = vec![node("l1", None, &[]), node("w1", Some("10.0.20348.1"), &[])];
        let outcome = |nodes: &[FleetNodes]| fleet(&Fleet { nodes: nodes.to_vec(), releases: Vec::new() });
        assert_eq!(outcome(&nodes).seen, "1 linux, 1 windows ltsc2022");
        nodes[1].build = None;
        nodes[0].os = None;
        let bad = outcome(&nodes);
        assert_eq!((bad.status, bad.items.len()), (VerifyStatus::Failed, 2));
        assert_eq!(bad.items[1], "node w1: no Windows build");
        assert_eq!(outcome(&[]).seen, "no nodes");
    }

    type FleetNodes = crate::cli::verify::fleet::FleetNode;
}

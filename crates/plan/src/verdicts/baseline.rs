//! Images and hosts of Windows Server 2019 on two sides of the update of February 2020.
//!
//! The update changed what 32-bit programs expect of the host, so host and image must both have it, or both not. Sources:
//! MicrosoftDocs/Virtualization-Documentation `deploy-containers/update-containers.md`; Azure/AKS#1465.

use mullion_engine::model::image::Platforms;
use mullion_engine::model::windows::Build;

use mullion_survey::analysis::WorkloadView;
use mullion_survey::inventory::Inventory;

/// The build that has two sides.
const BUILD: Build = Build::new(17763);

/// The first revision with the update of 2020-02-11 (KB4532691).
const FIRST_REVISION: u32 = 1039;

/// A sentence about an image that is on the other side than a node of its pods.
pub(super) fn mismatch(platforms: &Platforms, view: &WorkloadView<'_>, inventory: &Inventory) -> Option<String> {
    let of_build = |version: &str| Build::from_os_version(version).filter(|(build, _)| *build == BUILD)?.1;
    // A node takes the newest of several.
    let image = platforms.windows().filter_map(|entry| of_build(entry.os_version.as_deref()?)).max()?;
    let snapshot = inventory.snapshot.nodes.as_ref()?;
    let mut nodes = view.pods.iter().filter(|pod| !pod.ended).filter_map(|pod| {
        let name = pod.node.as_deref()?;
        let is_of_build = snapshot.get(name).is_some_and(|node| node.build == Some(BUILD));
        Some((name, inventory.nodes.get(name)?.revision.filter(|_| is_of_build)?))
    });
    let (node, host) = nodes.find(|(_, host)| (*host < FIRST_REVISION) != (image < FIRST_REVISION))?;
    let side = |revision: u32| if revision < FIRST_REVISION { "before" } else { "after" };
    Some(format!(
        "Its image has revision {image} of 2019, from {} the update of 2020-02-11, and its node {node} revision {host}, from {} it: 32-bit programs in it may fail without a message.",
        side(image),
        side(host)
    ))
}

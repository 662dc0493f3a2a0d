//! What a plan does not know: of images, and look-ups that have no result.

use std::collections::{BTreeMap, BTreeSet};

use crate::verdicts::Gap;
use crate::workload_move::WorkloadMove;
use mullion_survey::analysis::Fleet;
use mullion_survey::inventory::Inventory;
use mullion_survey::report::{FirstObjects, ObjectRef, Unknown};

/// What is not known about the workloads that move, and how to find out.
pub(crate) fn unknown(moves: &[WorkloadMove], inventory: &Inventory) -> Vec<Unknown> {
    let mut all = gaps(moves);
    all.extend(unknown_moves(moves));
    all.extend(unanswered(moves, inventory));
    all
}

/// The workloads of which it is not known whether they move.
fn unknown_moves(moves: &[WorkloadMove]) -> Option<Unknown> {
    Unknown::of(
        "Whether these workloads move is not known: their pods, or the class that places them, were not read.",
        "Read pods and runtimeclasses too, and plan again.",
        moves.iter().filter(|one| one.report.move_not_known).map(|one| one.report.object.clone()).collect(),
    )
}

/// What is not known of their images.
fn gaps(moves: &[WorkloadMove]) -> Vec<Unknown> {
    let mut gaps: BTreeMap<Gap, FirstObjects> = BTreeMap::new();
    for one in moves.iter().filter(|one| one.moves || one.report.move_not_known) {
        for gap in &one.gaps {
            gaps.entry(*gap).or_default().add(&one.report.object);
        }
    }
    let entries = gaps.into_iter().filter_map(|(gap, objects)| {
        let (what, resolve) = gap.texts();
        Unknown::of(what, resolve, objects)
    });
    entries.collect()
}

/// The look-ups without a result, by reason: one registry that does not respond is one entry.
fn unanswered(moves: &[WorkloadMove], inventory: &Inventory) -> Vec<Unknown> {
    let mut by_reason: BTreeMap<&str, (Vec<&str>, FirstObjects)> = BTreeMap::new();
    for one in moves.iter().filter(|one| one.moves || one.report.move_not_known) {
        let mut reasons = BTreeSet::new();
        for (_, planned) in one.report.images() {
            let proposed = planned.proposal.iter().map(|proposal| proposal.image.as_str());
            for image in proposed.chain([planned.image.as_str()]) {
                let Some(reason) = inventory.reported_images.unanswered.get(image) else { continue };
                let (images, objects) = by_reason.entry(reason).or_default();
                images.push(image);
                if reasons.insert(reason) {
                    objects.add(&one.report.object);
                }
            }
        }
    }
    let entry = |(reason, (mut images, objects)): (&str, (Vec<&str>, FirstObjects))| {
        images.sort_unstable();
        images.dedup();
        let named = images.first().copied().unwrap_or_default();
        let what = match images.len() {
            1 => format!("The look-up of the image {named} has no result: {reason}."),
            all => format!("The look-ups of {all} images, such as {named}, have no result: {reason}."),
        };
        let resolve = "Run the plan again with --registry where the registry can be reached, with a login that may read the \
                       image and with policies whose spec.registries allows the registry.";
        Unknown::of(what, resolve, objects)
    };
    by_reason.into_iter().filter_map(entry).collect()
}

/// Windows nodes without a build.
pub(crate) fn without_build<'f>(fleet: &'f Fleet<'_>) -> impl Iterator<Item = &'f str> {
    let pools = fleet.windows_pools().filter(|pool| pool.build.is_none());
    pools.flat_map(|pool| fleet.nodes_of(pool)).map(|node| node.node.name.as_str())
}

/// That it is not known whether nodes without a build leave, and with them the workloads there.
pub(crate) fn unknown_builds(fleet: &Fleet<'_>) -> Option<Unknown> {
    Unknown::of(
        "Whether these Windows nodes leave, and which workloads move from them, is not known: they state no build.",
        "Read the nodes with their status, as kubectl get nodes -o json prints it.",
        without_build(fleet).map(|name| ObjectRef::cluster_wide("Node", name)).collect(),
    )
}

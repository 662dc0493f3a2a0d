//! DaemonSets that are alike, one for each release: the one that runs in the new pool replaces the others.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use mullion_engine::model::image::ImageRef;
use mullion_engine::model::windows::Build;

use crate::report::Verdict;
use crate::scope::MoveScope;
use crate::workload_move::WorkloadMove;

/// A DaemonSet that runs in a new pool, now or after its step.
struct Arriving {
    at: usize,
    pool: String,
    images: BTreeSet<String>,
}

/// Leaves DaemonSets as they are in the old pools if another one of the namespace and manager, with the same image
/// repositories and in other pools, runs in their new pool: otherwise each new node would have pods of both.
pub(crate) fn leave_behind(moves: &mut [WorkloadMove], scope: &MoveScope) {
    let mut order: Vec<usize> = (0..moves.len()).collect();
    order.retain(|at| moves.get(*at).is_some_and(WorkloadMove::is_daemon_set));
    order.sort_by_cached_key(|at| moves.get(*at).map(|one| Reverse(rank(one, scope))));
    let mut arriving: Vec<Arriving> = Vec::new();
    for at in order {
        let Some(one) = moves.get(at) else { continue };
        let pool = scope.closed_pool(&one.homes).or_else(|| scope.new_pool(one.homes.iter().copied()));
        let Some(pool) = pool.map(|pool| pool.name.clone()) else { continue };
        let images = repositories(one);
        let report = &one.report;
        let replaces = |other: &&Arriving| {
            other.pool == pool
                && other.images == images
                && moves.get(other.at).is_some_and(|other| {
                    other.report.object.namespace == report.object.namespace
                        && other.report.manager == report.manager
                        && other.homes.is_disjoint(&one.homes)
                })
        };
        // One that nothing keeps off the new pool comes by itself.
        let must_change = !report.edits.is_empty() || !report.instead.is_empty() || !report.commands.is_empty();
        let found = arriving.iter().find(replaces).filter(|_| one.moves && must_change && !images.is_empty());
        match found.and_then(|found| moves.get(found.at)).map(|other| other.report.object.clone()) {
            Some(other) => {
                if let Some(one) = moves.get_mut(at) {
                    stay(one, &format!("DaemonSet {}", other.full_name()));
                }
            }
            None if is_there(one, scope) || (one.moves && report.verdict == Verdict::RunsAsIs) => {
                arriving.push(Arriving { at, pool, images });
            }
            None => {}
        }
    }
}

/// The DaemonSet of the highest rank is kept: one that is in the new pool, then one whose images run there, then that of the
/// newest release.
fn rank(one: &WorkloadMove, scope: &MoveScope) -> (bool, bool, Option<Build>, Reverse<String>) {
    let runs = one.report.verdict == Verdict::RunsAsIs;
    let newest = scope.leaving_builds_of(&one.homes).pop_last();
    (is_there(one, scope), runs, newest, Reverse(one.report.object.name.clone()))
}

fn is_there(one: &WorkloadMove, scope: &MoveScope) -> bool {
    scope.closed_pool(&one.pools).is_some()
}

/// The repositories of the images that its author wrote.
fn repositories(one: &WorkloadMove) -> BTreeSet<String> {
    let authored = one.report.images().filter(|(_, image)| image.injected_by.is_none());
    authored.filter_map(|(_, image)| Some(ImageRef::parse(&image.image).ok()?.repository().to_owned())).collect()
}

fn stay(one: &mut WorkloadMove, other: &str) {
    let whence = one.report.manager.as_ref().map(|manager| format!(" in {}", manager.change)).unwrap_or_default();
    one.report.instead = format!(
        "Leave it in the old pools: {other} has images of the same repository and runs in the new pool. Delete it{whence} when the old nodes are gone."
    );
    for image in one.report.containers.iter_mut().chain(&mut one.report.image_volumes) {
        image.proposal = None;
        image.find_out.clear();
        image.notes.clear();
        "It stays in the old pools until they are gone.".clone_into(&mut image.because);
    }
    one.gaps.clear();
    one.report.edits.clear();
    one.report.patch = None;
    one.report.hold.clear();
    one.report.commands.clear();
    one.report.back.clear();
    one.needs.clear();
    (one.moves, one.is_held, one.stays_behind) = (false, false, true);
}

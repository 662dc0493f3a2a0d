//! Pre-existing findings: those that the object had before an UPDATE. They deny no update.

use crate::model::ReviewRequest;
use crate::model::pod_view::Pod;
use crate::rules::Finding;

/// Marks findings that the old object had in the same place with an action at least as severe; `before`: the old
/// object's findings. Containers are matched by name: an index changes once another container is inserted before it.
pub(crate) fn mark_pre_existing(findings: &mut [Finding], before: &[Finding], request: &ReviewRequest<'_>) {
    let kind = request.workload.kind;
    let Some((old, new)) =
        request.old.and_then(|old| Some((Pod::of(kind, old)?, Pod::of(kind, request.workload.object)?)))
    else {
        return;
    };
    let before: Vec<(&Finding, String)> =
        before.iter().map(|finding| (finding, place_by_name(&old, finding))).collect();
    for finding in findings {
        let place = place_by_name(&new, finding);
        finding.pre_existing = before
            .iter()
            .any(|(known, at)| known.code == finding.code && *at == place && known.action >= finding.action);
    }
}

fn place_by_name(pod: &Pod<'_>, finding: &Finding) -> String {
    let in_container = pod.containers().find_map(|container| {
        let below = finding.pointer.strip_prefix(&pod.at(&container.pointer()))?;
        below.starts_with('/').then(|| format!("{}/{}{below}", container.list, container.name()))
    });
    in_container.unwrap_or_else(|| finding.pointer.clone())
}

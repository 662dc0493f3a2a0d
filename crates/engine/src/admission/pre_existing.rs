//! Pre-existing findings: those that the object had before an UPDATE. They deny no update.

use std::collections::HashMap;

use crate::model::ReviewRequest;
use crate::model::pod_view::Pod;
use crate::model::settings::Action;
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
    // The most severe action of each code in each place: several containers may have the same name.
    let mut known: HashMap<(&str, String), Action> = HashMap::new();
    for finding in before {
        let action = known.entry((finding.code, place_by_name(&old, finding))).or_insert(finding.action);
        *action = finding.action.max(*action);
    }
    for finding in findings {
        let action = known.get(&(finding.code, place_by_name(&new, finding)));
        finding.pre_existing = action.is_some_and(|action| *action >= finding.action);
    }
}

fn place_by_name(pod: &Pod<'_>, finding: &Finding) -> String {
    match pod.container_of(&finding.pointer) {
        Some((container, below)) => format!("{}/{}{below}", container.list, container.name()),
        None => finding.pointer.clone(),
    }
}

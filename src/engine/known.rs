//! Findings that the old object had: they refuse no update.

use super::finding::Finding;
use super::pod::Pod;
use super::request::{Operation, Request, Subject};
use super::review::{Review, review};
use super::world::World;
use crate::policy::PolicySet;

/// Marks what the old object had in the same place and no better. Containers are known by name: an index says nothing
/// once another is put before it. Gives what the old object wants to know of images: it is judged like the new one.
pub fn mark_known(findings: &mut [Finding], request: &Request<'_>, world: &World, policies: &PolicySet) -> Vec<String> {
    let kind = request.subject.kind;
    let Some((old, new)) =
        request.old.and_then(|old| Some((Pod::of(kind, old)?, Pod::of(kind, request.subject.object)?)))
    else {
        return Vec::new();
    };
    let Some(Review { findings: before, wanted, .. }) = review_of_old(request, world, policies) else {
        return Vec::new();
    };
    let before: Vec<(&Finding, String)> =
        before.iter().map(|finding| (finding, place_by_name(&old, finding))).collect();
    for finding in findings {
        let place = place_by_name(&new, finding);
        finding.known_before = before
            .iter()
            .any(|(known, at)| known.code == finding.code && *at == place && known.action >= finding.action);
    }
    wanted
}

fn place_by_name(pod: &Pod<'_>, finding: &Finding) -> String {
    let in_container = pod.containers().find_map(|container| {
        let below = finding.pointer.strip_prefix(&pod.at(&container.pointer()))?;
        below.starts_with('/').then(|| format!("{}/{}{below}", container.list, container.name()))
    });
    in_container.unwrap_or_else(|| finding.pointer.clone())
}

fn review_of_old(request: &Request<'_>, world: &World, policies: &PolicySet) -> Option<Review> {
    let subject = Subject { object: request.old?, ..request.subject };
    let request = Request { operation: Operation::Create, subresource: None, subject, old: None, ..*request };
    Some(review(&request, world, policies))
}

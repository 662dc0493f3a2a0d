//! The pods of a subject: how they are placed once they are made, and where they could run then.
//!
//! A template that is applied is left alone but for what the API server would refuse; its pods are placed one by one, when
//! their controller makes them.

use serde::Deserialize;

use super::answer::{Door, answer};
use super::fit::Placement;
use super::request::Request;
use super::review::{Review, review};
use super::world::{Node, World};
use crate::policy::PolicySet;

/// The review whose changes are those of the pods: of a template, what its pods get.
pub fn review_of_pods(request: &Request<'_>, world: &World, policies: &PolicySet) -> Review {
    review(&Request { into_templates: true, ..*request }, world, policies)
}

/// The nodes of the world on which the scheduler could put the pods as Mullion leaves them; `None` where nothing is known
/// of nodes.
pub fn nodes<'w>(request: &Request<'_>, world: &'w World, policies: &PolicySet) -> Option<Vec<&'w str>> {
    let nodes = world.nodes.as_ref()?;
    let subject = &request.subject;
    let mut placed = subject.object.clone();
    let patch = answer(&review_of_pods(request, world, policies), &placed, Door::Mutate).patch;
    // What cannot be applied leaves the object as its author wrote it.
    let applied = json_patch::patch(&mut placed, &patch).is_ok();
    let object = if applied { &placed } else { subject.object };
    let spec = object.pointer(&format!("{}/spec", subject.kind.pod_pointer()))?;
    let placement = Placement::deserialize(spec).ok()?;
    let takes = |node: &&Node| {
        let repelled = node.taints.iter().any(|t| t.effect != "PreferNoSchedule" && !placement.tolerates(t));
        !node.unschedulable && !repelled && placement.fits(&node.name, |key| node.labels.get(key))
    };
    Some(nodes.iter().filter(takes).map(|node| node.name.as_str()).collect())
}

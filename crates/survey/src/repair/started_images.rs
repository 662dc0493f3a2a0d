//! Where containers of an image started, and those that mount a volume of it: an image that started on a node of one kind is
//! not excluded from that kind.

use std::collections::HashSet;
use std::sync::Arc;

use mullion_engine::model::Os;
use mullion_engine::model::windows::Build;

use crate::analysis::Fleet;
use crate::inventory::Inventory;

/// Images with the operating systems and builds of the nodes on which they started, in whatever isolation.
#[derive(Debug, Default)]
pub(super) struct StartedImages {
    on: HashSet<(Arc<str>, Os, Option<Build>)>,
}

impl StartedImages {
    /// Reads the statuses of all pods.
    pub(super) fn new(inventory: &Inventory, fleet: &Fleet<'_>) -> Self {
        let mut on = HashSet::new();
        for pod in inventory.pods.iter().filter(|pod| !pod.running.is_empty()) {
            let node = pod.node.as_deref().and_then(|name| fleet.node(name)).map(|node| node.node);
            let Some((node, os)) = node.and_then(|node| Some((node, node.os?))) else { continue };
            for running in &pod.running {
                let Some(container) = pod.shape.containers.get(usize::from(running.container)) else { continue };
                let of_volumes = pod.shape.volumes_of(container).map(|volume| &volume.image);
                for image in of_volumes.chain([&container.image]) {
                    on.insert((Arc::clone(image), os, None));
                    on.insert((Arc::clone(image), os, node.build));
                }
            }
        }
        Self { on }
    }

    /// Whether it started on a node of that operating system and, if it is given, that build.
    pub(super) fn has(&self, image: &Arc<str>, os: Os, build: Option<Build>) -> bool {
        self.on.contains(&(Arc::clone(image), os, build))
    }
}

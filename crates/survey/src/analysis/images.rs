//! Windows builds of images, and what running containers prove about them.
//!
//! A container that runs under process isolation on a host up to 20348 has an image with an entry of exactly the build
//! of the host, because an older host runs nothing else, and 20348 runs nothing older. A newer host runs some entry
//! from 20348 on.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mullion_engine::detect::ImageFacts;
use mullion_engine::model::Os;
use mullion_engine::model::cluster::RuntimeClass;
use mullion_engine::model::windows::{Build, Generation, STABLE_ABI_FROM, runs};

use crate::analysis::fleet::Fleet;
use crate::inventory::{Inventory, PodShape};
use crate::report::Knowledge;

/// What running containers prove, by image as pods write it.
#[derive(Debug, Default)]
pub(crate) struct RunningImages {
    hosts: HashMap<Arc<str>, BTreeSet<Build>>,
    /// The hosts of all containers, including those whose build need not be that of the image.
    pulled: HashMap<Arc<str>, BTreeSet<Build>>,
}

impl RunningImages {
    pub(crate) fn new(inventory: &Inventory, fleet: &Fleet<'_>) -> Self {
        let mut found = Self::default();
        for pod in &inventory.pods {
            let node = pod.node.as_deref().and_then(|name| fleet.node(name));
            let Some(build) = node.and_then(|node| node.node.build.filter(|_| node.node.os == Some(Os::Windows)))
            else {
                continue;
            };
            let isolated = is_process_isolated(&pod.shape, inventory);
            for container in pod.running.iter().filter_map(|at| pod.shape.containers.get(usize::from(*at))) {
                found.pulled.entry(Arc::clone(&container.image)).or_default().insert(build);
                if isolated {
                    found.hosts.entry(Arc::clone(&container.image)).or_default().insert(build);
                }
            }
        }
        found
    }

    /// The builds of an image, and their source.
    pub(crate) fn builds(&self, image: &str, facts: &ImageFacts) -> (Vec<Build>, Knowledge) {
        let from = stated_by(facts);
        let hosts = self.hosts.get(image);
        let named = &facts.builds;
        // A name can be wrong; a container that runs cannot.
        let agrees = |host: &Build| named.iter().any(|build| runs(*host, *build, Generation::default(), &[]));
        if !named.is_empty() && (from != Knowledge::Name || hosts.is_none_or(|hosts| hosts.iter().all(agrees))) {
            return (named.clone(), from);
        }
        let proved: Vec<Build> =
            hosts.into_iter().flatten().filter(|host| **host <= STABLE_ABI_FROM).copied().collect();
        if proved.is_empty() { (Vec::new(), Knowledge::Unknown) } else { (proved, Knowledge::Running) }
    }

    /// The hosts on which containers with the image run.
    pub(crate) fn hosts(&self, image: &str) -> impl Iterator<Item = Build> {
        self.hosts.get(image).into_iter().flatten().copied()
    }

    /// The hosts that pulled the image and started it, including as HostProcess container or in a virtual machine.
    pub(crate) fn pulled_on(&self, image: &str) -> impl Iterator<Item = Build> {
        self.pulled.get(image).into_iter().flatten().copied()
    }
}

/// The source that states what an image is for, if no container runs it.
pub(crate) fn stated_by(facts: &ImageFacts) -> Knowledge {
    match facts.source.name() {
        "policy" => Knowledge::Policy,
        "registry" => Knowledge::Registry,
        _ => Knowledge::Name,
    }
}

/// Whether the build of the host limits the images of a pod: not those of HostProcess containers, and not those in a
/// virtual machine.
pub(crate) fn is_process_isolated(shape: &PodShape, inventory: &Inventory) -> bool {
    let class = inventory.runtime_class(shape.runtime_class.as_deref());
    // A class that was not read may be one with a virtual machine.
    let unknown = shape.runtime_class.is_some() && class.is_none();
    !shape.host_process && !unknown && !class.is_some_and(RuntimeClass::is_hypervisor)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use mullion_engine::detect::image_facts;
    use mullion_engine::model::settings::ImagePatterns;

    use super::*;

    #[test]
    fn what_running_containers_prove() {
        let name_2019 = "mcr.microsoft.com/windows/servercore:ltsc2019";
        let name_2022 = "mcr.microsoft.com/windows/servercore:ltsc2022";
        let cases: [(&str, &[u32], &[u32], Knowledge); 9] = [
            ("private/web:1", &[], &[], Knowledge::Unknown),
            ("private/web:1", &[17763], &[17763], Knowledge::Running),
            ("private/web:1", &[20348], &[20348], Knowledge::Running),
            ("private/web:1", &[17763, 20348], &[17763, 20348], Knowledge::Running),
            // 26100 runs images for 20348 too.
            ("private/web:1", &[26100], &[], Knowledge::Unknown),
            ("private/web:1", &[20348, 26100], &[20348], Knowledge::Running),
            (name_2022, &[26100], &[20348], Knowledge::Name),
            (name_2019, &[], &[17763], Knowledge::Name),
            // The tag is wrong.
            (name_2019, &[20348], &[20348], Knowledge::Running),
        ];
        for (image, hosts, expected, from) in cases {
            let hosts: BTreeSet<Build> = hosts.iter().map(|host| Build::new(*host)).collect();
            let running =
                if hosts.is_empty() { HashMap::new() } else { HashMap::from([(image.into(), hosts.clone())]) };
            let facts = image_facts(image, &ImagePatterns::default(), None);
            let expected: Vec<Build> = expected.iter().map(|build| Build::new(*build)).collect();
            assert_eq!(
                RunningImages { hosts: running, ..RunningImages::default() }.builds(image, &facts),
                (expected, from),
                "{image} on {hosts:?}"
            );
        }
    }
}

//! The context of one workload whose operating system is decided, for placement, rules and patch.
//!
//! It is immutable. [`DetectionInput`] is the input of the decision; the rest follows from the decision.

use crate::detect::{DetectionInput, NoDefault, place_of};
use crate::model::pod_view::{Container, Pod};
use crate::model::settings::NodeSettings;
use crate::model::{DecisionAnnotation, DetectedOs, Os, OsDecision};
use crate::place::builds::PodBuilds;

/// One workload with its decision.
#[derive(Clone, Copy)]
pub struct WorkloadContext<'a> {
    /// The input of the decision.
    pub input: DetectionInput<'a>,
    /// What the NodePolicy sets.
    pub node_settings: &'a NodeSettings,
    /// Which OS, and why.
    pub decision: &'a OsDecision,
    /// Why an undecided workload did not get Linux by default; `None` if it did, or if no default was requested.
    pub no_default: Option<NoDefault>,
    /// Which Windows builds run the images.
    pub builds: &'a PodBuilds<'a>,
    /// The decision annotation that Mullion itself wrote earlier; what differs now was changed by others.
    pub annotation: Option<&'a DecisionAnnotation>,
    /// Rules that the author exempts the workload from: the value of annotation `mullion.dev/allow`; may be empty.
    pub exemptions: &'a str,
    /// Which containers the rules check.
    pub containers: ContainerScope<'a>,
}

/// Which containers the rules check.
#[derive(Debug, Clone, Copy)]
pub enum ContainerScope<'a> {
    /// The pod and all its containers.
    Everything,
    /// Ephemeral containers that a request adds to those of this pod. The API server identifies them by name, in any
    /// order.
    EphemeralBeside(Option<Pod<'a>>),
}

impl<'a> WorkloadContext<'a> {
    /// Containers to check: all, or the new ephemeral ones.
    pub fn containers(&self) -> impl Iterator<Item = Container<'a>> + use<'a> {
        let scope = self.containers;
        self.input.pod.containers().filter(move |container| match scope {
            ContainerScope::Everything => true,
            ContainerScope::EphemeralBeside(old) => {
                let same =
                    |old: &Container<'_>| old.list == container.list && old.get("/name") == container.get("/name");
                container.list == "ephemeralContainers" && !old.iter().flat_map(Pod::containers).any(|old| same(&old))
            }
        })
    }

    /// Whether the rules check the whole pod.
    pub fn is_whole_pod(&self) -> bool {
        matches!(self.containers, ContainerScope::Everything)
    }

    /// The absolute pointer of `below`, which is relative to a container.
    pub fn at(&self, container: &Container<'_>, below: &str) -> String {
        self.input.pod.at(&(container.pointer() + below))
    }

    /// Whether another webhook or policy added the container after Mullion reviewed the pod.
    pub fn was_added_later(&self, container: &Container<'_>) -> bool {
        self.annotation.is_some_and(|annotation| annotation.predates(container))
    }

    /// Whether this is a Windows pod: to Mullion, or to the API server (`spec.os.name: windows` beside the annotation
    /// `any`).
    pub fn is_windows(&self) -> bool {
        self.decision.os == DetectedOs::Windows || self.input.pod.has_windows_os_field()
    }

    /// The operating system the workload is placed on: one was decided, placement was not declined, and the pod is not
    /// bound to a node of the other one, which no selector would change.
    pub fn placed_on(&self) -> Option<Os> {
        let os = self.decision.decided().filter(|_| self.decision.placement)?;
        let elsewhere = place_of(&self.input.pod, self.input.snapshot).is_some_and(|place| place != os);
        (!elsewhere).then_some(os)
    }
}

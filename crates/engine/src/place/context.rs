//! The context of one workload whose operating system is decided, for placement, rules and patch.
//!
//! It is immutable. [`DetectionInput`] is the input of the decision; the rest follows from the decision.

use crate::detect::{DetectionInput, NoDefault, place_of, read_os_annotation};
use crate::model::cluster::RuntimeClass;
use crate::model::pod_view::Container;
use crate::model::settings::{Exemptions, NodeSettings};
use crate::model::{DecisionAnnotation, DetectedOs, Os, OsDecision, ScopeOs};
use crate::place::builds::PodBuilds;
use crate::place::left_out_nodes::LeftOutNodes;

/// One workload with its decision.
#[derive(Clone, Copy)]
pub struct WorkloadContext<'a> {
    /// The input of the decision.
    pub input: DetectionInput<'a>,
    /// What the NodePolicy sets.
    pub node_settings: &'a NodeSettings,
    /// The operating system, and why.
    pub decision: &'a OsDecision,
    /// Why an undecided workload did not get the Linux default; `None` if it did, or if no default was requested.
    pub no_default: Option<NoDefault>,
    /// The Windows builds that run the images.
    pub builds: &'a PodBuilds<'a>,
    /// The nodes of a DaemonSet that cannot run its images; see [`find_left_out_nodes`](crate::place::find_left_out_nodes).
    pub left_out: Option<&'a LeftOutNodes>,
    /// The decision annotation, if Mullion itself wrote it earlier. Others changed what differs from it now.
    pub annotation: Option<&'a DecisionAnnotation>,
    /// Rules that the author exempts the workload from, by annotation `mullion.dev/allow`.
    pub exemptions: &'a Exemptions<'a>,
    /// How much of the pod the rules check.
    pub scope: CheckScope,
    /// The containers that the rules check.
    pub containers: &'a [Container<'a>],
    /// Whether it is a HostProcess pod. Stored, because many rules need it, and it takes a look at every container.
    pub host_process: bool,
}

/// How much of a pod the rules check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckScope {
    /// The pod and all its containers.
    WholePod,
    /// Only the ephemeral containers that a request adds.
    NewContainers,
}

impl<'a> WorkloadContext<'a> {
    /// Containers to check: all, or the new ephemeral ones.
    pub fn containers(&self) -> impl Iterator<Item = Container<'a>> + use<'a> {
        self.containers.iter().copied()
    }

    /// Whether the rules check the whole pod.
    pub fn is_whole_pod(&self) -> bool {
        self.scope == CheckScope::WholePod
    }

    /// The pod's RuntimeClass, if it is known.
    pub fn own_runtime_class(&self) -> Option<&'a RuntimeClass> {
        self.input.pod.text("/spec/runtimeClassName").and_then(|name| self.input.snapshot.runtime_class(name))
    }

    /// Whether the node's build matters to the pod: not to HostProcess pods, which are processes of the host, and not
    /// to pods with a virtual machine of their own.
    pub fn build_matters(&self) -> bool {
        !self.host_process && !self.own_runtime_class().is_some_and(RuntimeClass::is_hypervisor)
    }

    /// The absolute pointer of `below`, which is relative to a container.
    pub fn at(&self, container: &Container<'_>, below: &str) -> String {
        self.input.pod.at(&(container.pointer() + below))
    }

    /// Whether another webhook or policy added the container after Mullion reviewed the pod.
    pub fn was_added_later(&self, container: &Container<'_>) -> bool {
        self.annotation.is_some_and(|annotation| annotation.predates(container))
    }

    /// Whether this is a Windows pod: by the decision, or for the API server (`spec.os.name: windows` beside the
    /// annotation `any`).
    pub fn is_windows(&self) -> bool {
        self.decision.os == DetectedOs::Windows || self.input.pod.has_windows_os_field()
    }

    /// The operating system that the workload is placed on: one was decided, placement was not declined, and the pod is
    /// not bound to a node of the other one, which no selector would change.
    pub fn placed_on(&self) -> Option<Os> {
        let os = self.decision.decided().filter(|_| self.decision.placement)?;
        let elsewhere = place_of(&self.input.pod, self.input.snapshot).is_some_and(|place| place != os);
        (!elsewhere).then_some(os)
    }

    /// The operating systems whose taints the workload must tolerate: the one that it is placed on; for a DaemonSet
    /// with annotation `mullion.dev/os: any`, those that it can run on. The DaemonSet controller creates no pod for a
    /// node with taints that the template does not tolerate, so without the tolerations `any` would cover only
    /// untainted nodes.
    pub fn tolerated_systems(&self) -> &'static [Os] {
        let of = |os: Os| match os {
            Os::Linux => &[Os::Linux][..],
            Os::Windows => &[Os::Windows],
        };
        if let Some(os) = self.placed_on() {
            return of(os);
        }
        let annotation = if self.input.is_daemon_set() { read_os_annotation(&self.input) } else { None };
        if annotation.is_none_or(|(os, _)| os != ScopeOs::Any) {
            return &[];
        }
        match self.decision.os {
            DetectedOs::Undecided => &[Os::Linux, Os::Windows],
            DetectedOs::Conflict => &[],
            DetectedOs::Linux => of(Os::Linux),
            DetectedOs::Windows => of(Os::Windows),
        }
    }
}

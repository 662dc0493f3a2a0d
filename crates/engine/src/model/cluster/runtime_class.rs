//! A RuntimeClass, and the operating system of its handler.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::cluster::fact::{Fact, Unusable, UnusableFact};
use crate::model::operating_system::Os;

/// A RuntimeClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeClass {
    /// `handler`.
    pub handler: String,
    /// `scheduling.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `scheduling.tolerations`, raw JSON as in a pod spec.
    pub tolerations: Fact<Vec<Value>>,
    /// `overhead.podFixed`: quantities; empty if the class has none.
    pub overhead: BTreeMap<String, String>,
    /// Whether Mullion created it: label `app.kubernetes.io/managed-by: mullion`.
    pub ours: bool,
}

/// The prefix of containerd's handlers on Windows: `runhcs-wcow-process`, `runhcs-wcow-hypervisor` and similar.
const WINDOWS_HANDLERS: &str = "runhcs-";

/// Handlers that only Linux runtimes have, by the names in their guides
/// (kubernetes.io/docs/concepts/containers/runtime-class, gvisor.dev, katacontainers.io, the NVIDIA container toolkit);
/// Kata appends its hypervisor: `kata-qemu`, `kata-clh`.
const LINUX_HANDLERS: [&str; 7] = ["runc", "crun", "youki", "runsc", "gvisor", "kata", "nvidia"];

/// The most tolerations of a RuntimeClass that are used: each is compared with the pod's, and the API server adds all of
/// them to each pod of the class.
pub const CLASS_TOLERATIONS: usize = 64;
/// Their size as JSON, in bytes: so many with the longest key (317 bytes) and value (63) that the API server accepts, and
/// the names of their members.
const CLASS_TOLERATIONS_SIZE: usize = CLASS_TOLERATIONS * 512;

impl RuntimeClass {
    /// The tolerations, if they are not used; `name`: the class.
    pub fn unusable_fact(&self, name: &str) -> Option<UnusableFact> {
        let why = self.tolerations.unusable()?;
        Some(UnusableFact::new("RuntimeClass", name, "the list of tolerations".to_owned(), why))
    }

    /// The tolerations of a class.
    pub fn tolerations(raw: Vec<Value>) -> Fact<Vec<Value>> {
        let size = || raw.iter().map(|one| one.to_string().len()).sum();
        Unusable::check(raw.len(), CLASS_TOLERATIONS, "toleration")
            .and_then(|()| Unusable::check(size(), CLASS_TOLERATIONS_SIZE, "byte"))
            .map(|()| raw)
            .into()
    }

    /// The operating system whose nodes have that handler, if its name shows it.
    pub fn handler_os(&self) -> Option<Os> {
        if self.handler.starts_with(WINDOWS_HANDLERS) {
            return Some(Os::Windows);
        }
        let linux = LINUX_HANDLERS.contains(&self.handler.as_str()) || self.handler.starts_with("kata-");
        linux.then_some(Os::Linux)
    }

    /// Whether its handler runs a pod in a virtual machine with its own build.
    pub fn is_hypervisor(&self) -> bool {
        self.handler.contains("hypervisor")
    }
}

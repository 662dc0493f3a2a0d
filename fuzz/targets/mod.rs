//! The fuzz targets: functions from bytes that panic if a property does not hold. `fuzz/main.rs` runs them under
//! libFuzzer, `tests/fuzz_corpus.rs` runs each on the files of its corpus.
//!
//! | target | holds |
//! |---|---|
//! | `admission` | every body of a request gets a response, in the time and memory that the webhook reserves for it, and its patch applies |
//! | `patch` | a patch applies, is complete after one call, and takes no field from a pod that may run on Linux |
//! | `denial` | no metadata that its author may write make a denied pod an admitted one |
//! | `manifest` | places of values are in the text, and an edit changes one document as the patch does, and no other byte |
//! | `policy` | a policy file is rejected with places, or gives a set that reviews pods; as a ConfigMap it is judged the same |
//! | `image_reference` | a reference reads back as it is written |
//! | `authentication` | a challenge of a registry leads to its token service only, for one repository |
//! | `registry_document` | manifests and configs of registries are bounded, and digests can be part of a path |

mod admission;
mod authentication;
mod denial;
#[path = "../../tests/generator/mod.rs"]
#[allow(dead_code, unused_imports, reason = "other tests use the rest")]
mod generator;
mod image_reference;
mod input;
mod lost_fields;
mod manifest;
mod patch;
mod policy;
mod registry_document;

/// A fuzz target.
pub struct Target {
    /// The name, which is also that of its corpus.
    pub name: &'static str,
    /// Panics if the input reveals a defect.
    pub run: fn(&[u8], &dyn Meter),
}

/// Measures memory; without libFuzzer nothing is measured.
pub trait Meter {
    /// The bytes that `work` has allocated at its peak, beyond those before it.
    fn peak_of(&self, work: &mut dyn FnMut()) -> usize;
}

/// All fuzz targets.
pub const TARGETS: [Target; 8] = [
    Target { name: "admission", run: admission::run },
    Target { name: "patch", run: patch::run },
    Target { name: "denial", run: denial::run },
    Target { name: "manifest", run: manifest::run },
    Target { name: "policy", run: policy::run },
    Target { name: "image_reference", run: image_reference::run },
    Target { name: "authentication", run: authentication::run },
    Target { name: "registry_document", run: registry_document::run },
];

//! Annotations of the controller's admission probes, and the warning by which an endpoint shows that it received one.

use mullion_engine::admission::response::Endpoint;

/// The annotation of a probe: a value that cannot be guessed.
pub(crate) const ASKED: &str = "mullion.dev/probe";

/// The annotation that `/mutate` adds, with the same value.
pub(crate) const SEEN: &str = "mullion.dev/probed";

/// The warning of an endpoint about a probe.
pub(crate) fn mark(endpoint: Endpoint, value: &str) -> String {
    format!("mullion: probe {value} was seen at /{}", endpoint.name())
}

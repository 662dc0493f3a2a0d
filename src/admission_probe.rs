//! Marks of the controller's probes: the annotations of a probing pod, and the warning by which an endpoint shows that it was asked.

use mullion_engine::admission::response::Endpoint;

/// The annotation of a probe: a value that nobody could guess.
pub(crate) const ASKED: &str = "mullion.dev/probe";

/// The annotation that `/mutate` adds: the same value.
pub(crate) const SEEN: &str = "mullion.dev/probed";

/// The warning of a endpoint about the probe with a value.
pub(crate) fn mark(endpoint: Endpoint, value: &str) -> String {
    format!("mullion: probe {value} was seen at /{}", endpoint.name())
}

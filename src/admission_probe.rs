//! Annotations of the controller's admission probes, and the warning with which an endpoint confirms that it received
//! one.

use mullion_engine::admission::Endpoint;

/// The annotation of a probe: a value that cannot be guessed.
pub(crate) const PROBE_ANNOTATION: &str = "mullion.dev/probe";

/// The annotation that `/mutate` adds, with the same value.
pub(crate) const RECEIVED_ANNOTATION: &str = "mullion.dev/probed";

/// The warning of an endpoint about a probe.
pub(crate) fn probe_warning(endpoint: Endpoint, value: &str) -> String {
    format!("mullion: probe {value} was seen at /{}", endpoint.name())
}

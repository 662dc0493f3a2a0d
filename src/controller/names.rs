//! Names of the objects that register the webhook.

/// The name of both webhook configurations.
pub(crate) const CONFIGURATION: &str = "mullion";

/// The webhook in both that is asked about pods.
pub(crate) const PODS_WEBHOOK: &str = "pods.mullion.dev";

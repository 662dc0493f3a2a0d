//! How the webhook is probed.

use std::time::Duration;

/// Where, and how often, probes are made.
#[derive(Debug, Clone)]
pub struct Probing {
    /// A namespace about whose pods the API server asks Mullion.
    pub namespace: String,
    /// From one to the next.
    pub interval: Duration,
}

impl Default for Probing {
    fn default() -> Self {
        Self { namespace: "default".to_owned(), interval: Duration::from_secs(60) }
    }
}

//! One warning, and how it is displayed.

use std::fmt;

use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::text::{list_first, list_with};

/// A policy that loads, and that somebody should look at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The key that does it.
    pub origin: Origin,
    /// What it does, in one sentence.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl fmt::Display for Warning {
    /// `policies/a.yaml:7: message (hint)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.origin, self.message, self.hint)
    }
}

/// `a`, `a and b`, `a, b and c`; of more than six the others are counted.
pub(crate) fn listed(names: &[impl fmt::Display]) -> String {
    const NAMED: usize = 6;
    if names.len() > NAMED { list_first(names, NAMED) } else { list_with(names, "and") }
}

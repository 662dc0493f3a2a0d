//! One warning, and how it is displayed.

use std::fmt;

use mullion_engine::model::settings::origin::Origin;

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
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    const NAMED: usize = 6;
    let mut names: Vec<String> = names.iter().map(|name| name.as_ref().to_owned()).collect();
    if names.len() > NAMED {
        let more = names.len() - NAMED;
        names.truncate(NAMED);
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

//! The parts of a benchmark to run, from the command line.

/// The words of the command line.
pub struct Parts(pub Vec<String>);

impl Parts {
    /// The parts of this run.
    pub fn wanted() -> Self {
        // Cargo passes `--bench`.
        Self(std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect())
    }

    /// Whether the command line contains `part`, or no parts at all.
    pub fn has(&self, part: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|name| name == part)
    }
}

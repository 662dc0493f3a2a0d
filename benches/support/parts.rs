//! The parts of a benchmark that are run, from the command line.

/// The words of the command line.
pub struct Parts(pub Vec<String>);

impl Parts {
    /// Of this run.
    pub fn wanted() -> Self {
        // Cargo passes `--bench`.
        Self(std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect())
    }

    /// Whether `part` is named, or nothing is.
    pub fn has(&self, part: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|name| name == part)
    }
}

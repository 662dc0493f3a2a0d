//! The endpoint that receives a request.

/// The endpoint that received the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `/mutate`.
    Mutate,
    /// `/validate`.
    Validate,
}

impl Endpoint {
    /// `mutate` or `validate`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

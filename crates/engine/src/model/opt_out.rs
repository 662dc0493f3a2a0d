//! The opt-out of namespaces and pods: `mullion.dev/ignore: "true"`.

/// Where `mullion.dev/ignore` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptOut {
    /// In the annotations.
    Annotation,
    /// In the labels.
    Label,
}

impl OptOut {
    /// `annotation` or `label`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::Label => "label",
        }
    }
}

//! Operating systems: those of nodes, and the values that people may set.

use serde::{Deserialize, Serialize};

use crate::policy_words;

/// An operating system a node can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names explain them")]
pub enum Os {
    Linux,
    Windows,
}

impl Os {
    /// The other operating system.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Linux => Self::Windows,
            Self::Windows => Self::Linux,
        }
    }

    /// Reads `windows` or `linux`, as in label values and `spec.os.name`; any other text is unknown.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "linux" => Some(Self::Linux),
            "windows" => Some(Self::Windows),
            _ => None,
        }
    }

    /// `windows` or `linux`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Windows => "windows",
        }
    }

    /// `Windows` or `Linux`, for sentences.
    pub fn title(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Windows => "Windows",
        }
    }
}

policy_words! {
    /// The operating system that a scope (namespace, policy) or a person sets.
    #[derive(Hash)]
    pub enum ScopeOs {
        /// Windows.
        Windows = "windows",
        /// Linux.
        Linux = "linux",
        /// Either operating system. Mullion does not place pods by operating system, even if their images are for only
        /// one.
        Any = "any",
    }
}

impl ScopeOs {
    /// The operating system, if it is one.
    pub fn os(self) -> Option<Os> {
        match self {
            Self::Windows => Some(Os::Windows),
            Self::Linux => Some(Os::Linux),
            Self::Any => None,
        }
    }

    /// `windows`, `linux` or `any`.
    pub fn name(self) -> &'static str {
        self.os().map_or("any", Os::name)
    }

    /// Reads `windows`, `linux` or `any`; any other text is unknown.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "windows" => Some(Self::Windows),
            "linux" => Some(Self::Linux),
            "any" => Some(Self::Any),
            _ => None,
        }
    }
}

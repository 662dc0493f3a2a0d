//! The Windows nodes that a DaemonSet is for, and whose build cannot run its images.

use std::collections::BTreeMap;

use crate::model::windows::Build;

/// Most names of nodes that are kept: a message has room for a few.
pub(crate) const MOST_NAMES: usize = 3;

/// Most builds that are kept: a fleet has a few, and a kubelet reports its own.
pub(crate) const MOST_BUILDS: usize = 16;

/// The nodes that a DaemonSet leaves out, by build. Never empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOutNodes {
    /// How many nodes are left out.
    pub count: usize,
    /// How many Windows nodes its selector, affinity and tolerations admit, these included.
    pub of: usize,
    /// How many are left out of each build; at most 16 builds.
    pub builds: BTreeMap<Build, usize>,
    /// The names of the first of them.
    pub names: Vec<String>,
}

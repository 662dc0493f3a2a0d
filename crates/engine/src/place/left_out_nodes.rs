//! The Windows nodes that a DaemonSet selects, and whose build cannot run its images.

use std::collections::BTreeMap;

use crate::model::windows::Build;

/// The maximum number of node names that are stored: a message has room for a few.
pub(crate) const MOST_NAMES: usize = 3;

/// The maximum number of builds that are stored: a cluster has a few, and a kubelet reports its
/// own.
pub(crate) const MOST_BUILDS: usize = 16;

/// The nodes that a DaemonSet leaves out, by build. Never empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOutNodes {
    /// The number of nodes that are left out.
    pub count: usize,
    /// The number of Windows nodes that its selector, affinity and tolerations admit, including
    /// those that are left out.
    pub of: usize,
    /// The number of left-out nodes of each build; at most 16 builds.
    pub builds: BTreeMap<Build, usize>,
    /// The names of the first left-out nodes.
    pub names: Vec<String>,
}

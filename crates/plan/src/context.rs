//! The inputs of a plan besides the objects of the cluster.

use jiff::civil::Date;
use mullion_engine::model::windows::Build;
use mullion_policy::PolicySet;

use mullion_survey::facts::Facts;
use mullion_survey::report::Source;

/// The inputs of a plan besides the objects.
#[derive(Debug, Clone, Copy)]
pub struct PlanContext<'a> {
    /// The context of the kubeconfig, or the names of the files.
    pub cluster: &'a str,
    /// Where the objects are from.
    pub source: Source,
    /// The day on which dates count as passed.
    pub today: Date,
    /// The version of Mullion.
    pub mullion: &'a str,
    /// The policies of the cluster.
    pub policies: &'a PolicySet,
    /// Whether somebody named these policies. Otherwise they are the defaults, and the cluster may not have Mullion.
    pub policies_given: bool,
    /// The tables.
    pub facts: &'a Facts,
    /// The file that replaces built-in tables.
    pub facts_file: Option<&'a str>,
    /// The build to which the fleet moves.
    pub target: Build,
    /// The build that moves; `None`: all older ones.
    pub from: Option<Build>,
    /// `AKS` and so on; `Some("")`: none; `None`: what the labels of nodes show.
    pub provider: Option<&'a str>,
    /// The minor version of Kubernetes at the end of the move: `1.36`.
    pub kubernetes: Option<&'a str>,
    /// Whether an image for 20348 counts as one that should be built again for 26100.
    pub strict_match: bool,
}

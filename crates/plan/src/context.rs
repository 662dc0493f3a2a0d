//! The inputs of a plan besides the objects of the cluster.

use mullion_engine::model::windows::Build;
use mullion_survey::SurveyContext;

/// The inputs of a plan besides the objects.
#[derive(Debug, Clone, Copy)]
pub struct PlanContext<'a> {
    /// What a survey of the same cluster has too.
    pub survey: SurveyContext<'a>,
    /// Whether somebody named these policies. Otherwise they are the defaults, and the cluster may not have Mullion.
    pub policies_given: bool,
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

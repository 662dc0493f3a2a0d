//! The rules of this family.

use crate::model::settings::Action;
use crate::rules::rule::{Rule, rule};

/// The rules of this folder.
pub(crate) static RULES: [Rule; 4] = [
    rule!(
        "MUL501",
        "no-common-build",
        Action::Deny,
        "images of one pod that no Windows host can run together",
        "no Windows build runs all of its images",
        "use tags of one Windows release for all containers",
    ),
    rule!(
        "MUL502",
        "no-node-for-build",
        Action::Warn,
        "no node of the cluster runs the pod's Windows build",
        "no Windows node runs the build of its image",
        "add nodes, or use a tag for one of these",
    ),
    rule!(
        "MUL503",
        "build-end-of-life",
        Action::Warn,
        "a Windows release that gets no security updates any more",
        "its Windows release gets no security updates any more",
        "use a tag for a later release",
    ),
    rule!(
        "MUL504",
        "floating-windows-tag",
        Action::Warn,
        "a tag that names no Windows release and has meant others before",
        "its tag names no Windows release, and moves",
        "use a tag that names the release",
    ),
];

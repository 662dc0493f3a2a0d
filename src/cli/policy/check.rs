//! `mullion policy check`: everything that is wrong with policy files.

use std::path::PathBuf;

use clap::Args;

use super::super::knowledge::load_policies;
use super::super::{Io, Outcome};
use crate::report::counted;

/// Arguments of `policy check`.
#[derive(Debug, Clone, Args)]
pub struct Check {
    /// Directories of policy files, read together as one set
    #[arg(value_name = "DIR", required = true)]
    pub directories: Vec<PathBuf>,
}

/// Checks.
pub fn run(args: &Check, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    match load_policies(&args.directories) {
        Ok(policies) => {
            io.say(format_args!("{} of pods, no problem", counted(policies.pods.len(), "policy document")))?;
            Ok(Outcome::Clean)
        }
        Err(bad) => {
            for problem in &bad.0 {
                io.say(problem)?;
            }
            io.say(counted(bad.0.len(), "problem"))?;
            Ok(Outcome::Unreadable)
        }
    }
}

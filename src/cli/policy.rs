//! `mullion policy`: what can be asked of policy files alone.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::knowledge::load_policies;
use super::{Io, Outcome};
use crate::report::counted;

/// Arguments of `policy`.
#[derive(Debug, Clone, Args)]
pub struct Policy {
    /// What to ask.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// What can be asked.
#[derive(Debug, Clone, Subcommand)]
pub enum PolicyCommand {
    /// Say everything that is wrong with policy files
    Check {
        /// Directories of policy files, read together as one set
        #[arg(value_name = "DIR", required = true)]
        directories: Vec<PathBuf>,
    },
}

/// Answers.
pub fn run(args: &Policy, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let PolicyCommand::Check { directories } = &args.command;
    match load_policies(directories) {
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

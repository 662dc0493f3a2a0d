//! The command line: all commands with their arguments.

use std::path::Path;

use clap::{Parser, Subcommand};

use crate::cli::help;
use crate::cli::policy::PolicyArgs;
use crate::cli::policy::command::PolicyCommand;
use crate::cli::{
    check, compat, completions, explain, facts, image, man, mutate, plan, repair, rules, status, survey, verify,
    version, withdraw,
};
use crate::controller::ControllerArgs;
use crate::webhook::WebhookArgs;

/// Places and checks pods by operating system in mixed Windows/Linux Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(name = "mullion", version, propagate_version = true, max_term_width = 100, help_template = help::template(&Command::augment_subcommands(clap::Command::new("mullion"))))]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Every command of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find what cannot work on Windows, with file, line and source
    Check(check::CheckArgs),
    /// Print the input with the changes of the webhook, and everything else unchanged
    Mutate(mutate::MutateArgs),
    /// Explain the operating system of a workload, its changes and its possible nodes
    Explain(explain::ExplainArgs),
    /// Report what a cluster contains, and what is misplaced, stuck or fragile in it
    Survey(survey::SurveyArgs),
    /// Plan the move of a cluster to another Windows release
    Plan(plan::PlanArgs),
    /// List pods that can never start where they are, and evict those that their owners make again elsewhere
    Repair(repair::RepairArgs),
    /// Print the tables of facts that survey and plan use, or check a file with such tables
    Facts(facts::FactsArgs),
    /// Print the operating system and Windows builds of an image
    Image(image::ImageArgs),
    /// Print which Windows hosts run which Windows images
    Compat(compat::CompatArgs),
    /// List the rules, or explain one
    Rules(rules::RulesArgs),
    /// Check, explain, test and compare policy files
    Policy(PolicyArgs),
    /// Check whether Mullion works in a cluster, and what needs attention
    Status(status::StatusArgs),
    /// Prove in a cluster that pods land where they belong, with a few small pods that it deletes
    Verify(verify::VerifyArgs),
    /// Serve the admission webhook over HTTPS
    Webhook(WebhookArgs),
    /// Maintain labels, taints and RuntimeClasses of Windows nodes
    Controller(ControllerArgs),
    /// Remove Mullion's labels and taints from all nodes, and delete its unused RuntimeClasses
    Withdraw(withdraw::WithdrawArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write one for each command
    Man(man::ManArgs),
    /// Print the version
    Version(version::VersionArgs),
}

impl Command {
    /// The file of `--output-file`.
    pub(crate) fn output_file(&self) -> Option<&Path> {
        let file = match self {
            Self::Check(args) => &args.output_file,
            Self::Mutate(args) => &args.output_file,
            Self::Explain(args) => &args.output_file,
            Self::Survey(args) => &args.output_file,
            Self::Plan(args) => &args.output_file,
            Self::Repair(args) => &args.output_file,
            Self::Facts(args) => &args.output_file,
            Self::Image(args) => &args.output_file,
            Self::Compat(args) => &args.output_file,
            Self::Rules(args) => &args.output_file,
            Self::Policy(args) => match &args.command {
                PolicyCommand::Check(args) => &args.output_file,
                PolicyCommand::Show(args) => &args.output_file,
                PolicyCommand::Test(args) => &args.output_file,
                PolicyCommand::Diff(args) => &args.output_file,
                PolicyCommand::Schema(args) => &args.output_file,
            },
            Self::Status(args) => &args.output_file,
            Self::Verify(args) => &args.output_file,
            Self::Completions(args) => &args.output_file,
            Self::Man(args) => &args.output_file,
            Self::Version(args) => &args.output_file,
            Self::Webhook(_) | Self::Controller(_) | Self::Withdraw(_) => return None,
        };
        file.output_file.as_deref()
    }
}

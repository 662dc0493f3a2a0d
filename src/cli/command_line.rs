//! The command line: all commands with their arguments.

use clap::{Parser, Subcommand};

use crate::cli::policy::PolicyArgs;
use crate::cli::{
    check, compat, completions, explain, facts, image, man, mutate, plan, rules, status, survey, version, withdraw,
};
use crate::controller::ControllerArgs;
use crate::webhook::WebhookArgs;

/// Places and checks pods by operating system in mixed Windows/Linux Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(name = "mullion", version, propagate_version = true, max_term_width = 100)]
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

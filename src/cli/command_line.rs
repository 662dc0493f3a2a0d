//! The command line: all commands with their arguments.

use clap::{Parser, Subcommand};

use crate::cli::policy::command::Policy;
use crate::cli::{check, compat, completions, explain, image, man, mutate, rules, withdraw};
use crate::controller::args::ControllerArgs;
use crate::webhook::args::WebhookArgs;

/// Places and checks pods by operating system in mixed Windows/Linux Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(name = "mullion", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Every command of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find what cannot work, with file, line and source
    Check(check::Check),
    /// Print the input as the webhook would leave it, all else byte for byte
    Mutate(mutate::Mutate),
    /// Say which operating system, why, what changes and where it could run
    Explain(explain::Explain),
    /// Say which operating system and Windows builds an image is for
    Image(image::Image),
    /// Say which Windows hosts run which Windows images
    Compat(compat::Compat),
    /// List the rules, or explain one
    Rules(rules::Rules),
    /// Check, explain, test and compare policy files
    Policy(Policy),
    /// Serve the admission webhook over HTTPS
    Webhook(WebhookArgs),
    /// Keep labels, taints and RuntimeClasses of Windows nodes
    Controller(ControllerArgs),
    /// Take everything of Mullion off nodes, and delete the RuntimeClasses nothing names
    Withdraw(withdraw::Withdraw),
    /// Print what makes a shell complete the command line
    Completions(completions::Completions),
    /// Print the manual page, or write one of each command
    Man(man::Manual),
}

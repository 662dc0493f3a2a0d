//! The command line: one definition ([`Cli`]), one file per command, exit codes stated once ([`Outcome`]).
//!
//! Commands are functions from their arguments and an [`Io`] to an [`Outcome`], so that tests call them in-process.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufWriter};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub mod check;
pub mod compat;
pub mod completions;
pub mod documents;
pub mod explain;
pub mod image;
pub mod input;
mod io_handles;
pub mod knowledge;
mod kubectl;
pub mod man;
pub mod mutate;
mod outcome;
pub mod policy;
pub mod policy_files;
mod progress;
#[cfg(feature = "registry")]
mod registry;
pub mod rules;
#[cfg(feature = "server")]
pub mod withdraw;

pub use io_handles::Io;
use kubectl::Caller;
pub use outcome::Outcome;

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
    Policy(policy::Policy),
    /// Serve the admission webhook over HTTPS
    #[cfg(feature = "server")]
    Webhook(crate::webhook::Args),
    /// Keep labels, taints and RuntimeClasses of Windows nodes
    #[cfg(feature = "server")]
    Controller(crate::controller::Args),
    /// Take everything of Mullion off nodes, and delete the RuntimeClasses nothing names
    #[cfg(feature = "server")]
    Withdraw(withdraw::Withdraw),
    /// Print what makes a shell complete the command line
    Completions(completions::Completions),
    /// Print the manual page, or write one of each command
    Man(man::Manual),
}

/// Runs the program with `args`, the program's name first.
pub fn run<I, T>(args: I) -> ExitCode
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let caller = args.first().map_or(Caller::Shell, |program| Caller::of(program));
    // What kubectl asks is no command line: its last word may be half a one.
    let command = match (caller != Caller::Completion).then(|| parse(caller, &args)).transpose() {
        Ok(command) => command,
        Err(error) => {
            let failed = error.print().is_err_and(|error| error.kind() != io::ErrorKind::BrokenPipe);
            // Help and version were asked for and go to stdout; everything else is wrong usage.
            let outcome = if error.use_stderr() || failed { Outcome::Unreadable } else { Outcome::Clean };
            return outcome.into();
        }
    };
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let colour_stdout = io_handles::colour(&stdout);
    // Not locked: the servers log from other threads, which would wait for ever.
    let mut stdout = BufWriter::new(stdout);
    let mut stderr = stderr;
    let mut io = Io { stdin: &mut io::stdin(), stdout: &mut stdout, stderr: &mut stderr, colour_stdout };
    let result = match command {
        Some(command) => dispatch(command, &mut io),
        None => kubectl::candidates(args.get(1..).unwrap_or_default(), &mut io).map_err(Into::into),
    };
    let result = result.and_then(|outcome| Ok(io.stdout.flush().map(|()| outcome)?));
    match result {
        Ok(outcome) => outcome.into(),
        // `mullion check … | head`: the reader has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to tell it to if stderr fails as well.
            drop(format!("{error:#}").lines().try_for_each(|line| io.say(line)));
            Outcome::Unreadable.into()
        }
    }
}

fn parse(caller: Caller, args: &[OsString]) -> Result<Command, clap::Error> {
    let matches = Cli::command().bin_name(caller.typed()).try_get_matches_from(args)?;
    Cli::from_arg_matches(&matches).map(|cli| cli.command)
}

fn dispatch(command: Command, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    match command {
        Command::Check(args) => check::run(&args, io),
        Command::Mutate(args) => mutate::run(&args, io),
        Command::Explain(args) => explain::run(&args, io),
        Command::Image(args) => image::run(&args, io),
        Command::Compat(args) => compat::run(&args, io),
        Command::Rules(args) => rules::run(&args, io),
        Command::Policy(args) => policy::run(&args, io),
        #[cfg(feature = "server")]
        Command::Webhook(args) => crate::webhook::run(&args).map(|()| Outcome::Clean),
        #[cfg(feature = "server")]
        Command::Controller(args) => crate::controller::run(&args).map(|()| Outcome::Clean),
        #[cfg(feature = "server")]
        Command::Withdraw(args) => withdraw::run(&args, io),
        Command::Completions(args) => completions::run(&args, io),
        Command::Man(args) => man::run(&args, io),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    kinds.into_iter().any(|kind| kind == io::ErrorKind::BrokenPipe)
}

/// A command line that makes no sense, with what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

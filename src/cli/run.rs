//! Runs the program: parses the command line, and calls the function of its command.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};
use mullion_engine::model::foreign_text::{visible, visible_lines};

use crate::cli::command_line::{Cli, Command};
use crate::cli::io_handles::Io;
use crate::cli::kubectl::Caller;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::with_output_file;
use crate::cli::{
    check, compat, completions, explain, facts, image, io_handles, kubectl, man, mutate, plan, policy, repair, rules,
    status, survey, verify, version, withdraw,
};
use crate::{controller, webhook};

/// Runs the program with `args`, the program's name first.
pub fn run<I, T>(args: I) -> ExitCode
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let caller = args.first().map_or(Caller::Shell, |program| Caller::of(program));
    // The words of a completion request are not a command line: the last one may be incomplete.
    let command = match (caller != Caller::Completion).then(|| parse(caller, &args)).transpose() {
        Ok(command) => command,
        Err(error) => {
            let failed = print(&error, &args).is_err_and(|error| error.kind() != io::ErrorKind::BrokenPipe);
            // Help and version are printed on stdout; everything else is wrong usage.
            let outcome = if error.use_stderr() || failed { Outcome::Unreadable } else { Outcome::Clean };
            return outcome.into();
        }
    };
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let colour_stdout = io_handles::colour(io::stdout());
    // Not locked, because the servers log from other threads, which would wait forever.
    let mut stdout = BufWriter::new(stdout);
    let mut stderr = stderr;
    let mut io = Io {
        stdin: &mut io::stdin(),
        stdout: &mut stdout,
        stderr: &mut stderr,
        colour_stdout,
        width: io_handles::terminal_width(),
    };
    let result = match command {
        Some(command) => match command.output_file().map(Path::to_owned) {
            Some(path) => with_output_file(&path, &mut io, |io| dispatch(command, io)),
            None => dispatch(command, &mut io),
        },
        None => kubectl::candidates(args.get(1..).unwrap_or_default(), &mut io).map_err(Into::into),
    };
    let result = result.and_then(|outcome| Ok(io.stdout.flush().map(|()| outcome)?));
    match result {
        Ok(outcome) => outcome.into(),
        // `mullion check … | head` closes the pipe early.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr fails as well, there is no other place to report.
            drop(format!("{error:#}").lines().try_for_each(|line| io.eprintln(line)));
            Outcome::Unreadable.into()
        }
    }
}

fn parse(caller: Caller, args: &[OsString]) -> Result<Command, clap::Error> {
    check_options(args)?;
    let matches = Cli::command().bin_name(caller.usage_name()).try_get_matches_from(args)?;
    Cli::from_arg_matches(&matches).map(|cli| cli.command)
}

/// Returns an error for an option that is also the name of a file: a program that passes the names of files, as
/// pre-commit and `xargs` do, may mean the file, whose name then selects other policies or another exit code.
fn check_options(args: &[OsString]) -> Result<(), clap::Error> {
    let mut options = args.iter().skip(1).take_while(|arg| *arg != "--");
    let is_file = |arg: &&OsString| {
        arg.as_encoded_bytes().starts_with(b"-") && *arg != "-" && Path::new(arg).symlink_metadata().is_ok()
    };
    let Some(both) = options.find(is_file) else { return Ok(()) };
    let both = both.to_string_lossy();
    Err(Cli::command().error(
        ErrorKind::ArgumentConflict,
        format!("{both} is an option, and the name of a file here; write -- before the names of files, or ./{both}"),
    ))
}

/// Prints help, or what is wrong with the command line. A message that quotes characters that act or hide has no
/// colors, because the sequences of both look the same.
fn print(error: &clap::Error, args: &[OsString]) -> io::Result<()> {
    let plain = args.iter().all(|arg| matches!(visible(&arg.to_string_lossy()), Cow::Borrowed(_)));
    if plain || !error.use_stderr() {
        return error.print();
    }
    io::stderr().write_all(visible_lines(&error.render().to_string()).as_bytes())
}

fn dispatch(command: Command, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    match command {
        Command::Check(args) => check::run(&args, io),
        Command::Mutate(args) => mutate::run(&args, io),
        Command::Explain(args) => explain::run(&args, io),
        Command::Survey(args) => survey::run(&args, io),
        Command::Plan(args) => plan::run(&args, io),
        Command::Repair(args) => repair::run(&args, io),
        Command::Facts(args) => facts::run(&args, io),
        Command::Image(args) => image::run(&args, io),
        Command::Compat(args) => compat::run(&args, io),
        Command::Rules(args) => rules::run(&args, io),
        Command::Policy(args) => policy::command::run(&args, io),
        Command::Status(args) => status::run(&args, io),
        Command::Verify(args) => verify::run(&args, io),
        Command::Webhook(args) => webhook::start::run(&args).map(|()| Outcome::Clean),
        Command::Controller(args) => controller::start::run(&args).map(|()| Outcome::Clean),
        Command::Withdraw(args) => withdraw::run(&args, io),
        Command::Completions(args) => completions::run(&args, &Cli::command(), io),
        Command::Man(args) => man::run(&args, Cli::command(), io),
        Command::Version(args) => version::run(&args, io),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    kinds.into_iter().any(|kind| kind == io::ErrorKind::BrokenPipe)
}

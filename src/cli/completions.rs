//! `mullion completions`: scripts with which shells complete command lines.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;

/// Arguments of `completions`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion completions bash\n\
    \x20 mullion completions powershell --output-file mullion.ps1\n\n\
    bash:       mullion completions bash > ~/.local/share/bash-completion/completions/mullion\n\
    zsh:        mullion completions zsh > ~/.zfunc/_mullion, with fpath+=~/.zfunc before compinit in ~/.zshrc\n\
    fish:       mullion completions fish > ~/.config/fish/completions/mullion.fish\n\
    powershell: mullion completions powershell --output-file mullion.ps1, with . ./mullion.ps1 in $PROFILE\n\
    elvish:     mullion completions elvish >> ~/.config/elvish/rc.elv\n\n\
    For kubectl mullion, link mullion as kubectl_complete-mullion into a directory of PATH: kubectl runs that.")]
pub struct CompletionsArgs {
    /// Shell that the script is for
    #[arg(value_enum)]
    pub shell: Shell,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// Prints the script for `program`.
pub(crate) fn run(args: &CompletionsArgs, program: &Command, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let mut command = without_hidden(program);
    let name = command.get_name().to_owned();
    // The generators do not write directly to stdout, because they panic if a pipe is closed.
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    io.stdout.write_all(&script)?;
    Ok(Outcome::Clean)
}

/// The command without hidden arguments and subcommands, which the generators would offer.
fn without_hidden(command: &Command) -> Command {
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()))
        .subcommands(command.get_subcommands().filter(|inner| !inner.is_hide_set()).map(without_hidden))
}

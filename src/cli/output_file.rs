//! `--output-file`: the output of a command in a file instead of standard output.
//!
//! The `>` of Windows PowerShell writes UTF-16, which other programs do not expect. The file is UTF-8 on every system.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::cli::io_handles::{CountedWriter, Io};
use crate::cli::new_file::NewFile;
use crate::cli::outcome::Outcome;

/// The argument of every command that prints a document.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputFileArgs {
    /// Write the output to this file, in UTF-8, instead of standard output. A file of that name is replaced when the
    /// output is complete
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
}

/// Runs a command with the file as its standard output. The file stays as it was if the command fails, and if it ends with
/// exit code 2 without any output.
pub(crate) fn with_output_file(
    path: &Path,
    io: &mut Io<'_>,
    run: impl FnOnce(&mut Io<'_>) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    let shown = path.display();
    // A rename would replace a device or a pipe by a file.
    ensure!(
        path.metadata().map_or(true, |about| about.is_file()),
        "--output-file {shown}: it exists and is no file; name a file, or leave out --output-file"
    );
    let hint = || format!("--output-file {shown}: it cannot be written; name a file in a directory that exists");
    let (new, file) = NewFile::create(path).with_context(hint)?;
    let mut stdout = CountedWriter::new(BufWriter::new(file));
    let outcome = run(&mut Io {
        stdin: &mut *io.stdin,
        stdout: &mut stdout,
        stderr: &mut *io.stderr,
        colour_stdout: false,
        width: None,
    })?;
    stdout.flush().with_context(hint)?;
    if outcome < Outcome::Unreadable || stdout.bytes() > 0 {
        new.finish().with_context(hint)?;
    }
    Ok(outcome)
}

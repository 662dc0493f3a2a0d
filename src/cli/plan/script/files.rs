//! Writes the scripts of a plan into a directory. A file that exists stays as it is.

use std::fs;
use std::io;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use mullion_engine::model::text::counted;
use mullion_plan::PlanReport;

use crate::cli::io_handles::Io;
use crate::cli::new_file::NewFile;
use crate::cli::plan::script::step_script::scripts;
use crate::cli::plan::script::{bash, powershell};

/// The shell of the scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ScriptShell {
    /// Files with the extension .sh
    #[default]
    Bash,
    /// Files with the extension .ps1, for PowerShell 7.3 or newer
    Pwsh,
}

/// Writes a script for each step and one for its undo, and reports their number on stderr. If one of the files exists,
/// none is written.
pub(in crate::cli::plan) fn write_scripts(
    report: &PlanReport,
    directory: &Path,
    shell: ScriptShell,
    io: &mut Io<'_>,
) -> anyhow::Result<()> {
    let shown = directory.display();
    let (extension, render): (_, fn(&_) -> String) = match shell {
        ScriptShell::Bash => (bash::EXTENSION, bash::render),
        ScriptShell::Pwsh => (powershell::EXTENSION, powershell::render),
    };
    let scripts = scripts(report);
    if scripts.is_empty() {
        io.eprintln(format_args!("{shown}: no script was written: the plan has no steps"))?;
        return Ok(());
    }
    create_directory(directory).with_context(|| format!("plan: --script {shown}"))?;
    let files: Vec<_> =
        scripts.iter().map(|script| (directory.join(format!("{}.{extension}", script.name)), render(script))).collect();
    if let Some((path, _)) = files.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        bail!("plan: --script {shown}: {} exists; name another directory, or remove the scripts in it", path.display());
    }
    for (path, text) in &files {
        write(path, text).with_context(|| format!("plan: --script: {} cannot be written", path.display()))?;
    }
    io.eprintln(format_args!("{shown}: {} written", counted(files.len(), "script")))?;
    Ok(())
}

/// Creates the directory for its owner alone, if there is none. Its parent must exist.
fn create_directory(directory: &Path) -> anyhow::Result<()> {
    if directory.symlink_metadata().is_ok() {
        ensure!(directory.is_dir(), "it is not a directory");
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    Ok(builder.create(directory)?)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let (new, mut file) = NewFile::create_program(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    new.finish_without_replacing()
}

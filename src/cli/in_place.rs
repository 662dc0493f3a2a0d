//! Files of a user that a command changes in place: `mutate --in-place` and `plan --write`.
//!
//! A file is replaced in one step and keeps its permissions. A link to it stays one, and the file behind it is replaced.
//! Another name of the same file (a hard link) keeps the old text.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::cli::input::{Inputs, is_stdin};
use crate::cli::live::LiveArguments;
use crate::cli::new_file::NewFile;

/// Returns an error unless all inputs are files or directories. `flag`: the argument that writes to them.
pub(crate) fn check_writable(command: &str, flag: &str, inputs: &Inputs, live: &LiveArguments) -> anyhow::Result<()> {
    let files = "write the names of files or directories";
    ensure!(!inputs.paths.is_empty() && !live.all_namespaces, "{command}: {flag} changes files; {files}");
    for path in &inputs.paths {
        let shown = path.display();
        ensure!(!is_stdin(path), "{command}: {flag} changes files, and - is standard input; {files}");
        ensure!(path.exists(), "{command}: {flag} changes files, and {shown} does not exist here; {files}");
    }
    Ok(())
}

/// A file with its new text, which is not in place yet.
#[derive(Debug)]
pub(crate) struct FileReplacement {
    new: NewFile,
}

impl FileReplacement {
    /// Writes `text` beside the file.
    pub(crate) fn prepare(path: &Path, text: &[u8]) -> io::Result<Self> {
        let path: PathBuf = fs::canonicalize(path)?;
        let (new, mut file) = NewFile::create(&path)?;
        file.write_all(text)?;
        file.set_permissions(fs::metadata(&path)?.permissions())?;
        file.sync_all()?;
        Ok(Self { new })
    }

    /// Puts it in place.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.new.finish()
    }
}

//! Policy files from arguments: reads them and renders errors about them, for all commands.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;

use jiff::Timestamp;
use mullion_engine::model::text::counted;
use mullion_manifest::Problem;
use mullion_policy::{MAX_FILE, PolicyFile, PolicyFiles, PolicySet, unpack_manifests};

use crate::cli::input::{check_stdin_once, is_stdin};
use crate::policy_files::directory;
use crate::report::STDIN;

/// Reads policy files, directories of them, and manifests of ConfigMaps that contain policies.
pub(crate) fn read(paths: &[PathBuf]) -> PolicyFiles {
    unpack(directory::read(paths))
}

/// Like [`read`], with `-` for standard input.
pub(crate) fn read_with_stdin(command: &str, paths: &[PathBuf], stdin: &mut dyn Read) -> anyhow::Result<PolicyFiles> {
    check_stdin_once(command, paths)?;
    let (dashes, others): (Vec<PathBuf>, Vec<PathBuf>) = paths.iter().cloned().partition(|path| is_stdin(path));
    let mut files = if others.is_empty() { PolicyFiles::default() } else { directory::read(&others) };
    if !dashes.is_empty() {
        let mut bytes = Vec::new();
        // One byte more than the limit, so that the loader reports it.
        stdin.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
        files.texts.push(PolicyFile { name: STDIN.to_owned(), bytes });
    }
    Ok(unpack(files))
}

fn unpack(mut files: PolicyFiles) -> PolicyFiles {
    files.texts = files.texts.into_iter().flat_map(unpack_manifests).collect();
    files.texts.sort_unstable();
    files
}

/// The policies of all `paths` together; without paths, the built-in ones. The error contains every problem.
pub(crate) fn load(paths: &[PathBuf]) -> Result<PolicySet, BadPolicies> {
    if paths.is_empty() {
        return Ok(PolicySet::built_in());
    }
    let set = PolicySet::load(&read(paths)).map(|set| set.at(Timestamp::now().as_second()));
    set.map_err(|problems| BadPolicies { problems, paths: paths.to_owned() })
}

/// Everything that is wrong with a set of policies.
#[derive(Debug, Clone)]
pub(crate) struct BadPolicies {
    problems: Vec<Problem>,
    paths: Vec<PathBuf>,
}

impl fmt::Display for BadPolicies {
    /// One line for the first, and the command that shows all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.problems.split_first() else {
            return f.write_str("the policies cannot be read");
        };
        write!(f, "{first}")?;
        if !rest.is_empty() {
            let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
            let rest = counted(rest.len(), "more problem");
            write!(f, "; and {rest}, shown by: mullion policy check {}", paths.join(" "))?;
        }
        Ok(())
    }
}

impl std::error::Error for BadPolicies {}

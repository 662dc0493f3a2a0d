//! Policy files as arguments name them: read in one way and refused in one way, whichever command asks.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;

use mullion_engine::model::text::counted;
use mullion_manifest::problem::Problem;
use mullion_policy::manifests::unpacked;
use mullion_policy::policy_file::{MAX_FILE, PolicyFile, PolicyFiles};
use mullion_policy::policy_set::PolicySet;

use crate::cli::usage_error::UsageError;
use crate::policy_files::directory;
use crate::report::STDIN;

/// Reads policy files, directories of them, and manifests of ConfigMaps that hold some.
pub fn read(paths: &[PathBuf]) -> PolicyFiles {
    unpack(directory::read(paths))
}

/// As [`read`], with `-` for standard input.
pub fn read_with_stdin(command: &str, paths: &[PathBuf], stdin: &mut dyn Read) -> anyhow::Result<PolicyFiles> {
    let (dashes, others): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.iter().cloned().partition(|path| path.as_os_str() == "-");
    let mut files = if others.is_empty() { PolicyFiles::default() } else { directory::read(&others) };
    match dashes.len() {
        0 => {}
        1 => {
            let mut bytes = Vec::new();
            // One byte more than the limit: the loader says so.
            stdin.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
            files.texts.push(PolicyFile { name: STDIN.to_owned(), bytes });
        }
        _ => return Err(UsageError(format!("{command}: standard input (-) can be read only once")).into()),
    }
    Ok(unpack(files))
}

fn unpack(mut files: PolicyFiles) -> PolicyFiles {
    files.texts = files.texts.into_iter().flat_map(unpacked).collect();
    files.texts.sort_unstable();
    files
}

/// The policies of all `paths` together; of none, the built-in ones. Fails with every problem there is.
pub fn load(paths: &[PathBuf]) -> Result<PolicySet, BadPolicies> {
    if paths.is_empty() {
        return Ok(PolicySet::built_in());
    }
    PolicySet::load(&read(paths)).map_err(|problems| BadPolicies { problems, paths: paths.to_owned() })
}

/// Everything that is wrong with a set of policies.
#[derive(Debug, Clone)]
pub struct BadPolicies {
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

//! Names of policy files and of their test files.

use std::ffi::OsStr;
use std::path::Path;

/// Whether a file of this name is a policy file.
pub fn is_policy_file(name: &OsStr) -> bool {
    let known = |end: &OsStr| ["yaml", "yml", "json"].iter().any(|known| end.eq_ignore_ascii_case(known));
    !name.as_encoded_bytes().starts_with(b".")
        && Path::new(name).extension().is_some_and(known)
        && !is_test_file(Path::new(name))
}

/// Whether a file of this name contains test cases for policies: `*.test.yaml` or `*.test.yml`.
pub fn is_test_file(path: &Path) -> bool {
    let known = |end: &OsStr| ["yaml", "yml"].iter().any(|known| end.eq_ignore_ascii_case(known));
    let is_test = |stem: &OsStr| Path::new(stem).extension().is_some_and(|end| end.eq_ignore_ascii_case("test"));
    path.extension().is_some_and(known) && path.file_stem().is_some_and(is_test)
}

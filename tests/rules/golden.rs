//! Generated files, compared with what would be generated now.

use std::fs;
use std::path::{Path, PathBuf};

use similar::TextDiff;

use super::Checked;

/// A path below the repository.
pub fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

/// Whether to write files instead of comparing them.
pub fn writing() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Fails unless the file at `below` contains `made`, or writes it.
pub fn file(below: &str, made: &str) -> Checked {
    let found = fs::read_to_string(path(below)).unwrap_or_default();
    if found == made {
        return Ok(());
    }
    if writing() {
        let path = path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        return fs::write(&path, made).map_err(|error| format!("{below}: {error}"));
    }
    let diff = TextDiff::from_lines(found.as_str(), made);
    let diff = diff.unified_diff().context_radius(1).header(below, "made now").to_string();
    Err(format!("{below} is not what would be made now; `make rules` writes it again:\n{diff}"))
}

/// Fails if a file of that folder with this ending is not among `expected`, or removes it.
pub fn no_others(folder: &str, ending: &str, expected: &[String]) -> Checked {
    let stale = names(folder).into_iter().filter(|name| name.ends_with(ending) && !expected.contains(name));
    let mut complaints = Vec::new();
    for name in stale {
        if writing() {
            fs::remove_file(path(folder).join(&name)).unwrap();
        } else {
            complaints.push(format!("{folder}/{name} belongs to no rule; `make rules` removes it"));
        }
    }
    super::all(&complaints)
}

/// The names in a folder; empty if it does not exist.
pub fn names(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path(folder)) else { return Vec::new() };
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

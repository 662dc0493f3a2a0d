//! The files below a directory: at most [`MAX_FILES`], each once, and none behind a link that leaves the directory.
//!
//! A directory of a repository contains what its authors want, also links. The content of a file behind a link can
//! reach a log that they read, so a link that leaves the directory is named and not followed. Links inside of it are
//! followed, as in a mounted ConfigMap. A path that a user passes may be a link to anything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The maximum number of files of one directory that are read.
pub(crate) const MAX_FILES: usize = 100_000;

/// The maximum number of files and directories below a directory, with those that are not read.
const MAX_ENTRIES: usize = 1_000_000;

/// The maximum number of directories in each other.
const MAX_DEPTH: usize = 64;

/// Whether a walk follows links that leave the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeavingLinks {
    Skipped,
    Followed,
}

/// Why a file or a directory was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WalkProblem {
    #[error("it is a link that leaves the directory")]
    Leaves,
    /// A pipe or a socket: without a writer, reading it never ends.
    #[error("it is not a regular file; check its name and permissions")]
    NotRegular,
    #[error("it is below more than {MAX_DEPTH} directories; name the directory itself")]
    TooDeep,
    #[error(
        "it contains more than {MAX_FILES} files to read, or {MAX_ENTRIES} in all; name fewer directories at a time"
    )]
    TooMany,
    #[error("{0}; check its name and permissions")]
    Unreadable(#[from] io::Error),
}

impl WalkProblem {
    /// Whether it is a link that leaves the directory: it is skipped on purpose, so the command succeeds without it.
    pub(crate) fn is_skipped_link(&self) -> bool {
        matches!(self, Self::Leaves)
    }
}

/// Files, sorted, and what was not read.
pub(crate) type FoundFiles = (Vec<PathBuf>, Vec<(PathBuf, WalkProblem)>);

/// The wanted files below a directory, without those whose names begin with a full stop.
pub(crate) fn files_below(directory: &Path, wanted: fn(&Path) -> bool, links: LeavingLinks) -> FoundFiles {
    let mut walk =
        Walk { wanted, root: None, files: Vec::new(), problems: Vec::new(), seen: BTreeSet::new(), entries: 0 };
    match fs::canonicalize(directory) {
        Ok(root) => {
            walk.root = (links == LeavingLinks::Skipped).then_some(root);
            walk.directory(directory, 0);
        }
        Err(error) => walk.problems.push((directory.to_owned(), error.into())),
    }
    if walk.is_full() {
        walk.problems.push((directory.to_owned(), WalkProblem::TooMany));
    }
    (walk.files, walk.problems)
}

/// The path of a file without links, which must be below `root`, a path without links.
pub(crate) fn real_path_within(root: &Path, path: &Path) -> Result<PathBuf, WalkProblem> {
    let real = fs::canonicalize(path)?;
    if real.starts_with(root) { Ok(real) } else { Err(WalkProblem::Leaves) }
}

/// A walk through a directory. Every file and directory is entered once, however many links lead to it: a link to a
/// parent would never end, and a link to a sibling would read the same text twice.
struct Walk {
    wanted: fn(&Path) -> bool,
    /// The directory that links must not leave.
    root: Option<PathBuf>,
    files: Vec<PathBuf>,
    problems: Vec<(PathBuf, WalkProblem)>,
    seen: BTreeSet<PathBuf>,
    /// How many entries of directories were read.
    entries: usize,
}

impl Walk {
    fn directory(&mut self, directory: &Path, depth: usize) {
        let entries = if depth > MAX_DEPTH { Err(WalkProblem::TooDeep) } else { self.entries(directory) };
        match entries {
            Ok(entries) => entries.iter().for_each(|path| self.entry(path, depth)),
            Err(problem) => self.problems.push((directory.to_owned(), problem)),
        }
    }

    fn is_full(&self) -> bool {
        self.entries > MAX_ENTRIES || self.files.len() > MAX_FILES
    }

    fn entries(&mut self, directory: &Path) -> Result<Vec<PathBuf>, WalkProblem> {
        let real = self.real_path(directory)?;
        if !self.seen.insert(real) {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            self.entries += 1;
            if self.is_full() {
                break;
            }
            // Also skips `..data` of a mounted ConfigMap, whose files are linked from the directory itself.
            if !entry.file_name().to_string_lossy().starts_with('.') {
                entries.push(entry.path());
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf, WalkProblem> {
        match &self.root {
            Some(root) => real_path_within(root, path),
            None => Ok(fs::canonicalize(path)?),
        }
    }

    fn entry(&mut self, path: &Path, depth: usize) {
        if self.is_full() {
            return;
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => self.directory(path, depth + 1),
            Ok(found) if found.is_file() && (self.wanted)(path) => match self.real_path(path) {
                Ok(real) => {
                    if self.seen.insert(real) {
                        self.files.push(path.to_owned());
                    }
                }
                Err(problem) => self.problems.push((path.to_owned(), problem)),
            },
            Ok(_) if (self.wanted)(path) => self.problems.push((path.to_owned(), WalkProblem::NotRegular)),
            // A dangling link is a problem only if its name is wanted.
            Err(error) if (self.wanted)(path) => self.problems.push((path.to_owned(), error.into())),
            Ok(_) | Err(_) => {}
        }
    }
}

#[cfg(all(test, unix))]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::fs::symlink;

    use super::*;

    fn is_yaml(path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "yaml")
    }

    /// The files and the problems of the walk, without the directory.
    fn walked(directory: &Path, links: LeavingLinks) -> (Vec<String>, Vec<String>) {
        let short = |path: &Path| path.strip_prefix(directory).unwrap().display().to_string();
        let (files, problems) = files_below(directory, is_yaml, links);
        let problems = problems.iter().map(|(path, problem)| format!("{}: {problem}", short(path)));
        (files.iter().map(|path| short(path)).collect(), problems.collect())
    }

    #[test]
    fn links_that_leave_the_directory_are_named() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("inside"), root.path().join("outside"));
        fs::create_dir_all(inside.join("deep")).unwrap();
        fs::create_dir(&outside).unwrap();
        for file in [inside.join("deep/a.yaml"), outside.join("secret.json"), outside.join("b.yaml")] {
            fs::write(file, "x").unwrap();
        }
        symlink("../outside/secret.json", inside.join("c.yaml")).unwrap();
        symlink(outside.canonicalize().unwrap(), inside.join("d")).unwrap();
        symlink("/", inside.join("e")).unwrap();
        symlink("deep/a.yaml", inside.join("f.yaml")).unwrap();
        symlink("..", inside.join("deep/g")).unwrap();
        symlink(".", inside.join("h")).unwrap();
        symlink("../outside/secret.json", inside.join("not-wanted")).unwrap();
        let left = |name: &str| format!("{name}: it is a link that leaves the directory");
        assert_eq!(
            walked(&inside, LeavingLinks::Skipped),
            (vec!["deep/a.yaml".to_owned()], ["c.yaml", "d", "e"].map(left).to_vec())
        );
        // A directory that is itself a link, and a name that begins like that of the directory.
        let (link, longer) = (root.path().join("link"), root.path().join("inside-too"));
        symlink(&inside, &link).unwrap();
        fs::rename(&outside, &longer).unwrap();
        symlink(longer.join("b.yaml"), inside.join("b.yaml")).unwrap();
        fs::remove_file(inside.join("e")).unwrap();
        let (files, problems) = walked(&link, LeavingLinks::Skipped);
        assert_eq!(
            (files.as_slice(), problems.first()),
            (["deep/a.yaml".to_owned()].as_slice(), Some(&left("b.yaml")))
        );
        let (files, _) = walked(&link, LeavingLinks::Followed);
        assert_eq!(files, ["b.yaml", "deep/a.yaml"]);
    }

    #[test]
    fn a_mounted_config_map_is_read() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("..2026_11_27")).unwrap();
        fs::write(root.path().join("..2026_11_27/a.yaml"), "x").unwrap();
        symlink("..2026_11_27", root.path().join("..data")).unwrap();
        symlink("..data/a.yaml", root.path().join("a.yaml")).unwrap();
        assert_eq!(walked(root.path(), LeavingLinks::Skipped), (vec!["a.yaml".to_owned()], Vec::new()));
    }

    #[test]
    fn depth_has_a_limit() {
        let root = tempfile::tempdir().unwrap();
        let deep = (0..=MAX_DEPTH).fold(root.path().to_owned(), |path, _| path.join("d"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("a.yaml"), "x").unwrap();
        fs::write(deep.parent().unwrap().join("b.yaml"), "x").unwrap();
        let (files, problems) = walked(root.path(), LeavingLinks::Skipped);
        assert_eq!((files.len(), problems.len()), (1, 1));
        assert!(problems.iter().all(|problem| problem.contains("below more than 64 directories")), "{problems:?}");
    }

    #[test]
    fn the_number_of_files_has_a_limit() {
        let mut walk = Walk {
            wanted: is_yaml,
            root: None,
            files: vec![PathBuf::new(); MAX_FILES],
            problems: Vec::new(),
            seen: BTreeSet::new(),
            entries: 0,
        };
        let root = tempfile::tempdir().unwrap();
        for name in ["a.yaml", "b.yaml", "c.yaml"] {
            fs::write(root.path().join(name), "x").unwrap();
        }
        walk.directory(root.path(), 0);
        assert!(walk.is_full());
        assert_eq!(walk.files.len(), MAX_FILES + 1);
    }

    #[test]
    fn pipes_and_devices_do_not_block() {
        let root = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(root.path().join("pipe.yaml")).status().unwrap();
        assert!(made.success());
        symlink("/dev/zero", root.path().join("zeros.yaml")).unwrap();
        let is_not = |name: &str| format!("{name}.yaml: it is not a regular file; check its name and permissions");
        assert_eq!(walked(root.path(), LeavingLinks::Skipped), (Vec::new(), ["pipe", "zeros"].map(is_not).to_vec()));
    }
}

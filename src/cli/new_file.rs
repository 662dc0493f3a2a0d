//! A file that is written beside its final name and gets it when it is complete, so that an interrupted command leaves
//! the old file or none.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// A file without its final name. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    partial: PathBuf,
}

impl NewFile {
    /// Creates a file that will replace `path`.
    pub(crate) fn create(path: &Path) -> io::Result<(Self, File)> {
        Self::open(path, &mut OpenOptions::new())
    }

    /// Creates a file that will replace `path`, and that only its owner can read: mode 0600.
    pub(crate) fn create_private(path: &Path) -> io::Result<(Self, File)> {
        Self::open(path, &mut with_mode(0o600))
    }

    /// Creates a file at `path` that only its owner can read, change and run: mode 0700.
    pub(crate) fn create_program(path: &Path) -> io::Result<(Self, File)> {
        Self::open(path, &mut with_mode(0o700))
    }

    /// Others who can write to the directory may have placed a file or a link under any name that they can guess.
    /// `create_new` fails at both.
    fn open(path: &Path, options: &mut OpenOptions) -> io::Result<(Self, File)> {
        let name = path.file_name().ok_or_else(|| io::Error::other("it has no name"))?.to_string_lossy();
        // Names that begin with a full stop are neither manifests nor dumps.
        let partial = format!(".{name}.mullion-{:016x}.partial", RandomState::new().hash_one(std::process::id()));
        let partial = path.with_file_name(partial);
        let file = options.write(true).create_new(true).open(&partial)?;
        Ok((Self { path: path.to_owned(), partial }, file))
    }

    /// Gives the file its name. A file or a link of that name is replaced, and no link is followed.
    pub(crate) fn finish(self) -> io::Result<()> {
        fs::rename(&self.partial, &self.path)
    }

    /// Gives the file its name, unless a file or a link has it: that stays as it is, and this fails.
    pub(crate) fn finish_without_replacing(self) -> io::Result<()> {
        match fs::hard_link(&self.partial, &self.path) {
            // Some file systems have no hard links. A rename replaces a file that appears in between.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && self.path.symlink_metadata().is_err() => {
                self.finish()
            }
            // The other name is removed when this is dropped.
            linked => linked,
        }
    }
}

/// Options for a file with these permissions, where the system has such.
#[cfg_attr(not(unix), expect(unused_variables, reason = "Windows has no modes of files"))]
fn with_mode(mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    options
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // After the renaming there is none, and nothing can be done about one that cannot be removed.
        drop(fs::remove_file(&self.partial));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io::Write as _;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_is_not_finished_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "old").unwrap();
        let (new, mut file) = NewFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(dir.path()).len()), ("old", 2));
        drop(new);
        assert_eq!(names(dir.path()), ["a"]);
        assert!(NewFile::create(Path::new("/")).is_err() && NewFile::create(&path.join("b")).is_err());
        // A directory cannot be replaced.
        let folder = dir.path().join("b");
        fs::create_dir(&folder).unwrap();
        assert!(NewFile::create(&folder).unwrap().0.finish().is_err());
        assert_eq!(names(dir.path()), ["a", "b"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_exists_is_not_replaced() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let dir = tempfile::tempdir().unwrap();
        let (path, other, link) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        let write = |path: &Path| {
            let (new, mut file) = NewFile::create_program(path).unwrap();
            file.write_all(b"new").unwrap();
            new.finish_without_replacing()
        };
        write(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode), ("new", 0o700));
        fs::write(&other, "old").unwrap();
        symlink(dir.path().join("nowhere"), &link).unwrap();
        for taken in [&other, &link] {
            assert_eq!(write(taken).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "old");
        assert_eq!(names(dir.path()), ["a", "b", "c"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_private_file_replaces_a_link_and_not_its_target() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("a"), dir.path().join("target"));
        fs::write(&target, "kept").unwrap();
        symlink(&target, &path).unwrap();
        let (new, mut file) = NewFile::create_private(&path).unwrap();
        file.write_all(b"new").unwrap();
        new.finish().unwrap();
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert!(metadata.is_file() && metadata.permissions().mode() & 0o777 == 0o600, "{metadata:?}");
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), fs::read_to_string(&target).unwrap()),
            ("new".into(), "kept".into())
        );
        assert_eq!(names(dir.path()), ["a", "target"]);
    }
}

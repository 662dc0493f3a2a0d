//! A ConfigMap as a kubelet mounts it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;

/// A directory of links into `..data`, itself a link to the directory of one version, which is swapped by one rename
/// (`AtomicWriter` in `pkg/volume/util/atomic_writer.go`). Dropping it removes it.
#[derive(Debug)]
pub struct ConfigMapMount {
    directory: tempfile::TempDir,
    version: usize,
}

impl ConfigMapMount {
    /// A mount with its first version.
    pub fn new<T: AsRef<[u8]>>(files: &[(&str, T)]) -> Result<Self> {
        let mut mount = Self::empty(tempfile::tempdir()?);
        mount.publish(files)?;
        Ok(mount)
    }

    /// A mount without a version yet.
    pub(crate) fn empty(directory: tempfile::TempDir) -> Self {
        Self { directory, version: 0 }
    }

    /// The path at which it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Publishes another version, in the kubelet's order: creates the new directory, swaps the link, updates the links
    /// to files, and removes the old directory.
    pub fn publish<T: AsRef<[u8]>>(&mut self, files: &[(&str, T)]) -> Result<()> {
        self.version += 1;
        let name = format!("..2026_11_21_15_00_00.{}", self.version);
        let at = |name: &str| self.directory.path().join(name);
        fs::create_dir(at(&name))?;
        for (file, bytes) in files {
            fs::write(at(&name).join(file), bytes)?;
        }
        let before = fs::read_link(at("..data")).ok();
        symlink(&name, at("..data_tmp"))?;
        fs::rename(at("..data_tmp"), at("..data"))?;
        for (file, _) in files {
            if fs::symlink_metadata(at(file)).is_err() {
                symlink(Path::new("..data").join(file), at(file))?;
            }
        }
        for entry in fs::read_dir(self.directory.path())? {
            let file = entry?.file_name();
            let name = file.to_string_lossy();
            if !name.starts_with("..") && files.iter().all(|(file, _)| *file != name) {
                fs::remove_file(at(&name))?;
            }
        }
        if let Some(before) = before {
            fs::remove_dir_all(self.directory.path().join(before))?;
        }
        Ok(())
    }
}

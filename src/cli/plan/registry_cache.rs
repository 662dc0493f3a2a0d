//! The file of `--registry-cache`: what registries reported, as an `ImagePlatforms` object.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use mullion_snapshot::ImagePlatforms;

use crate::cli::input::read_file;
use crate::cli::new_file::NewFile;

/// The file, and what it has.
pub(crate) struct RegistryCache {
    path: PathBuf,
    reported: ImagePlatforms,
}

impl RegistryCache {
    /// Reads the file. If registries are asked (`extends`), it may be missing, and must be writable: the first look-up may
    /// take minutes.
    pub(crate) fn open(path: &Path, extends: bool) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let reported = match read_file(path) {
            Ok(bytes) => ImagePlatforms::from_file(&name, &bytes)?,
            Err(error) if error.kind() == ErrorKind::NotFound && extends => ImagePlatforms::default(),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("--registry-cache {name}: there is no such file; --registry makes one")
            }
            Err(error) => return Err(anyhow!("--registry-cache {name}: {error}")),
        };
        let cache = Self { path: path.to_owned(), reported };
        if extends {
            cache.write()?;
        }
        Ok(cache)
    }

    /// What it has and need not be asked again: an image that was absent may have been pushed since.
    pub(crate) fn found(&self) -> ImagePlatforms {
        let ImagePlatforms { images, sizes, .. } = self.reported.clone();
        ImagePlatforms { images, sizes, ..ImagePlatforms::default() }
    }

    /// All that it has.
    pub(crate) fn into_reported(self) -> ImagePlatforms {
        self.reported
    }

    /// Adds what was looked up now, and writes the file.
    pub(crate) fn add(&mut self, reported: ImagePlatforms) -> anyhow::Result<()> {
        self.reported.extend(reported);
        self.write()
    }

    /// Writes the whole file before it gets its name, so that an interrupted command leaves the old one.
    fn write(&self) -> anyhow::Result<()> {
        let name = self.path.display();
        let mut text = serde_json::to_string_pretty(&self.reported.to_value()?)?;
        text.push('\n');
        let written = NewFile::create(&self.path).and_then(|(new, mut file)| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            new.finish()
        });
        written.with_context(|| format!("--registry-cache {name}: the file cannot be written"))
    }
}

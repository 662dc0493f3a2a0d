//! A saved inventory: JSON Lines of the objects as the survey stores them, compressed with gzip. It can be read as a
//! dump.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use mullion_survey::InventoryReader;
use serde_json::Value;

/// A file that is being written. It is renamed to its final name when it is complete.
pub(crate) struct SavedInventory {
    path: PathBuf,
    partial: PathBuf,
    out: Option<GzEncoder<BufWriter<File>>>,
    /// The first error.
    failed: Option<std::io::Error>,
}

impl SavedInventory {
    /// Begins a file.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let is_packed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        ensure!(is_packed, "--save {}: the file is packed with gzip; give it a name that ends in .gz", path.display());
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = File::create(&partial).with_context(|| format!("--save {}", path.display()))?;
        let out = GzEncoder::new(BufWriter::new(file), Compression::default());
        Ok(Self { path: path.to_owned(), partial, out: Some(out), failed: None })
    }

    /// Writes an object. Errors are reported at the end.
    pub(crate) fn add(&mut self, object: &Value) {
        if self.failed.is_some() {
            return;
        }
        let Some(out) = &mut self.out else { return };
        let written = serde_json::to_writer(&mut *out, object).map_err(Into::into).and_then(|()| out.write_all(b"\n"));
        self.failed = written.err();
    }

    /// Writes the last object, and renames the file.
    pub(crate) fn finish(mut self, last: &Value) -> anyhow::Result<()> {
        self.add(last);
        let context = || format!("--save {}", self.path.display());
        if let Some(error) = self.failed.take() {
            return Err(error).with_context(context);
        }
        if let Some(out) = self.out.take() {
            out.finish().and_then(|mut file| file.flush()).with_context(context)?;
        }
        fs::rename(&self.partial, &self.path).with_context(context)
    }
}

/// Adds an object to an inventory and, if a saved inventory is written, to that too. `kind`: that of the list around
/// it.
pub(crate) fn keep(
    object: Value,
    kind: Option<&str>,
    reader: &mut InventoryReader,
    saved: &mut Option<SavedInventory>,
) {
    reader.add(object, kind, &mut |kept| {
        if let Some(saved) = saved {
            saved.add(kept);
        }
    });
}

impl Drop for SavedInventory {
    /// An incomplete file would look like a dump of a smaller cluster.
    fn drop(&mut self) {
        if self.partial.exists() {
            // Nothing can be done about a file that cannot be removed.
            drop(fs::remove_file(&self.partial));
        }
    }
}

//! A saved inventory: JSON Lines of the objects as the survey stores them, compressed with gzip. It can be read as a
//! dump.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use mullion_survey::InventoryReader;
use serde_json::Value;

use crate::cli::new_file::NewFile;

/// A file that is being written. It gets its name when it is complete: an incomplete file would look like a dump of a
/// smaller cluster.
pub(crate) struct SavedInventory {
    path: PathBuf,
    new: NewFile,
    out: GzEncoder<BufWriter<File>>,
    /// The first error.
    failed: Option<std::io::Error>,
}

impl SavedInventory {
    /// Begins a file.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let is_packed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
        ensure!(is_packed, "--save {}: the file is packed with gzip; give it a name that ends in .gz", path.display());
        let (new, file) = NewFile::create_private(path).with_context(|| format!("--save {}", path.display()))?;
        let out = GzEncoder::new(BufWriter::new(file), Compression::default());
        Ok(Self { path: path.to_owned(), new, out, failed: None })
    }

    /// Writes an object. Errors are reported at the end.
    pub(crate) fn add(&mut self, object: &Value) {
        if self.failed.is_some() {
            return;
        }
        let out = &mut self.out;
        let written = serde_json::to_writer(&mut *out, object).map_err(Into::into).and_then(|()| out.write_all(b"\n"));
        self.failed = written.err();
    }

    /// Writes the last object, and gives the file its name.
    pub(crate) fn finish(mut self, last: &Value) -> anyhow::Result<()> {
        self.add(last);
        let Self { path, new, out, failed } = self;
        let written = || {
            failed.map_or(Ok(()), Err)?;
            let file = out.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
            file.sync_all()?;
            new.finish()
        };
        written().with_context(|| format!("--save {}", path.display()))
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

//! The certificate from a directory: `--tls-dir`.
//!
//! The files are read again every few seconds and compared by content, because a mounted Secret changes by renaming a
//! symbolic link, which an inotify watch on the file never reports.

use std::path::Path;

use anyhow::anyhow;

use crate::server::tls::key_pair::{CERTIFICATE, KEY, TlsContent};

/// The link to the files of a mounted Secret, which the kubelet moves from one complete set to the next.
const DATA_LINK: &str = "..data";

/// Reads the files in `dir`.
pub(crate) fn read_pair(dir: &Path) -> anyhow::Result<TlsContent> {
    // The link is resolved once, so that both files are from one set even if the link moves meanwhile.
    let set = std::fs::canonicalize(dir.join(DATA_LINK)).unwrap_or_else(|_| dir.to_owned());
    let read = |name: &str| {
        read_file(&set.join(name)).map_err(|problem| {
            let path = dir.join(name);
            anyhow!(
                "{}: {problem}; expected a directory with {CERTIFICATE} and {KEY}, as in a kubernetes.io/tls Secret",
                path.display()
            )
        })
    };
    Ok(TlsContent { origin: dir.display().to_string(), certificate: read(CERTIFICATE)?, key: read(KEY)? })
}

pub(crate) fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    // Checked before opening: opening a pipe would wait for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    std::fs::read(path)
}

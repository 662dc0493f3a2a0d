//! Policy files as read, with a hash that detects changes.

use mullion_engine::model::settings::Origin;
use mullion_manifest::{Problem, Span};

/// Largest policy file, in bytes. A ConfigMap contains at most 1 MiB, which is enough for ten thousand image patterns.
pub const MAX_FILE: usize = 4 << 20;

/// The policy files of all directories.
#[derive(Debug, Clone, Default)]
pub struct PolicyFiles {
    /// In order of name.
    pub texts: Vec<PolicyFile>,
    /// Files and directories that could not be read.
    pub problems: Vec<Problem>,
}

/// One policy of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDocument {
    /// `PodPolicy`, `NodePolicy` or `RegistryPolicy`.
    pub kind: &'static str,
    /// `metadata.name`.
    pub name: String,
    /// The beginning of the document.
    pub origin: Origin,
}

/// One policy file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyFile {
    /// Its name in problems and origins.
    pub name: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

impl PolicyFiles {
    /// Hash of names, contents and problems, hexadecimal.
    ///
    /// FNV-1a with 64 bits: it detects a change, with the same number in every replica and release. It does not protect
    /// against attacks, because anyone who can write policies does not need a collision. The chance that two versions
    /// collide is 1 in 2^64.
    pub fn hash(&self) -> String {
        let files = self.texts.iter().flat_map(|file| [file.name.as_bytes(), &file.bytes]);
        let problems: Vec<String> = self.problems.iter().map(ToString::to_string).collect();
        hash_texts(files.chain(problems.iter().map(String::as_bytes)))
    }
}

impl PolicyFile {
    /// Hash of its content, hexadecimal: `PolicyFiles::hash` for one file without its name.
    pub fn hash(&self) -> String {
        hash_texts([b"".as_slice(), &self.bytes])
    }

    /// The text of a line, 1-based, without white space around it.
    pub(crate) fn line(&self, line: u32) -> Span {
        let text = std::str::from_utf8(&self.bytes).unwrap_or_default();
        let before: usize = text.split_inclusive('\n').take((line.max(1) - 1) as usize).map(str::len).sum();
        let line = text.get(before..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let start = before + (line.len() - line.trim_start().len());
        Span::new(start, start + line.trim().len())
    }
}

/// See [`PolicyFiles::hash`].
fn hash_texts<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for text in texts {
        // The length comes first, so that the hash changes if bytes move from one text to the next.
        for byte in (text.len() as u64).to_le_bytes().iter().chain(text) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

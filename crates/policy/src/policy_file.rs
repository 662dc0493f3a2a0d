//! Policy files as they are read, with a hash that tells an edit from none.

use mullion_engine::model::settings::origin::Origin;
use mullion_manifest::problem::Problem;
use mullion_manifest::span::Span;

/// Largest policy file, in bytes. A ConfigMap holds 1 MiB at most, and ten thousand image patterns take as much.
pub const MAX_FILE: usize = 4 << 20;

/// The policy files of all directories, as they were read.
#[derive(Debug, Clone, Default)]
pub struct PolicyFiles {
    /// In order of name.
    pub texts: Vec<PolicyFile>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// One policy of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDocument {
    /// `PodPolicy`, `NodePolicy` or `RegistryPolicy`.
    pub kind: &'static str,
    /// `metadata.name`.
    pub name: String,
    /// Where the document begins.
    pub origin: Origin,
}

/// One policy file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyFile {
    /// As problems and origins call it.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

impl PolicyFiles {
    /// Hash of names, contents and problems, hexadecimal.
    ///
    /// FNV-1a with 64 bits: it tells an edit from none, by the same number in every replica and release. It is no
    /// protection: who can write policies needs no collision. By chance two versions collide once in 2^64.
    pub fn hash(&self) -> String {
        let mut hash = ContentHash::new();
        for file in &self.texts {
            hash.feed(file.name.as_bytes());
            hash.feed(&file.bytes);
        }
        for problem in &self.problems {
            hash.feed(problem.to_string().as_bytes());
        }
        hash.text()
    }
}

impl PolicyFile {
    /// Hash of its content, hexadecimal: `PolicyFiles::hash` for one file without its name.
    pub fn hash(&self) -> String {
        let mut hash = ContentHash::new();
        hash.feed(b"");
        hash.feed(&self.bytes);
        hash.text()
    }

    /// What stands in a line, 1-based.
    pub(crate) fn line(&self, line: u32) -> Span {
        let text = std::str::from_utf8(&self.bytes).unwrap_or_default();
        let before: usize = text.split_inclusive('\n').take((line.max(1) - 1) as usize).map(str::len).sum();
        let line = text.get(before..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let start = before + (line.len() - line.trim_start().len());
        Span::new(start, start + line.trim().len())
    }
}

/// See [`Files::hash`].
struct ContentHash(u64);

impl ContentHash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn feed(&mut self, bytes: &[u8]) {
        // The length first, so that bytes moved from one text to the next count.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

//! Limits of the input.

/// The largest file that is read, in bytes: a dump of some 3,000 nodes.
pub const MAX_BYTES: usize = 50 << 20;

/// How deep maps and lists may nest. The deepest CRD schemas in use nest about 70 levels.
pub(crate) const MAX_DEPTH: usize = 200;

/// The maximum number of values in one document; values of aliases count as often as they are used.
pub(crate) const MAX_NODES: usize = 4_000_000;

/// The maximum number of values from aliases and merge keys, which stops an alias bomb.
pub(crate) const MAX_ALIASED_NODES: usize = 250_000;

/// The maximum number of bytes of text from aliases and merge keys: an object in a cluster has at
/// most some 3 MiB.
pub(crate) const MAX_ALIASED_BYTES: usize = 16 << 20;

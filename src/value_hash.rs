//! Hashes of values, to detect changes.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// The hash of a value. It differs between releases of Rust, and does not resist deliberate collisions.
pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

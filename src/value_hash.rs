//! Telling values apart by a number.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// A number for a value. It is another one in other releases of Rust, and no protection against who wants a collision.
pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

//! Image references, and the platforms that an image exists for.

pub mod platform;
pub mod reference;

//! Image references, and the platforms that an image exists for.

mod platform;
mod reference;

pub(crate) use platform::OsVersion;
pub use platform::{ImageOs, KnownImages, Platform, Platforms};
pub use reference::{DOCKER_HUB, ImageRef};

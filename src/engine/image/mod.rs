//! Image references and what their names say about operating system and Windows build.
//!
//! A name proves little: `windows-vpc-resource-controller` runs on Linux, `golang:1.27` on both. A wrong "Windows" makes a Linux pod
//! unschedulable and a wrong "Linux" the reverse, so a name answers only where its vocabulary is explicit; the rest is unknown.

mod floating;
mod name;
mod platform;
mod reference;
mod repository;
mod retag;
mod tag;

pub use floating::{Floating, floating};
pub use name::{ImageOs, ImageRow, ImageSource, NameAnswer, NameSource, from_name, from_text};
pub use platform::{KnownImages, OsVersion, Platform, Platforms};
pub use reference::{DOCKER_HUB, ImageRef, MAX_REFERENCE, MAX_REPOSITORY, Normalized, ReferenceError};
pub use retag::for_build;

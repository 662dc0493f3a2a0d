//! Reads operating system and Windows build from image names.
//!
//! A name proves little: `windows-vpc-resource-controller` runs on Linux, `golang:1.27` on both. A wrong "Windows"
//! makes a Linux pod unschedulable, and a wrong "Linux" a Windows pod. Therefore a name decides only if its words are
//! explicit; any other name is unknown.

mod name;
mod repository;
mod retag;
mod tag;

pub use name::{ImageRow, ImageSource};
pub(crate) use name::{from_name, os_word};
pub(crate) use retag::pin;
pub use retag::{Confidence, ProductChange, ProposedImage, Retag, frozen_since, retag, shared_tag};

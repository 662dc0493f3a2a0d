//! Image references: operating system and Windows build from their names.
//!
//! A name proves little: `windows-vpc-resource-controller` runs on Linux, `golang:1.27` on both. A wrong "Windows"
//! makes a Linux pod unschedulable and a wrong "Linux" a Windows pod, so a name decides only if its vocabulary is
//! explicit; the rest is unknown.

pub mod floating_tag;
pub mod name;
pub mod release_tag;
pub mod repository;
pub mod tag;

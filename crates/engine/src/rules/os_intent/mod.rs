//! 1xx: which operating system is meant: contradictions, names and labels that mean nothing, mixed images.

pub mod check;
pub mod conflict;
pub mod images;
pub mod names;
pub mod rules;
pub mod undecided;
pub mod undone;

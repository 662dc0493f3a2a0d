//! 1xx: the intended operating system: contradictions, meaningless names and labels, mixed images.

pub mod check;
pub mod conflict;
pub mod images;
pub mod names;
pub mod rules;
pub mod undecided;
pub mod undone;

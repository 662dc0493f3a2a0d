//! 1xx: the intended operating system: contradictions, meaningless names and labels, mixed images.

pub(crate) mod check;
mod conflict;
pub(crate) mod images;
mod linux_commands;
mod linux_images;
mod names;
pub(crate) mod rules;
mod undecided;
mod undone;

pub(crate) use rules::UNDONE;

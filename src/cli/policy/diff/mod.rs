//! `mullion policy diff`: workloads and nodes that two sets of policies decide differently.

pub(crate) mod command;
mod compare;
mod dump;
mod input;
mod nodes;
mod sets;

//! `mullion explain`: the OS decision of a workload, its evidence, and the changes, nodes and settings that follow.

mod command;
mod explanation;
#[cfg(test)]
mod tests;

pub(crate) use command::{ExplainArgs, run};

//! `mullion policy show`: the effective policy of a namespace or a pod, with the file and line that set each key.

pub(crate) mod command;
mod effective_policy;
mod text;
mod yaml;

pub(crate) use yaml::{flow, item_of};

#[cfg(test)]
mod tests;

//! The tables of `kind: PodPolicy`.

mod detect;
mod place;
mod spec;

pub(crate) use spec::{POD_POLICY, POD_SPEC};

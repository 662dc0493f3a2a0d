//! 7xx: RuntimeClasses, and what a namespace restricts.

pub(crate) mod check;
mod namespace;
mod pod_security;
pub(crate) mod rules;
mod runtime_class;

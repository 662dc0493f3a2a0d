//! 7xx: RuntimeClasses, and what a namespace restricts.

pub mod check;
pub mod namespace;
pub mod pod_security;
pub mod rules;
pub mod runtime_class;

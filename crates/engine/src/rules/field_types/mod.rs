//! 8xx: fields of a wrong type, unknown fields and unknown values, by tables of all fields of a pod.

pub mod check;
mod messages;
mod nearest_quantity;
pub mod operators;
pub(crate) mod rules;
mod table;

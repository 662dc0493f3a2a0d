//! 8xx: fields of a wrong type and unknown fields, by a table of all fields of a pod.

pub mod check;
mod messages;
mod nearest_quantity;
pub(crate) mod rules;
mod table;

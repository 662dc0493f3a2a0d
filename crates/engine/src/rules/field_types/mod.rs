//! 8xx: fields of a wrong type and unknown fields, by a table of all fields of a pod.

pub mod check;
pub mod messages;
pub mod nearest_quantity;
pub mod rules;
pub mod table;

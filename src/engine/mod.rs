//! The pure core: what a pod needs and what is wrong with it, from data alone.
//!
//! Two doors. [`review()`] answers for a subject, [`plan_node`](node::plan_node) for a node. Both are total and
//! synchronous: no I/O, no clock, no environment. A fact that is missing is a value, never an error.

#![deny(clippy::disallowed_methods)]

pub mod answer;
pub mod blockers;
pub mod build;
pub mod carry;
pub mod change;
pub mod circumstance;
pub mod consequence;
pub mod constraint;
pub mod creation;
pub mod finding;
pub mod fit;
pub mod image;
pub mod images;
pub mod injectors;
pub mod known;
pub mod labels;
pub mod limits;
pub mod linux_default;
pub mod node;
pub mod note;
pub mod placement;
pub mod pod;
pub mod pods;
pub mod quantity;
pub mod request;
pub mod resize;
pub mod review;
pub mod rules;
pub mod shape;
pub mod toleration;
pub mod verdict;
pub mod windows;
pub mod world;
pub mod written;

pub use answer::{Answer, Door, Refusal, answer};
pub use request::{Kind, Operation, Request, Subject};
pub use review::{Review, review};

//! The data of a review: workload, request, cluster snapshot, settings, images, Windows releases.
//!
//! No module here decides anything about a workload. Every other room imports this one, and it imports none of them.

pub mod change;
pub mod cluster;
pub mod decision_annotation;
pub mod image;
pub mod json_pointer;
pub mod names;
pub mod operating_system;
pub mod os_decision;
pub mod pod_view;
pub mod quantity;
pub mod review_request;
pub mod scheduling;
pub mod settings;
pub mod text;
pub mod windows;
pub mod workload;

//! From a request to a review, and from a review to the response at an endpoint.
//!
//! [`review::review`] and [`response::respond`] are total and synchronous. One table, [`finding_outcome`], decides the
//! outcome of a finding. Imports every other room but `node`; no room imports it.

pub mod finding_outcome;
pub mod pod_preview;
pub mod pre_existing;
pub mod request_category;
pub mod resize;
pub mod response;
pub mod review;

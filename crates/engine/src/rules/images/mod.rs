//! 5xx: Windows builds of images, floating tags, platforms that a registry reports.

pub(crate) mod check;
mod hosts;
pub(crate) mod left_out;
pub(crate) mod platforms;
mod proposal;
pub(crate) mod rules;
mod tags;

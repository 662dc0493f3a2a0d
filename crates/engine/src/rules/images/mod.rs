//! 5xx: Windows builds of images, floating tags, platforms that a registry reports.

pub(crate) mod check;
mod hosts;
pub(crate) mod left_out;
pub(crate) mod platforms;
pub(crate) mod rules;
mod tags;

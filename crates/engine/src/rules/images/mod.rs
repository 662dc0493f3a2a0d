//! 5xx: Windows builds of images, selected builds, floating tags, platforms that a registry reports.

pub(crate) mod check;
mod hosts;
pub(crate) mod left_out;
pub(crate) mod platforms;
mod proposal;
pub(crate) mod rules;
pub(crate) mod selected_builds;
mod tags;

//! 5xx: Windows builds of images, floating tags, platforms that a registry reports.

pub mod check;
pub mod hosts;
pub mod platforms;
pub mod rules;
pub mod tags;

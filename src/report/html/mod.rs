//! A report as one HTML file for a browser and for paper.

pub(crate) mod cells;
pub(crate) mod common_sections;
pub(crate) mod escape;
pub(crate) mod page;
pub(crate) mod svg;
pub(crate) mod table;

//! The report as one HTML file for a browser and for paper. It makes no request, and works without its script.

mod escape;
mod page;
mod picture;
mod sections;
mod table;

pub(super) use page::write;

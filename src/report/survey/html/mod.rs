//! The survey as one HTML file. It makes no request, and works without its script.

mod page;
mod picture;
mod sections;

pub(super) use page::write;

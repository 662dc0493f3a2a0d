//! A document as one HTML file for a browser and for paper. It makes no request, and works without its script. Every list
//! in it has a limit, so that the page has at most 10 MB, whatever the report contains.

mod blocks;
mod commands;
mod inline;
mod page;
mod table;

pub(super) use inline::Exact;
pub(super) use page::write;

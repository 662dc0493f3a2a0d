//! Published images: for which Windows releases a repository has images, and how its tags name them.
//!
//! The tables are data: [`PublishedImages::shipped`] reads `published_images.json`, each row of which has its source and
//! the date of that source. Rows are ordered, and the first one that matches an image counts.

mod repository_pattern;
mod table;
mod tag_template;

pub use repository_pattern::RepositoryPattern;
pub(crate) use table::RowMatch;
pub use table::{PublishedImages, PublishedTags, SharedTag, Successor, SupportEnd};
pub use tag_template::{TagCaptures, TagPattern, TagTemplate};

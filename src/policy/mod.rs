//! Policy files: what cluster admins write, and what holds for one subject.
//!
//! [`directory::read`] reads the files of directories. [`PolicySet::load`] makes a set of them: each document becomes the
//! span tree of [`manifest`](crate::manifest), one walk along the [`schema`] reports everything that is wrong with its
//! place, and only what is right becomes [`types`](PodPolicySpec). A [`Store`] keeps the last good set while files
//! change. [`PolicySet::settings`] lays the policies that match a subject over each other; [`Settings::effective_action`]
//! says what a finding does, [`ImagePatterns::find`] what an image is said to be.
//!
//! Beside that: [`warnings()`] says what a good set does that nobody may have meant, [`cases`] reads test files,
//! [`config_map`] judges a ConfigMap at admission, [`unpacked`] finds the policies in one that lies in Git, [`standings`]
//! says how each file stands, and [`keys`] is the table of every key that decides.
//!
//! All of it is pure but [`directory`].

pub mod cases;
mod check;
pub mod config_map;
mod describe;
pub mod directory;
mod disputes;
mod effective;
mod glob;
mod hints;
mod images;
pub mod keys;
mod load;
mod overlaps;
mod registry;
mod rules;
#[cfg(test)]
mod scale_tests;
pub mod schema;
mod selector;
mod settings;
mod status;
mod store;
mod text;
mod types;
mod unpack;
mod warnings;
mod wildcard;

pub use effective::{Entry, Setting, shape_of};
pub use images::{ImagePatterns, match_image};
pub use load::{BUILT_IN, Files, MAX_FILE, MAX_POLICIES, PolicyDocument, PolicyFile};
pub use registry::{Lifetimes, PullSecretsMode, RegistryPolicy};
pub use selector::Labels;
pub use status::{FileStatus, SeenFile, Standing, short_names, standings};
pub use store::{Outcome, Store};
pub(crate) use text::{nearest, shown};
pub use types::*;
pub use unpack::unpacked;
pub use warnings::{Warning, warnings};

#[cfg(test)]
mod format_tests;
#[cfg(test)]
mod wrong_types_tests;

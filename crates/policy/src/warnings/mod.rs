//! Warnings about good policies with effects that their author may not have intended.
//!
//! Nothing is guessed from keys: [`system_pods`] and [`catch_all`] let the engine review typical pods, and find the key
//! that decided the result; [`ineffective_settings`] and [`shadowed_entries`] find settings without effect,
//! [`kube_system`] a set that exempts kube-system from nothing. [`mod@notes`] are facts that are not mistakes. Every
//! warning is certain: `mullion policy test` and `mullion policy diff` cover effects that depend on the cluster.

mod all_warnings;
mod catch_all;
mod deciding_key;
mod ineffective_settings;
mod kube_system;
mod notes;
mod shadowed_entries;
mod system_pods;
mod warning;

pub use all_warnings::warnings;
pub use notes::{EXEMPTION_NOTICE, notes};
pub use warning::PolicyWarning;

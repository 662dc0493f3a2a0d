//! ConfigMap `mullion-state`: what Mullion must not forget when its processes start anew.
//!
//! The controller writes it and the webhook reads it. A person may edit it: what is taken out of `seen-taints` or
//! `seen-builds` is forgotten, unless a node still has it; nothing else forgets.
//!
//! ```text
//! leader ── Store::update (resourceVersion, 409 → again) ──→ ConfigMap ─┬→ follow() ── webhooks, controllers
//!                                                                       └→ last_good() ── programs that start
//! ```

pub mod document;
pub mod follow;
pub mod store;

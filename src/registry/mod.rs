//! What registries say of images.
//!
//! ```text
//! Registries::known ───── cache ──→ Platforms                       never waits
//! Registries::want ──┐                                              bounded queue, nobody waits
//! Registries::resolve┴→ flight (one per image and credentials) → Source → manifest, config → cache
//! ```
//!
//! One look-up is GET manifest, and for a single manifest GET config; an answer 401 adds a request to a token service.
//! Nothing a registry sends is trusted: bodies, index entries and texts are bounded, digests are checked, and an
//! `Authorization` header never goes to another origin than the one it was made for.
//!
//! The HTTP client is Mullion's own over hyper. The client library for registries reads bodies of any length into memory,
//! keeps one login per registry for the life of a client, so that one tenant's answer would be another's, takes a token
//! that was refused for anonymous access, and loses `Retry-After`.

pub mod auth;
pub mod client;
pub mod credentials;
pub mod document;
pub mod fetch;
pub mod lookup;
pub mod outcome;
pub mod policy;
pub mod proxy;
pub mod settings;
pub mod source;
pub mod tls;

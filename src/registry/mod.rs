//! Platforms of images, as registries report them.
//!
//! ```text
//! known ────── cache ──→ Platforms                        does not wait
//! want ────┐                                              bounded queue, does not wait
//! resolve ─┴→ look-up (one per image and credentials) ──→ manifest, config ──→ cache
//! ```
//!
//! [`RegistryClient::known`], [`RegistryClient::want`] and [`RegistryClient::resolve`] are the ways in.
//!
//! One look-up is GET manifest, and for a single manifest GET config, or for the size of an entry of an index GET
//! manifest. A response 401 adds a request to a token service. Responses of registries are not trusted: bodies, index
//! entries and texts are limited, digests are checked, and an `Authorization` header is never sent to another origin
//! than the one it was made for. The authors of pods choose the names of images, so `spec.registries` of the
//! RegistryPolicy limits which registries are queried, and at which addresses.
//!
//! The HTTP client is Mullion's own, based on hyper. The client library for registries reads bodies of any length into
//! memory; keeps one login per registry for the lifetime of a client, so that one tenant would get another's result;
//! uses anonymous access after a rejected token; and drops `Retry-After`.

mod addresses;
mod auth;
mod client;
mod credentials;
mod document;
mod fetch;
mod lookup;
mod outcome;
mod proxy;
mod resolver;
mod settings;
mod source;
mod throttling;
mod tls;

pub use addresses::AddressRule;
pub use auth::{Challenge, challenge, token_uri};
pub use credentials::Credentials;
pub use document::{Descriptor, IndexEntry, RegistryDocument, read_config, read_manifest};
pub use lookup::RegistryClient;
pub use outcome::{LookupError, RegistryOutcome};
pub use settings::RegistrySettings;
pub use source::ImageAnswer;

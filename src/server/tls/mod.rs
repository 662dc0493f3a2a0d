//! The certificate of the server, replaced without dropping a connection.
//!
//! ```text
//! directory, read every few seconds (directory) ─┐
//! Secret, watched (secret) ──────────────────────┴→ TlsContent → valid key pair → Certificate
//! ```
//!
//! An invalid pair changes only a metric. The rustls configuration stays the same object, so TLS sessions survive a
//! rotation, too. Until there is a pair, handshakes fail.

mod certificate;
mod directory;
pub(crate) mod key_pair;
pub(crate) mod secret;

pub use certificate::{Certificate, install_crypto};
pub(crate) use secret::SecretName;

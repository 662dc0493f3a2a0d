//! The certificate of the server and the authorities of its clients, replaced without dropping a connection.
//!
//! ```text
//! directory, read every few seconds (directory) ─┐
//! Secret, watched (secret) ──────────────────────┴→ TlsContent → valid key pair → Certificate
//! file of authorities, read every few seconds ───────────────────────────────────→ ClientCa
//! ```
//!
//! An invalid pair or file changes only a metric. The rustls configuration stays the same object, so TLS sessions
//! survive a rotation. Until there is a pair, handshakes fail.

mod certificate;
mod client_ca;
mod directory;
pub(crate) mod key_pair;
pub(crate) mod secret;

pub use certificate::{Certificate, install_crypto};
pub use client_ca::{ClientCa, VerifiedClient};
pub use secret::TlsSecretName;

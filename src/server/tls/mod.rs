//! The certificate, swapped without a connection noticing.
//!
//! ```text
//! directory, read every few seconds (directory) ─┐
//! Secret, watched (secret) ──────────────────────┴→ Content → a pair that fits → the one that is served
//! ```
//!
//! A pair that is no good changes nothing but a metric. The rustls configuration stays the same object, so TLS sessions
//! survive a rotation too. Until there is a pair, handshakes fail.

pub mod certificate;
pub mod directory;
pub mod key_pair;
pub mod secret;

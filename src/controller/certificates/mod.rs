//! Certificates of the webhook, issued and renewed by the leading controller if `--webhook-service` is set.
//!
//! | object, in Mullion's namespace | keys |
//! |---|---|
//! | Secret `mullion-ca`, for the controller alone | `ca.crt`, `ca.key`: the CA that signs; `previous.crt`: CAs that are still trusted, without their keys |
//! | Secret `mullion-tls`, type `kubernetes.io/tls`, for the webhooks | `tls.crt`, `tls.key`; `ca.crt`: the CA that signed it |
//!
//! The controller also writes `caBundle` of every webhook in the two configurations `mullion`. A bundle contains the CA
//! that signs and the previous ones, and nothing else: any other content is replaced, unless it signed the pair that is
//! served.
//!
//! ```text
//! watches ───────┐
//! the wall clock ┴→ read the four objects → plan → writes that are allowed now, with resourceVersion → again
//! ```
//!
//! A CA changes in this order: the new CA into `mullion-ca`, the earlier one into its `previous.crt` → both into every
//! `caBundle` → a pause, until every API server has received the bundles → a pair signed by the new CA into
//! `mullion-tls` → the old CA out of `mullion-ca` and the bundles, once the webhooks had time to follow. Every step
//! follows from what the cluster contains, so it does not matter where one process ends and another begins. The process
//! that waits measures the pauses on a monotonic clock; a new process starts them again.
//!
//! A certificate or key that is missing, unreadable, expired, not valid yet, or signed by a CA that is not in the
//! bundles, is issued again. A Secret of another type, or an immutable one, is deleted and created again, because
//! neither can be changed. If annotations of a configuration request that another tool sets `caBundle`, Mullion does
//! not change it. `mullion withdraw` stops none of this, because the webhook still serves.
//!
//! The CA has no name constraints: only calls of these webhooks trust it, the API server checks their names, and each
//! further name (`--certificate-name`) would require another CA.

pub(crate) mod control_loop;
mod issuer;
mod objects;
mod plan;
mod settings;
mod x509;

pub(crate) use settings::{CertificateSettings, parse_lifetime, parse_name};

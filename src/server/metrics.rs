//! The metrics of the ports of a server and of its certificates.

use std::fmt::Display;
use std::ops::Range;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::telemetry::{CertificateTimes, label_values, metric_set};

metric_set! {
    /// Counts of connections, and of new certificates.
    pub struct ServerMetrics {
        tls_handshake_failures: Counter = "Failed TLS handshakes",
        accept_errors: Counter = "Failures to accept a connection",
        connections: Gauge = "Open connections",
        connections_closed: Family<ConnectionClose, Counter> = "Connections that the server closed without a request",
        tls_reload: Family<ReloadOutcome, Counter> = "Changes of the certificate files or Secret",
        client_ca_reload: Family<ReloadOutcome, Counter> = "Changes of the file of client authorities",
    } with {
        /// The validity of the certificate.
        certificates: CertificateTimes,
    }
}

label_values! {
    /// Why the server closed a connection.
    pub enum ConnectionClose: "reason" {
        /// Unused for ten seconds while three quarters of the slots were in use.
        Unused = "unused",
        /// Unused, or idle for the longest time, when a new client found no free slot.
        NoSlot = "no_slot",
        /// Unused or idle for two minutes.
        Idle = "idle",
        /// The client did not read a response in time.
        UnreadResponse = "unread_response",
    }

    /// Whether new content of a file or Secret is in use.
    pub enum ReloadOutcome: "outcome" {
        /// It is in use.
        Loaded = "loaded",
        /// It is invalid or missing; the old one stays.
        Failed = "failed",
    }
}

impl ServerMetrics {
    /// Counts an open connection until the guard is dropped.
    #[must_use]
    pub(crate) fn connection(&self) -> ConnectionGuard {
        self.connections.inc();
        ConnectionGuard(self.connections.clone())
    }

    /// Sets the validity of the certificate in force, in seconds since 1970; `None`: there is no certificate, which counts as
    /// expired.
    pub(crate) fn tls_valid(&self, valid: Option<&Range<i64>>) {
        self.certificates.set("serving", valid);
    }

    /// Counts a new certificate pair that is invalid or missing; the old one stays.
    pub(crate) fn tls_failed(&self, error: &dyn Display) {
        self.tls_reload.get_or_create(&ReloadOutcome::Failed).inc();
        tracing::error!(%error, "certificate unusable; the previous one, if any, stays in use");
    }
}

/// Counts one connection for as long as it exists.
#[derive(Debug)]
pub(crate) struct ConnectionGuard(Gauge);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn connections_count_while_they_live() {
        let metrics = ServerMetrics::default();
        let guard = metrics.connection();
        assert_eq!(metrics.connections.get(), 1);
        drop(guard);
        assert_eq!(metrics.connections.get(), 0);
    }
}

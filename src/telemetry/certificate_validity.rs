//! Validity of certificates as metrics, in both servers.

use std::ops::Range;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::telemetry::process::MetricLabels;

/// Start and end times instead of remaining seconds, so that they stay correct while nothing updates them. Both times,
/// because a certificate of a day and one of two years need renewal at different times.
#[derive(Default)]
pub(crate) struct CertificateTimes {
    start: Family<MetricLabels<1>, Gauge>,
    expiry: Family<MetricLabels<1>, Gauge>,
}

impl CertificateTimes {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "When the certificate becomes valid, in seconds since 1970; 0: there is no certificate";
        registry.register("certificate_start_seconds", help, self.start.clone());
        let help = "When the certificate expires, in seconds since 1970; 0: there is no certificate";
        registry.register("certificate_expiry_seconds", help, self.expiry.clone());
    }

    /// `certificate` is `serving` or `ca`; `valid` is in seconds since 1970.
    pub(crate) fn set(&self, certificate: &'static str, valid: Option<&Range<i64>>) {
        let labels = [("certificate", certificate)];
        self.start.get_or_create(&labels).set(valid.map_or(0, |valid| valid.start));
        self.expiry.get_or_create(&labels).set(valid.map_or(0, |valid| valid.end));
    }

    /// Removes both metrics, because this process no longer knows the certificate.
    pub(crate) fn clear(&self) {
        self.start.clear();
        self.expiry.clear();
    }
}

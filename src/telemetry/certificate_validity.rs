//! Validity of certificates as metrics, in both servers.

use std::ops::Range;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::telemetry::metric_set::metric_set;
use crate::telemetry::process::MetricLabels;

metric_set! {
    /// Start and end times instead of remaining seconds, so that they stay correct while nothing updates them. Both times,
    /// because a certificate of a day and one of two years need renewal at different times.
    pub struct CertificateTimes {
        certificate_start_seconds: Family<MetricLabels<1>, Gauge> =
            "When the certificate becomes valid, in seconds since 1970; 0: there is no certificate",
        certificate_expiry_seconds: Family<MetricLabels<1>, Gauge> =
            "When the certificate expires, in seconds since 1970; 0: there is no certificate",
    }
}

impl CertificateTimes {
    /// `certificate` is `serving` or `ca`; `valid` is in seconds since 1970.
    pub fn set(&self, certificate: &'static str, valid: Option<&Range<i64>>) {
        let labels = [("certificate", certificate)];
        self.certificate_start_seconds.get_or_create(&labels).set(valid.map_or(0, |valid| valid.start));
        self.certificate_expiry_seconds.get_or_create(&labels).set(valid.map_or(0, |valid| valid.end));
    }

    /// Removes both metrics, because this process no longer knows the certificate.
    pub(crate) fn clear(&self) {
        self.certificate_start_seconds.clear();
        self.certificate_expiry_seconds.clear();
    }
}

//! The names for which certificates are issued, and how long certificates and each step of a change last.

use std::time::Duration;

use rustls::pki_types::ServerName;

/// The lifetime of a pair. It is renewed after 60 days, which leaves 30 days to notice a controller that does not work.
pub(crate) const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
/// The lifetime of a CA. It is replaced after 16 months; its last pair ends well before it.
pub(crate) const CA_LIFETIME: Duration = Duration::from_secs(2 * 365 * 24 * 3600);

/// From the write of the bundles to the first pair of the new CA. An API server watches its configurations, and restarts
/// a broken watch after at most 30 s, twice that with jitter (`NewExponentialBackoffManager` in client-go
/// `tools/cache/reflector.go`).
const PAUSE: Duration = Duration::from_secs(60);
/// The same pause if no client accepts the current pair, so that little can be lost. A working watch takes far less
/// time.
const SHORT_PAUSE: Duration = Duration::from_secs(2);
/// From the first pair of the new CA to bundles without the old one. Webhooks follow their watch: a silent watch ends
/// after 330 s and is restarted within 30 s; a kubelet updates a mounted Secret within about two minutes.
const OVERLAP: Duration = Duration::from_secs(3600);
/// How often the wall clock is read, which detects that the process slept or that the clock was set.
const CHECK: Duration = Duration::from_secs(60);

/// The names and lifetimes of certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateSettings {
    /// DNS names and addresses.
    pub(crate) names: Vec<ServerName<'static>>,
    pub(crate) lifetime: Duration,
    pub(crate) ca_lifetime: Duration,
}

impl CertificateSettings {
    /// Settings for the Service `service` of `namespace`, and `more` DNS names or addresses, with the lifetimes of pair
    /// and CA if they are not [`LIFETIME`] and [`CA_LIFETIME`].
    pub(crate) fn new(
        service: &str,
        namespace: &str,
        more: &[ServerName<'static>],
        lifetimes: (Option<Duration>, Option<Duration>),
    ) -> anyhow::Result<Self> {
        // The API server connects by the first name: `serverName` in apiserver pkg/util/webhook/client.go.
        let of_service = ["svc", "svc.cluster.local", ""].into_iter().map(|end| {
            let name = format!("{service}.{namespace}.{end}");
            parse_name(name.trim_end_matches('.')).map_err(anyhow::Error::msg)
        });
        let mut names = of_service.collect::<anyhow::Result<Vec<_>>>()?;
        for name in more {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let (lifetime, ca_lifetime) = (lifetimes.0.unwrap_or(LIFETIME), lifetimes.1.unwrap_or(CA_LIFETIME));
        Ok(Self { names, lifetime, ca_lifetime })
    }

    pub(crate) fn pause(&self) -> Duration {
        PAUSE.min(self.ca_lifetime / 20)
    }

    pub(crate) fn short_pause(&self) -> Duration {
        SHORT_PAUSE.min(self.lifetime / 20)
    }

    pub(crate) fn overlap(&self) -> Duration {
        OVERLAP.min(self.ca_lifetime / 10).min(self.lifetime / 3)
    }

    pub(crate) fn check(&self) -> Duration {
        CHECK.min(self.lifetime / 40)
    }
}

/// A DNS name or an address that a certificate can contain.
pub(crate) fn parse_name(text: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(text.to_owned()).map_err(|_| {
        format!("{text:?}: expected a DNS name or an IP address, as in mullion-webhook.example.com or 10.0.0.1")
    })
}

/// The lifetime of a certificate: at least 10 s, because certificates count whole seconds; at most a century.
pub(crate) fn parse_lifetime(text: &str) -> Result<Duration, String> {
    const CENTURY: u64 = 100 * 365 * 24 * 3600;
    match text.parse() {
        Ok(seconds @ 10..=CENTURY) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("expected seconds, 10 to {CENTURY}")),
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn names_are_those_of_the_service_and_the_given_ones() {
        let more = [parse_name("127.0.0.1").unwrap(), parse_name("w.m.svc").unwrap(), parse_name("::1").unwrap()];
        let settings = CertificateSettings::new("w", "m", &more, (None, None)).unwrap();
        let names: Vec<_> = settings.names.iter().map(ServerName::to_str).collect();
        assert_eq!(names, ["w.m.svc", "w.m.svc.cluster.local", "w.m", "127.0.0.1", "::1"]);
        for bad in ["", "a b", "*.example.com", "https://x", "-", "a..b"] {
            assert!(parse_name(bad).is_err(), "{bad}");
            assert!(CertificateSettings::new(bad, "m", &[], (None, None)).is_err(), "{bad}");
        }
    }

    #[test]
    fn lifetimes_are_whole_seconds() {
        assert_eq!(parse_lifetime("20"), Ok(Duration::from_secs(20)));
        for bad in ["", "9", "-1", "1.5", "99999999999999999999"] {
            assert!(parse_lifetime(bad).is_err(), "{bad}");
        }
    }
}

//! Certificates of the webhook, made and renewed by the controller that leads, where `--webhook-service` asks for it.
//!
//! | object, in Mullion's namespace | keys |
//! |---|---|
//! | Secret `mullion-ca`, for the controller alone | `ca.crt`, `ca.key`: the CA that signs; `previous.crt`: CAs that are still trusted, their keys forgotten |
//! | Secret `mullion-tls`, type `kubernetes.io/tls`, for the webhooks | `tls.crt`, `tls.key`; `ca.crt`: the CA that signed it |
//!
//! and `caBundle` of every webhook in the two configurations `mullion`: the CA that signs and the previous ones, and
//! nothing else: what somebody else put there is replaced, unless it signed the pair that is served.
//!
//! ```text
//! watches (wake up) ─┐
//! the wall clock ────┴→ read the four objects → plan → what may be written now → write, with resourceVersion → again
//! ```
//!
//! A CA changes in this order: the new one into `mullion-ca`, the one before into its `previous.crt` → both into every
//! `caBundle` → a pause, until every API server has seen that → a pair signed by the new one into `mullion-tls` → the
//! old one out of `mullion-ca` and the bundles once the webhooks had time to follow. Every step follows from what the
//! cluster holds, so it does not matter where a process ends and another begins. The waits are counted by the process
//! that waits, on a clock that nobody sets; a new process starts them anew.
//!
//! Whatever is missing, unreadable, expired, not valid yet, or signed by a CA that the bundles lack, is made anew. A
//! Secret of another type, or an immutable one, is deleted and made again, because neither can be changed. A
//! configuration whose annotations have another tool fill in `caBundle` is left to that tool.
//!
//! No name constraints stand in the CA: it is trusted for calls of these webhooks only, whose names the API server
//! checks, and further names (`--certificate-name`) would need another CA.

pub mod duty;
pub mod issue;
pub mod objects;
pub mod plan;
pub mod read;

use std::time::Duration;

use rustls::pki_types::{DnsName, ServerName};

/// The Secret with the CA.
pub const CA_SECRET: &str = "mullion-ca";
/// The Secret that the webhooks follow.
pub const TLS_SECRET: &str = "mullion-tls";

/// How long a pair is good for: renewed after 60 days, which leaves a controller that does not work 30 days to be
/// noticed.
pub const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
/// How long a CA is good for: renewed after 16 months; its last pair ends well before it.
pub const CA_LIFETIME: Duration = Duration::from_secs(2 * 365 * 24 * 3600);

/// From the bundles written to the first pair of the new CA. An API server watches its configurations, and starts a
/// watch that broke again after at most 30 s, twice that with jitter (`NewExponentialBackoffManager` in client-go
/// `tools/cache/reflector.go`).
const PAUSE: Duration = Duration::from_secs(60);
/// The same where the pair that stands is no good, so that there is little to lose: a working watch takes far less.
const SETTLE: Duration = Duration::from_secs(2);
/// From the first pair of the new CA to bundles without the old one. Webhooks follow their watch: one that went silent
/// is given up after 330 s and started again within 30 s; a kubelet brings a mounted Secret within about two minutes.
const OVERLAP: Duration = Duration::from_secs(3600);
/// How often the wall clock is looked at: sleeping processes, and clocks that are set, are found out then.
const CHECK: Duration = Duration::from_secs(60);
/// How far certificates reach back, for clocks that are behind.
const SKEW: Duration = Duration::from_secs(3600);

/// What certificates are for, and how long they last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// DNS names and addresses.
    names: Vec<ServerName<'static>>,
    lifetime: Duration,
    ca_lifetime: Duration,
}

impl Settings {
    /// For the Service `service` of `namespace`, and `more` DNS names or addresses; lifetimes of pair and CA, where they
    /// are not [`LIFETIME`] and [`CA_LIFETIME`].
    pub fn new(
        service: &str,
        namespace: &str,
        more: &[ServerName<'static>],
        lifetimes: (Option<Duration>, Option<Duration>),
    ) -> anyhow::Result<Self> {
        // The first is what the API server asks for: `serverName` in apiserver pkg/util/webhook/client.go.
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

    fn pause(&self) -> Duration {
        PAUSE.min(self.ca_lifetime / 20)
    }

    fn settle(&self) -> Duration {
        SETTLE.min(self.lifetime / 20)
    }

    fn overlap(&self) -> Duration {
        OVERLAP.min(self.ca_lifetime / 10).min(self.lifetime / 3)
    }

    fn check(&self) -> Duration {
        CHECK.min(self.lifetime / 40)
    }
}

/// A DNS name or an address that a certificate can be for.
pub(crate) fn parse_name(text: &str) -> Result<ServerName<'static>, String> {
    let expected = "expected a DNS name or an IP address, as in mullion-webhook.example.com or 10.0.0.1";
    if text.parse::<std::net::IpAddr>().is_err() {
        DnsName::try_from(text).map_err(|_| format!("{text:?}: {expected}"))?;
    }
    ServerName::try_from(text.to_owned()).map_err(|_| format!("{text:?}: {expected}"))
}

/// A number of seconds that a certificate can last: ten at least, because they count whole seconds; a century at most.
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
    fn names_are_those_of_the_service_and_more() {
        let more = [parse_name("127.0.0.1").unwrap(), parse_name("w.m.svc").unwrap(), parse_name("::1").unwrap()];
        let settings = Settings::new("w", "m", &more, (None, None)).unwrap();
        let names: Vec<_> = settings.names.iter().map(ServerName::to_str).collect();
        assert_eq!(names, ["w.m.svc", "w.m.svc.cluster.local", "w.m", "127.0.0.1", "::1"]);
        for bad in ["", "a b", "*.example.com", "https://x", "-", "a..b"] {
            assert!(parse_name(bad).is_err(), "{bad}");
            assert!(Settings::new(bad, "m", &[], (None, None)).is_err(), "{bad}");
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

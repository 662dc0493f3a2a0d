//! The certificate from a watched Secret: `--tls-secret`.
//!
//! If the Secret is deleted, its pair is served until there is another one. A missing Secret is normal at first,
//! because the controller creates it and does not start earlier than the webhook. It is a failure if it stays missing.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::Client;
use mullion_engine::model::dns_name::{is_dns_label, is_dns_subdomain};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::cluster::SlimSecret;
use crate::cluster::reading::{Event, KindApi, SECRETS, Selection, changes, streams_lists, wait_for_version};
use crate::server::metrics::ServerMetrics;
use crate::server::tls::certificate::Certificate;
use crate::server::tls::key_pair::{CERTIFICATE, KEY, TlsContent};

/// How long the Secret may be missing before that is a failure. A running controller creates it within 3 s; before
/// that, the controller's image may have to be pulled.
const PATIENCE: Duration = Duration::from_secs(30);

/// A Secret by namespace and name; as text `NS/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSecretName {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl FromStr for TlsSecretName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split_once('/')
            .filter(|(namespace, name)| is_dns_label(namespace) && is_dns_subdomain(name))
            .map(|(namespace, name)| Self { namespace: namespace.to_owned(), name: name.to_owned() })
            .ok_or_else(|| "expected NAMESPACE/NAME of a Secret, as in mullion/mullion-tls".to_owned())
    }
}

impl fmt::Display for TlsSecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Updates `certificate` from the Secret until `stop` is canceled (`list`, `watch` on it). Failures are logged and
/// retried.
pub(crate) async fn follow(
    client: Client,
    secret: TlsSecretName,
    certificate: Arc<Certificate>,
    metrics: ServerMetrics,
    stop: CancellationToken,
) {
    let streaming = streams_lists(wait_for_version(&client).await);
    let secrets = KindApi::namespaced(client, &SECRETS, &secret.namespace);
    let changes = changes(secrets, Selection::name(&secret.name), streaming);
    tokio::select! {
        () = stop.cancelled() => {}
        () = keep(changes, &secret, &certificate, &metrics) => {}
    }
}

/// Whether the Secret exists, and whether its absence was reported.
enum Presence {
    Unreported,
    /// It is missing; from that time on, this is a failure.
    MissingUntil(Instant),
    /// It is missing, and that was reported.
    Overdue,
}

/// Applies the `changes` until they end.
async fn keep(
    changes: impl Stream<Item = Event<SlimSecret>>,
    secret: &TlsSecretName,
    certificate: &Certificate,
    metrics: &ServerMetrics,
) {
    let mut changes = std::pin::pin!(changes);
    let (mut listed, mut presence) = (None, Presence::Unreported);
    loop {
        let event = match presence {
            Presence::MissingUntil(end) => timeout_at(end, changes.next()).await,
            Presence::Unreported | Presence::Overdue => Ok(changes.next().await),
        };
        let newest = match event {
            Ok(Some(Event::Init)) => {
                listed = None;
                continue;
            }
            Ok(Some(Event::InitApply(found))) => {
                listed = Some(found);
                continue;
            }
            Ok(Some(Event::InitDone)) => listed.take(),
            Ok(Some(Event::Apply(found))) => Some(found),
            Ok(Some(Event::Delete(_))) => None,
            Ok(None) => return,
            Err(_) => {
                metrics.tls_failed(&format_args!(
                    "Secret {secret} does not exist; mullion controller --webhook-service NAME creates one, mullion-tls, in its own \
                     namespace"
                ));
                presence = Presence::Overdue;
                continue;
            }
        };
        match (newest, &presence) {
            (Some(found), _) => {
                presence = Presence::Unreported;
                certificate.take(Ok(content(secret, found)), metrics);
            }
            (None, Presence::Unreported) => {
                presence = Presence::MissingUntil(Instant::now() + PATIENCE);
                tracing::info!(%secret, served = certificate.is_loaded(), "waiting for the certificate, which the controller creates");
            }
            (None, Presence::MissingUntil(_) | Presence::Overdue) => {}
        }
    }
}

fn content(name: &TlsSecretName, secret: SlimSecret) -> TlsContent {
    let mut data = secret.data.unwrap_or_default();
    let mut value = |key: &str| data.remove(key).unwrap_or_default().0;
    TlsContent { origin: format!("Secret {name}"), certificate: value(CERTIFICATE), key: value(KEY) }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::collections::BTreeMap;

    use futures::channel::mpsc::{UnboundedSender, unbounded};
    use k8s_openapi::ByteString;

    use crate::cluster::reading::Head;
    use crate::server::metrics::ReloadOutcome;

    use super::*;

    const NAME: &str = "mullion/mullion-tls";

    /// The number of failures and of new certificates after `changes`, each at its second.
    async fn counts_after(changes: Vec<(u64, Event<SlimSecret>)>, until: u64) -> (u64, u64) {
        let metrics = ServerMetrics::default();
        let (certificate, name) = (Certificate::default(), NAME.parse().unwrap());
        let (sender, receiver): (UnboundedSender<_>, _) = unbounded();
        let start = Instant::now();
        let mut work = std::pin::pin!(keep(receiver, &name, &certificate, &metrics));
        let mut pass = async |second| {
            let end = timeout_at(start + Duration::from_secs(second), &mut work).await;
            assert!(end.is_err(), "it ended");
        };
        for (second, event) in changes {
            pass(second).await;
            sender.unbounded_send(event).unwrap();
        }
        pass(until).await;
        let count = |outcome| metrics.tls_reload.get_or_create(&outcome).get();
        (count(ReloadOutcome::Failed), count(ReloadOutcome::Loaded))
    }

    fn pair() -> SlimSecret {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&key).unwrap();
        with(&certificate.pem(), &key.serialize_pem())
    }

    fn with(certificate: &str, key: &str) -> SlimSecret {
        let value = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = BTreeMap::from([(CERTIFICATE.to_owned(), value(certificate)), (KEY.to_owned(), value(key))]);
        SlimSecret { data: Some(data), ..SlimSecret::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_secret_is_a_failure_once_it_lasts() {
        use Event::{Apply, Delete, Init, InitApply, InitDone};
        crate::server::tls::certificate::install_crypto();
        let listed = |second| vec![(second, Init), (second, InitDone)];
        let then = |mut first: Vec<_>, rest: Vec<_>| {
            first.extend(rest);
            first
        };
        let one = pair();
        for (what, changes, until, expected) in [
            ("a new installation", listed(0), 29, (0, 0)),
            ("it is never created", listed(0), 31, (1, 0)),
            (
                "it is never created, and listed several times",
                then(listed(0), then(listed(20), listed(40))),
                900,
                (1, 0),
            ),
            ("it is created in time", then(listed(0), vec![(29, Apply(pair()))]), 900, (0, 1)),
            ("it is created late", then(listed(0), vec![(60, Apply(pair()))]), 900, (1, 1)),
            ("it exists", vec![(0, Init), (0, InitApply(pair())), (0, InitDone)], 900, (0, 1)),
            (
                "deleted, and created with another pair",
                vec![(0, Apply(pair())), (9, Delete(Head::default())), (12, Apply(pair()))],
                900,
                (0, 2),
            ),
            (
                "deleted, and created with the same pair",
                vec![(0, Apply(one.clone())), (9, Delete(Head::default())), (12, Apply(one))],
                900,
                (0, 1),
            ),
            (
                "deleted twice, for good",
                vec![
                    (0, Apply(pair())),
                    (9, Delete(Head::default())),
                    (12, Apply(pair())),
                    (13, Delete(Head::default())),
                ],
                900,
                (1, 2),
            ),
            ("it is invalid", vec![(0, Apply(with("", "")))], 1, (1, 0)),
            ("missing, and then invalid", then(listed(0), vec![(5, Apply(with("", "")))]), 900, (1, 0)),
        ] {
            assert_eq!(counts_after(changes, until).await, expected, "{what}");
        }
    }

    #[test]
    fn names_are_a_namespace_and_a_name() {
        let name: TlsSecretName = NAME.parse().unwrap();
        assert_eq!((name.namespace.as_str(), name.name.as_str()), ("mullion", "mullion-tls"));
        assert_eq!(name.to_string(), NAME);
        for bad in ["", "mullion-tls", "/a", "a/", "a/b/c", "A/b", "a/b,metadata.name!=b", "a/-", "a /b"] {
            assert!(bad.parse::<TlsSecretName>().is_err(), "{bad}");
        }
    }
}

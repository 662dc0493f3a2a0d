//! The certificate from a Secret, by a watch: `--tls-secret`.
//!
//! A Secret that is deleted takes nothing away: the pair it had is served until another comes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::{CERTIFICATE, Certificate, Content, KEY, TlsError};
use crate::webhook::state::State;
use crate::world::watch;

/// A Secret by namespace and name; as text `NS/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretName {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl FromStr for SecretName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = |text: &str| {
            let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            let within = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            (text.len() <= 253 && ends(text.chars().next()) && ends(text.chars().last()) && text.chars().all(within))
                .then(|| text.to_owned())
        };
        text.split_once('/')
            .and_then(|(namespace, name)| Some(Self { namespace: part(namespace)?, name: part(name)? }))
            .ok_or_else(|| "expected NAMESPACE/NAME of a Secret, as in mullion/mullion-tls".to_owned())
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Has `certificate` follow the Secret until `stop` is cancelled (`list`, `watch` on it), and `state` know
/// when there is one. Failures are logged and tried again.
pub async fn follow(
    client: Client,
    secret: SecretName,
    certificate: Arc<Certificate>,
    state: Arc<State>,
    stop: CancellationToken,
) {
    let streaming = watch::streams_lists(&client).await;
    let config = Config::default().fields(&format!("metadata.name={}", secret.name));
    let mut changes = watch::changes::<Secret>(Api::namespaced(client, &secret.namespace), config, streaming);
    let (mut seen, mut listed) = (0, None);
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = changes.next() => event,
        };
        let newest = match event {
            Some(Event::Init) => {
                listed = None;
                continue;
            }
            Some(Event::InitApply(found)) => {
                listed = Some(found);
                continue;
            }
            Some(Event::InitDone) => listed.take(),
            Some(Event::Apply(found)) => Some(found),
            Some(Event::Delete(_)) => None,
            // Never: changes do not end.
            None => return,
        };
        seen = certificate.take(content(&secret, newest), seen, &state.metrics);
        if certificate.is_loaded() {
            state.certificate.store(true, Ordering::Release);
        }
    }
}

fn content(name: &SecretName, secret: Option<Secret>) -> Result<Content, TlsError> {
    let origin = format!("Secret {name}");
    let Some(secret) = secret else { return Err(TlsError::Missing { origin }) };
    let mut data = secret.data.unwrap_or_default();
    let mut value = |key: &str| data.remove(key).unwrap_or_default().0;
    Ok(Content { origin, certificate: value(CERTIFICATE), key: value(KEY) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn names_are_a_namespace_and_a_name() {
        let name: SecretName = "mullion/mullion-tls".parse().unwrap();
        assert_eq!((name.namespace.as_str(), name.name.as_str()), ("mullion", "mullion-tls"));
        assert_eq!(name.to_string(), "mullion/mullion-tls");
        for bad in ["", "mullion-tls", "/a", "a/", "a/b/c", "A/b", "a/b,metadata.name!=b", "a/-", "a /b"] {
            assert!(bad.parse::<SecretName>().is_err(), "{bad}");
        }
    }
}

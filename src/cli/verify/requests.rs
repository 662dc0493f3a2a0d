//! Writes of a run, each with a deadline, and who refused one: Mullion, Pod Security, or something else of the cluster.

use std::time::Duration;

use kube::Client;
use mullion_engine::model::text::shorten;
use serde_json::Value;
use tokio::time::timeout;

use crate::cluster::reading::{Kind, KindApi};
use crate::telemetry::in_words;

/// The limit of one request: the API server gives up after a minute, in which each webhook may take 30 s.
const DEADLINE: Duration = Duration::from_secs(65);
/// How much of a message a result quotes, in characters.
const MAX_MESSAGE: usize = 300;
/// How much of a message is searched for rules, in bytes: a denial of Mullion is not longer.
const MAX_READ: usize = 16 << 10;
/// The ends of the names of Mullion's webhooks in messages of the API server.
const OURS: &str = ".mullion.dev\"";

/// A request that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) by: RefusedBy,
    /// The message, with the reasons of its causes.
    text: String,
}

/// Who refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusedBy {
    /// Mullion denied the object.
    Mullion,
    /// The API server could not call Mullion.
    CallOfMullion,
    PodSecurity,
    /// The object needs something that the API server makes after a namespace: its service account.
    NotReadyYet,
    /// A quota, a limit, another webhook, a policy, missing rights, or no response.
    Others,
}

impl Refused {
    /// The refusal in a response of the API server with this message.
    pub(super) fn new(message: &str, reasons: &[String]) -> Self {
        let from_us = message.contains(OURS);
        let by = match message {
            _ if from_us && message.contains("denied the request") => RefusedBy::Mullion,
            _ if from_us && message.contains("calling webhook") => RefusedBy::CallOfMullion,
            _ if message.contains("violates PodSecurity") => RefusedBy::PodSecurity,
            _ if message.contains("error looking up service account") => RefusedBy::NotReadyYet,
            _ => RefusedBy::Others,
        };
        let end = mullion_engine::model::text::prefix(message, MAX_READ);
        Self { by, text: format!("{end} {}", reasons.join(" ")) }
    }

    fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let reasons: Vec<String> = causes.take(100).map(|cause| cause.reason.clone()).collect();
                Self::new(&status.message, &reasons)
            }
            other => Self { by: RefusedBy::Others, text: in_words(other) },
        }
    }

    /// The message for a result.
    pub(super) fn message(&self) -> String {
        shorten(self.text.trim(), MAX_MESSAGE)
    }

    /// Whether the message or its causes name a rule.
    pub(super) fn names(&self, rule: &str) -> bool {
        self.text.contains(rule)
    }
}

/// Creates an object in `namespace` (empty: of a kind without one). The result is what the API server stores, or would store.
pub(super) async fn create(
    client: &Client,
    kind: &'static Kind,
    namespace: &str,
    object: &Value,
    dry_run: bool,
) -> Result<Value, Refused> {
    let api = if namespace.is_empty() {
        KindApi::all(client.clone(), kind)
    } else {
        KindApi::namespaced(client.clone(), kind, namespace)
    };
    let request =
        async { if dry_run { api.dry_run::<Value>(object).await } else { api.create::<Value>(object).await } };
    match timeout(DEADLINE, request).await {
        Ok(Ok(Ok(stored))) => Ok(stored),
        Ok(Ok(Err(unreadable))) => Err(Refused { by: RefusedBy::Others, text: unreadable.to_string() }),
        Ok(Err(error)) => Err(Refused::of(&error)),
        Err(_) => Err(Refused { by: RefusedBy::Others, text: format!("no response within {} s", DEADLINE.as_secs()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_who_refused() {
        for (message, by) in [
            ("admission webhook \"pods.mullion.dev\" denied the request: Pod …", RefusedBy::Mullion),
            ("admission webhook \"other-pods.mullion.dev\" denied the request", RefusedBy::Mullion),
            ("Internal error occurred: failed calling webhook \"pods.mullion.dev\": x509", RefusedBy::CallOfMullion),
            ("admission webhook \"pods.example.com\" denied the request: mullion.dev", RefusedBy::Others),
            (
                "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": hostNetwork",
                RefusedBy::PodSecurity,
            ),
            ("pods \"a\" is forbidden: error looking up service account x/default: not found", RefusedBy::NotReadyYet),
            ("pods \"a\" is forbidden: exceeded quota: small", RefusedBy::Others),
            ("", RefusedBy::Others),
        ] {
            assert_eq!(Refused::new(message, &[]).by, by, "{message}");
        }
        let long = Refused::new(&"ä\u{1b}".repeat(1 << 20), &["MUL201".to_owned()]);
        assert!(
            long.names("MUL201") && long.message().chars().count() <= MAX_MESSAGE && !long.message().contains('\u{1b}')
        );
    }
}

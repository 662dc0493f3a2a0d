//! One probe of the webhook: the pod, the request, and the evaluation of the response.

use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Client, Resource as _};
use mullion_engine::admission::Endpoint;
use mullion_engine::model::names::OS_ANNOTATION;
use mullion_engine::model::text::shorten;
use rustls::crypto::aws_lc_rs;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::admission_probe::{PROBE_ANNOTATION, RECEIVED_ANNOTATION, probe_warning};
use crate::cluster::post_params;
use crate::controller::webhook_configuration::PODS_WEBHOOK;

/// The timeout of a probe: each webhook, Mullion's or another, may take 30 s, and the API server a minute for all.
const TIMEOUT: Duration = Duration::from_secs(45);
/// The maximum size of the response, in bytes.
const MAX_RESPONSE: usize = 1 << 20;
/// The maximum length of the API server's message in Mullion's message, in characters.
const MAX_MESSAGE: usize = 300;

/// Whether one endpoint was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The response contains its mark.
    Reached,
    /// The response contains the pod without the endpoint's mark, or reports that the call failed.
    Missed,
    /// The request ended before the endpoint could be called.
    Unknown,
}

/// The result of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) mutate: Reach,
    pub(crate) validate: Reach,
    /// Whether the API server rejects pods because the call fails: `failurePolicy: Fail`.
    pub(crate) rejected: bool,
    /// The response as text.
    pub(crate) response: String,
}

impl Probe {
    pub(crate) fn reach(&self, endpoint: Endpoint) -> Reach {
        match endpoint {
            Endpoint::Mutate => self.mutate,
            Endpoint::Validate => self.validate,
        }
    }

    fn without_response(problem: String) -> Self {
        Self { mutate: Reach::Unknown, validate: Reach::Unknown, rejected: false, response: problem }
    }
}

/// Sends the dry run of a pod in `namespace`.
pub(crate) async fn send_probe(client: &Client, namespace: &str) -> Probe {
    let Some(value) = random_value() else {
        return Probe::without_response("no random number is available".to_owned());
    };
    match timeout(TIMEOUT, dry_run(client, namespace, &value)).await {
        Ok(Ok((status, warnings, body))) => evaluate(&value, status, &warnings, &body),
        Ok(Err(error)) => Probe::without_response(shorten(&error, MAX_MESSAGE)),
        Err(_) => Probe::without_response(format!("no response within {} s", TIMEOUT.as_secs())),
    }
}

/// Returns status, warnings and body of the response.
async fn dry_run(client: &Client, namespace: &str, value: &str) -> Result<(u16, Vec<String>, Vec<u8>), String> {
    let params = PostParams { dry_run: true, ..post_params() };
    let body = serde_json::to_vec(&pod(value)).map_err(|error| error.to_string())?;
    let request = kube::core::Request::new(Pod::url_path(&(), Some(namespace))).create(&params, body);
    let request = request.map_err(|error| error.to_string())?;
    // Not sent through `Api`, which does not return the headers.
    let response = client.send(request.map(Body::from)).await.map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let warnings = response.headers().get_all(http::header::WARNING).iter();
    let warnings = warnings.map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned()).collect();
    let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await.map_err(|error| error.to_string())?;
    Ok((status, warnings, body.to_bytes().to_vec()))
}

/// 32 hexadecimal digits, so that neither an earlier response nor a guess can pass for the webhook's mark.
pub(crate) fn random_value() -> Option<String> {
    let mut bytes = [0; 16];
    aws_lc_rs::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// A pod that most admission plugins admit: it passes Pod Security `restricted`, and Mullion does not place it. It has
/// no requests and limits, because a `LimitRange` adds those that it requires, and would reject a request below its
/// minimum before the call of `/validate`; a quota that requires them rejects the pod after both calls. If a proxy
/// drops `dryRun`, the scheduling gate still prevents scheduling.
fn pod(value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "mullion-probe-",
            "annotations": { PROBE_ANNOTATION: value, OS_ANNOTATION: "any" },
        },
        "spec": {
            "automountServiceAccountToken": false,
            "restartPolicy": "Never",
            "schedulingGates": [{ "name": "mullion.dev/probe" }],
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "probe",
                "image": "registry.k8s.io/pause:3.10",
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": { "drop": ["ALL"] },
                },
            }],
        },
    })
}

/// Evaluates the response to the probe with `value`.
fn evaluate(value: &str, status: u16, warnings: &[String], body: &[u8]) -> Probe {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let admitted = (200..300).contains(&status);
    let message = body.get("message").and_then(Value::as_str).unwrap_or("");
    // The message of a rejection under `failurePolicy: Fail`: apiserver
    // `pkg/admission/plugin/webhook/errors/statuserror.go`.
    let rejected = !admitted && message.contains(&format!("calling webhook \"{PODS_WEBHOOK}\""));
    let marked = |endpoint| warnings.iter().any(|warning| warning.contains(&probe_warning(endpoint, value)));
    let annotated =
        body.pointer("/metadata/annotations").and_then(|all| all.get(RECEIVED_ANNOTATION)?.as_str()) == Some(value);
    let mutated = marked(Endpoint::Mutate) || annotated;
    let unseen = |called: bool| if admitted || (rejected && called) { Reach::Missed } else { Reach::Unknown };
    let mutate = if mutated { Reach::Reached } else { unseen(true) };
    // If the call of /mutate failed, /validate was not called.
    let validate = if marked(Endpoint::Validate) { Reach::Reached } else { unseen(mutated) };
    let response = if admitted { status.to_string() } else { shorten(&format!("{status}: {message}"), MAX_MESSAGE) };
    Probe { mutate, validate, rejected, response }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use Reach::{Missed, Reached, Unknown};
    use proptest::prelude::*;

    use super::*;

    fn header(endpoint: Endpoint, value: &str) -> String {
        format!("299 - \"{}\"", probe_warning(endpoint, value))
    }

    type Case<'a> = (u16, &'a [&'a str], &'a Value, Reach, Reach, bool);

    #[test]
    fn responses_show_which_endpoints_were_called() {
        let (mutate, validate) = (header(Endpoint::Mutate, "abc"), header(Endpoint::Validate, "abc"));
        let old = header(Endpoint::Mutate, "old");
        let pod = json!({"kind": "Pod", "metadata": {"annotations": {PROBE_ANNOTATION: "abc"}}});
        let patched =
            json!({"kind": "Pod", "metadata": {"annotations": {PROBE_ANNOTATION: "abc", RECEIVED_ANNOTATION: "abc"}}});
        let quota = json!({"kind": "Status", "message": "exceeded quota: pods, requested: pods=1"});
        let calling = json!({"kind": "Status", "message": "Internal error occurred: failed calling webhook \
            \"pods.mullion.dev\": failed to call webhook: connection refused"});
        let other = json!({"kind": "Status", "message": "failed calling webhook \"pods.example.com\": no"});
        let cases: [Case<'_>; 11] = [
            (201, &[&mutate, &validate], &patched, Reached, Reached, false),
            // Another webhook removed the annotation.
            (201, &["299 - \"deprecated\"", &mutate, &validate], &pod, Reached, Reached, false),
            // The API server drops warnings if all together are too long.
            (201, &[&validate], &patched, Reached, Reached, false),
            (201, &[], &pod, Missed, Missed, false),
            (201, &[&old], &pod, Missed, Missed, false),
            (201, &[&mutate], &patched, Reached, Missed, false),
            (403, &[&mutate, &validate], &quota, Reached, Reached, false),
            (403, &[], &quota, Unknown, Unknown, false),
            (500, &[], &calling, Missed, Unknown, true),
            (500, &[&mutate], &calling, Reached, Missed, true),
            (500, &[&mutate], &other, Reached, Unknown, false),
        ];
        for (status, warnings, body, mutate, validate, rejected) in cases {
            let warnings: Vec<String> = warnings.iter().map(|&warning| warning.to_owned()).collect();
            let probe = evaluate("abc", status, &warnings, body.to_string().as_bytes());
            let found = (probe.mutate, probe.validate, probe.rejected);
            assert_eq!(found, (mutate, validate, rejected), "{status} {warnings:?} {body}");
        }
    }

    proptest! {
        #[test]
        fn no_response_without_the_value_counts_as_reached(status: u16, body: Vec<u8>, warnings in prop::collection::vec(".*", 0..4)) {
            let value = random_value().unwrap();
            let probe = evaluate(&value, status, &warnings, &body);
            prop_assert!(probe.mutate != Reached && probe.validate != Reached);
            prop_assert!(probe.response.chars().count() <= MAX_MESSAGE + 1);
        }
    }

    #[test]
    fn values_are_unique() {
        let (one, other) = (random_value().unwrap(), random_value().unwrap());
        assert!(one.len() == 32 && one != other, "{one} {other}");
        assert_eq!(pod(&one)["metadata"]["annotations"][PROBE_ANNOTATION], one);
    }
}

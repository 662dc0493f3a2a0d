//! One probe: the pod, the request, and what its answer shows.

use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Client, Resource as _};
use mullion_engine::admission::response::Endpoint;
use mullion_engine::model::names::OS_ANNOTATION;
use mullion_engine::model::text::shorten;
use rustls::crypto::aws_lc_rs;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::admission_probe::{ASKED, SEEN, mark};
use crate::cluster::write_params::post_params;
use crate::controller::names::PODS_WEBHOOK;

/// How long a probe may take: webhooks may take 30 s each, ours and others', and the API server a minute for all.
const PATIENCE: Duration = Duration::from_secs(45);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// How much of the API server's own words is repeated, in characters.
const MAX_SAID: usize = 300;

/// Whether one endpoint was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Its mark came back.
    Reached,
    /// The pod came back without it, or the API server says that it could not call.
    Missed,
    /// The request ended before it could be seen.
    Unknown,
}

/// What one probe showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) mutate: Reach,
    pub(crate) validate: Reach,
    /// Whether the API server refuses pods because it cannot call: `failurePolicy: Fail`.
    pub(crate) refused: bool,
    /// The answer in words.
    pub(crate) said: String,
}

impl Probe {
    pub(crate) fn reach(&self, endpoint: Endpoint) -> Reach {
        match endpoint {
            Endpoint::Mutate => self.mutate,
            Endpoint::Validate => self.validate,
        }
    }

    fn unanswered(said: String) -> Self {
        Self { mutate: Reach::Unknown, validate: Reach::Unknown, refused: false, said }
    }
}

/// Has the API server make a pod in `namespace` without storing it.
pub(crate) async fn ask(client: &Client, namespace: &str) -> Probe {
    let Some(value) = unpredictable() else {
        return Probe::unanswered("no random number to be had".to_owned());
    };
    match timeout(PATIENCE, send(client, namespace, &value)).await {
        Ok(Ok((status, warnings, body))) => read(&value, status, &warnings, &body),
        Ok(Err(error)) => Probe::unanswered(shorten(&error, MAX_SAID)),
        Err(_) => Probe::unanswered(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

type Answer = (u16, Vec<String>, Vec<u8>);

async fn send(client: &Client, namespace: &str, value: &str) -> Result<Answer, String> {
    let params = PostParams { dry_run: true, ..post_params() };
    let body = serde_json::to_vec(&pod(value)).map_err(|error| error.to_string())?;
    let request = kube::core::Request::new(Pod::url_path(&(), Some(namespace))).create(&params, body);
    let request = request.map_err(|error| error.to_string())?;
    // Not through `Api`: that keeps the headers to itself.
    let response = client.send(request.map(Body::from)).await.map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let warnings = response.headers().get_all(http::header::WARNING).iter();
    let warnings = warnings.map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned()).collect();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|error| error.to_string())?;
    Ok((status, warnings, body.to_bytes().to_vec()))
}

/// 32 hexadecimal digits: no answer that was kept from before, and no guess, passes for the webhook's.
fn unpredictable() -> Option<String> {
    let mut bytes = [0; 16];
    aws_lc_rs::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// A pod that is welcome wherever pods are: it passes Pod Security `restricted`, and Mullion places it nowhere. Without
/// requests and limits, because a `LimitRange` fills in what it asks for, and would refuse a request below its minimum
/// before `/validate` is asked; a quota that asks for them refuses after both. The gate keeps it from ever being
/// scheduled, should somebody on the way drop `dryRun`.
fn pod(value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "mullion-probe-",
            "annotations": { ASKED: value, OS_ANNOTATION: "any" },
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

/// What an answer shows of the probe with `value`.
fn read(value: &str, status: u16, warnings: &[String], body: &[u8]) -> Probe {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let made = (200..300).contains(&status);
    let message = body.get("message").and_then(Value::as_str).unwrap_or("");
    // apiserver, `pkg/admission/plugin/webhook/errors/statuserror.go`: how it refuses under `failurePolicy: Fail`.
    let refused = !made && message.contains(&format!("calling webhook \"{PODS_WEBHOOK}\""));
    let marked = |endpoint| warnings.iter().any(|warning| warning.contains(&mark(endpoint, value)));
    let annotated = body.pointer("/metadata/annotations").and_then(|all| all.get(SEEN)?.as_str()) == Some(value);
    let mutated = marked(Endpoint::Mutate) || annotated;
    let unseen = |called: bool| if made || (refused && called) { Reach::Missed } else { Reach::Unknown };
    let mutate = if mutated { Reach::Reached } else { unseen(true) };
    // Refused before /mutate had its say, nothing is known of /validate.
    let validate = if marked(Endpoint::Validate) { Reach::Reached } else { unseen(mutated) };
    let said = if made { status.to_string() } else { shorten(&format!("{status}: {message}"), MAX_SAID) };
    Probe { mutate, validate, refused, said }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use Reach::{Missed, Reached, Unknown};
    use proptest::prelude::*;

    use super::*;

    fn header(endpoint: Endpoint, value: &str) -> String {
        format!("299 - \"{}\"", mark(endpoint, value))
    }

    type Case<'a> = (u16, &'a [&'a str], &'a Value, Reach, Reach, bool);

    #[test]
    fn what_answers_show() {
        let (mutate, validate) = (header(Endpoint::Mutate, "abc"), header(Endpoint::Validate, "abc"));
        let old = header(Endpoint::Mutate, "old");
        let pod = json!({"kind": "Pod", "metadata": {"annotations": {ASKED: "abc"}}});
        let patched = json!({"kind": "Pod", "metadata": {"annotations": {ASKED: "abc", SEEN: "abc"}}});
        let quota = json!({"kind": "Status", "message": "exceeded quota: pods, requested: pods=1"});
        let calling = json!({"kind": "Status", "message": "Internal error occurred: failed calling webhook \
            \"pods.mullion.dev\": failed to call webhook: connection refused"});
        let other = json!({"kind": "Status", "message": "failed calling webhook \"pods.example.com\": no"});
        let cases: [Case<'_>; 11] = [
            (201, &[&mutate, &validate], &patched, Reached, Reached, false),
            // Somebody took the annotation away again.
            (201, &["299 - \"deprecated\"", &mutate, &validate], &pod, Reached, Reached, false),
            // Warnings are cut where others say too much.
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
        for (status, warnings, body, mutate, validate, refused) in cases {
            let warnings: Vec<String> = warnings.iter().map(|&warning| warning.to_owned()).collect();
            let probe = read("abc", status, &warnings, body.to_string().as_bytes());
            let found = (probe.mutate, probe.validate, probe.refused);
            assert_eq!(found, (mutate, validate, refused), "{status} {warnings:?} {body}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_without_the_value_passes(status: u16, body: Vec<u8>, warnings in prop::collection::vec(".*", 0..4)) {
            let value = unpredictable().unwrap();
            let probe = read(&value, status, &warnings, &body);
            prop_assert!(probe.mutate != Reached && probe.validate != Reached);
            prop_assert!(probe.said.chars().count() <= MAX_SAID + 1);
        }
    }

    #[test]
    fn no_value_comes_twice() {
        let (one, other) = (unpredictable().unwrap(), unpredictable().unwrap());
        assert!(one.len() == 32 && one != other, "{one} {other}");
        assert_eq!(pod(&one)["metadata"]["annotations"][ASKED], one);
    }
}

//! Creates pods and measures them.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use mullion_cluster::{ControlPlane, processor_time};
use serde_json::Value;

use crate::registrations::Case;

/// The time limit for the API server to use a registration, on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// Creates in a round: few, so that all cases are subject to the same disturbances of the machine.
const CREATES: usize = 20;
/// Rounds of a case before the first that counts.
const WARM_UP_ROUNDS: usize = 5;

/// What the rounds of a case measured.
#[derive(Default)]
pub struct Measurement {
    /// The time of each create.
    pub times: Vec<Duration>,
    /// The processor time of the API server.
    pub api_server: Duration,
    /// The processor time of the webhook.
    pub webhook: Duration,
}

/// Creates a pod; returns the stored pod, as text.
pub async fn create(plane: &ControlPlane, namespace: &str, pod: &Value, is_dry_run: bool) -> kube::Result<String> {
    let query = if is_dry_run { "?dryRun=All" } else { "" };
    let request = http::Request::post(format!("/api/v1/namespaces/{namespace}/pods{query}"))
        .header("content-type", "application/json")
        .body(pod.to_string().into_bytes())
        .unwrap();
    plane.client().request_text(request).await
}

/// Opens connections and has expressions compiled, so that the first round measures neither.
pub async fn warm_up(plane: &ControlPlane, case: &Case) {
    for _ in 0..WARM_UP_ROUNDS {
        round(plane, case, &mut Measurement::default()).await;
    }
}

/// Creates pods one after another, and deletes them.
pub async fn round(plane: &ControlPlane, case: &Case, measurement: &mut Measurement) {
    let api_server = plane.api_server_pid().unwrap();
    let webhook_time = || case.webhook.map_or(Duration::ZERO, |pid| processor_time(pid).unwrap());
    let (api_server_before, webhook_before) = (processor_time(api_server).unwrap(), webhook_time());
    for _ in 0..CREATES {
        let start = Instant::now();
        let created = create(plane, &case.namespace, &case.pod, false).await.unwrap();
        measurement.times.push(start.elapsed());
        case.check(&created);
    }
    measurement.api_server += processor_time(api_server).unwrap().saturating_sub(api_server_before);
    measurement.webhook += webhook_time().saturating_sub(webhook_before);
    let api: Api<Pod> = Api::namespaced(plane.client(), &case.namespace);
    api.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await.unwrap();
}

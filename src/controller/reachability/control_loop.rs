//! The control loop of probes: sends them at an interval, and reports the outcomes as metrics, condition and Events.

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::api::ObjectMeta;
use mullion_engine::admission::Endpoint;
use tokio::time::{MissedTickBehavior, timeout};

use crate::cluster::reading::KindApi;
use crate::cluster::state::{MullionState, ProbeReport, StateCondition, time_text};
use crate::cluster::{CALL, await_answer};
use crate::controller::leader_context::LeaderContext;
use crate::controller::metrics::ControllerMetrics;
use crate::controller::reachability::outcome::{CONDITION, OutcomeHistory, ProbeOutcome};
use crate::controller::reachability::probe::{Probe, Reach, send_probe};
use crate::controller::webhook_configuration::{
    CONFIGURATION, ENDPOINTS, PODS_WEBHOOK, WebhookConfiguration, configuration_kind,
};
use crate::telemetry::in_words;

/// Probes until `leading.stop`.
pub(crate) async fn run(leading: LeaderContext) {
    let work = async {
        let mut state = leading.state.state.clone();
        // Without the last condition, an alarm is raised twice, or its end is not reported, so a short wait is
        // worthwhile.
        let history = match timeout(CALL, state.wait_for(Option::is_some)).await {
            Ok(Ok(read)) => OutcomeHistory::of(read.as_deref().and_then(|state| state.condition(CONDITION))),
            _ => OutcomeHistory::default(),
        };
        probe_forever(&leading, history).await;
    };
    leading.stop.run_until_cancelled(work).await;
    // Nothing updates them while Mullion is withdrawn.
    leading.metrics.clear_probes();
    leading.report.update(|facts| facts.probe = None);
}

async fn probe_forever(leading: &LeaderContext, mut history: OutcomeHistory) {
    let LeaderContext { probe_namespace: namespace, probe_interval: interval, .. } = leading;
    let mut ticks = tokio::time::interval(*interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut logged = "reached";
    loop {
        ticks.tick().await;
        let probe = send_probe(&leading.client, namespace).await;
        // Two more requests, only if something may have to be reported.
        let all_reached = ENDPOINTS.iter().all(|endpoint| probe.reach(*endpoint) == Reach::Reached);
        let mut registrations = Vec::new();
        if !all_reached || history.alarmed {
            registrations = join_all(ENDPOINTS.map(|endpoint| read_registration(&leading.client, endpoint))).await;
        }
        let is_missing = |endpoint| registrations.iter().any(|one| one.endpoint == endpoint && one.missing);
        let outcome = ProbeOutcome::of(&probe, |endpoint| !is_missing(endpoint));
        count(&leading.metrics, &probe, &outcome);
        let last = ProbeReport { time: time_text(Timestamp::now()), outcome: outcome.name().to_owned() };
        leading.report.update(|facts| facts.probe = Some(last));
        log(&mut logged, &probe, &outcome);
        let report = history.update(&outcome, namespace);
        if let Some(condition) = report.condition {
            write(leading, &condition).await;
        }
        let regarding = outcome.first_missed().unwrap_or(Endpoint::Mutate);
        let regarding = registrations.iter().find(|registration| registration.endpoint == regarding);
        if let (Some(news), Some(Registration { reference, .. })) = (report.news, regarding) {
            leading.events.publish(reference, &news).await;
        }
    }
}

fn count(metrics: &ControllerMetrics, probe: &Probe, outcome: &ProbeOutcome) {
    for endpoint in ENDPOINTS {
        match probe.reach(endpoint) {
            Reach::Reached => metrics.endpoint_reached(endpoint, Timestamp::now().as_second()),
            Reach::Missed => metrics.endpoint_missed(endpoint),
            Reach::Unknown => {}
        }
    }
    metrics.probed(outcome.name());
}

/// Logs an outcome that differs from the one that was `logged` last. Metrics, condition and Event show that it
/// persists.
fn log(logged: &mut &'static str, probe: &Probe, outcome: &ProbeOutcome) {
    let Probe { mutate, validate, response, .. } = probe;
    let same = std::mem::replace(logged, outcome.name()) == outcome.name();
    match outcome {
        _ if same => tracing::debug!(?mutate, ?validate, response, "the webhook was probed"),
        ProbeOutcome::Reached => tracing::info!("the API server reaches the webhook"),
        ProbeOutcome::Missed { .. } => {
            tracing::warn!(?mutate, ?validate, response, "the API server does not reach the webhook");
        }
        ProbeOutcome::NotRegistered { .. } => tracing::warn!(
            "the webhook is not registered with the API server: install Mullion's chart, or apply its webhook \
             configurations"
        ),
        ProbeOutcome::Unknown { .. } => {
            tracing::warn!(response, "cannot determine whether the API server reaches the webhook");
        }
    }
}

fn has_condition(state: &MullionState, condition: &StateCondition) -> bool {
    let present = state.condition(CONDITION);
    present.is_some_and(|present| (&present.status, &present.reason) == (&condition.status, &condition.reason))
}

/// Writes the condition if status or reason differ, and therefore not every minute.
async fn write(leading: &LeaderContext, condition: &StateCondition) {
    if leading.state.state.borrow().as_ref().is_some_and(|state| has_condition(state, condition)) {
        return;
    }
    let written = leading.store.update(|state| {
        if !has_condition(state, condition) {
            state.set_condition(condition.clone());
        }
    });
    if let Err(error) = written.await {
        tracing::warn!("cannot write the condition {CONDITION}; trying again: {}", in_words(error.as_ref()));
    }
}

/// The registration of an endpoint with the API server.
struct Registration {
    endpoint: Endpoint,
    /// The webhook configuration, which is the subject of Events.
    reference: ObjectReference,
    /// Whether pods are not sent to the endpoint; false if the configuration cannot be read.
    missing: bool,
}

async fn read_registration(client: &Client, endpoint: Endpoint) -> Registration {
    let kind = configuration_kind(endpoint);
    let found = await_answer(KindApi::all(client.clone(), kind).get::<WebhookConfiguration>(CONFIGURATION)).await;
    let (missing, metadata) = match found {
        Ok(None) => (true, None),
        Ok(Some(Ok(WebhookConfiguration { metadata, webhooks }))) => {
            (!webhooks.iter().any(|webhook| webhook.name == PODS_WEBHOOK), Some(metadata))
        }
        Ok(Some(Err(_))) | Err(_) => (false, None),
    };
    let named = || ObjectMeta { name: Some(CONFIGURATION.to_owned()), ..ObjectMeta::default() };
    Registration { endpoint, reference: kind.reference(&metadata.unwrap_or_else(named)), missing }
}

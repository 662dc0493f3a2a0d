//! Probes the webhook through the API server at an interval, and records the result in ConfigMap `mullion-state`.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Client, Resource as _};
use mullion_engine::admission::response::Endpoint;
use tokio::time::{MissedTickBehavior, timeout};

use crate::cluster::call::await_answer;
use crate::cluster::state::document::{Condition, State};
use crate::cluster::watch::CALL;
use crate::controller::leader::Leading;
use crate::controller::metrics::Metrics;
use crate::controller::names::{CONFIGURATION, PODS_WEBHOOK};
use crate::controller::reachability::judge::{Memory, Outcome, configuration, outcome};
use crate::controller::reachability::probe::{Probe, Reach};
use crate::controller::reachability::probing::Probing;
use crate::controller::reachability::{judge, probe};
use crate::telemetry::error_text::in_words;

const ENDPOINTS: [Endpoint; 2] = [Endpoint::Mutate, Endpoint::Validate];

/// Probes until it must stop.
pub async fn run(leading: Leading) {
    let work = async {
        let mut state = leading.state.state.clone();
        // Without it an alarm that stands is raised twice, or its all-clear is missing: worth a moment, not more.
        let memory = match timeout(CALL, state.wait_for(Option::is_some)).await {
            Ok(Ok(read)) => Memory::of(read.as_deref().and_then(standing)),
            _ => Memory::default(),
        };
        probe_for_ever(&leading, memory).await;
    };
    leading.stop.run_until_cancelled(work).await;
    // Nobody keeps them up to date while Mullion is withdrawn.
    leading.metrics.no_more_probes();
}

async fn probe_for_ever(leading: &Leading, mut memory: Memory) {
    let Probing { namespace, interval } = &leading.probing;
    let mut ticks = tokio::time::interval(*interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = "reached";
    loop {
        ticks.tick().await;
        let probe = probe::ask(&leading.client, namespace).await;
        let all_well = ENDPOINTS.iter().all(|endpoint| probe.reach(*endpoint) == Reach::Reached);
        // Two requests more, where somebody is to hear of it.
        let known = if all_well && !memory.alarmed() { None } else { Some(registrations(&leading.client).await) };
        let found = outcome(&probe, |endpoint| known.as_ref().is_none_or(|known| known.has(endpoint)));
        count(&leading.metrics, &probe, &found);
        log(&mut before, &probe, &found);
        let said = memory.judge(&found, namespace);
        if let Some(condition) = said.condition {
            write(leading, &condition).await;
        }
        if let (Some(news), Some(known)) = (said.news, known) {
            leading.events.tell(&known.about(&found), &news).await;
        }
    }
}

fn count(metrics: &Metrics, probe: &Probe, outcome: &Outcome) {
    for endpoint in ENDPOINTS {
        match probe.reach(endpoint) {
            Reach::Reached => metrics.endpoint_reached(endpoint, Timestamp::now().as_second()),
            Reach::Missed => metrics.endpoint_missed(endpoint),
            Reach::Unknown => {}
        }
    }
    metrics.probed(name(outcome));
}

fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Reached => "reached",
        Outcome::Missed { .. } => "missed",
        Outcome::NotRegistered { .. } => "not_registered",
        Outcome::Unknown { .. } => "unknown",
    }
}

/// Says what is not as it was `before`: metrics, condition and Event tell that it lasts.
fn log(before: &mut &'static str, probe: &Probe, outcome: &Outcome) {
    let Probe { mutate, validate, said, .. } = probe;
    let same = std::mem::replace(before, name(outcome)) == name(outcome);
    match outcome {
        _ if same => tracing::debug!(?mutate, ?validate, answer = said, "the webhook was probed"),
        Outcome::Reached => tracing::info!("the API server reaches the webhook"),
        Outcome::Missed { .. } => {
            tracing::warn!(?mutate, ?validate, answer = said, "the API server does not reach the webhook");
        }
        Outcome::NotRegistered { .. } => tracing::warn!(
            "the API server does not know the webhook: install Mullion's chart, or apply its webhook configurations"
        ),
        Outcome::Unknown { .. } => {
            tracing::warn!(answer = said, "it cannot be seen whether the API server reaches the webhook");
        }
    }
}

fn standing(state: &State) -> Option<&Condition> {
    state.condition(judge::TYPE)
}

fn says(state: &State, condition: &Condition) -> bool {
    standing(state)
        .is_some_and(|standing| (&standing.status, &standing.reason) == (&condition.status, &condition.reason))
}

/// Writes the condition where status or reason differ: not every minute.
async fn write(leading: &Leading, condition: &Condition) {
    if leading.state.state.borrow().as_ref().is_some_and(|state| says(state, condition)) {
        return;
    }
    let written = leading.store.update(|state| {
        if !says(state, condition) {
            state.set_condition(condition.clone());
        }
    });
    if let Err(error) = written.await {
        tracing::warn!("the condition {} is not written, and tried again: {}", judge::TYPE, in_words(error.as_ref()));
    }
}

/// What the API server was told about each endpoint.
struct Registrations {
    mutate: Registration,
    validate: Registration,
}

enum Registration {
    /// It was told, by this object.
    Here(ObjectReference),
    Missing,
    /// It cannot be seen: taken for here.
    Unknown,
}

impl Registrations {
    fn of(&self, endpoint: Endpoint) -> &Registration {
        match endpoint {
            Endpoint::Mutate => &self.mutate,
            Endpoint::Validate => &self.validate,
        }
    }

    fn has(&self, endpoint: Endpoint) -> bool {
        !matches!(self.of(endpoint), Registration::Missing)
    }

    /// The object that people look at: of the first endpoint that was missed, if there is one.
    fn about(&self, outcome: &Outcome) -> ObjectReference {
        let endpoint = match outcome {
            Outcome::Missed { endpoints, .. } => endpoints.first().copied(),
            _ => None,
        };
        let endpoint = endpoint.unwrap_or(Endpoint::Mutate);
        match self.of(endpoint) {
            Registration::Here(reference) => reference.clone(),
            Registration::Missing | Registration::Unknown => ObjectReference {
                api_version: Some("admissionregistration.k8s.io/v1".to_owned()),
                kind: Some(configuration(endpoint).to_owned()),
                name: Some(CONFIGURATION.to_owned()),
                ..ObjectReference::default()
            },
        }
    }
}

async fn registrations(client: &Client) -> Registrations {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let (mutating, validating) =
        tokio::join!(await_answer(mutating.get_opt(CONFIGURATION)), await_answer(validating.get_opt(CONFIGURATION)));
    Registrations {
        mutate: registration(mutating, |found| {
            let here = found.webhooks.iter().flatten().any(|webhook| webhook.name == PODS_WEBHOOK);
            here.then(|| found.object_ref(&()))
        }),
        validate: registration(validating, |found| {
            let here = found.webhooks.iter().flatten().any(|webhook| webhook.name == PODS_WEBHOOK);
            here.then(|| found.object_ref(&()))
        }),
    }
}

fn registration<K>(answer: kube::Result<Option<K>>, reference: impl Fn(&K) -> Option<ObjectReference>) -> Registration {
    match answer {
        Ok(found) => found.as_ref().and_then(reference).map_or(Registration::Missing, Registration::Here),
        Err(_) => Registration::Unknown,
    }
}

//! The outcome of a probe, and the condition and Events that follow from a series of outcomes.

use mullion_engine::admission::Endpoint;
use mullion_engine::model::text::list_with;

use crate::cluster::state::StateCondition;
use crate::controller::event_reasons::{WEBHOOK_REACHABLE, WEBHOOK_UNREACHABLE};
use crate::controller::events::NewEvent;
use crate::controller::reachability::probe::{Probe, Reach};
use crate::controller::webhook_configuration::{ENDPOINTS, PODS_WEBHOOK, configuration_kind};

/// The condition's type in `mullion-state`.
pub(crate) const CONDITION: &str = "Reachable";
/// The condition's reason while an alarm lasts.
const NOT_REACHED: &str = "NotReached";

/// The number of failures in a row that raises an alarm: a single failure may be a webhook that is moving to another
/// node.
const FAILURES: u32 = 2;
/// The number of failures between two Events of the same alarm: about half an hour. API servers keep Events for one
/// hour (`--event-ttl`).
const FAILURES_BETWEEN_EVENTS: u32 = 30;

/// The meaning of the marks of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeOutcome {
    /// Both endpoints were reached.
    Reached,
    /// These registered endpoints were not reached.
    Missed { endpoints: Vec<Endpoint>, rejected: bool, response: String },
    /// These endpoints were not reached, and are not registered with the API server.
    NotRegistered { endpoints: Vec<Endpoint> },
    /// The response does not show whether they were reached.
    Unknown { response: String },
}

impl ProbeOutcome {
    /// The outcome of a probe; if the registration of an endpoint is unknown, it counts as `registered`.
    pub(crate) fn of(probe: &Probe, registered: impl Fn(Endpoint) -> bool) -> Self {
        let endpoints = |reach: Reach| ENDPOINTS.into_iter().filter(move |endpoint| probe.reach(*endpoint) == reach);
        let (registered, unregistered): (Vec<Endpoint>, Vec<Endpoint>) =
            endpoints(Reach::Missed).partition(|endpoint| registered(*endpoint));
        if !registered.is_empty() {
            Self::Missed { endpoints: registered, rejected: probe.rejected, response: probe.response.clone() }
        } else if !unregistered.is_empty() {
            Self::NotRegistered { endpoints: unregistered }
        } else if endpoints(Reach::Unknown).next().is_some() {
            Self::Unknown { response: probe.response.clone() }
        } else {
            Self::Reached
        }
    }

    /// The label in metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Missed { .. } => "missed",
            Self::NotRegistered { .. } => "not_registered",
            Self::Unknown { .. } => "unknown",
        }
    }

    pub(crate) fn first_missed(&self) -> Option<Endpoint> {
        match self {
            Self::Missed { endpoints, .. } => endpoints.first().copied(),
            _ => None,
        }
    }
}

/// The part of earlier outcomes that affects later reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OutcomeHistory {
    missed: u32,
    unknown: u32,
    /// Whether the last Event was an alarm.
    pub(crate) alarmed: bool,
}

/// The condition and the Event that follow from an outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OutcomeReport {
    /// `None` if it is unchanged.
    pub(crate) condition: Option<StateCondition>,
    pub(crate) news: Option<NewEvent>,
}

impl OutcomeHistory {
    /// The history of the controller that wrote this condition.
    pub(crate) fn of(condition: Option<&StateCondition>) -> Self {
        let alarmed = condition.is_some_and(|condition| condition.reason == NOT_REACHED);
        Self { missed: if alarmed { FAILURES } else { 0 }, unknown: 0, alarmed }
    }

    /// Adds the outcome of a probe in `namespace`, and returns what follows.
    pub(crate) fn update(&mut self, outcome: &ProbeOutcome, namespace: &str) -> OutcomeReport {
        let Self { missed, unknown, alarmed } = *self;
        match outcome {
            ProbeOutcome::Reached => {
                *self = Self::default();
                let message = format!(
                    "The API server calls Mullion's webhook for pods in namespace {namespace}, at /mutate and /validate."
                );
                let note = format!(
                    "The webhook is reachable again. {message} Pods that were created meanwhile were neither changed nor \
                     checked; the controller repairs those that can be repaired."
                );
                let news = alarmed.then(|| WEBHOOK_REACHABLE.event(note));
                OutcomeReport { condition: Some(condition("True", "Reached", message)), news }
            }
            ProbeOutcome::Missed { endpoints, rejected, response } => {
                let missed = missed.saturating_add(1);
                *self = Self { missed, unknown: 0, alarmed: alarmed || missed >= FAILURES };
                if missed < FAILURES {
                    return OutcomeReport::default();
                }
                let message = not_reached_message(endpoints, *rejected, response, namespace);
                let due = !alarmed || missed.saturating_sub(FAILURES).is_multiple_of(FAILURES_BETWEEN_EVENTS);
                let news = due.then(|| WEBHOOK_UNREACHABLE.event(message.clone()));
                OutcomeReport { condition: Some(condition("False", NOT_REACHED, message)), news }
            }
            // No Event, because someone removed the registration, or has not applied it yet, on purpose.
            ProbeOutcome::NotRegistered { endpoints } => {
                *self = Self::default();
                let missing = |endpoint: &Endpoint| format!("there is no {}", configuration_kind(*endpoint).name);
                let message = format!(
                    "Mullion's webhook is not registered with the API server at {}: {} named mullion with a webhook \
                     {PODS_WEBHOOK}. Pods are admitted without it. Install Mullion's chart, or apply its webhook \
                     configurations.",
                    paths(endpoints),
                    list_with(endpoints.iter().map(missing), "and"),
                );
                OutcomeReport { condition: Some(condition("False", "NotRegistered", message)), news: None }
            }
            ProbeOutcome::Unknown { response } => {
                let unknown = unknown.saturating_add(1);
                *self = Self { unknown, ..*self };
                if unknown < FAILURES {
                    return OutcomeReport::default();
                }
                let message = format!(
                    "Mullion cannot determine whether the API server reaches its webhook: the response to the dry run of \
                     a pod in namespace {namespace} is {response}. If this lasts, allow Mullion's controller to create \
                     such pods there, or choose another namespace with --probe-namespace."
                );
                OutcomeReport { condition: Some(condition("Unknown", "ProbeFailed", message)), news: None }
            }
        }
    }
}

fn condition(status: &str, reason: &str, message: String) -> StateCondition {
    StateCondition::new(CONDITION, status, reason, message)
}

fn paths(endpoints: &[Endpoint]) -> String {
    list_with(endpoints.iter().map(|endpoint| format!("/{}", endpoint.name())), "and")
}

fn not_reached_message(endpoints: &[Endpoint], rejected: bool, response: &str, namespace: &str) -> String {
    let kinds = endpoints.iter().map(|endpoint| configuration_kind(*endpoint).name.to_ascii_lowercase());
    let kinds = kinds.collect::<Vec<_>>().join(",");
    let result =
        if rejected { format!("was rejected with {response}") } else { "came back without Mullion's mark".to_owned() };
    let effect = match (rejected, endpoints) {
        (true, _) => "rejected until it does (failurePolicy: Fail)",
        (false, [Endpoint::Validate]) => "admitted unchecked until it does",
        (false, [Endpoint::Mutate]) => "admitted unchanged until it does",
        (false, _) => "admitted unchanged and unchecked until it does",
    };
    format!(
        "The API server does not reach Mullion's webhook at {}: a dry run of a pod in namespace {namespace} {result}. \
         Pods are {effect}. Check: 1. kubectl get {kinds} mullion -o yaml (does it cover namespace {namespace}? does \
         caBundle contain the CA of the served certificate?); 2. the webhook's pods, Service and endpoints; 3. the network \
         from the API server to the webhook's port; 4. the API server's log, which contains \"failed calling webhook\" \
         and the cause.",
        paths(endpoints)
    )
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use Endpoint::{Mutate, Validate};
    use Reach::{Missed, Reached, Unknown};
    use proptest::prelude::*;

    use super::*;
    use crate::controller::events::EventType;

    fn probe(mutate: Reach, validate: Reach) -> Probe {
        Probe { mutate, validate, rejected: false, response: "x".to_owned() }
    }

    #[test]
    fn outcomes_of_probes() {
        let missed = |endpoints: &[Endpoint]| ProbeOutcome::Missed {
            endpoints: endpoints.to_vec(),
            rejected: false,
            response: "x".to_owned(),
        };
        let unregistered = |endpoints: &[Endpoint]| ProbeOutcome::NotRegistered { endpoints: endpoints.to_vec() };
        let cases: [(Reach, Reach, &[Endpoint], ProbeOutcome); 9] = [
            (Reached, Reached, &[], ProbeOutcome::Reached),
            (Missed, Missed, &[Mutate, Validate], missed(&[Mutate, Validate])),
            (Missed, Missed, &[Validate], missed(&[Validate])),
            (Missed, Missed, &[], unregistered(&[Mutate, Validate])),
            (Reached, Missed, &[Mutate], unregistered(&[Validate])),
            (Reached, Missed, &[Mutate, Validate], missed(&[Validate])),
            (Missed, Unknown, &[Mutate, Validate], missed(&[Mutate])),
            (Reached, Unknown, &[Mutate, Validate], ProbeOutcome::Unknown { response: "x".to_owned() }),
            (Unknown, Unknown, &[], ProbeOutcome::Unknown { response: "x".to_owned() }),
        ];
        for (mutate, validate, registered, expected) in cases {
            let found = ProbeOutcome::of(&probe(mutate, validate), |endpoint| registered.contains(&endpoint));
            assert_eq!(found, expected, "{mutate:?} {validate:?} {registered:?}");
        }
    }

    fn some(kind: char) -> ProbeOutcome {
        match kind {
            'r' => ProbeOutcome::Reached,
            'm' => {
                ProbeOutcome::Missed { endpoints: vec![Mutate, Validate], rejected: false, response: "201".to_owned() }
            }
            'n' => ProbeOutcome::NotRegistered { endpoints: vec![Mutate, Validate] },
            _ => ProbeOutcome::Unknown { response: "403: quota".to_owned() },
        }
    }

    /// The report after each of a series of outcomes: the reason of the condition, and `!` for an alarm, `+` for its end.
    fn reports(history: &mut OutcomeHistory, kinds: &str) -> Vec<String> {
        let mut reports = Vec::new();
        for kind in kinds.chars() {
            let OutcomeReport { condition, news } = history.update(&some(kind), "default");
            let sign = news.map_or("", |news| match news.r#type {
                EventType::Warning => "!",
                EventType::Normal => "+",
            });
            reports.push(format!("{}{sign}", condition.map_or(String::new(), |condition| condition.reason)));
        }
        reports
    }

    #[test]
    fn alarms_need_two_failures() {
        let cases: [(&str, &[&str]); 8] = [
            ("rr", &["Reached", "Reached"]),
            // A single failure is ignored.
            ("rmr", &["Reached", "", "Reached"]),
            ("mmmrr", &["", "NotReached!", "NotReached", "Reached+", "Reached"]),
            // An unknown outcome neither ends nor raises an alarm.
            ("mmuur", &["", "NotReached!", "", "ProbeFailed", "Reached+"]),
            ("muum", &["", "", "ProbeFailed", "NotReached!"]),
            ("uuur", &["", "ProbeFailed", "ProbeFailed", "Reached"]),
            ("nnnr", &["NotRegistered", "NotRegistered", "NotRegistered", "Reached"]),
            ("mmnr", &["", "NotReached!", "NotRegistered", "Reached"]),
        ];
        for (kinds, expected) in cases {
            assert_eq!(reports(&mut OutcomeHistory::default(), kinds), expected, "{kinds}");
        }
    }

    #[test]
    fn a_new_leader_continues_the_history() {
        let mut first = OutcomeHistory::default();
        let conditions = ['m', 'm'].map(|kind| first.update(&some(kind), "default").condition);
        let condition = conditions.into_iter().flatten().last().unwrap();
        assert_eq!(reports(&mut OutcomeHistory::of(Some(&condition)), "mr"), ["NotReached", "Reached+"]);
        assert_eq!(reports(&mut OutcomeHistory::of(None), "mr"), ["", "Reached"]);
    }

    #[test]
    fn a_long_outage_is_reported_again_before_the_event_expires() {
        let reports = reports(&mut OutcomeHistory::default(), &"m".repeat(62));
        assert_eq!(reports.iter().filter(|report| report.ends_with('!')).count(), 3, "{reports:?}");
    }

    #[test]
    fn messages_contain_effect_and_remedy_within_the_limit() {
        let long = "x".repeat(301);
        for (endpoints, rejected) in [(vec![Mutate], false), (vec![Validate], false), (vec![Mutate, Validate], true)] {
            let text = not_reached_message(&endpoints, rejected, &long, "a-namespace");
            assert!(
                text.contains("Pods are") && text.contains("kubectl get ") && text.contains("a-namespace"),
                "{text}"
            );
            // The note of an Event has at most 1,024 bytes.
            assert!(text.len() <= 1024, "{} bytes: {text}", text.len());
        }
        let short = not_reached_message(&[Mutate], false, "", "default");
        assert!(short.contains("kubectl get mutatingwebhookconfiguration mullion -o yaml"), "{short}");
    }

    proptest! {
        #[test]
        fn each_alarm_ends_once(kinds in "[rmnu]{0,60}") {
            let mut alarmed = false;
            for report in reports(&mut OutcomeHistory::default(), &kinds) {
                prop_assert!(!report.ends_with('+') || alarmed, "an end without an alarm in {kinds}");
                alarmed = report.ends_with('!') || (alarmed && !report.ends_with('+') && report != "NotRegistered");
            }
        }
    }
}

//! From what probes show to what is said about it: a pure function, and its memory from one probe to the next.

use mullion_engine::admission::response::Endpoint;
use mullion_engine::model::text::list_with;

use crate::cluster::state::document::Condition;
use crate::controller::events::{EventType, News};
use crate::controller::names::PODS_WEBHOOK;
use crate::controller::reachability::probe::{Probe, Reach};

/// The condition's type in `mullion-state`.
pub(crate) const TYPE: &str = "Reachable";

/// Failures in a row before anything is said: one may be a webhook on its way to another node.
const FAILURES: u32 = 2;
/// Failures between two tellings of the same: about half an hour. API servers keep events for one (`--event-ttl`).
const TELL_AGAIN: u32 = 30;

/// What one probe means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Both endpoints were reached.
    Reached,
    /// These endpoints, of which the API server knows, were not.
    Missed { endpoints: Vec<Endpoint>, refused: bool, said: String },
    /// These endpoints were not, and nobody told the API server about them.
    NotRegistered { endpoints: Vec<Endpoint> },
    /// It could not be seen.
    Unknown { said: String },
}

/// What is remembered of earlier probes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    missed: u32,
    unknown: u32,
    /// Whether the last that people heard is that it does not work.
    alarmed: bool,
}

/// What is to be said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Stands from now on; `None`: as before. Its time is empty.
    pub(crate) condition: Option<Condition>,
    pub(crate) news: Option<News>,
}

/// What a probe means, given whether a endpoint is `registered`; not knowing that counts as yes.
pub(crate) fn outcome(probe: &Probe, registered: impl Fn(Endpoint) -> bool) -> Outcome {
    let endpoints = |reach: Reach| {
        [Endpoint::Mutate, Endpoint::Validate].into_iter().filter(move |endpoint| probe.reach(*endpoint) == reach)
    };
    let (known, strange): (Vec<Endpoint>, Vec<Endpoint>) =
        endpoints(Reach::Missed).partition(|endpoint| registered(*endpoint));
    if !known.is_empty() {
        Outcome::Missed { endpoints: known, refused: probe.refused, said: probe.said.clone() }
    } else if !strange.is_empty() {
        Outcome::NotRegistered { endpoints: strange }
    } else if endpoints(Reach::Unknown).next().is_some() {
        Outcome::Unknown { said: probe.said.clone() }
    } else {
        Outcome::Reached
    }
}

impl Memory {
    /// As it was when the condition was written, by whoever led then.
    pub(crate) fn of(standing: Option<&Condition>) -> Self {
        let alarmed = standing.is_some_and(|standing| standing.reason == NOT_REACHED);
        Self { missed: if alarmed { FAILURES } else { 0 }, unknown: 0, alarmed }
    }

    pub(crate) fn alarmed(self) -> bool {
        self.alarmed
    }

    /// Takes the next outcome in; `namespace` is the probes'.
    pub(crate) fn judge(&mut self, outcome: &Outcome, namespace: &str) -> Said {
        let Self { missed, unknown, alarmed } = *self;
        match outcome {
            Outcome::Reached => {
                *self = Self::default();
                let message = format!(
                    "The API server asks Mullion about pods of namespace {namespace}, at /mutate and /validate."
                );
                let news = alarmed.then(|| News {
                    r#type: EventType::Normal,
                    reason: "WebhookReachable",
                    action: "Probe",
                    note: format!(
                        "It works again: {message} Pods created meanwhile were neither changed nor checked; the \
                         controller repairs what can be repaired."
                    ),
                });
                Said { condition: Some(condition("True", "Reached", message)), news }
            }
            Outcome::Missed { endpoints, refused, said } => {
                let missed = missed.saturating_add(1);
                *self = Self { missed, unknown: 0, alarmed: alarmed || missed >= FAILURES };
                if missed < FAILURES {
                    return Said::default();
                }
                let message = unreachable(endpoints, *refused, said, namespace);
                let tell = !alarmed || missed.saturating_sub(FAILURES).is_multiple_of(TELL_AGAIN);
                let news = tell.then(|| News {
                    r#type: EventType::Warning,
                    reason: "WebhookUnreachable",
                    action: "Probe",
                    note: message.clone(),
                });
                Said { condition: Some(condition("False", NOT_REACHED, message)), news }
            }
            // Whoever takes the registration away knows; whoever has not installed it yet, too.
            Outcome::NotRegistered { endpoints } => {
                *self = Self::default();
                let message = format!(
                    "The API server was not told to ask Mullion at {}: {} named mullion with a webhook {}. Pods are \
                     admitted without it. Install Mullion's chart, or apply its webhook configurations.",
                    list(endpoints, |endpoint| format!("/{}", endpoint.name())),
                    list(endpoints, |endpoint| format!("there is no {}", configuration(endpoint))),
                    PODS_WEBHOOK,
                );
                Said { condition: Some(condition("False", "NotRegistered", message)), news: None }
            }
            Outcome::Unknown { said } => {
                let unknown = unknown.saturating_add(1);
                *self = Self { unknown, ..*self };
                if unknown < FAILURES {
                    return Said::default();
                }
                let message = format!(
                    "Whether the API server reaches Mullion cannot be seen: it answers the dry run of a pod in namespace \
                     {namespace} with {said}. If this lasts, let Mullion's controller create such pods there, \
                     or choose another namespace with --probe-namespace."
                );
                Said { condition: Some(condition("Unknown", "ProbeFailed", message)), news: None }
            }
        }
    }
}

const NOT_REACHED: &str = "NotReached";

fn condition(status: &str, reason: &str, message: String) -> Condition {
    Condition::new(TYPE, status, reason, message)
}

/// The kind of object that tells the API server about a endpoint.
pub(crate) fn configuration(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Mutate => "MutatingWebhookConfiguration",
        Endpoint::Validate => "ValidatingWebhookConfiguration",
    }
}

fn list(endpoints: &[Endpoint], text: impl Fn(Endpoint) -> String) -> String {
    list_with(endpoints.iter().map(|endpoint| text(*endpoint)), "and")
}

fn unreachable(endpoints: &[Endpoint], refused: bool, said: &str, namespace: &str) -> String {
    let paths = list(endpoints, |endpoint| format!("/{}", endpoint.name()));
    let kinds =
        endpoints.iter().map(|endpoint| configuration(*endpoint).to_ascii_lowercase()).collect::<Vec<_>>().join(",");
    let (seen, means) = match (refused, endpoints) {
        (true, _) => (format!("was refused with {said}"), "Pods are refused until it does (failurePolicy: Fail)"),
        (false, [Endpoint::Validate]) => {
            ("came back without Mullion's mark".to_owned(), "Pods are admitted unchecked until it does")
        }
        (false, [Endpoint::Mutate]) => {
            ("came back without Mullion's mark".to_owned(), "Pods are admitted unchanged until it does")
        }
        (false, _) => {
            ("came back without Mullion's mark".to_owned(), "Pods are admitted unchanged and unchecked until it does")
        }
    };
    format!(
        "The API server does not reach Mullion's webhook at {paths}: a pod that Mullion had it make in namespace \
         {namespace} (dry run) {seen}. {means}. Look at: 1. kubectl get {kinds} mullion -o yaml (is namespace \
         {namespace} covered, is caBundle that of the certificate served?); 2. the webhook's pods, Service and \
         endpoints; 3. the network from the API server to the webhook's port; 4. the API server's log, which says \
         \"failed calling webhook\" and why."
    )
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use Endpoint::{Mutate, Validate};
    use Reach::{Missed, Reached, Unknown};
    use proptest::prelude::*;

    use super::*;

    fn probe(mutate: Reach, validate: Reach) -> Probe {
        Probe { mutate, validate, refused: false, said: "x".to_owned() }
    }

    #[test]
    fn what_probes_mean() {
        let missed = |endpoints: &[Endpoint]| Outcome::Missed {
            endpoints: endpoints.to_vec(),
            refused: false,
            said: "x".to_owned(),
        };
        let strange = |endpoints: &[Endpoint]| Outcome::NotRegistered { endpoints: endpoints.to_vec() };
        let cases: [(Reach, Reach, &[Endpoint], Outcome); 9] = [
            (Reached, Reached, &[], Outcome::Reached),
            (Missed, Missed, &[Mutate, Validate], missed(&[Mutate, Validate])),
            (Missed, Missed, &[Validate], missed(&[Validate])),
            (Missed, Missed, &[], strange(&[Mutate, Validate])),
            (Reached, Missed, &[Mutate], strange(&[Validate])),
            (Reached, Missed, &[Mutate, Validate], missed(&[Validate])),
            (Missed, Unknown, &[Mutate, Validate], missed(&[Mutate])),
            (Reached, Unknown, &[Mutate, Validate], Outcome::Unknown { said: "x".to_owned() }),
            (Unknown, Unknown, &[], Outcome::Unknown { said: "x".to_owned() }),
        ];
        for (mutate, validate, registered, expected) in cases {
            let found = outcome(&probe(mutate, validate), |endpoint| registered.contains(&endpoint));
            assert_eq!(found, expected, "{mutate:?} {validate:?} {registered:?}");
        }
    }

    fn some(kind: char) -> Outcome {
        match kind {
            'r' => Outcome::Reached,
            'm' => Outcome::Missed { endpoints: vec![Mutate, Validate], refused: false, said: "201".to_owned() },
            'n' => Outcome::NotRegistered { endpoints: vec![Mutate, Validate] },
            _ => Outcome::Unknown { said: "403: quota".to_owned() },
        }
    }

    /// What is said after each of a row of outcomes: reason of the condition, `!` a warning, `+` an all-clear.
    fn row(memory: &mut Memory, kinds: &str) -> Vec<String> {
        let mut said = Vec::new();
        for kind in kinds.chars() {
            let Said { condition, news } = memory.judge(&some(kind), "default");
            let sign = news.map_or("", |news| match news.r#type {
                EventType::Warning => "!",
                EventType::Normal => "+",
            });
            said.push(format!("{}{sign}", condition.map_or(String::new(), |condition| condition.reason)));
        }
        said
    }

    #[test]
    fn what_is_said_and_when() {
        let cases: [(&str, &[&str]); 8] = [
            ("rr", &["Reached", "Reached"]),
            // One is none.
            ("rmr", &["Reached", "", "Reached"]),
            ("mmmrr", &["", "NotReached!", "NotReached", "Reached+", "Reached"]),
            // What cannot be seen ends no alarm, and begins none.
            ("mmuur", &["", "NotReached!", "", "ProbeFailed", "Reached+"]),
            ("muum", &["", "", "ProbeFailed", "NotReached!"]),
            ("uuur", &["", "ProbeFailed", "ProbeFailed", "Reached"]),
            ("nnnr", &["NotRegistered", "NotRegistered", "NotRegistered", "Reached"]),
            ("mmnr", &["", "NotReached!", "NotRegistered", "Reached"]),
        ];
        for (kinds, expected) in cases {
            assert_eq!(row(&mut Memory::default(), kinds), expected, "{kinds}");
        }
    }

    #[test]
    fn a_new_leader_goes_on_where_the_last_one_stood() {
        let mut first = Memory::default();
        let standing = ["m", "m"].map(|kind| first.judge(&some(kind.chars().next().unwrap()), "default").condition);
        let standing = standing.into_iter().flatten().last().unwrap();
        assert_eq!(row(&mut Memory::of(Some(&standing)), "mr"), ["NotReached", "Reached+"]);
        assert_eq!(row(&mut Memory::of(None), "mr"), ["", "Reached"]);
    }

    #[test]
    fn a_long_outage_is_told_again_before_the_event_expires() {
        let said = row(&mut Memory::default(), &"m".repeat(62));
        assert_eq!(said.iter().filter(|said| said.ends_with('!')).count(), 3, "{said:?}");
    }

    #[test]
    fn texts_say_what_it_means_and_what_to_do_and_fit() {
        let long = "x".repeat(301);
        for (endpoints, refused) in [(vec![Mutate], false), (vec![Validate], false), (vec![Mutate, Validate], true)] {
            let text = unreachable(&endpoints, refused, &long, "a-namespace");
            assert!(
                text.contains("Pods are") && text.contains("kubectl get ") && text.contains("a-namespace"),
                "{text}"
            );
            // An event's note has 1,024 bytes.
            assert!(text.len() <= 1024, "{} bytes: {text}", text.len());
        }
        let short = unreachable(&[Mutate], false, "", "default");
        assert!(short.contains("kubectl get mutatingwebhookconfiguration mullion -o yaml"), "{short}");
    }

    proptest! {
        #[test]
        fn alarms_and_all_clears_take_turns(kinds in "[rmnu]{0,60}") {
            let mut alarmed = false;
            for said in row(&mut Memory::default(), &kinds) {
                prop_assert!(!said.ends_with('+') || alarmed, "an all-clear without an alarm in {kinds}");
                alarmed = said.ends_with('!') || (alarmed && !said.ends_with('+') && said != "NotRegistered");
            }
        }
    }
}

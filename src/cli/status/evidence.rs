//! What each line of the status needs to be good. A line whose evidence is absent, unreadable or old is not known.

use jiff::Timestamp;

use crate::cli::status::check::{CheckResult, StatusCheck};
use crate::cli::status::facts::{ConfigurationFacts, MAX_PROBE_AGE, MAX_RENEWAL_AGE, Read, StatusFacts, outdated};
use crate::controller::PODS_WEBHOOK;

/// Something that was read from the cluster, and how new it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusEvidence {
    /// Mullion's Deployments.
    Deployments,
    /// Their pods: at least one of the controller and one of the webhook.
    Pods,
    /// Lease `mullion-controller`, held, and renewed within [`MAX_RENEWAL_AGE`]. Without a leader, nobody corrects what the
    /// report contains.
    Leader,
    /// The controller's report in ConfigMap `mullion-state`, at most [`MAX_REPORT_AGE`](crate::cluster::state::MAX_REPORT_AGE)
    /// old.
    Report,
    /// The probe in the report, at most [`MAX_PROBE_AGE`] old.
    Probe,
    /// `MutatingWebhookConfiguration` `mullion`, with the webhook for pods.
    Mutating,
    /// `ValidatingWebhookConfiguration` `mullion`, with the webhook for pods.
    Validating,
    /// Windows nodes.
    Nodes,
    /// What others wrote about namespaces, RuntimeClasses and Windows nodes.
    Unusable,
    /// Mullion's Events.
    Events,
    /// Pods with the label of findings.
    Findings,
}

/// A line of the status.
struct Line {
    name: &'static str,
    /// What is not known without its evidence, with its verb.
    subject: &'static str,
    evidence: &'static [StatusEvidence],
}

/// A line that rests on the controller's report.
const fn reported(name: &'static str, subject: &'static str) -> Line {
    Line { name, subject, evidence: &[StatusEvidence::Leader, StatusEvidence::Report] }
}

/// All lines that can be good.
const LINES: [Line; 20] = [
    Line {
        name: "controller-running",
        subject: "whether the controller runs is",
        evidence: &[StatusEvidence::Deployments],
    },
    Line { name: "webhook-running", subject: "whether the webhook runs is", evidence: &[StatusEvidence::Deployments] },
    Line {
        name: "versions",
        subject: "whether controller and webhook have one version is",
        evidence: &[StatusEvidence::Pods, StatusEvidence::Leader, StatusEvidence::Report],
    },
    Line { name: "leader", subject: "which controller leads is", evidence: &[StatusEvidence::Leader] },
    reported("controller-report", "what the controller does is"),
    Line {
        name: "mutating-registered",
        subject: "whether the webhook is registered is",
        evidence: &[StatusEvidence::Mutating],
    },
    Line {
        name: "validating-registered",
        subject: "whether the webhook is registered is",
        evidence: &[StatusEvidence::Validating],
    },
    Line {
        name: "webhook-reached",
        subject: "whether the API server reaches the webhook is",
        // A probe from before the configurations were deleted is no evidence of the present.
        evidence: &[
            StatusEvidence::Mutating,
            StatusEvidence::Validating,
            StatusEvidence::Leader,
            StatusEvidence::Report,
            StatusEvidence::Probe,
        ],
    },
    reported("certificates", "the webhook's certificates are"),
    reported("ca-certificate", "the CA is"),
    reported("serving-certificate", "the serving certificate is"),
    reported("policies-loaded", "which policies are in force is"),
    reported("exemptions", "which exemptions end is"),
    Line {
        name: "nodes-labelled",
        subject: "whether Windows nodes are labelled is",
        evidence: &[StatusEvidence::Nodes, StatusEvidence::Leader, StatusEvidence::Report],
    },
    Line {
        name: "nodes-tainted",
        subject: "whether Windows nodes are tainted is",
        evidence: &[StatusEvidence::Nodes, StatusEvidence::Leader, StatusEvidence::Report],
    },
    Line {
        name: "facts-used",
        subject: "whether all annotations and taints are used is",
        evidence: &[StatusEvidence::Unusable],
    },
    Line { name: "events", subject: "Mullion's Events are", evidence: &[StatusEvidence::Events] },
    reported("missed-pods", "which pods Mullion missed is"),
    reported("unreadable-objects", "which objects Mullion cannot read is"),
    Line { name: "findings", subject: "which pods have findings is", evidence: &[StatusEvidence::Findings] },
];

/// The check if it is not good, or if all its evidence is there and new; else the same line as not known. A line that is
/// not in the table has no evidence.
pub(crate) fn proved(check: StatusCheck, facts: &StatusFacts, now: Timestamp) -> StatusCheck {
    if check.result != CheckResult::Good {
        return check;
    }
    let StatusCheck { section, name, .. } = check;
    let Some(line) = LINES.iter().find(|line| line.name == name) else {
        return StatusCheck::unknown(section, name, "this line is", "it names no evidence", "report this as a defect");
    };
    let absent = line.evidence.iter().find_map(|one| Some((one, one.absent(facts, now)?)));
    match absent {
        None => check,
        Some((evidence, why)) => {
            StatusCheck::unknown(section, name, line.subject, &why, evidence.next(&facts.namespace))
        }
    }
}

impl StatusEvidence {
    /// Why it does not show the present, as a clause; `None` if it does.
    fn absent(self, facts: &StatusFacts, now: Timestamp) -> Option<String> {
        match self {
            Self::Deployments => facts.deployments.as_ref().err().cloned(),
            Self::Pods => pods(facts).err(),
            Self::Leader => leader(facts, now).err(),
            Self::Report => facts.report(now).err(),
            Self::Probe => probe(facts, now).err(),
            Self::Mutating => registration(facts, "Mutating").err(),
            Self::Validating => registration(facts, "Validating").err(),
            Self::Nodes => facts.nodes.as_ref().err().cloned(),
            Self::Unusable => facts.unusable.as_ref().err().cloned(),
            Self::Events => facts.events.as_ref().err().cloned(),
            Self::Findings => facts.findings.as_ref().err().cloned(),
        }
    }

    /// What to do without it.
    fn next(self, namespace: &str) -> String {
        match self {
            Self::Deployments | Self::Pods => format!("kubectl get deployments,pods -n {namespace}"),
            Self::Leader | Self::Report | Self::Probe => "check the controller above".to_owned(),
            Self::Mutating | Self::Validating => {
                "helm upgrade creates the webhook configurations again, and the controller then probes the webhook"
                    .to_owned()
            }
            Self::Nodes | Self::Unusable | Self::Events | Self::Findings => {
                "get the rights of ClusterRole mullion-reader".to_owned()
            }
        }
    }
}

fn pods(facts: &StatusFacts) -> Read<()> {
    let pods = facts.pods.as_ref().map_err(Clone::clone)?;
    for component in ["controller", "webhook"] {
        if !pods.iter().any(|pod| pod.component == component) {
            return Err(format!("there is no pod of the {component} in namespace {}", facts.namespace));
        }
    }
    Ok(())
}

fn leader(facts: &StatusFacts, now: Timestamp) -> Read<()> {
    let lease = facts.lease.as_ref().map_err(Clone::clone)?;
    let held = lease.as_ref().and_then(|lease| lease.holder.as_ref().and(lease.renewed));
    let renewed = held.ok_or("no controller leads, so nobody corrects the last report")?;
    match outdated(now, renewed, MAX_RENEWAL_AGE) {
        None => Ok(()),
        Some(how) => {
            Err(format!("the last renewal of Lease mullion-controller is {how}, so no controller is known to lead"))
        }
    }
}

fn probe(facts: &StatusFacts, now: Timestamp) -> Read<()> {
    let probe = facts.reported(now, |report| report.probe.as_ref(), "the controller has not probed it yet")?;
    let time = probe.time.parse::<Timestamp>().map_err(|_| "the last probe has no valid time")?;
    outdated(now, time, MAX_PROBE_AGE).map_or(Ok(()), |how| Err(format!("the last probe is {how}")))
}

fn registration(facts: &StatusFacts, start: &str) -> Read<()> {
    let mut all = facts.configurations.iter();
    let Some(ConfigurationFacts { kind, webhooks, .. }) = all.find(|one| one.kind.starts_with(start)) else {
        return Err(format!("no {start}WebhookConfiguration was read"));
    };
    let webhooks = webhooks.as_ref().map_err(Clone::clone)?;
    let webhooks = webhooks.as_ref().ok_or_else(|| format!("there is no {kind} mullion"))?;
    match webhooks.iter().find(|webhook| webhook.name == PODS_WEBHOOK) {
        None => Err(format!("{kind} mullion has no webhook {PODS_WEBHOOK}")),
        Some(webhook) if !webhook.trusted => Err(format!("{kind} mullion has no caBundle for {PODS_WEBHOOK}")),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;
    use crate::cli::status::checks::checks;
    use crate::cli::status::facts::LeaseFacts;
    use crate::cli::status::facts::tests::{ago, good, now, with_report, with_state};
    use crate::cluster::state::{MAX_REPORT_AGE, ProbeReport};

    fn denied<T>() -> Read<T> {
        Err("forbidden".to_owned())
    }

    /// The good cluster without that evidence: absent, unreadable, old, or of the future.
    fn without(evidence: StatusEvidence) -> Vec<StatusFacts> {
        let lease = |lease: Read<Option<LeaseFacts>>| StatusFacts { lease, ..good() };
        let held = |holder: Option<&str>, renewed: Option<i64>| {
            let renewed = renewed.map(|seconds| ago(seconds).parse().unwrap());
            lease(Ok(Some(LeaseFacts { holder: holder.map(str::to_owned), renewed })))
        };
        let written = |written: String| with_report(|report| report.written = written);
        let probed = |time: String| {
            with_report(|report| report.probe = Some(ProbeReport { time, outcome: "reached".to_owned() }))
        };
        let configuration = |at: usize, change: &dyn Fn(&mut ConfigurationFacts)| {
            let mut facts = good();
            change(&mut facts.configurations[at]);
            facts
        };
        let registered = |at: usize| {
            let webhooks = |one: &mut ConfigurationFacts| one.webhooks.as_mut().unwrap().as_mut().unwrap()[0].clone();
            vec![
                configuration(at, &|one| one.webhooks = denied()),
                configuration(at, &|one| one.webhooks = Ok(None)),
                configuration(at, &|one| one.webhooks = Ok(Some(Vec::new()))),
                configuration(at, &|one| {
                    let mut webhook = webhooks(one);
                    webhook.trusted = false;
                    one.webhooks = Ok(Some(vec![webhook]));
                }),
            ]
        };
        match evidence {
            StatusEvidence::Deployments => {
                [denied(), Ok(Vec::new())].map(|deployments| StatusFacts { deployments, ..good() }).into()
            }
            StatusEvidence::Pods => [denied(), Ok(Vec::new())].map(|pods| StatusFacts { pods, ..good() }).into(),
            StatusEvidence::Leader => vec![
                lease(denied()),
                lease(Ok(None)),
                held(None, Some(3)),
                held(Some("pod-1_0f"), None),
                held(Some("pod-1_0f"), Some(MAX_RENEWAL_AGE + 1)),
                held(Some("pod-1_0f"), Some(-3_600)),
            ],
            StatusEvidence::Report => vec![
                StatusFacts { state: denied(), ..good() },
                StatusFacts { state: Ok(None), ..good() },
                with_state(|state| state.report = None),
                written(ago(MAX_REPORT_AGE + 1)),
                written(ago(-3_600)),
                written("soon".to_owned()),
            ],
            StatusEvidence::Probe => vec![
                with_report(|report| report.probe = None),
                probed(ago(MAX_PROBE_AGE + 1)),
                probed(ago(-3_600)),
                probed("soon".to_owned()),
            ],
            StatusEvidence::Mutating => registered(0),
            StatusEvidence::Validating => registered(1),
            StatusEvidence::Nodes => vec![StatusFacts { nodes: denied(), ..good() }],
            StatusEvidence::Unusable => vec![StatusFacts { unusable: denied(), ..good() }],
            StatusEvidence::Events => vec![StatusFacts { events: denied(), ..good() }],
            StatusEvidence::Findings => vec![StatusFacts { findings: denied(), ..good() }],
        }
    }

    const ALL: [StatusEvidence; 11] = [
        StatusEvidence::Deployments,
        StatusEvidence::Pods,
        StatusEvidence::Leader,
        StatusEvidence::Report,
        StatusEvidence::Probe,
        StatusEvidence::Mutating,
        StatusEvidence::Validating,
        StatusEvidence::Nodes,
        StatusEvidence::Unusable,
        StatusEvidence::Events,
        StatusEvidence::Findings,
    ];

    fn good_lines(facts: &StatusFacts) -> BTreeSet<&'static str> {
        let good = checks(facts, now()).into_iter().filter(|check| check.result == CheckResult::Good);
        good.map(|check| check.name).collect()
    }

    /// Exactly the lines that name a piece of evidence change without it.
    #[test]
    fn no_line_is_good_without_its_evidence() {
        for evidence in ALL {
            let needs = |name: &str| LINES.iter().any(|line| line.name == name && line.evidence.contains(&evidence));
            assert!(LINES.iter().any(|line| line.evidence.contains(&evidence)), "{evidence:?} is of no line");
            for facts in without(evidence) {
                let left = good_lines(&facts);
                let expected: BTreeSet<&str> = good_lines(&good()).into_iter().filter(|name| !needs(name)).collect();
                assert_eq!(left, expected, "{evidence:?}: {facts:?}");
                for check in checks(&facts, now()).iter().filter(|check| needs(check.name)) {
                    assert!(!check.next.is_empty(), "{check:?}");
                }
            }
        }
    }

    #[test]
    fn the_table_has_every_line_that_can_be_good() {
        let mut found = good_lines(&good());
        let unmanaged = with_report(|report| report.certificates.as_mut().unwrap().managed = false);
        found.extend(good_lines(&unmanaged));
        let listed: BTreeSet<&str> = LINES.iter().map(|line| line.name).collect();
        assert_eq!((found, listed.len()), (listed, LINES.len()));
    }

    #[test]
    fn a_probe_of_another_webhook_is_no_evidence() {
        let reached = |facts: &StatusFacts| {
            let found = checks(facts, now()).into_iter().find(|check| check.name == "webhook-reached").unwrap();
            (found.result, found.message)
        };
        assert_eq!(reached(&good()).0, CheckResult::Good);
        let mut deleted = good();
        for one in &mut deleted.configurations {
            one.webhooks = Ok(None);
        }
        let (result, message) = reached(&deleted);
        assert_eq!(result, CheckResult::Unknown);
        assert_eq!(
            message,
            "whether the API server reaches the webhook is not known: there is no MutatingWebhookConfiguration mullion"
        );
        let mut newer = good();
        newer.configurations[1].created = ago(30).parse().ok();
        let (result, message) = reached(&newer);
        assert!(result == CheckResult::Unknown && message.contains("was created after the last probe"), "{message}");
        let mut stopped = good();
        stopped.deployments.as_mut().unwrap()[1].ready = 0;
        let (result, message) = reached(&stopped);
        assert!(result == CheckResult::Unknown && message.contains("no pod of the webhook is ready"), "{message}");
    }

    /// The controller has stopped, and its last report is not old yet.
    #[test]
    fn a_report_of_a_controller_that_has_stopped_is_no_evidence() {
        let facts = StatusFacts { lease: Ok(Some(LeaseFacts::default())), ..good() };
        for name in ["controller-report", "policies-loaded", "nodes-labelled", "missed-pods", "webhook-reached"] {
            let check = checks(&facts, now()).into_iter().find(|check| check.name == name).unwrap();
            assert_eq!(check.result, CheckResult::Unknown, "{check:?}");
            assert!(check.message.contains("not known: no controller leads"), "{check:?}");
        }
    }
}

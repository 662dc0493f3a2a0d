//! The facts that `mullion status` has about a cluster, as plain values.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mullion_engine::model::cluster::Taint;

use crate::cluster::state::{ControllerReport, HEARTBEAT, MAX_REPORT_AGE, MullionState};

/// A part that was read, or why it could not be read, as a clause.
pub(crate) type Read<T> = Result<T, String>;

/// The maximum age of the last probe, in seconds: it is reported with the report, at least every [`HEARTBEAT`] seconds,
/// and two of these reports may have failed.
pub(crate) const MAX_PROBE_AGE: i64 = 3 * HEARTBEAT;
/// The maximum age of a renewal of the Lease, in seconds: four times the usual lease of 15 s, because the clocks of the
/// leader and of this machine may differ.
pub(crate) const MAX_RENEWAL_AGE: i64 = 60;
/// How far ahead of this machine another clock may be, in seconds. A time that is later than that is no evidence of
/// the present: it would count as new for as long as it is in the future.
const MAX_CLOCK_DIFFERENCE: i64 = 60;

/// Everything that the checks need.
#[derive(Debug, Clone)]
pub(crate) struct StatusFacts {
    /// Mullion's namespace.
    pub(crate) namespace: String,
    /// ConfigMap `mullion-state`; `None` if it does not exist.
    pub(crate) state: Read<Option<MullionState>>,
    /// Lease `mullion-controller`; `None` if it does not exist.
    pub(crate) lease: Read<Option<LeaseFacts>>,
    /// The webhook configurations `mullion`, by kind.
    pub(crate) configurations: [ConfigurationFacts; 2],
    /// Mullion's Deployments.
    pub(crate) deployments: Read<Vec<DeploymentFacts>>,
    /// The pods of these Deployments.
    pub(crate) pods: Read<Vec<PodFacts>>,
    /// Windows nodes.
    pub(crate) nodes: Read<Vec<WindowsNode>>,
    /// What others wrote and Mullion does not use: annotations of namespaces, tolerations of RuntimeClasses, taints of
    /// Windows nodes.
    pub(crate) unusable: Read<Vec<String>>,
    /// Pods with the label `mullion.dev/findings`.
    pub(crate) findings: Read<FindingFacts>,
    /// Mullion's Events of about the last hour.
    pub(crate) events: Read<Vec<EventFacts>>,
}

/// The Lease.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseFacts {
    /// The holder; `None` if the Lease has none.
    pub(crate) holder: Option<String>,
    pub(crate) renewed: Option<Timestamp>,
}

/// A webhook configuration.
#[derive(Debug, Clone)]
pub(crate) struct ConfigurationFacts {
    pub(crate) kind: &'static str,
    /// Its webhooks; `None` if it does not exist.
    pub(crate) webhooks: Read<Option<Vec<WebhookFacts>>>,
    pub(crate) created: Option<Timestamp>,
}

/// A webhook of a configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct WebhookFacts {
    pub(crate) name: String,
    pub(crate) failure_policy: String,
    /// Whether `caBundle` is set, or the webhook does not need it because it is registered by URL.
    pub(crate) trusted: bool,
}

/// A Deployment of Mullion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeploymentFacts {
    pub(crate) name: String,
    /// `controller` or `webhook`.
    pub(crate) component: String,
    /// The value of the label `app.kubernetes.io/version`.
    pub(crate) version: Option<String>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) replicas: i32,
    pub(crate) ready: i32,
    pub(crate) updated: i32,
}

/// A pod of Mullion.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodFacts {
    pub(crate) name: String,
    pub(crate) component: String,
    /// The tag of its image, if it has one.
    pub(crate) tag: Option<String>,
    /// Why it does not run, as a clause.
    pub(crate) trouble: Option<String>,
}

/// A Windows node.
#[derive(Debug, Clone)]
pub(crate) struct WindowsNode {
    pub(crate) name: String,
    pub(crate) created: Option<Timestamp>,
    /// Whether it has the label with its release.
    pub(crate) labelled: bool,
    pub(crate) taints: BTreeSet<Taint>,
}

/// Pods with findings by namespace: their number, and the codes of their rules.
pub(crate) type FindingFacts = BTreeMap<String, (usize, BTreeSet<String>)>;

/// An Event that Mullion created.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventFacts {
    pub(crate) reason: String,
    /// Kind of the object that it is about.
    pub(crate) kind: String,
    /// Its namespace; empty if it has none.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) note: String,
    pub(crate) time: Option<Timestamp>,
}

impl StatusFacts {
    /// The state, or why it is not known.
    pub(crate) fn state(&self) -> Read<&MullionState> {
        match &self.state {
            Ok(Some(state)) => Ok(state),
            Ok(None) => Err(format!("there is no ConfigMap mullion-state in namespace {}", self.namespace)),
            Err(why) => Err(why.clone()),
        }
    }

    /// Since when Mullion is withdrawn.
    pub(crate) fn withdrawn(&self) -> Option<&str> {
        self.state().ok()?.withdrawn.as_deref()
    }

    /// The controller's report, or why there is no current one.
    pub(crate) fn report(&self, now: Timestamp) -> Read<&ControllerReport> {
        let report = self.state()?.report.as_ref();
        let report = report.ok_or("the controller has not written a report that this version can read")?;
        let Ok(written) = report.written.parse::<Timestamp>() else {
            return Err("the controller's report has no valid time".to_owned());
        };
        match outdated(now, written, MAX_REPORT_AGE) {
            Some(how) => Err(format!("the controller's last report is {how}")),
            None => Ok(report),
        }
    }

    /// A part of the controller's report, or why it is not known. `missing`: the reason if only this part is absent.
    pub(crate) fn reported<T>(
        &self,
        now: Timestamp,
        part: impl FnOnce(&ControllerReport) -> Option<&T>,
        missing: &str,
    ) -> Read<&T> {
        part(self.report(now)?).ok_or_else(|| missing.to_owned())
    }
}

/// How a time is too far from the present to say something about it: more than `most` seconds ago, or later than the clocks
/// may differ. `None`: it is new.
pub(crate) fn outdated(now: Timestamp, time: Timestamp, most: i64) -> Option<String> {
    let seconds = now.as_second() - time.as_second();
    if seconds > most {
        return Some(format!("{} old", age(now, time)));
    }
    (seconds < -MAX_CLOCK_DIFFERENCE).then(|| format!("{} in the future, so the clocks differ", age(time, now)))
}

/// The time between two times, in the format in which `kubectl get` prints ages: `5s`, `3m`, `2h`, `4d`. Zero if `now`
/// is not later.
pub(crate) fn age(now: Timestamp, earlier: Timestamp) -> String {
    let seconds = (now.as_second() - earlier.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
pub(crate) mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::cluster::state::{
        CertificateDates, CertificateReport, NamespaceCounts, NodesReport, PolicySummary, ProbeReport, StateCondition,
        UnreadableReport,
    };

    pub(crate) const NOW: &str = "2026-06-01T12:00:00Z";

    pub(crate) fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    /// A time that many seconds ago.
    pub(crate) fn ago(seconds: i64) -> String {
        (now() - jiff::SignedDuration::from_secs(seconds)).to_string()
    }

    pub(crate) fn condition(r#type: &str, status: &str, message: &str) -> StateCondition {
        StateCondition {
            r#type: r#type.to_owned(),
            status: status.to_owned(),
            reason: "Reason".to_owned(),
            message: message.to_owned(),
            last_transition_time: ago(100),
        }
    }

    pub(crate) fn report() -> ControllerReport {
        let dates = || {
            let (not_before, not_after) = (ago(30 * 86_400), ago(-60 * 86_400));
            Some(CertificateDates { not_before, not_after })
        };
        ControllerReport {
            written: ago(60),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policies: Some(PolicySummary { hash: "abc".to_owned(), files: 1, policies: 2, ..PolicySummary::default() }),
            certificates: Some(CertificateReport {
                managed: true,
                ca: dates(),
                serving: dates(),
                ..CertificateReport::default()
            }),
            probe: Some(ProbeReport { time: ago(90), outcome: "reached".to_owned() }),
            nodes: Some(NodesReport {
                mode: "Enforce".to_owned(),
                taint: "os=windows:NoSchedule".to_owned(),
                apply: "WhenTolerated".to_owned(),
                release_label: true,
                windows: 1,
                ..NodesReport::default()
            }),
            missed_pods: Some(NamespaceCounts::default()),
            unreadable: Some(UnreadableReport::default()),
        }
    }

    /// A cluster in which everything is good.
    pub(crate) fn good() -> StatusFacts {
        let webhook =
            |name: &str| WebhookFacts { name: name.to_owned(), failure_policy: "Ignore".to_owned(), trusted: true };
        let configuration = |kind| ConfigurationFacts {
            kind,
            webhooks: Ok(Some(vec![webhook("pods.mullion.dev"), webhook("templates.mullion.dev")])),
            created: ago(3_600).parse().ok(),
        };
        let components = ["controller", "webhook"];
        let deployment = |component: &str| DeploymentFacts {
            name: format!("mullion-{component}"),
            component: component.to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            created: ago(3600).parse().ok(),
            replicas: 2,
            ready: 2,
            updated: 2,
        };
        let pod = |component: &str| PodFacts {
            name: format!("mullion-{component}-1"),
            component: component.to_owned(),
            tag: Some(env!("CARGO_PKG_VERSION").to_owned()),
            trouble: None,
        };
        let state = MullionState {
            found: true,
            conditions: vec![
                condition("Reachable", "True", "It is."),
                condition("PoliciesLoaded", "True", "They are."),
            ],
            report: Some(report()),
            ..MullionState::default()
        };
        StatusFacts {
            namespace: "mullion-system".to_owned(),
            state: Ok(Some(state)),
            lease: Ok(Some(LeaseFacts {
                holder: Some("mullion-controller-1_0f".to_owned()),
                renewed: Some(ago(3).parse().unwrap()),
            })),
            configurations: ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"].map(configuration),
            deployments: Ok(components.map(deployment).to_vec()),
            pods: Ok(components.map(pod).to_vec()),
            nodes: Ok(vec![node("win-1", true, &["os=windows:NoSchedule"])]),
            unusable: Ok(Vec::new()),
            findings: Ok(FindingFacts::default()),
            events: Ok(Vec::new()),
        }
    }

    /// A node that was created an hour ago.
    pub(crate) fn node(name: &str, labelled: bool, taints: &[&str]) -> WindowsNode {
        WindowsNode {
            name: name.to_owned(),
            created: Some(ago(3_600).parse().unwrap()),
            labelled,
            taints: taints.iter().map(|taint| Taint::parse(taint).unwrap()).collect(),
        }
    }

    /// The good cluster with another state.
    pub(crate) fn with_state(change: impl FnOnce(&mut MullionState)) -> StatusFacts {
        let mut facts = good();
        change(facts.state.as_mut().unwrap().as_mut().unwrap());
        facts
    }

    /// The good cluster with another report.
    pub(crate) fn with_report(change: impl FnOnce(&mut ControllerReport)) -> StatusFacts {
        with_state(|state| change(state.report.as_mut().unwrap()))
    }

    #[test]
    fn ages_are_short() {
        for (seconds, expected) in [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7_200, "2h"), (200_000, "2d")] {
            assert_eq!(age(now(), ago(seconds).parse().unwrap()), expected);
        }
    }

    #[test]
    fn old_and_missing_reports_are_not_used() {
        assert!(good().report(now()).is_ok());
        for (written, part) in [
            (ago(MAX_REPORT_AGE + 1), "report is 11m old"),
            (ago(-MAX_CLOCK_DIFFERENCE - 1), "report is 61s in the future"),
            ("yesterday".to_owned(), "no valid time"),
        ] {
            let error = with_report(|report| report.written = written).report(now()).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        for seconds in [MAX_REPORT_AGE, -MAX_CLOCK_DIFFERENCE] {
            assert!(with_report(|report| report.written = ago(seconds)).report(now()).is_ok(), "{seconds}");
        }
        for facts in [
            with_state(|state| state.report = None),
            StatusFacts { state: Ok(None), ..good() },
            StatusFacts { state: Err("no".to_owned()), ..good() },
        ] {
            assert!(facts.report(now()).is_err());
        }
    }
}

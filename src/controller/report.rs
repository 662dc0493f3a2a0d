//! The controller's report in ConfigMap `mullion-state`, for `mullion status`: collected from the control loops,
//! written when it changes and at an interval.
//!
//! Every webhook and controller watches the ConfigMap, which may have a megabyte, so writes are rare: a change of
//! policies or certificates after a moment, changed counts once a minute, and the same content every five minutes,
//! which shows a reader that it is current.

use std::time::Duration;

use jiff::Timestamp;
use mullion_policy::{PodPolicy, PolicyDate};
use tokio::time::{Instant, MissedTickBehavior};

use crate::cluster::Backoff;
use crate::cluster::state::{
    ControllerReport, ExemptionReport, HEARTBEAT, MAX_EXEMPTIONS, PolicySummary, UnreadableReport, short_error,
    short_name, time_text,
};
use crate::controller::leader_context::LeaderContext;
use crate::policy_files::PolicyReport;
use crate::telemetry::{in_words, unreadable_objects};

/// The interval at which changes are detected.
const TICK: Duration = Duration::from_secs(1);
/// How long the first report of a term waits for the first results of the control loops.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// The shortest time between two reports.
const PAUSE: Duration = Duration::from_secs(5);
/// The shortest time between two reports that differ in counts only.
const COUNTS_PAUSE: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));

/// Works until it must stop.
pub(crate) async fn run(leading: LeaderContext) {
    leading.stop.run_until_cancelled(write_reports(&leading)).await;
}

async fn write_reports(leading: &LeaderContext) {
    let mut schedule = ReportSchedule::new(Instant::now());
    let (mut failures, mut not_before) = (0, Instant::now());
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = Instant::now();
        // `controller::state` creates the ConfigMap.
        let Some(state) = leading.state.state.borrow().clone().filter(|state| state.found) else { continue };
        let policies = leading.policy_reports.as_ref().map(|reports| reports.borrow().clone());
        let report = report(leading.report.current(), policies.as_deref(), Timestamp::now());
        if now < not_before || !schedule.is_due(&report, state.report.is_some(), now) {
            continue;
        }
        match leading.store.update(|state| state.report = Some(report.clone())).await {
            Ok(_) => {
                tracing::debug!("the controller's report is written");
                failures = 0;
                schedule.written(report, now);
            }
            Err(error) => {
                tracing::warn!(error = in_words(error.as_ref()), "cannot write the controller's report; trying again");
                not_before = now + BACKOFF.delay(failures);
                failures += 1;
            }
        }
    }
}

/// When the next report is due.
struct ReportSchedule {
    begun: Instant,
    /// The last report, and when it was written.
    last: Option<(ControllerReport, Instant)>,
}

impl ReportSchedule {
    fn new(begun: Instant) -> Self {
        Self { begun, last: None }
    }

    /// Whether the report is due; `stored`: whether the ConfigMap contains a report.
    fn is_due(&self, report: &ControllerReport, stored: bool, now: Instant) -> bool {
        let Some((last, at)) = &self.last else {
            let found = [report.nodes.is_some(), report.probe.is_some(), report.missed_pods.is_some()];
            return found.into_iter().all(|found| found) || now >= self.begun + FIRST_WAIT;
        };
        let elapsed = now.duration_since(*at);
        elapsed >= Duration::from_secs(HEARTBEAT.unsigned_abs())
            || (elapsed >= COUNTS_PAUSE && !is_alike(report, last))
            || (elapsed >= PAUSE && (!stored || without_counts(report) != without_counts(last)))
    }

    fn written(&mut self, report: ControllerReport, now: Instant) {
        self.last = Some((report, now));
    }
}

/// Whether both differ in times only.
fn is_alike(one: &ControllerReport, other: &ControllerReport) -> bool {
    let outcome = |report: &ControllerReport| report.probe.as_ref().map(|probe| probe.outcome.clone());
    without_counts(one) == without_counts(other)
        && (&one.nodes, &one.missed_pods, &one.unreadable, outcome(one))
            == (&other.nodes, &other.missed_pods, &other.unreadable, outcome(other))
}

/// The part of a report of which a change is written soon.
fn without_counts(report: &ControllerReport) -> impl PartialEq + '_ {
    let known = (report.nodes.is_some(), report.probe.is_some(), report.missed_pods.is_some());
    (&report.policies, &report.certificates, known)
}

fn report(facts: ControllerReport, policies: Option<&PolicyReport>, now: Timestamp) -> ControllerReport {
    ControllerReport {
        written: time_text(now),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policies: policies.map(policy_summary),
        unreadable: Some(unreadable()),
        ..facts
    }
}

/// What this process cannot read now.
fn unreadable() -> UnreadableReport {
    let (total, objects) = unreadable_objects();
    UnreadableReport { total, objects }
}

fn policy_summary(report: &PolicyReport) -> PolicySummary {
    let set = &report.set;
    let problems = report.problem_texts();
    // The built-in set has documents too.
    let policies = if set.files.is_empty() { 0 } else { set.documents.len() };
    let mut exemptions: Vec<(&PodPolicy, &PolicyDate)> = set.exemptions().collect();
    let has_ended = |policy: &PodPolicy| set.ended.iter().any(|ended| std::ptr::eq(ended, policy));
    exemptions.sort_by_key(|(policy, until)| {
        let ended = has_ended(policy);
        (ended, if ended { until.end.saturating_neg() } else { until.end }, policy.name.as_str())
    });
    let more_exemptions = exemptions.len().saturating_sub(MAX_EXEMPTIONS);
    PolicySummary {
        hash: set.hash.clone(),
        files: set.files.len(),
        policies,
        problems: problems.len(),
        last_error: problems.first().map(|problem| short_error(problem)),
        exemptions: exemptions.into_iter().take(MAX_EXEMPTIONS).map(exemption).collect(),
        more_exemptions,
    }
}

fn exemption((policy, until): (&PodPolicy, &PolicyDate)) -> ExemptionReport {
    ExemptionReport {
        policy: short_name(&policy.name),
        scope: short_name(&policy.matches.to_string()),
        until: short_name(&until.text),
        end: Timestamp::from_second(until.end).map(time_text).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::sync::Arc;

    use mullion_policy::PolicySet;

    use super::*;
    use crate::cluster::state::{CertificateReport, NamespaceCounts, NodesReport, ProbeReport, TaintWaiter};
    use crate::telemetry::UnreadableObject;

    const NOW: &str = "2026-06-01T00:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn complete() -> ControllerReport {
        let facts = ControllerReport {
            certificates: Some(CertificateReport::default()),
            probe: Some(ProbeReport { time: NOW.to_owned(), outcome: "reached".to_owned() }),
            nodes: Some(NodesReport::default()),
            missed_pods: Some(NamespaceCounts::default()),
            ..ControllerReport::default()
        };
        report(facts, Some(&PolicyReport::default()), now())
    }

    #[test]
    fn changes_and_heartbeats_are_written_and_nothing_else() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut schedule = ReportSchedule::new(begun);
        let incomplete = ControllerReport { nodes: None, ..complete() };
        assert!(!schedule.is_due(&incomplete, false, after(9)) && schedule.is_due(&incomplete, false, after(10)));
        assert!(schedule.is_due(&complete(), false, begun));
        schedule.written(complete(), begun);

        let due_after = |report: &ControllerReport, stored| {
            (0..=HEARTBEAT.unsigned_abs()).find(|seconds| schedule.is_due(report, stored, after(*seconds))).unwrap()
        };
        let probe =
            |time: &str, outcome: &str| Some(ProbeReport { time: time.to_owned(), outcome: outcome.to_owned() });
        let same = ControllerReport { written: "later".to_owned(), probe: probe("later", "reached"), ..complete() };
        assert_eq!(due_after(&same, true), HEARTBEAT.unsigned_abs());
        assert_eq!(due_after(&same, false), PAUSE.as_secs(), "somebody removed it");
        for counts in [
            ControllerReport { nodes: Some(NodesReport { windows: 1, ..NodesReport::default() }), ..complete() },
            ControllerReport { missed_pods: Some(NamespaceCounts::of([("a".to_owned(), 1)])), ..complete() },
            ControllerReport { probe: probe(NOW, "missed"), ..complete() },
        ] {
            assert_eq!(due_after(&counts, true), COUNTS_PAUSE.as_secs(), "{counts:?}");
        }
        let certificates = Some(CertificateReport { managed: true, ..CertificateReport::default() });
        let policies = Some(PolicySummary { problems: 1, ..PolicySummary::default() });
        for urgent in [
            ControllerReport { certificates, ..complete() },
            ControllerReport { policies, ..complete() },
            ControllerReport { nodes: None, ..complete() },
        ] {
            assert_eq!(due_after(&urgent, true), PAUSE.as_secs(), "{urgent:?}");
        }
    }

    #[test]
    fn exemptions_are_sorted_and_limited() {
        let policy = |name: &str, until: &str| {
            format!(
                "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec:\n  priority: 1\n  \
                 until: {until}\n  match: {{namespaces: {{include: [shop-{name}]}}}}\n  rules: {{denials: Warn}}\n---\n"
            )
        };
        let mut text = policy("late", "2027-01-01") + &policy("old", "2025-01-01") + &policy("soon", "2026-06-02");
        text += &policy("just-ended", "2026-05-30");
        let summary = |text: &str| {
            let set = PolicySet::from_files(&[("a.yaml", text)]).unwrap().at(now().as_second());
            policy_summary(&PolicyReport { set: Arc::new(set), ..PolicyReport::default() })
        };
        let few = summary(&text);
        let names: Vec<&str> = few.exemptions.iter().map(|one| one.policy.as_str()).collect();
        assert_eq!(names, ["soon", "late", "just-ended", "old"]);
        let soon = &few.exemptions[0];
        assert_eq!((soon.until.as_str(), soon.end.as_str()), ("2026-06-02", "2026-06-03T00:00:00Z"));
        assert!(soon.scope.contains("shop-soon"), "{}", soon.scope);
        assert_eq!((few.files, few.policies, few.problems, few.more_exemptions), (1, 4, 0, 0));

        let many: String = (0..40).map(|n| policy(&format!("p{n}"), "2027-01-01")).collect();
        let many = summary(&many);
        assert_eq!((many.exemptions.len(), many.more_exemptions), (MAX_EXEMPTIONS, 8));
        let built_in =
            policy_summary(&PolicyReport { set: Arc::new(PolicySet::built_in()), ..PolicyReport::default() });
        assert_eq!((built_in.files, built_in.policies), (0, 0));
    }

    #[test]
    fn the_largest_report_is_small() {
        let long = "\u{10ffff}".repeat(2000);
        let exemption = ExemptionReport {
            policy: short_name(&long),
            scope: short_name(&long),
            until: short_name(&long),
            end: NOW.to_owned(),
        };
        let waiter = TaintWaiter {
            kind: "DaemonSet".to_owned(),
            namespace: "n".repeat(63),
            name: "n".repeat(253),
            nodes: usize::MAX,
        };
        let unreadable =
            UnreadableObject { kind: "RuntimeClass".to_owned(), name: "n".repeat(63 + 1 + 253), why: "n".repeat(100) };
        let report = ControllerReport {
            unreadable: Some(UnreadableReport { total: usize::MAX, objects: vec![unreadable; 20] }),
            policies: Some(PolicySummary {
                last_error: Some(short_error(&long)),
                exemptions: vec![exemption; MAX_EXEMPTIONS],
                ..PolicySummary::default()
            }),
            nodes: Some(NodesReport { waits_for: vec![waiter; 20], ..NodesReport::default() }),
            missed_pods: Some(NamespaceCounts::of((0..5000).map(|n| (format!("{n:063}"), usize::MAX / 10_000)))),
            ..ControllerReport::default()
        };
        let bytes = serde_json::to_string_pretty(&report).unwrap().len();
        assert!(bytes < 96 << 10, "{bytes}");
    }
}

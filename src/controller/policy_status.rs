//! Writes the status of the policy files to the cluster: condition `PoliciesLoaded` of ConfigMap `mullion-state`, and
//! Events about that ConfigMap, which is the only object of the policies with a name that Mullion knows.
//!
//! Only the leader writes, about the files as it reads them; every process reports its own in `/policies` and the
//! metrics. A status that is already in the condition causes no Event: a new leader repeats only problems, which
//! increases the count of the same Event.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use mullion_engine::model::text::{counted, shorten};
use mullion_manifest::Problem;
use mullion_policy::PolicyFileState;
use mullion_policy::warnings::PolicyWarning;
use tokio::time::Instant;

use crate::cluster::state::{MullionState, NAME, StateCondition};
use crate::controller::event_reasons::{EXEMPTION_ENDED, POLICIES_IN_FORCE, POLICY_FILES_BAD};
use crate::controller::events::{EventType, NewEvent, REPEAT};
use crate::controller::leader_context::LeaderContext;
use crate::policy_files::PolicyReport;
use crate::telemetry::in_words;

/// The condition's type.
const TYPE: &str = "PoliciesLoaded";
/// The maximum number of Events within a time, however often the files change; beyond it, only the newest is written
/// later.
const EVENT_LIMIT: (usize, Duration) = (5, Duration::from_secs(5 * 60));
/// The delay after a failed write.
const RETRY: Duration = Duration::from_secs(5);
/// The longest problem in a note, in characters: a note has at most [`crate::controller::events::MAX_NOTE`] bytes.
const MAX_PROBLEM: usize = 350;
/// The maximum number of ended exemptions in a note.
const MAX_ENDED: usize = 2;
/// The longest file name in a note: a key of a ConfigMap has up to 253 characters.
const MAX_NAME: usize = 48;

/// Works until it must stop.
pub(crate) async fn run(leading: LeaderContext) {
    leading.stop.run_until_cancelled(follow(&leading)).await;
    leading.stop.cancelled().await;
}

/// Ends if there is nothing more to write.
async fn follow(leading: &LeaderContext) {
    let Some(mut reports) = leading.policy_reports.clone() else { return };
    let mut states = leading.state.state.clone();
    let mut queue = EventQueue::default();
    loop {
        let report = reports.borrow_and_update().clone();
        let state = states.borrow_and_update().clone();
        // `controller::state` creates the ConfigMap.
        let delay = match state.filter(|state| state.found) {
            Some(state) => queue.write(leading, &report, &state).await,
            None => None,
        };
        tokio::select! {
            Ok(()) = reports.changed() => {}
            Ok(()) = states.changed() => {}
            () = tokio::time::sleep(delay.unwrap_or_default()), if delay.is_some() => {}
            else => return,
        }
    }
}

/// The next Event, and the times of earlier ones.
#[derive(Default)]
struct EventQueue {
    /// The condition of the last Event: the watch delivers the ConfigMap some time after it is written, and others
    /// write it too.
    condition: Option<StateCondition>,
    pending: Option<NewEvent>,
    written: VecDeque<Instant>,
}

impl EventQueue {
    /// Writes the condition and the Event if they are new; returns when to retry if nothing changes.
    async fn write(
        &mut self,
        leading: &LeaderContext,
        report: &PolicyReport,
        state: &MullionState,
    ) -> Option<Duration> {
        let current = state.condition(TYPE);
        if report.directories.is_empty() {
            // The built-in policies are never bad.
            let removed = current.is_none() || write_condition(leading, None).await;
            return (!removed).then_some(RETRY);
        }
        let (condition, event) = condition_and_event(report, current);
        let now = Instant::now();
        let is_written = self.add(&condition, event, current, now);
        let mut delay = (condition.status == "False").then_some(REPEAT);
        if let Some(pause) = self.pause(now).filter(|_| self.pending.is_some()) {
            delay = Some(pause);
        } else if let Some(event) = &self.pending {
            if write_event(leading, event).await {
                self.pending = None;
                self.written.push_back(now);
            } else {
                delay = Some(RETRY);
            }
        }
        // The condition is also written if no Event can be written.
        if !is_written && !write_condition(leading, Some(&condition)).await {
            delay = Some(RETRY);
        }
        delay
    }

    /// Adds the intended condition with its Event; returns whether the `current` one is already equal.
    fn add(
        &mut self,
        condition: &StateCondition,
        event: NewEvent,
        current: Option<&StateCondition>,
        now: Instant,
    ) -> bool {
        let is_same =
            |other: &StateCondition| (&other.status, &other.message) == (&condition.status, &condition.message);
        let is_written = current.is_some_and(is_same);
        if is_written {
            if condition.status == "False" && self.written.back().is_none_or(|at| now - *at >= REPEAT) {
                self.pending = Some(event);
            }
        } else if !self.condition.as_ref().is_some_and(is_same) {
            // The first status gets no Event if the files are good.
            let first = current.is_none() && event.r#type == EventType::Normal;
            self.pending = (!first).then_some(event);
            self.condition = Some(condition.clone());
        }
        is_written
    }

    /// How long until another Event may be written.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        let (most, within) = EVENT_LIMIT;
        while self.written.len() > most {
            self.written.pop_front();
        }
        let oldest = self.written.front().filter(|_| self.written.len() == most)?;
        (*oldest + within).checked_duration_since(now).filter(|pause| !pause.is_zero())
    }
}

async fn write_event(leading: &LeaderContext, event: &NewEvent) -> bool {
    match leading.store.reference().await {
        Ok(Some(about)) => leading.events.publish(&about, event).await,
        Ok(None) => false,
        Err(error) => {
            tracing::warn!(error = in_words(error.as_ref()), "cannot write an Event about the policy files");
            false
        }
    }
}

/// Writes the condition, or removes it.
async fn write_condition(leading: &LeaderContext, condition: Option<&StateCondition>) -> bool {
    let written = leading.store.update(|state| match condition {
        Some(condition) => state.set_condition(condition.clone()),
        None => state.remove_condition(TYPE),
    });
    let written = written.await;
    if let Err(error) = &written {
        tracing::warn!(error = in_words(error.as_ref()), "cannot write the condition {TYPE}; trying again");
    }
    written.is_ok()
}

/// The intended condition, and the Event about its change from the `current` one.
fn condition_and_event(report: &PolicyReport, current: Option<&StateCondition>) -> (StateCondition, NewEvent) {
    let problems: Vec<&Problem> = report.problems().collect();
    let good = problems.is_empty() && !report.panicked;
    let message = if good { good_message(report) } else { bad_message(report, &problems) };
    let (status, reason) = if good { ("True", POLICIES_IN_FORCE) } else { ("False", POLICY_FILES_BAD) };
    // The condition contains what has ended, so that the first leader that reads it writes one Event.
    let ended = if good { ended_message(report) } else { String::new() };
    let is_new = |current: &StateCondition| current.status == status && !current.message.ends_with(&ended);
    let event_reason = if !ended.is_empty() && current.is_some_and(is_new) { EXEMPTION_ENDED } else { reason };
    let r#type = if good && report.warnings.is_empty() { EventType::Normal } else { EventType::Warning };
    let recovered = good && current.is_some_and(|current| current.status == "False");
    let before = if recovered { "The policy files are valid again. " } else { "" };
    let changes =
        if good && !report.changes.is_empty() { format!(" Changes: {}.", report.changes) } else { String::new() };
    let note = format!("{before}{message}{changes}");
    let (message, note) = (format!("{message}{ended}"), format!("{note}{ended}"));
    let condition = StateCondition::new(TYPE, status, reason.name, message);
    (condition, NewEvent { r#type, ..event_reason.event(note) })
}

fn good_message(report: &PolicyReport) -> String {
    let set = &report.set;
    let policies = counted(set.documents.len(), "policy");
    let are = if set.documents.len() == 1 { "is" } else { "are" };
    let files = counted(set.files.len(), "policy file");
    let mut parts = vec![format!("{files} with {policies} {are} in force, hash {}.", set.hash)];
    if let Some(PolicyWarning { origin, message, hint }) = report.warnings.first() {
        let file = short_name(report, &origin.file);
        let text = shorten(&format!("{file}:{}: {message} ({hint})", origin.line), MAX_PROBLEM);
        let more = if report.warnings.len() > 1 { "; /policies on the admin port lists the others" } else { "" };
        parts.push(format!("{}: {text}{more}.", counted(report.warnings.len(), "warning")));
    }
    parts.extend(report.hindrances.iter().map(|hindrance| format!("{hindrance}.")));
    parts.join(" ")
}

/// The exemptions that have ended, as a sentence with a space before it.
fn ended_message(report: &PolicyReport) -> String {
    let ended = report.set.ended.iter().filter_map(|policy| Some((policy, policy.until.as_ref()?)));
    let mut ended: Vec<_> = ended.map(|(policy, until)| (Reverse(until.end), policy, until)).collect();
    // The newest first.
    ended.sort_by_key(|(end, ..)| *end);
    let Some(more) = ended.len().checked_sub(1) else { return String::new() };
    let named = ended.iter().take(MAX_ENDED).map(|(_, policy, until)| {
        format!("PodPolicy {} (until {})", shorten(&policy.name, MAX_NAME), shorten(&until.text, MAX_NAME))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let others = match (more + 1).saturating_sub(MAX_ENDED) {
        0 => String::new(),
        others => format!(" and {}", counted(others, "other exemption")),
    };
    let has = if more == 0 { "has" } else { "have" };
    format!(" {named}{others} {has} ended and {has} no effect.")
}

fn bad_message(report: &PolicyReport, problems: &[&Problem]) -> String {
    let message = match problems {
        [] => "Policy files cannot be read because of a defect of Mullion: please report it".to_owned(),
        [first, others @ ..] => {
            let shown = Problem { source: short_name(report, &first.source), ..Problem::clone(first) };
            let more = match others.len() {
                0 => String::new(),
                more => format!("; {}{}", counted(more, "more problem"), other_files(report, first)),
            };
            let (shown, own) = (shorten(&shown.to_string(), MAX_PROBLEM), env!("CARGO_PKG_VERSION"));
            let newer = report.newer.map_or_else(String::new, |newer| {
                format!(". Mullion {newer} ran here before: remove what only {newer} supports, or upgrade")
            });
            format!("Policy files cannot be used by Mullion {own}: {shown}{more}{newer}")
        }
    };
    let from = if report.kept { format!(", kept in ConfigMap {NAME}") } else { String::new() };
    format!(
        "{message}. The last good policies{from} (hash {}) are in force instead, for all files: no file is used until every \
         file is good. Correct the file or revert the last change; `mullion policy check DIR`, or /policies on the admin \
         port, lists every problem.",
        report.set.hash
    )
}

/// The other files with problems, besides the file of the first problem.
fn other_files(report: &PolicyReport, first: &Problem) -> String {
    let others = report.standing(PolicyFileState::Bad).filter(|file| file.name != first.source);
    let mut others: Vec<String> = others.map(|file| shorten(&file.short_name, MAX_NAME)).collect();
    let unnamed = others.len().saturating_sub(3);
    others.truncate(3);
    let unnamed = if unnamed > 0 { format!(" and {}", counted(unnamed, "other file")) } else { String::new() };
    if others.is_empty() { String::new() } else { format!(", also in {}{unnamed}", others.join(", ")) }
}

/// The name of a file without its directory; the whole name of a directory.
fn short_name(report: &PolicyReport, name: &str) -> String {
    let is_directory = report.directories.iter().any(|directory| directory == name);
    let file = report.files.iter().find(|file| file.name == name && !is_directory);
    shorten(file.map_or(name, |file| file.short_name.as_str()), MAX_NAME)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::sync::Arc;

    use mullion_engine::model::MinorVersion;
    use mullion_policy::{PolicyReading, PolicySet};

    use super::*;
    use crate::controller::events::MAX_NOTE;
    use crate::policy_files::PolicyReporter;

    fn policy(name: &str, spec: &str) -> String {
        format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n")
    }

    fn read(files: &[(&str, String)]) -> PolicyReading {
        match PolicySet::from_files(files) {
            Ok(set) => PolicyReading::Loaded(Arc::new(set)),
            Err(problems) => PolicyReading::Rejected { problems, files: Vec::new() },
        }
    }

    #[test]
    fn events_contain_the_problem_the_policies_in_force_and_what_to_do() {
        let reporter = PolicyReporter::default();
        reporter.set_directories(vec!["/etc/mullion".to_owned()], Vec::new());
        let good = [("/etc/mullion/a.yaml", policy("a", "{priority: 1}")), ("/etc/mullion/b.yaml", policy("b", "{}"))];
        reporter.record(&read(&good), 1);
        let hash = reporter.report().set.hash.clone();
        let (condition, event) = condition_and_event(&reporter.report(), None);
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "PoliciesInForce"));
        assert_eq!(condition.message, format!("2 policy files with 2 policies are in force, hash {hash}."));
        assert_eq!((event.r#type, event.note), (EventType::Normal, condition.message.clone()));

        let mut bad = good.clone();
        bad[0].1 = policy("a", "{priorty: 1, mode: Of}");
        bad[1].1 = policy("b", "{mod: Audit}");
        reporter.record(&read(&bad), 2);
        let (condition, event) = condition_and_event(&reporter.report(), Some(&condition));
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "PolicyFilesBad"));
        assert_eq!(event.note, condition.message);
        assert!(
            event.note.starts_with(concat!(
                "Policy files cannot be used by Mullion ",
                env!("CARGO_PKG_VERSION"),
                ": a.yaml:4:8: "
            )) && event.note.contains("priority")
                && event.note.contains("; 2 more problems, also in b.yaml. The last good policies")
                && event.note.contains(&hash)
                && event.note.contains("Correct the file"),
            "{}",
            event.note
        );
        // The message is the same each time, because otherwise every leader would write another Event.
        assert_eq!(condition_and_event(&reporter.report(), Some(&condition)).0.message, condition.message);

        reporter.record(&read(&good), 3);
        let (condition, event) = condition_and_event(&reporter.report(), Some(&condition));
        assert_eq!(event.note, format!("The policy files are valid again. {}", condition.message));
        reporter.record(&read(&good[..1]), 4);
        let (condition, event) = condition_and_event(&reporter.report(), Some(&condition));
        assert_eq!(event.note, format!("{} Changes: gone b.yaml.", condition.message));

        let empty = Problem::of_file("/etc/mullion", "the directory contains no policy file", "put one there");
        reporter.record(&PolicyReading::Rejected { problems: vec![empty], files: Vec::new() }, 5);
        let (_, event) = condition_and_event(&reporter.report(), Some(&condition));
        assert!(event.note.contains(": /etc/mullion: the directory contains no policy file"), "{}", event.note);
    }

    #[test]
    fn the_end_of_an_exemption_is_one_event() {
        let reporter = PolicyReporter::default();
        reporter.set_directories(vec!["/etc/mullion".to_owned()], Vec::new());
        let text = policy("vendor", "{until: 1970-01-02, rules: {denials: Warn}}");
        let set = PolicySet::from_files(&[("/etc/mullion/a.yaml", text)]).unwrap();
        reporter.record(&PolicyReading::Loaded(Arc::new(set.clone())), 1);
        let (before, _) = condition_and_event(&reporter.report(), None);
        reporter.record(&PolicyReading::Ended(Arc::new(set.at(200_000))), 200_000);
        let (after, event) = condition_and_event(&reporter.report(), Some(&before));
        assert_eq!((event.r#type, event.reason), (EventType::Normal, "ExemptionEnded"));
        let ended = " PodPolicy vendor (until 1970-01-02) has ended and has no effect.";
        assert_eq!(after.message, format!("{}{ended}", before.message));
        assert_eq!((after.status.as_str(), after.reason.as_str()), ("True", "PoliciesInForce"));
        assert!(event.note.ends_with(ended), "{}", event.note);
        // The condition is the same each time, so that no leader writes the Event again.
        let (again, event) = condition_and_event(&reporter.report(), Some(&after));
        assert_eq!((again.message, event.reason), (after.message, "PoliciesInForce"));
    }

    #[test]
    fn notes_end_with_what_to_do() {
        let reporter = PolicyReporter::default();
        reporter.set_directories(vec!["/etc/mullion".to_owned()], Vec::new());
        let long = "x".repeat(200);
        let files: Vec<(String, String)> =
            (0..30).map(|n| (format!("/etc/mullion/{long}{n}.yaml"), policy(&"p".repeat(500), "{mod: 1}"))).collect();
        let kept = Arc::new(PolicySet::from_files(&[("a.yaml", policy("a", "{}"))]).unwrap());
        let newer = MinorVersion::of("999.999");
        reporter.record_kept(&kept, newer, PolicySet::from_files(&files).unwrap_err(), &[], 1);
        let (_, event) = condition_and_event(&reporter.report(), None);
        assert!(event.note.contains(". Mullion 999.999 ran here before: "), "{}", event.note);
        assert!(event.note.contains("kept in ConfigMap mullion-state"), "{}", event.note);
        assert!(event.note.len() <= MAX_NOTE && event.note.contains("lists every problem"), "{}", event.note);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_written_once_though_the_watch_is_late() {
        let reporter = PolicyReporter::default();
        reporter.set_directories(vec!["/p".to_owned()], Vec::new());
        let good = [("/p/a.yaml", policy("a", "{priority: 1}"))];
        let bad = [("/p/a.yaml", policy("a", "{priorty: 1}"))];
        let mut queue = EventQueue::default();
        // The reason of the Event to write, if the watch has delivered the `current` condition; and the condition to
        // write.
        let mut add = |current: Option<&StateCondition>| {
            let (condition, event) = condition_and_event(&reporter.report(), current);
            queue.add(&condition, event, current, Instant::now());
            let pending = queue.pending.take().map(|event| event.reason);
            if pending.is_some() {
                queue.written.push_back(Instant::now());
            }
            (pending, condition)
        };
        reporter.record(&read(&good), 1);
        let (reason, well) = add(None);
        assert_eq!(reason, None, "good files at first cause no Event");
        reporter.record(&read(&bad), 2);
        let (reason, trouble) = add(Some(&well));
        assert_eq!(reason, Some("PolicyFilesBad"));
        // Another control loop wrote the ConfigMap, and the watch has not delivered the condition yet.
        assert_eq!(add(Some(&well)).0, None);
        assert_eq!(add(Some(&trouble)).0, None);
        // Each change between good and bad causes an Event.
        for (files, current, expected) in [(&good, &trouble, "PoliciesInForce"), (&bad, &well, "PolicyFilesBad")] {
            reporter.record(&read(files), 3);
            assert_eq!(add(Some(current)).0, Some(expected));
            assert_eq!(add(Some(current)).0, None);
        }
        assert_eq!(add(Some(&trouble)).0, None);
        tokio::time::advance(REPEAT).await;
        assert_eq!(add(Some(&trouble)).0, Some("PolicyFilesBad"), "an hour later people can still read it");
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_limited() {
        let mut queue = EventQueue::default();
        for _ in 0..5 {
            assert_eq!(queue.pause(Instant::now()), None);
            queue.written.push_back(Instant::now());
        }
        assert_eq!(queue.pause(Instant::now()), Some(EVENT_LIMIT.1));
        tokio::time::advance(EVENT_LIMIT.1).await;
        assert_eq!(queue.pause(Instant::now()), None);
        queue.written.push_back(Instant::now());
        assert_eq!(queue.written.len(), 6);
        assert_eq!(queue.pause(Instant::now()), None, "four of them are old");
        assert_eq!(queue.written.len(), 5);
    }
}

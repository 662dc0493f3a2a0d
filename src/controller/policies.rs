//! The duty that writes the status of the policy files where people look for it: condition `PoliciesLoaded` of ConfigMap
//! `mullion-state`, and Events about that ConfigMap, the one object of the policies whose name Mullion knows.
//!
//! Only the leader writes, of the files as it reads them; every process shows its own in `/policies` and the metrics. What
//! the condition holds already is no news: a new leader repeats only what is wrong, which counts up the same Event.

use std::collections::VecDeque;
use std::time::Duration;

use mullion_engine::model::text::{counted, shorten};
use mullion_manifest::problem::Problem;
use mullion_policy::file_status::Standing;
use mullion_policy::warnings::warning::Warning;
use tokio::time::Instant;

use crate::cluster::state::document::{Condition, NAME, State};
use crate::controller::events::{EventType, News};
use crate::controller::leader::Leading;
use crate::policy_files::report::PolicyReport;
use crate::telemetry::error_text::in_words;

/// The condition's type.
const TYPE: &str = "PoliciesLoaded";
/// The Event about bad files is repeated after as long: API servers forget Events after an hour.
const AGAIN: Duration = Duration::from_secs(30 * 60);
/// At most so many Events in as long, however often the files change; then the newest.
const MOST: (usize, Duration) = (5, Duration::from_secs(5 * 60));
/// The wait after a failure to write.
const RETRY: Duration = Duration::from_secs(5);
/// The longest problem in a note, in characters: a note has [`crate::controller::events::MAX_NOTE`] bytes.
const MAX_PROBLEM: usize = 350;
/// And the longest file name: that of a key of a ConfigMap has up to 253.
const MAX_NAME: usize = 48;

/// Works until it must stop.
pub(crate) async fn run(leading: Leading) {
    leading.stop.run_until_cancelled(follow(&leading)).await;
    leading.stop.cancelled().await;
}

/// Ends where there is nothing more to write.
async fn follow(leading: &Leading) {
    let Some(mut reports) = leading.policy_reports.clone() else { return };
    let mut kept = leading.state.state.clone();
    let mut queue = EventQueue::default();
    loop {
        let report = reports.borrow_and_update().clone();
        let state = kept.borrow_and_update().clone();
        // The duty that keeps the state makes the ConfigMap.
        let wait = match state.filter(|state| state.found) {
            Some(state) => queue.turn(leading, &report, &state).await,
            None => None,
        };
        let sleep = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Ok(()) = reports.changed() => {}
            Ok(()) = kept.changed() => {}
            () = sleep => {}
            else => return,
        }
    }
}

/// Events that were written, and the one that is to be written.
#[derive(Default)]
struct EventQueue {
    /// Of the last news. The ConfigMap is seen a while after it is written, and others write it, too.
    condition: Option<Condition>,
    pending: Option<News>,
    written: VecDeque<Instant>,
}

impl EventQueue {
    /// Writes what is news; when to look again, if nothing changes.
    async fn turn(&mut self, leading: &Leading, report: &PolicyReport, state: &State) -> Option<Duration> {
        let standing = state.condition(TYPE);
        if report.directories.is_empty() {
            // Built in: never bad.
            let gone = standing.is_none() || write(leading, None).await;
            return (!gone).then_some(RETRY);
        }
        let (condition, news) = condition_and_news(report, standing);
        let now = Instant::now();
        let stands = self.add(&condition, news, standing, now);
        let mut wait = (condition.status == "False").then_some(AGAIN);
        if let Some(pause) = self.pause(now).filter(|_| self.pending.is_some()) {
            wait = Some(pause);
        } else if let Some(news) = &self.pending {
            if write_event(leading, news).await {
                self.pending = None;
                self.written.push_back(now);
            } else {
                wait = Some(RETRY);
            }
        }
        // Also where no Event can be written.
        if !stands && !write(leading, Some(&condition)).await {
            wait = Some(RETRY);
        }
        wait
    }

    /// Takes in the condition as it should be, with its news; whether `standing` is the same already.
    fn add(&mut self, condition: &Condition, news: News, standing: Option<&Condition>, now: Instant) -> bool {
        let is_same = |other: &Condition| (&other.status, &other.message) == (&condition.status, &condition.message);
        let stands = standing.is_some_and(is_same);
        if stands {
            if condition.status == "False" && self.written.back().is_none_or(|at| now - *at >= AGAIN) {
                self.pending = Some(news);
            }
        } else if !self.condition.as_ref().is_some_and(is_same) {
            // Good files at the very first are no news.
            let first = standing.is_none() && news.r#type == EventType::Normal;
            self.pending = (!first).then_some(news);
            self.condition = Some(condition.clone());
        }
        stands
    }

    /// How long until there may be another Event.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        let (most, within) = MOST;
        while self.written.len() > most {
            self.written.pop_front();
        }
        let oldest = self.written.front().filter(|_| self.written.len() == most)?;
        (*oldest + within).checked_duration_since(now).filter(|pause| !pause.is_zero())
    }
}

async fn write_event(leading: &Leading, news: &News) -> bool {
    match leading.store.reference().await {
        Ok(Some(about)) => leading.events.tell(&about, news).await,
        Ok(None) => false,
        Err(error) => {
            tracing::warn!(error = in_words(error.as_ref()), "nobody can be told of the policy files");
            false
        }
    }
}

/// Writes the condition, or takes it away.
async fn write(leading: &Leading, condition: Option<&Condition>) -> bool {
    let written = leading.store.update(|state| match condition {
        Some(condition) => state.set_condition(condition.clone()),
        None => state.remove_condition(TYPE),
    });
    let written = written.await;
    if let Err(error) = &written {
        tracing::warn!("the condition {TYPE} is not written, and tried again: {}", in_words(error.as_ref()));
    }
    written.is_ok()
}

/// The condition as it should be and the Event about it, where `standing` is the condition of before.
fn condition_and_news(report: &PolicyReport, standing: Option<&Condition>) -> (Condition, News) {
    let problems: Vec<&Problem> = report.problems().collect();
    let good = problems.is_empty() && !report.panicked;
    let message = if good { good_message(report) } else { bad_message(report, &problems) };
    let (status, reason) = if good { ("True", "PoliciesInForce") } else { ("False", "PolicyFilesBad") };
    let r#type = if good && report.warnings.is_empty() { EventType::Normal } else { EventType::Warning };
    let recovered = good && standing.is_some_and(|standing| standing.status == "False");
    let before = if recovered { "The policy files are good again. " } else { "" };
    let changes = if good && !report.changes.is_empty() {
        format!(" What is different: {}.", report.changes)
    } else {
        String::new()
    };
    let note = format!("{before}{message}{changes}");
    let condition = Condition::new(TYPE, status, reason, message);
    (condition, News { r#type, reason, action: "LoadPolicies", note })
}

fn good_message(report: &PolicyReport) -> String {
    let set = &report.set;
    let policies = counted(set.documents.len(), "policy");
    let are = if set.documents.len() == 1 { "is" } else { "are" };
    let files = counted(set.files.len(), "policy file");
    let mut parts = vec![format!("{files} with {policies} {are} in force, hash {}.", set.hash)];
    if let Some(Warning { origin, message, hint }) = report.warnings.first() {
        let file = short_name(report, &origin.file);
        let text = shorten(&format!("{file}:{}: {message} ({hint})", origin.line), MAX_PROBLEM);
        let more = if report.warnings.len() > 1 { "; /policies on the admin port has the others" } else { "" };
        parts.push(format!("{}: {text}{more}.", counted(report.warnings.len(), "warning")));
    }
    parts.extend(report.hindrances.iter().map(|hindrance| format!("{hindrance}.")));
    parts.join(" ")
}

fn bad_message(report: &PolicyReport, problems: &[&Problem]) -> String {
    let message = match problems {
        [] => "Policy files cannot be read, by a defect of Mullion: please report it".to_owned(),
        [first, others @ ..] => {
            let shown = Problem { source: short_name(report, &first.source), ..Problem::clone(first) };
            let more = match others.len() {
                0 => String::new(),
                more => format!("; {}{}", counted(more, "more problem"), other_files(report, first)),
            };
            format!("Policy files cannot be used: {}{more}", shorten(&shown.to_string(), MAX_PROBLEM))
        }
    };
    let from = if report.kept { format!(", kept in ConfigMap {NAME}") } else { String::new() };
    format!(
        "{message}. In force instead: the last good policies{from} (hash {}), all of them: no file is taken before \
         every file is good. Correct the file or take the last change back; `mullion policy check DIR`, or /policies on \
         the admin port, lists every problem.",
        report.set.hash
    )
}

/// Which other files than that of the first problem have some.
fn other_files(report: &PolicyReport, first: &Problem) -> String {
    let others = report.standing(Standing::Bad).filter(|file| file.name != first.source);
    let mut others: Vec<String> = others.map(|file| shorten(&file.short_name, MAX_NAME)).collect();
    let unnamed = others.len().saturating_sub(3);
    others.truncate(3);
    let unnamed = if unnamed > 0 { format!(" and {}", counted(unnamed, "other file")) } else { String::new() };
    if others.is_empty() { String::new() } else { format!(", also in {}{unnamed}", others.join(", ")) }
}

/// A file's own name says enough; a directory's may be any.
fn short_name(report: &PolicyReport, name: &str) -> String {
    let is_directory = report.directories.iter().any(|directory| directory == name);
    let file = report.files.iter().find(|file| file.name == name && !is_directory);
    shorten(file.map_or(name, |file| file.short_name.as_str()), MAX_NAME)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::sync::Arc;

    use mullion_policy::policy_set::PolicySet;
    use mullion_policy::store::PolicyReading;

    use super::*;
    use crate::controller::events::MAX_NOTE;
    use crate::policy_files::report::PolicyReporter;

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
    fn people_are_told_what_is_wrong_what_holds_and_what_to_do() {
        let reporter = PolicyReporter::default();
        reporter.set_directories(vec!["/etc/mullion".to_owned()], Vec::new());
        let good = [("/etc/mullion/a.yaml", policy("a", "{priority: 1}")), ("/etc/mullion/b.yaml", policy("b", "{}"))];
        reporter.record(&read(&good), 1);
        let hash = reporter.report().set.hash.clone();
        let (condition, news) = condition_and_news(&reporter.report(), None);
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "PoliciesInForce"));
        assert_eq!(condition.message, format!("2 policy files with 2 policies are in force, hash {hash}."));
        assert_eq!((news.r#type, news.note), (EventType::Normal, condition.message.clone()));

        let mut bad = good.clone();
        bad[0].1 = policy("a", "{priorty: 1, mode: Of}");
        bad[1].1 = policy("b", "{mod: Audit}");
        reporter.record(&read(&bad), 2);
        let (condition, news) = condition_and_news(&reporter.report(), Some(&condition));
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "PolicyFilesBad"));
        assert_eq!(news.note, condition.message);
        assert!(
            news.note.starts_with("Policy files cannot be used: a.yaml:4:8: ")
                && news.note.contains("priority")
                && news.note.contains("; 2 more problems, also in b.yaml. In force instead: the last good policies")
                && news.note.contains(&hash)
                && news.note.contains("Correct the file"),
            "{}",
            news.note
        );
        // The same words each time, or every leader would tell it anew.
        assert_eq!(condition_and_news(&reporter.report(), Some(&condition)).0.message, condition.message);

        reporter.record(&read(&good), 3);
        let (condition, news) = condition_and_news(&reporter.report(), Some(&condition));
        assert_eq!(news.note, format!("The policy files are good again. {}", condition.message));
        reporter.record(&read(&good[..1]), 4);
        let (condition, news) = condition_and_news(&reporter.report(), Some(&condition));
        assert_eq!(news.note, format!("{} What is different: gone b.yaml.", condition.message));

        let empty = Problem::of_file("/etc/mullion", "the directory holds no policy file", "put one there");
        reporter.record(&PolicyReading::Rejected { problems: vec![empty], files: Vec::new() }, 5);
        let (_, news) = condition_and_news(&reporter.report(), Some(&condition));
        assert!(
            news.note.contains("cannot be used: /etc/mullion: the directory holds no policy file"),
            "{}",
            news.note
        );
    }

    #[test]
    fn notes_have_room_for_what_to_do() {
        let reporter = PolicyReporter::default();
        reporter.set_directories(vec!["/etc/mullion".to_owned()], Vec::new());
        let long = "x".repeat(200);
        let files: Vec<(String, String)> =
            (0..30).map(|n| (format!("/etc/mullion/{long}{n}.yaml"), policy(&"p".repeat(500), "{mod: 1}"))).collect();
        let kept = Arc::new(PolicySet::from_files(&[("a.yaml", policy("a", "{}"))]).unwrap());
        reporter.record_kept(&kept, PolicySet::from_files(&files).unwrap_err(), &[], 1);
        let (_, news) = condition_and_news(&reporter.report(), None);
        assert!(news.note.contains("kept in ConfigMap mullion-state"), "{}", news.note);
        assert!(news.note.len() <= MAX_NOTE && news.note.contains("lists every problem"), "{}", news.note);
    }

    #[tokio::test(start_paused = true)]
    async fn news_are_told_once_though_the_config_map_is_seen_late() {
        let reporter = PolicyReporter::default();
        reporter.set_directories(vec!["/p".to_owned()], Vec::new());
        let good = [("/p/a.yaml", policy("a", "{priority: 1}"))];
        let bad = [("/p/a.yaml", policy("a", "{priorty: 1}"))];
        let mut queue = EventQueue::default();
        // Whether there is something to tell, where the ConfigMap is seen as it is; and what it should be.
        let mut add = |standing: Option<&Condition>| {
            let (condition, news) = condition_and_news(&reporter.report(), standing);
            queue.add(&condition, news, standing, Instant::now());
            let pending = queue.pending.take().map(|news| news.reason);
            if pending.is_some() {
                queue.written.push_back(Instant::now());
            }
            (pending, condition)
        };
        reporter.record(&read(&good), 1);
        let (news, well) = add(None);
        assert_eq!(news, None, "good files at first are no news");
        reporter.record(&read(&bad), 2);
        let (news, trouble) = add(Some(&well));
        assert_eq!(news, Some("PolicyFilesBad"));
        // Another duty has written the ConfigMap, and the condition is not seen there yet.
        assert_eq!(add(Some(&well)).0, None);
        assert_eq!(add(Some(&trouble)).0, None);
        // Good again and bad again is news each time.
        for (files, standing, expected) in [(&good, &trouble, "PoliciesInForce"), (&bad, &well, "PolicyFilesBad")] {
            reporter.record(&read(files), 3);
            assert_eq!(add(Some(standing)).0, Some(expected));
            assert_eq!(add(Some(standing)).0, None);
        }
        assert_eq!(add(Some(&trouble)).0, None);
        tokio::time::advance(AGAIN).await;
        assert_eq!(add(Some(&trouble)).0, Some("PolicyFilesBad"), "for who looks after an hour");
    }

    #[tokio::test(start_paused = true)]
    async fn news_are_bounded() {
        let mut queue = EventQueue::default();
        for _ in 0..5 {
            assert_eq!(queue.pause(Instant::now()), None);
            queue.written.push_back(Instant::now());
        }
        assert_eq!(queue.pause(Instant::now()), Some(MOST.1));
        tokio::time::advance(MOST.1).await;
        assert_eq!(queue.pause(Instant::now()), None);
        queue.written.push_back(Instant::now());
        assert_eq!(queue.written.len(), 6);
        assert_eq!(queue.pause(Instant::now()), None, "four of them are old");
        assert_eq!(queue.written.len(), 5);
    }
}

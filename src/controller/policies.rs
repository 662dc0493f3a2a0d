//! The duty that tells people how the policy files stand: condition `PoliciesLoaded` of ConfigMap `mullion-state`, and
//! Events about that ConfigMap, the one object of the policies whose name Mullion knows.
//!
//! Only the leader tells, of the files as it reads them; every process shows its own in `/policies` and the metrics. What
//! the condition says already has been told: a new leader repeats only what is wrong, which counts up the same Event.

use std::collections::VecDeque;
use std::time::Duration;

use mullion_manifest::problem::Problem;
use tokio::time::Instant;

use crate::controller::events::{EventType, News};
use crate::controller::leader::Leading;
use crate::report::counted;
use crate::state::document::{Condition, NAME, State};
use crate::telemetry::failures::in_words;
use crate::telemetry::policies::PolicyReport;

/// The condition's type.
const TYPE: &str = "PoliciesLoaded";
/// Bad files are told of again after as long: API servers forget Events after an hour.
const AGAIN: Duration = Duration::from_secs(30 * 60);
/// At most so many Events in as long, whatever somebody does to the files; then the newest.
const MOST: (usize, Duration) = (5, Duration::from_secs(5 * 60));
/// The wait after a failure to write.
const RETRY: Duration = Duration::from_secs(5);
/// The longest problem in a note, in characters: a note has [`crate::controller::events::MAX_NOTE`] bytes.
const MAX_PROBLEM: usize = 350;
/// And the longest file name: that of a key of a ConfigMap has up to 253.
const MAX_NAME: usize = 48;

/// Works until it must stop.
pub(crate) async fn run(leading: Leading) {
    leading.stop.run_until_cancelled(tell_for_ever(&leading)).await;
    leading.stop.cancelled().await;
}

/// Ends where there is nothing more to tell of.
async fn tell_for_ever(leading: &Leading) {
    let Some(mut reports) = leading.policy_reports.clone() else { return };
    let mut kept = leading.state.state.clone();
    let mut telling = Telling::default();
    loop {
        let report = reports.borrow_and_update().clone();
        let state = kept.borrow_and_update().clone();
        // The duty that keeps the state makes the ConfigMap.
        let wait = match state.filter(|state| state.found) {
            Some(state) => telling.turn(leading, &report, &state).await,
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

/// What was told, and what is not told yet.
#[derive(Default)]
struct Telling {
    /// What was last found to be news. The ConfigMap is seen a while after it is written, and others write it, too.
    found: Option<Condition>,
    owed: Option<News>,
    told: VecDeque<Instant>,
}

impl Telling {
    /// Tells and writes what is news; when to look again, if nothing changes.
    async fn turn(&mut self, leading: &Leading, report: &PolicyReport, state: &State) -> Option<Duration> {
        let standing = state.condition(TYPE);
        if report.directories.is_empty() {
            // Built in: never bad.
            let gone = standing.is_none() || write(leading, None).await;
            return (!gone).then_some(RETRY);
        }
        let (condition, news) = say(report, standing);
        let now = Instant::now();
        let stands = self.hear(&condition, news, standing, now);
        let mut wait = (condition.status == "False").then_some(AGAIN);
        if let Some(pause) = self.pause(now).filter(|_| self.owed.is_some()) {
            wait = Some(pause);
        } else if let Some(news) = &self.owed {
            if tell(leading, news).await {
                self.owed = None;
                self.told.push_back(now);
            } else {
                wait = Some(RETRY);
            }
        }
        // Also where nobody could be told.
        if !stands && !write(leading, Some(&condition)).await {
            wait = Some(RETRY);
        }
        wait
    }

    /// Takes in what there is to say, and whether `standing` says it already.
    fn hear(&mut self, condition: &Condition, news: News, standing: Option<&Condition>, now: Instant) -> bool {
        let says = |other: &Condition| (&other.status, &other.message) == (&condition.status, &condition.message);
        let stands = standing.is_some_and(says);
        if stands {
            if condition.status == "False" && self.told.back().is_none_or(|at| now - *at >= AGAIN) {
                self.owed = Some(news);
            }
        } else if !self.found.as_ref().is_some_and(says) {
            // Good files at the very first are no news.
            let first = standing.is_none() && news.r#type == EventType::Normal;
            self.owed = (!first).then_some(news);
            self.found = Some(condition.clone());
        }
        stands
    }

    /// How long until there may be another Event.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        let (most, within) = MOST;
        while self.told.len() > most {
            self.told.pop_front();
        }
        let oldest = self.told.front().filter(|_| self.told.len() == most)?;
        (*oldest + within).checked_duration_since(now).filter(|pause| !pause.is_zero())
    }
}

async fn tell(leading: &Leading, news: &News) -> bool {
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

/// What there is to say, where `standing` is what was said last.
fn say(report: &PolicyReport, standing: Option<&Condition>) -> (Condition, News) {
    let good = report.problems.is_empty() && !report.panicked;
    let message = if good { all_well(report) } else { in_trouble(report) };
    let warned = report.warnings.len();
    let (status, reason, r#type) = match (good, warned) {
        (true, 0) => ("True", "PoliciesInForce", EventType::Normal),
        (true, _) => ("True", "PoliciesInForce", EventType::Warning),
        (false, _) => ("False", "PolicyFilesBad", EventType::Warning),
    };
    let recovered = good && standing.is_some_and(|standing| standing.status == "False");
    let before = if recovered { "The policy files are good again. " } else { "" };
    let changes = if good && !report.changes.is_empty() {
        format!(" What is different: {}.", report.changes)
    } else {
        String::new()
    };
    let condition = Condition::new(TYPE, status, reason, message.clone());
    (condition, News { r#type, reason, action: "LoadPolicies", note: format!("{before}{message}{changes}") })
}

fn all_well(report: &PolicyReport) -> String {
    let set = &report.set;
    let policies = counted(set.documents.len(), "policy");
    let are = if set.documents.len() == 1 { "is" } else { "are" };
    let files = counted(set.files.len(), "policy file");
    let mut parts = vec![format!("{files} with {policies} {are} in force, hash {}.", set.hash)];
    if let Some(first) = report.warnings.first() {
        let file = short(report, &first.origin.file);
        let text = cut(&format!("{file}:{}: {} ({})", first.origin.line, first.message, first.hint), MAX_PROBLEM);
        let more = if report.warnings.len() > 1 { "; /policies on the admin port has the others" } else { "" };
        parts.push(format!("{}: {text}{more}.", counted(report.warnings.len(), "warning")));
    }
    parts.extend(report.hindrances.iter().map(|hindrance| format!("{hindrance}.")));
    parts.join(" ")
}

fn in_trouble(report: &PolicyReport) -> String {
    let first = report.problems.first();
    let trouble = first.map_or_else(
        || "Policy files cannot be read, by a defect of Mullion: please report it".to_owned(),
        |first| {
            let shown = Problem { source: short(report, &first.source), ..first.clone() };
            format!("Policy files cannot be used: {}", cut(&shown.to_string(), MAX_PROBLEM))
        },
    );
    let more = match report.problems.len() {
        0 | 1 => String::new(),
        all => format!("; {}{}", counted(all - 1, "more problem"), also(report, first)),
    };
    let from = if report.kept { format!(", kept in ConfigMap {NAME}") } else { String::new() };
    format!(
        "{trouble}{more}. In force instead: the last good policies{from} (hash {}), all of them: no file is taken before \
         every file is good. Correct the file or take the last change back; `mullion policy check DIR`, or /policies on \
         the admin port, lists every problem.",
        report.set.hash
    )
}

/// Which other files have problems.
fn also(report: &PolicyReport, first: Option<&Problem>) -> String {
    let others = report
        .files
        .iter()
        .filter(|file| !file.status.problems.is_empty() && first.is_some_and(|first| first.source != file.status.name));
    let mut others: Vec<String> = others.map(|file| cut(&file.short, MAX_NAME)).collect();
    let unnamed = others.len().saturating_sub(3);
    others.truncate(3);
    let unnamed = if unnamed > 0 { format!(" and {}", counted(unnamed, "other file")) } else { String::new() };
    if others.is_empty() { String::new() } else { format!(", also in {}{unnamed}", others.join(", ")) }
}

/// A file's own name says enough; a directory's may be any.
fn short(report: &PolicyReport, name: &str) -> String {
    if report.directories.iter().any(|directory| directory == name) {
        return cut(name, MAX_NAME);
    }
    let file = report.files.iter().find(|file| file.status.name == name);
    cut(file.map_or(name, |file| file.short.as_str()), MAX_NAME)
}

fn cut(text: &str, most: usize) -> String {
    let mut kept: String = text.chars().take(most).collect();
    if kept.len() < text.len() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::sync::Arc;

    use mullion_policy::policy_set::PolicySet;

    use super::*;
    use crate::controller::events::MAX_NOTE;
    use crate::reload::Step;
    use crate::telemetry::policies::PolicyStatus;

    fn policy(name: &str, spec: &str) -> String {
        format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n")
    }

    fn read(files: &[(&str, String)]) -> Step {
        match PolicySet::from_files(files) {
            Ok(set) => Step::Replaced(Arc::new(set)),
            Err(problems) => Step::Kept { problems, seen: Vec::new() },
        }
    }

    #[test]
    fn people_are_told_what_is_wrong_what_holds_and_what_to_do() {
        let status = PolicyStatus::default();
        status.reads(vec!["/etc/mullion".to_owned()], Vec::new());
        let good = [("/etc/mullion/a.yaml", policy("a", "{priority: 1}")), ("/etc/mullion/b.yaml", policy("b", "{}"))];
        status.took(&read(&good), 1);
        let hash = status.report().set.hash.clone();
        let (condition, news) = say(&status.report(), None);
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "PoliciesInForce"));
        assert_eq!(condition.message, format!("2 policy files with 2 policies are in force, hash {hash}."));
        assert_eq!((news.r#type, news.note), (EventType::Normal, condition.message.clone()));

        let mut bad = good.clone();
        bad[0].1 = policy("a", "{priorty: 1, mode: Of}");
        bad[1].1 = policy("b", "{mod: Audit}");
        status.took(&read(&bad), 2);
        let (condition, news) = say(&status.report(), Some(&condition));
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
        assert_eq!(say(&status.report(), Some(&condition)).0.message, condition.message);

        status.took(&read(&good), 3);
        let (condition, news) = say(&status.report(), Some(&condition));
        assert_eq!(news.note, format!("The policy files are good again. {}", condition.message));
        status.took(&read(&good[..1]), 4);
        let (condition, news) = say(&status.report(), Some(&condition));
        assert_eq!(news.note, format!("{} What is different: gone b.yaml.", condition.message));

        let empty = Problem::of_file("/etc/mullion", "the directory holds no policy file", "put one there");
        status.took(&Step::Kept { problems: vec![empty], seen: Vec::new() }, 5);
        let (_, news) = say(&status.report(), Some(&condition));
        assert!(
            news.note.contains("cannot be used: /etc/mullion: the directory holds no policy file"),
            "{}",
            news.note
        );
    }

    #[test]
    fn notes_have_room_for_what_to_do() {
        let status = PolicyStatus::default();
        status.reads(vec!["/etc/mullion".to_owned()], Vec::new());
        let long = "x".repeat(200);
        let files: Vec<(String, String)> =
            (0..30).map(|n| (format!("/etc/mullion/{long}{n}.yaml"), policy(&"p".repeat(500), "{mod: 1}"))).collect();
        let kept = Arc::new(PolicySet::from_files(&[("a.yaml", policy("a", "{}"))]).unwrap());
        status.starts_with(&kept, PolicySet::from_files(&files).unwrap_err(), &[], 1);
        let (_, news) = say(&status.report(), None);
        assert!(news.note.contains("kept in ConfigMap mullion-state"), "{}", news.note);
        assert!(news.note.len() <= MAX_NOTE && news.note.contains("lists every problem"), "{}", news.note);
    }

    #[tokio::test(start_paused = true)]
    async fn news_are_told_once_though_the_config_map_is_seen_late() {
        let status = PolicyStatus::default();
        status.reads(vec!["/p".to_owned()], Vec::new());
        let good = [("/p/a.yaml", policy("a", "{priority: 1}"))];
        let bad = [("/p/a.yaml", policy("a", "{priorty: 1}"))];
        let mut telling = Telling::default();
        // Whether there is something to tell, where the ConfigMap is seen as it is; and what it should be.
        let mut hear = |standing: Option<&Condition>| {
            let (condition, news) = say(&status.report(), standing);
            telling.hear(&condition, news, standing, Instant::now());
            let owed = telling.owed.take().map(|news| news.reason);
            if owed.is_some() {
                telling.told.push_back(Instant::now());
            }
            (owed, condition)
        };
        status.took(&read(&good), 1);
        let (told, well) = hear(None);
        assert_eq!(told, None, "good files at first are no news");
        status.took(&read(&bad), 2);
        let (told, trouble) = hear(Some(&well));
        assert_eq!(told, Some("PolicyFilesBad"));
        // Another duty has written the ConfigMap, and the condition is not seen there yet.
        assert_eq!(hear(Some(&well)).0, None);
        assert_eq!(hear(Some(&trouble)).0, None);
        // Good again and bad again is news each time.
        for (files, standing, expected) in [(&good, &trouble, "PoliciesInForce"), (&bad, &well, "PolicyFilesBad")] {
            status.took(&read(files), 3);
            assert_eq!(hear(Some(standing)).0, Some(expected));
            assert_eq!(hear(Some(standing)).0, None);
        }
        assert_eq!(hear(Some(&trouble)).0, None);
        tokio::time::advance(AGAIN).await;
        assert_eq!(hear(Some(&trouble)).0, Some("PolicyFilesBad"), "for who looks after an hour");
    }

    #[tokio::test(start_paused = true)]
    async fn news_are_bounded() {
        let mut telling = Telling::default();
        for _ in 0..5 {
            assert_eq!(telling.pause(Instant::now()), None);
            telling.told.push_back(Instant::now());
        }
        assert_eq!(telling.pause(Instant::now()), Some(MOST.1));
        tokio::time::advance(MOST.1).await;
        assert_eq!(telling.pause(Instant::now()), None);
        telling.told.push_back(Instant::now());
        assert_eq!(telling.told.len(), 6);
        assert_eq!(telling.pause(Instant::now()), None, "four of them are old");
        assert_eq!(telling.told.len(), 5);
    }
}

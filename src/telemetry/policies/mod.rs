//! How the policy files of this process stand: one report, from which `/policies`, the metrics, the log and the
//! controller's Events and condition are written, in the webhook and in the controller alike.

pub mod metrics;
pub mod shown;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use mullion_manifest::problem::Problem;
use mullion_policy::file_status::{FileStatus, SeenFile, Standing, short_names, standings};
use mullion_policy::policy_set::PolicySet;
use mullion_policy::warnings::all_warnings::warnings;
use mullion_policy::warnings::warning::Warning;
use tokio::sync::watch as channel;

use crate::reload::{PANICKED, Step};

/// Most problems of one reading that are logged: beyond, somebody looks at `/policies`.
const MOST_LOGGED: usize = 20;

/// What is to say of the policy files. Times are in seconds since 1970.
#[derive(Debug, Clone)]
pub struct PolicyReport {
    /// The directories, as they were given; empty where the built-in policies hold.
    pub directories: Vec<String>,
    /// In force.
    pub set: Arc<PolicySet>,
    /// Since when, in this process.
    pub since: i64,
    /// When the set in force was loaded from its files; `None` for the built-in one, and for one that was kept.
    pub last_good: Option<i64>,
    /// Whether it is the last good one that ConfigMap `mullion-state` kept.
    pub kept: bool,
    /// What is wrong with the files as they are now; empty while they are in force.
    pub problems: Vec<Problem>,
    /// Whether the last reading panicked.
    pub panicked: bool,
    /// Each file, in order of name.
    pub files: Vec<ReportedFile>,
    /// What is strange about the set in force.
    pub warnings: Vec<Warning>,
    /// Which files made it another than the one before, in words; empty for the first one.
    pub changes: String,
    /// What hinders changes of the files from being seen, in sentences.
    pub hindrances: Vec<String>,
    /// Why registries are not asked, where the policies in force have them asked.
    pub registries: Option<String>,
}

/// One file of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedFile {
    /// How it stands.
    pub status: FileStatus,
    /// Its name as far as it tells it from the others.
    pub short: String,
    /// When what it says was first seen, in this process.
    pub changed: i64,
}

/// The report, as it changes. Clones share.
#[derive(Debug, Clone)]
pub struct PolicyStatus(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    report: channel::Sender<Arc<PolicyReport>>,
    /// When the files were last read, changed or not; 0: never.
    read: AtomicI64,
    loaded: AtomicU64,
    failed: AtomicU64,
}

impl PolicyReport {
    fn built_in(set: Arc<PolicySet>) -> Self {
        Self {
            directories: Vec::new(),
            set,
            since: 0,
            last_good: None,
            kept: false,
            problems: Vec::new(),
            panicked: false,
            files: Vec::new(),
            warnings: Vec::new(),
            changes: String::new(),
            hindrances: Vec::new(),
            registries: None,
        }
    }

    /// Every problem as `file:line:column: message (hint)`.
    pub fn problems_in_words(&self) -> Vec<String> {
        let panicked = self.panicked.then(|| PANICKED.to_owned());
        self.problems.iter().map(ToString::to_string).chain(panicked).collect()
    }

    /// The same report after another reading.
    fn after(&self, seen: &[SeenFile], problems: Vec<Problem>, now: i64) -> Self {
        let before: HashMap<&str, &ReportedFile> =
            self.files.iter().map(|file| (file.status.name.as_str(), file)).collect();
        let statuses = standings(&self.set, &self.warnings, seen, &problems);
        let names: Vec<&str> = statuses.iter().map(|status| status.name.as_str()).collect();
        let short = short_names(&names);
        let files = statuses.into_iter().zip(short).map(|(status, short)| {
            let before = before.get(status.name.as_str()).filter(|before| before.status.hash == status.hash);
            ReportedFile { changed: before.map_or(now, |before| before.changed), short, status }
        });
        Self { files: files.collect(), problems, panicked: false, ..self.clone() }
    }

    /// The same report with another set in force.
    fn with(&self, set: &Arc<PolicySet>, kept: bool, now: i64) -> Self {
        let same = set.hash == self.set.hash && !self.directories.is_empty();
        Self {
            set: Arc::clone(set),
            since: if same && self.since > 0 { self.since } else { now },
            last_good: (!kept).then(|| self.last_good.filter(|_| same).unwrap_or(now)),
            kept,
            warnings: warnings(set),
            changes: changes(&self.set, set),
            ..self.clone()
        }
    }
}

impl Default for PolicyStatus {
    fn default() -> Self {
        Self::of(Arc::default())
    }
}

impl PolicyStatus {
    /// Of a set that came from no files.
    pub fn of(set: Arc<PolicySet>) -> Self {
        Self(Arc::new(Inner {
            report: channel::Sender::new(Arc::new(PolicyReport::built_in(set))),
            read: AtomicI64::new(0),
            loaded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }))
    }

    /// As things stand now.
    pub fn report(&self) -> Arc<PolicyReport> {
        self.0.report.borrow().clone()
    }

    /// As they change. The times of readings that brought nothing new are no change.
    pub fn follow(&self) -> channel::Receiver<Arc<PolicyReport>> {
        self.0.report.subscribe()
    }

    /// The policies are those of these directories from now on.
    pub fn reads(&self, directories: Vec<String>, hindrances: Vec<String>) {
        for hindrance in &hindrances {
            tracing::warn!("{hindrance}");
        }
        self.change(|report| PolicyReport { directories, hindrances, ..report.clone() });
    }

    /// The program starts beside files with these problems, and so with the last good set that was kept.
    pub fn starts_with(&self, set: &Arc<PolicySet>, problems: Vec<Problem>, seen: &[SeenFile], now: i64) {
        self.0.read.store(now, Ordering::Relaxed);
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        log_problems(&problems);
        self.change(|report| report.with(set, true, now).after(seen, problems, now));
        self.log_warnings();
    }

    /// The files were read, and what came of it is in force, if it is good.
    pub fn took(&self, step: &Step, now: i64) {
        self.0.read.store(now, Ordering::Relaxed);
        match step {
            Step::Unchanged => {
                if self.report().panicked {
                    self.change(|report| PolicyReport { panicked: false, ..report.clone() });
                }
            }
            Step::Replaced(set) => {
                self.0.loaded.fetch_add(1, Ordering::Relaxed);
                let before = self.report();
                self.change(|report| report.with(set, false, now).after(&set.seen(), Vec::new(), now));
                let (hash, policies, changes) = (&set.hash, set.documents.len(), &self.report().changes);
                tracing::info!(hash, policies, files = set.files.len(), changes, "policies in force");
                if before.set.hash != set.hash || before.last_good.is_none() {
                    self.log_warnings();
                }
            }
            Step::Kept { problems, seen } => {
                self.0.failed.fetch_add(1, Ordering::Relaxed);
                log_problems(problems);
                self.change(|report| report.after(seen, problems.clone(), now));
            }
            Step::Panicked => {
                if !self.report().panicked {
                    self.0.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::error!("{PANICKED}; the last good policies stay in force");
                    self.change(|report| PolicyReport { panicked: true, ..report.clone() });
                }
            }
        }
    }

    /// Why registries are not asked, or that they are; `true` if that is news.
    pub fn registries(&self, problem: Option<&str>) -> bool {
        if self.report().registries.as_deref() == problem {
            return false;
        }
        self.change(|report| PolicyReport { registries: problem.map(str::to_owned), ..report.clone() });
        true
    }

    fn change(&self, change: impl FnOnce(&PolicyReport) -> PolicyReport) {
        self.0.report.send_modify(|report| *report = Arc::new(change(report)));
    }

    /// Once for each set.
    fn log_warnings(&self) {
        for warning in &self.report().warnings {
            tracing::warn!(%warning, "policies in force");
        }
    }
}

fn log_problems(problems: &[Problem]) {
    for problem in problems.iter().take(MOST_LOGGED) {
        tracing::error!(%problem, "policy file not usable; the last good policies stay in force");
    }
    if let Some(more) = problems.len().checked_sub(MOST_LOGGED).filter(|more| *more > 0) {
        tracing::error!(more, "problems in policy files that are not listed here; /policies on the admin port has all");
    }
}

/// Which files made the difference: one that somebody took away is not dropped in silence.
fn changes(before: &PolicySet, after: &PolicySet) -> String {
    if before.files.is_empty() {
        return String::new();
    }
    let (old, new) = (before.seen(), after.seen());
    let all: BTreeSet<&str> = old.iter().chain(&new).map(|file| file.name.as_str()).collect();
    let all: Vec<&str> = all.into_iter().collect();
    let short: HashMap<&str, String> = all.iter().copied().zip(short_names(&all)).collect();
    let has = |files: &[SeenFile], name: &str| files.iter().any(|file| file.name == name);
    let list = |what: &str, files: &[SeenFile], is: &dyn Fn(&SeenFile) -> bool| {
        let names = files.iter().filter(|file| is(file)).filter_map(|file| short.get(file.name.as_str()));
        let names: Vec<&str> = names.map(String::as_str).collect();
        (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
    };
    let changes = [
        list("changed", &new, &|file| has(&old, &file.name) && !old.contains(file)),
        list("new", &new, &|file| !has(&old, &file.name)),
        list("gone", &old, &|file| !has(&new, &file.name)),
    ];
    changes.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// How many files stand so.
pub(crate) fn count(standing: Standing, files: &[ReportedFile]) -> usize {
    files.iter().filter(|file| file.status.standing == standing).count()
}

#[cfg(test)]
mod tests;

//! The report about the policy files of this process, from which `/policies`, the metrics, the log and the controller's
//! Events and condition are written, in the webhook and in the controller alike.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use mullion_manifest::problem::Problem;
use mullion_policy::file_status::{FileVersion, PolicyFileStatus, Standing, file_statuses, short_names};
use mullion_policy::policy_set::PolicySet;
use mullion_policy::store::PolicyReading;
use mullion_policy::warnings::all_warnings::warnings;
use mullion_policy::warnings::warning::Warning;
use tokio::sync::watch as channel;

/// What people read about a [panic](PolicyReading::Panicked).
pub const PANICKED: &str = "reading the policy files panicked, which is a defect of Mullion; please report it";

/// Most problems of one reading that are logged: beyond, `/policies` shows them.
const MOST_LOGGED: usize = 20;

/// The status of the policy files and of the policies in force. Times are in seconds since 1970.
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
    /// Whether the last reading panicked.
    pub panicked: bool,
    /// Each file with what is wrong with it now, in order of name.
    pub files: Vec<PolicyFileStatus>,
    /// What is strange about the set in force.
    pub warnings: Vec<Warning>,
    /// Which files made it another than the one before, in words; empty for the first one.
    pub changes: String,
    /// What hinders changes of the files from being seen, in sentences.
    pub hindrances: Vec<String>,
    /// Why registries are not asked, where the policies in force have them asked.
    pub registries: Option<String>,
}

/// The report, as it changes. Clones share.
#[derive(Debug, Clone)]
pub struct PolicyReporter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    report: channel::Sender<Arc<PolicyReport>>,
    last_read: AtomicI64,
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
            panicked: false,
            files: Vec::new(),
            warnings: Vec::new(),
            changes: String::new(),
            hindrances: Vec::new(),
            registries: None,
        }
    }

    /// What is wrong with the files as they are now, in order of file and place; empty while they are in force.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.files.iter().flat_map(|file| &file.problems)
    }

    /// Every problem as `file:line:column: message (hint)`.
    pub fn problem_texts(&self) -> Vec<String> {
        let panicked = self.panicked.then(|| PANICKED.to_owned());
        self.problems().map(ToString::to_string).chain(panicked).collect()
    }

    /// The files of this standing.
    pub fn standing(&self, standing: Standing) -> impl Iterator<Item = &PolicyFileStatus> {
        self.files.iter().filter(move |file| file.standing == standing)
    }

    /// The same report after another reading.
    fn after(&self, read: &[FileVersion], problems: Vec<Problem>, now: i64) -> Self {
        let files = file_statuses(&self.set, read, problems, &self.files, now);
        Self { files, panicked: false, ..self.clone() }
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

impl Default for PolicyReporter {
    fn default() -> Self {
        Self::of(Arc::default())
    }
}

impl PolicyReporter {
    /// Of a set that came from no files.
    pub fn of(set: Arc<PolicySet>) -> Self {
        Self(Arc::new(Shared {
            report: channel::Sender::new(Arc::new(PolicyReport::built_in(set))),
            last_read: AtomicI64::new(0),
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

    /// When the files were last read, changed or not, in seconds since 1970; 0: never.
    pub(crate) fn last_read(&self) -> i64 {
        self.0.last_read.load(Ordering::Relaxed)
    }

    /// How many changes of the files were loaded, and how many failed.
    pub(crate) fn reloads(&self) -> [(&'static str, u64); 2] {
        [("loaded", &self.0.loaded), ("failed", &self.0.failed)]
            .map(|(outcome, number)| (outcome, number.load(Ordering::Relaxed)))
    }

    /// The policies are those of these directories from now on.
    pub fn set_directories(&self, directories: Vec<String>, hindrances: Vec<String>) {
        for hindrance in &hindrances {
            tracing::warn!("{hindrance}");
        }
        self.change(|report| PolicyReport { directories, hindrances, ..report.clone() });
    }

    /// The program starts beside files with these problems, and so with the last good set that was kept.
    pub fn record_kept(&self, set: &Arc<PolicySet>, problems: Vec<Problem>, read: &[FileVersion], now: i64) {
        self.0.last_read.store(now, Ordering::Relaxed);
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        log_problems(&problems);
        self.change(|report| report.with(set, true, now).after(read, problems, now));
        self.log_warnings();
    }

    /// The files were read, and what came of it is in force, if it is good.
    pub fn record(&self, reading: &PolicyReading, now: i64) {
        self.0.last_read.store(now, Ordering::Relaxed);
        let before = self.report();
        match reading {
            PolicyReading::Unchanged => {
                if before.panicked {
                    self.change(|report| PolicyReport { panicked: false, ..report.clone() });
                }
            }
            PolicyReading::Loaded(set) => {
                self.0.loaded.fetch_add(1, Ordering::Relaxed);
                self.change(|report| report.with(set, false, now).after(&set.versions(), Vec::new(), now));
                let (hash, policies, changes) = (&set.hash, set.documents.len(), &self.report().changes);
                tracing::info!(hash, policies, files = set.files.len(), changes, "policies in force");
                if before.set.hash != set.hash || before.last_good.is_none() {
                    self.log_warnings();
                }
            }
            PolicyReading::Rejected { problems, files } => {
                self.0.failed.fetch_add(1, Ordering::Relaxed);
                log_problems(problems);
                self.change(|report| report.after(files, problems.clone(), now));
            }
            PolicyReading::Panicked => {
                if !before.panicked {
                    self.0.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::error!("{PANICKED}; the last good policies stay in force");
                    self.change(|report| PolicyReport { panicked: true, ..report.clone() });
                }
            }
        }
    }

    /// Why registries are not asked, or that they are; `true` if that is news.
    pub fn set_registries(&self, problem: Option<&str>) -> bool {
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

/// Which files made the difference: the removal of one is reported too.
fn changes(before: &PolicySet, after: &PolicySet) -> String {
    if before.files.is_empty() {
        return String::new();
    }
    let (old, new) = (before.versions(), after.versions());
    let all: BTreeSet<&str> = old.iter().chain(&new).map(|file| file.name.as_str()).collect();
    let all: Vec<&str> = all.into_iter().collect();
    let short: HashMap<&str, String> = all.iter().copied().zip(short_names(&all)).collect();
    let has = |files: &[FileVersion], name: &str| files.iter().any(|file| file.name == name);
    let list = |what: &str, files: &[FileVersion], is: &dyn Fn(&FileVersion) -> bool| {
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

#[cfg(test)]
mod tests;

//! The report about the policy files of this process: the source of `/policies`, of the metrics, of the log, and of the
//! controller's Events and condition.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use mullion_manifest::Problem;
use mullion_policy::warnings::{PolicyWarning, warnings};
use mullion_policy::{
    FileVersion, PolicyFileState, PolicyFileStatus, PolicyReading, PolicySet, file_statuses, short_names,
};
use tokio::sync::watch as channel;

use mullion_engine::model::MinorVersion;

/// The message about a [panic](PolicyReading::Panicked).
pub(crate) const PANICKED: &str = "reading the policy files panicked, which is a defect of Mullion; please report it";

/// The maximum number of problems of one reading that are logged; `/policies` shows all.
const MOST_LOGGED: usize = 20;

/// The status of the policy files and of the policies in force. Times are in seconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct PolicyReport {
    /// The directories, as passed to the program; empty for the built-in policies.
    pub directories: Vec<String>,
    /// The policies in force.
    pub set: Arc<PolicySet>,
    /// Since when this process has used them.
    pub since: i64,
    /// When the set in force was loaded from its files; `None` for the built-in set and for a stored set.
    pub last_good: Option<i64>,
    /// Whether it is the last good set from ConfigMap `mullion-state`.
    pub kept: bool,
    /// The newer release of Mullion that ran in this cluster before, if `kept`.
    pub newer: Option<MinorVersion>,
    /// Whether the last reading panicked.
    pub panicked: bool,
    /// Each file with its current problems, in order of name.
    pub files: Vec<PolicyFileStatus>,
    /// Warnings about the set in force.
    pub warnings: Vec<PolicyWarning>,
    /// The files that differ from those of the previous set, as text; empty for the first set.
    pub changes: String,
    /// The reasons why changes of the files are not detected, as sentences.
    pub hindrances: Vec<String>,
    /// Why no registry is used, although the policies in force require it.
    pub registries: Option<String>,
}

/// The report, as it changes. Clones share it.
#[derive(Debug, Clone)]
pub struct PolicyReporter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    report: channel::Sender<Arc<PolicyReport>>,
    last_read: AtomicI64,
    loaded: AtomicU64,
    failed: AtomicU64,
}

impl PolicyReport {
    /// The problems of the current files, in order of file and place; empty while they are in force.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.files.iter().flat_map(|file| &file.problems)
    }

    /// Every problem as `file:line:column: message (hint)`.
    pub fn problem_texts(&self) -> Vec<String> {
        let panicked = self.panicked.then(|| PANICKED.to_owned());
        self.problems().map(ToString::to_string).chain(panicked).collect()
    }

    /// The files with this status.
    pub fn standing(&self, standing: PolicyFileState) -> impl Iterator<Item = &PolicyFileStatus> {
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
            newer: None,
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
    /// The report about a set without files.
    pub fn of(set: Arc<PolicySet>) -> Self {
        Self(Arc::new(Shared {
            report: channel::Sender::new(Arc::new(PolicyReport { set, ..PolicyReport::default() })),
            ..Shared::default()
        }))
    }

    /// The current report.
    pub fn report(&self) -> Arc<PolicyReport> {
        self.0.report.borrow().clone()
    }

    /// The reports from now on. A reading without a change causes no new report.
    pub fn follow(&self) -> channel::Receiver<Arc<PolicyReport>> {
        self.0.report.subscribe()
    }

    /// When the files were last read, changed or not, in seconds since 1970; 0 if never.
    pub(crate) fn last_read(&self) -> i64 {
        self.0.last_read.load(Ordering::Relaxed)
    }

    /// The number of changes of the files that were loaded, and that failed.
    pub(crate) fn reloads(&self) -> [(&'static str, u64); 2] {
        [("loaded", &self.0.loaded), ("failed", &self.0.failed)]
            .map(|(outcome, number)| (outcome, number.load(Ordering::Relaxed)))
    }

    /// Sets the directories of the policies.
    pub fn set_directories(&self, directories: Vec<String>, hindrances: Vec<String>) {
        for hindrance in &hindrances {
            tracing::warn!("{hindrance}");
        }
        self.change(|report| PolicyReport { directories, hindrances, ..report.clone() });
    }

    /// Records a start with files that have these problems, and therefore with the stored last good set. A `newer`
    /// release may support the files.
    pub fn record_kept(
        &self,
        set: &Arc<PolicySet>,
        newer: Option<MinorVersion>,
        problems: Vec<Problem>,
        read: &[FileVersion],
        now: i64,
    ) {
        self.0.last_read.store(now, Ordering::Relaxed);
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        log_problems(&problems);
        self.change(|report| PolicyReport { newer, ..report.with(set, true, now).after(read, problems, now) });
        self.log_warnings();
    }

    /// Records a reading; a valid set is in force now.
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
            PolicyReading::Ended(set) => {
                self.change(|report| PolicyReport {
                    set: Arc::clone(set),
                    warnings: warnings(set),
                    changes: String::new(),
                    ..report.clone()
                });
                for policy in
                    set.ended.iter().filter(|policy| !before.set.ended.iter().any(|old| old.name == policy.name))
                {
                    let until = policy.until.as_ref().map(|until| until.text.as_str());
                    tracing::info!(policy = policy.name, until, "an exemption has ended");
                }
                self.log_warnings();
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

    /// Sets why no registry is used, `None` if registries are used; returns whether that is a change.
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

    /// Logs the warnings; called once for each set.
    fn log_warnings(&self) {
        for warning in &self.report().warnings {
            tracing::warn!(%warning, "policies in force");
        }
    }
}

fn log_problems(problems: &[Problem]) {
    for problem in problems.iter().take(MOST_LOGGED) {
        let version = env!("CARGO_PKG_VERSION");
        tracing::error!(%problem, version, "policy file not usable; the last good policies stay in force");
    }
    if let Some(more) = problems.len().checked_sub(MOST_LOGGED).filter(|more| *more > 0) {
        tracing::error!(more, "further problems in policy files; /policies on the admin port lists all");
    }
}

/// The files that differ, including removed ones.
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

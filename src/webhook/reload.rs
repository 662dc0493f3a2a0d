//! What the webhook does with files that changed under it: policies and the certificate.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::state::State;
use super::tls::Certificate;
use crate::policy::PolicySet;
use crate::reload::{Source, Step, every, read};

/// What is to say about the policy files beside the set in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyReport {
    /// The directories, as they were given.
    pub directories: Vec<String>,
    /// What is wrong with the files as they are now; empty while they are in force.
    pub problems: Vec<String>,
    /// Why registries are not asked, where the policies in force have them asked.
    pub registries: Option<String>,
    /// When the set in force was loaded, in seconds since 1970; `None` for the built-in one, and for one that was kept.
    pub last_good: Option<i64>,
    /// Whether the set in force is the last good one that ConfigMap `mullion-state` kept.
    pub kept: bool,
}

/// Reads the policies once and puts them in force if they are good. After a bad reading the set before stays; its
/// problems are returned.
pub fn policies_once(state: &State, step: Step, now: i64) -> Result<(), Vec<String>> {
    let report = state.policy_report.load();
    match step {
        Step::Unchanged => {
            // A file that the RegistryPolicy names may have come since.
            let registries = unasked(state, &state.policies.load(), &report);
            if registries != report.registries {
                state.policy_report.store(Arc::new(PolicyReport { registries, ..PolicyReport::clone(&report) }));
            }
            Ok(())
        }
        Step::Replaced(set) => {
            state.metrics.policies_loaded(&set.hash, set.pods.len(), now);
            let registries = unasked(state, &set, &report);
            state.policies.store(set);
            let directories = report.directories.clone();
            let report =
                PolicyReport { directories, problems: Vec::new(), registries, last_good: Some(now), kept: false };
            state.policy_report.store(Arc::new(report));
            Ok(())
        }
        Step::Kept(problems) => {
            let report = PolicyReport { problems: problems.clone(), ..PolicyReport::clone(&report) };
            state.policy_report.store(Arc::new(report));
            Err(problems)
        }
    }
}

/// Puts the last good policies that were kept in force, since the files have these problems.
pub fn policies_kept(state: &State, set: Arc<PolicySet>, problems: Vec<String>) {
    state.metrics.policies_kept(&problems);
    let report = state.policy_report.load();
    let registries = unasked(state, &set, &report);
    state.policies.store(set);
    let report = PolicyReport { problems, registries, kept: true, ..PolicyReport::clone(&report) };
    state.policy_report.store(Arc::new(report));
}

/// Has registries asked as these policies say; why that is not possible, if it is not.
fn unasked(state: &State, policies: &PolicySet, before: &PolicyReport) -> Option<String> {
    let problem = state.images.follow(policies).err().map(|error| format!("{error:#}"));
    if let Some(new) = problem.as_ref().filter(|_| problem != before.registries) {
        state.metrics.registries_unasked(new);
    }
    problem
}

/// Reads the policies every `interval` until `stop` is cancelled.
pub async fn policies(state: Arc<State>, mut source: Source, interval: Duration, stop: CancellationToken) {
    every(interval, stop, move || {
        if let Err(problems) = policies_once(&state, read(&mut source), jiff::Timestamp::now().as_second()) {
            state.metrics.policies_failed(&problems);
        }
    })
    .await;
}

/// Reads the certificate in `dir` every `interval` until `stop` is cancelled; `seen` is the content it was loaded from.
pub async fn certificate(
    state: Arc<State>,
    certificate: Arc<Certificate>,
    dir: PathBuf,
    mut seen: u64,
    interval: Duration,
    stop: CancellationToken,
) {
    every(interval, stop, move || seen = certificate.reload(&dir, seen, &state.metrics)).await;
}

//! Runs the case files of `tests/cases` (format: `tests/cases/README.md`), a trial each.
//!
//! | module | contains |
//! |---|---|
//! | `format`, `file` | the files, and reading them with lines |
//! | `site` | a control plane of `clusters/`, shared by its cases, and the Mullions of `mullion/` on it |
//! | `third-party`, `witness` | simulated third-party webhooks, and whether the API server calls them yet |
//! | `run`, `ask`, `tool`, `watch` | a case's steps: requests, programs, and waiting for their results |
//! | `judge`, `differ`, `lands` | whether the results are as expected: pure, with `report::field_match` and `report::field_difference` |

mod ask;
mod differ;
mod file;
mod format;
mod judge;
mod lands;
mod run;
mod site;
mod tests;
pub mod third_party;
mod tool;
mod watch;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::anyhow;
use mullion_cluster::{Release, Shared, Suite};
use site::Site;

/// Adds a trial for each case. Those that need a newer Kubernetes release are skipped.
pub fn add(suite: &mut Suite) {
    // Without the tools every trial fails with a message that contains how to build them.
    let release = Release::under_test().ok();
    // The control planes of `clusters/`, each shared by its cases.
    let mut sites: BTreeMap<String, Arc<Shared<Site>>> = BTreeMap::new();
    for (area, path) in file::cases() {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("cases::{area}::{stem}");
        match file::load(&path) {
            Ok(loaded) if loaded.since > release.or(loaded.since) => suite.skipped(name),
            Ok(loaded) => {
                let cluster = loaded.case.cluster.clone();
                let cell = sites.entry(cluster.clone()).or_insert_with(|| {
                    Shared::new(move || {
                        let cluster = cluster.clone();
                        async move { Site::start(&cluster).await }
                    })
                });
                suite.shared_trial(cell, name, move |site| {
                    Box::pin(async move { run::run(&site, &stem, &file::shown(&path), &loaded).await })
                });
            }
            Err(error) => suite.trial(name, async move { Err(anyhow!("{error:#}")) }),
        }
    }
}

/// Adds the trials of the case runner to a suite with all other trials, because `acceptance.tsv` lists some of them.
pub fn add_runner(suite: &mut Suite) {
    let all: BTreeSet<String> = suite.names().map(str::to_owned).collect();
    let mut runner = |name: &str, test: fn() -> anyhow::Result<()>| {
        suite.blocking(format!("cases::runner::{name}"), test);
    };
    runner("fields_of_one_namespace_are_not_compared", tests::fields_of_one_namespace_are_not_compared);
    runner("pods_land_on_exactly_these_nodes", tests::pods_land_on_exactly_these_nodes);
    runner("a_controller_is_done_when_its_status_is_complete", tests::a_controller_is_done_when_its_status_is_complete);
    runner("responses_are_compared", tests::responses_are_compared);
    runner("third_party_patches_create_missing_parents", tests::third_party_patches_create_missing_parents);
    runner("malformed_files_are_errors", tests::malformed_files_are_errors);
    runner("every_shared_file_is_used", tests::every_shared_file_is_used);
    suite.blocking("cases::runner::every_acceptance_case_has_a_file", move || {
        tests::every_acceptance_case_has_a_file(&all)
    });
}

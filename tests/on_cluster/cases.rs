//! Cases that are files: `tests/cases/README.md` says what they hold, and here they are run, a trial each.
//!
//! | module | what |
//! |---|---|
//! | `format`, `file` | the files, and reading them with lines |
//! | `site` | a control plane of `clusters/`, shared by its cases, and the Mullions of `mullion/` on it |
//! | `company`, `witness` | webhooks of others, played here, and whether the API server asks them by now |
//! | `run`, `ask`, `tool`, `watch` | a case's steps: requests, programs, and waiting for what comes of them |
//! | `judge`, `differ`, `lands` | whether that is what was expected: pure, with `report::matching` and `report::differing` |

mod ask;
mod company;
mod differ;
mod file;
mod format;
mod judge;
mod lands;
mod run;
mod site;
mod tests;
mod tool;
mod watch;
mod witness;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow};
use libtest_mimic::{Failed, Trial};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use site::Site;

/// The control planes, each started by the first case that needs it.
#[derive(Default)]
pub struct Sites {
    sites: Mutex<HashMap<String, Arc<Starting>>>,
    not_passed: AtomicUsize,
}

type Starting = OnceCell<std::result::Result<Site, String>>;

impl Sites {
    fn site(&self, cluster: &str) -> Arc<Starting> {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(sites.entry(cluster.to_owned()).or_default())
    }

    /// If a case failed, keeps every log and says where.
    pub fn keep_logs(&self) {
        if self.not_passed.load(Ordering::Relaxed) > 0 {
            for cell in self.sites.lock().unwrap_or_else(PoisonError::into_inner).values() {
                if let Some(Ok(site)) = cell.get() {
                    site.keep_logs();
                }
            }
        }
    }

    async fn run(&self, name: &str, path: &Path) -> Result<()> {
        let loaded = file::load(path)?;
        let cell = self.site(&loaded.case.cluster);
        let started = || async { Site::start(&loaded.case.cluster).await.map_err(|why| format!("{why:#}")) };
        let site = cell.get_or_init(started).await;
        let site = site.as_ref().map_err(|why| anyhow!("cluster {:?} does not start: {why}", loaded.case.cluster))?;
        run::run(site, name, &file::shown(path), &loaded).await
    }
}

/// A trial for each case, and those of the runner itself. `others` are all other trials.
pub fn trials(handle: &Handle, sites: &Arc<Sites>, others: &[Trial]) -> Vec<Trial> {
    let mut trials: Vec<Trial> =
        file::cases().into_iter().map(|(area, path)| trial(handle, sites, &area, path)).collect();
    let names: BTreeSet<String> = others.iter().map(|other| other.name().to_owned()).collect();
    trials.extend([
        pure("what_is_compared_is_what_both_could_have", tests::what_is_compared_is_what_both_could_have),
        pure("pods_land_on_exactly_these_nodes", tests::pods_land_on_exactly_these_nodes),
        pure("a_controller_is_done_when_its_status_says_so", tests::a_controller_is_done_when_its_status_says_so),
        pure("answers_are_judged", tests::answers_are_judged),
        pure("company_patches_make_their_parents", tests::company_patches_make_their_parents),
        pure("bad_files_are_errors", tests::bad_files_are_errors),
        pure("every_shared_file_is_used", tests::every_shared_file_is_used),
        pure("every_acceptance_case_has_a_file", move || tests::every_acceptance_case_has_a_file(&names)),
    ]);
    trials
}

/// A trial that needs no control plane.
fn pure(name: &str, test: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(format!("cases::runner::{name}"), || test().map_err(|error| Failed::from(format!("{error:#}"))))
}

fn trial(handle: &Handle, sites: &Arc<Sites>, area: &str, path: PathBuf) -> Trial {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let sites = Arc::clone(sites);
    mullion_cluster::trial(handle, format!("cases::{area}::{stem}"), async move {
        // Counted before, since a panic ends all that comes after.
        sites.not_passed.fetch_add(1, Ordering::Relaxed);
        sites.run(&stem, &path).await?;
        sites.not_passed.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    })
}

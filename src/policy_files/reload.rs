//! Repeated reading of files that change while a program runs, mainly policy files.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use jiff::Timestamp;
use mullion_engine::model::MinorVersion;
use mullion_policy::{PolicyFiles, PolicyReading, PolicySet, PolicyStore};
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::state::{NAME, StoredPolicies};
use crate::policy_files::report::{PANICKED, PolicyReporter};
use crate::policy_files::{directory, sub_path_mounts};

/// How long a changed file must stay the same, if files are not changed all at once: see [`directory::read_still`].
/// Editors and `cp` write a file of the [largest size](mullion_policy::MAX_FILE) in less time.
const STILL: Duration = Duration::from_secs(1);
/// How long a reading may take before an error is logged.
const SLOW: Duration = Duration::from_secs(30);

/// Reads the policy files and compares them by content with what it read before. Does blocking I/O.
pub type PolicyFileReader = Box<dyn FnMut() -> PolicyReading + Send>;

/// The source for the policy files of `directories` as one set, for a caller that reads them every `interval`.
pub fn files(directories: Vec<PathBuf>, interval: Duration) -> PolicyFileReader {
    files_after(directories, interval, PolicyStore::default())
}

fn files_after(directories: Vec<PathBuf>, interval: Duration, mut store: PolicyStore) -> PolicyFileReader {
    let still = STILL.min(interval);
    Box::new(move || {
        let files = directory::read_still(&directories, store.last_hash(), still);
        store.reload(&files, Timestamp::now().as_second())
    })
}

/// The reasons why changes of the files are not detected, as sentences. Does blocking I/O.
fn hindrances(directories: &[PathBuf]) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let frozen = directories.iter().filter_map(|directory| directory.canonicalize().ok());
    let mut frozen: Vec<String> =
        frozen.flat_map(|directory| sub_path_mounts::sub_path_mounts(&mounts, &directory)).collect();
    frozen.sort_unstable();
    frozen.dedup();
    let sentence = |point: String| {
        format!(
            "{point} is mounted with subPath, so changes of its ConfigMap are seen only after the pod is created again; \
             mount the whole ConfigMap as a directory"
        )
    };
    frozen.into_iter().map(sentence).collect()
}

/// Reads the policy files of `directories` for the first time, and reports on them. Returns the policies in force, and
/// the source that reads the files later, every `interval`. If the files are invalid, the first of `last_good` that
/// loads, which is awaited only in this case, is used until the files are valid. Returns an error if there are none, or
/// if none of these loads.
pub(crate) async fn load_at_start(
    directories: Vec<PathBuf>,
    interval: Duration,
    last_good: impl Future<Output = anyhow::Result<Vec<StoredPolicies>>>,
    reporter: &PolicyReporter,
) -> anyhow::Result<(Arc<PolicySet>, PolicyFileReader)> {
    let names = directories.iter().map(|directory| directory.display().to_string()).collect();
    reporter.set_directories(names, hindrances(&directories));
    let mut source = files(directories.clone(), interval);
    let reading = tokio::task::spawn_blocking(move || (reread(&mut source), source));
    let (reading, source) = patiently(reading, "the policy files").await?;
    let now = Timestamp::now().as_second();
    let (problems, files) = match reading {
        PolicyReading::Loaded(set) | PolicyReading::Ended(set) => {
            reporter.record(&PolicyReading::Loaded(Arc::clone(&set)), now);
            return Ok((set, source));
        }
        PolicyReading::Unchanged => bail!("no policy files were read"),
        PolicyReading::Rejected { problems, files } => (problems, files),
        PolicyReading::Panicked => bail!("{PANICKED}"),
    };
    let own = MinorVersion::of_mullion();
    let unusable = |why: &str, kept: &[String]| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).chain(kept.iter().cloned()).collect();
        anyhow!("the policies cannot be used by Mullion {own}, and {why}:\n{}", all.join("\n"))
    };
    let stored = match last_good.await {
        Ok(stored) if stored.is_empty() => {
            return Err(unusable(&format!("there are no earlier ones: ConfigMap {NAME} contains none"), &[]));
        }
        Ok(stored) => stored,
        Err(error) => {
            return Err(unusable(&format!("the earlier ones in ConfigMap {NAME} cannot be read ({error:#})"), &[]));
        }
    };
    // After a rollback, the newest may contain what only the newer release supports.
    let newer = stored.iter().filter_map(|stored| stored.release).find(|release| *release > own);
    let mut kept = Vec::new();
    let mut loaded = None;
    for StoredPolicies { files, .. } in stored {
        match PolicySet::load(&PolicyFiles { texts: files, problems: Vec::new() }) {
            Ok(set) => {
                loaded = Some(Arc::new(set.at(now)));
                break;
            }
            Err(problems) => kept.extend(problems.iter().map(|problem| format!("ConfigMap {NAME}: {problem}"))),
        }
    }
    let Some(set) = loaded else {
        let cause = newer.map_or_else(String::new, |newer| format!(", because Mullion {newer} stored them"));
        return Err(unusable(
            &format!("the earlier ones in ConfigMap {NAME} do not load in this version{cause}"),
            &kept,
        ));
    };
    tracing::error!(
        hash = set.hash,
        version = %own,
        "the policy files are invalid; the last good ones, stored in ConfigMap {NAME}, are in force until they are corrected"
    );
    if let Some(newer) = newer {
        tracing::error!(
            "Mullion {newer} ran in this cluster before this version, {own}: remove from the policy files what only {newer} \
             supports, or upgrade to {newer}"
        );
    }
    reporter.record_kept(&set, newer, problems, &files, now);
    let source = files_after(directories, interval, PolicyStore::with(Arc::clone(&set)));
    Ok((set, source))
}

/// Reads the policy files. A panic is part of the result, and the files are read again.
pub(crate) fn reread(source: &mut PolicyFileReader) -> PolicyReading {
    catch_unwind(AssertUnwindSafe(source)).unwrap_or(PolicyReading::Panicked)
}

/// Runs `job` every `interval`, on a thread where it may block, so that a file system that hangs does not stop reviews.
/// A job that panics (the panic hook logs the place) is run again. `what` describes the files in messages.
pub(crate) async fn every(
    interval: Duration,
    stop: CancellationToken,
    what: &'static str,
    mut job: impl FnMut() + Send + 'static,
) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is at once, and the files have just been read.
    ticks.tick().await;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let run = tokio::task::spawn_blocking(move || {
            drop(catch_unwind(AssertUnwindSafe(&mut job)));
            job
        });
        let ran = tokio::select! {
            () = stop.cancelled() => return,
            ran = patiently(run, what) => ran,
        };
        match ran {
            Ok(back) => job = back,
            Err(error) => {
                tracing::error!(%error, "re-reading files ended; changes need a restart to take effect");
                return;
            }
        }
    }
}

/// Waits for a reading without a time limit, and logs if it is slow.
async fn patiently<T>(
    mut reading: tokio::task::JoinHandle<T>,
    what: &'static str,
) -> Result<T, tokio::task::JoinError> {
    if let Ok(read) = timeout(SLOW, &mut reading).await {
        return read;
    }
    tracing::error!("{what} are still being read after {} s; check their file system", SLOW.as_secs());
    let read = reading.await;
    tracing::warn!("{what} have been read now");
    read
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use mullion_policy::PolicyFile;

    use super::*;

    const BAD: &str = "kind: PodPolicy\n";
    const INTERVAL: Duration = Duration::from_millis(1);

    fn policy(priority: u32) -> String {
        format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec: {{priority: {priority}}}\n"
        )
    }

    fn priority_in(set: &PolicySet) -> i64 {
        set.own().next().and_then(|policy| policy.priority).unwrap()
    }

    fn folder(text: &str) -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.yaml"), text).unwrap();
        let directories = vec![folder.path().to_owned()];
        (folder, directories)
    }

    fn kept(text: &str) -> Vec<StoredPolicies> {
        vec![stored("0.1", text)]
    }

    fn stored(release: &str, text: &str) -> StoredPolicies {
        let files = vec![PolicyFile { name: "kept.yaml".to_owned(), bytes: text.into() }];
        StoredPolicies { release: MinorVersion::of(release), files }
    }

    /// A file system that does not respond blocks one thread, whatever the interval.
    #[tokio::test]
    async fn a_hanging_read_blocks_nothing_else() {
        let (open, closed) = std::sync::mpsc::channel::<()>();
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let stop = CancellationToken::new();
        let reading = tokio::spawn(every(INTERVAL, stop.clone(), "the files", move || {
            count.fetch_add(1, Ordering::SeqCst);
            let _closed = closed.recv();
        }));
        let times = async |expected: usize| {
            while begun.load(Ordering::SeqCst) < expected {
                tokio::time::sleep(INTERVAL).await;
            }
            // Many intervals later.
            tokio::time::sleep(20 * INTERVAL).await;
            begun.load(Ordering::SeqCst)
        };
        assert_eq!(times(1).await, 1, "not read again beside the one that hangs");
        open.send(()).unwrap();
        assert_eq!(times(2).await, 2, "once it answers, it is read again");
        stop.cancel();
        reading.await.unwrap();
        // The runtime waits for its threads.
        drop(open);
    }

    #[tokio::test]
    async fn valid_files_need_no_stored_ones() {
        let (_folder, directories) = folder(&policy(1));
        // It never responds, and is never queried.
        let reporter = PolicyReporter::default();
        let (set, _) = load_at_start(directories, INTERVAL, std::future::pending(), &reporter).await.unwrap();
        assert!(reporter.report().problems().next().is_none());
        assert_eq!(priority_in(&set), 1);
        assert_eq!(set.files[0].bytes, policy(1).as_bytes());
    }

    #[tokio::test]
    async fn last_good_files_are_used_until_the_files_are_valid() {
        let (folder, directories) = folder(BAD);
        let reporter = PolicyReporter::default();
        let (set, mut source) =
            load_at_start(directories, INTERVAL, async { Ok(kept(&policy(2))) }, &reporter).await.unwrap();
        assert_eq!(priority_in(&set), 2);
        assert_eq!(&set.files[..], kept(&policy(2))[0].files, "and can be kept again");
        let report = reporter.report();
        let first: Vec<_> = report.problems().cloned().collect();
        assert!(first[0].to_string().contains("a.yaml:1:"), "{first:?}");
        // Reported once more as new, and then no more.
        assert!(matches!(reread(&mut source), PolicyReading::Rejected { problems, .. } if problems == first));
        assert!(matches!(reread(&mut source), PolicyReading::Unchanged));
        std::fs::write(folder.path().join("a.yaml"), policy(3)).unwrap();
        let PolicyReading::Loaded(set) = reread(&mut source) else { panic!("the files are good") };
        assert_eq!(priority_in(&set), 3);
    }

    #[tokio::test]
    async fn a_release_that_does_not_support_the_newest_uses_those_of_its_own() {
        let newest = policy(1).replace("priority", "fromTheFuture");
        let (_folder, directories) = folder(&newest);
        let kept = vec![stored("999.0", &newest), stored("0.1", &policy(2))];
        let reporter = PolicyReporter::default();
        let (set, _) = load_at_start(directories.clone(), INTERVAL, async { Ok(kept) }, &reporter).await.unwrap();
        assert_eq!(priority_in(&set), 2);
        let report = reporter.report();
        assert_eq!((report.kept, report.newer), (true, MinorVersion::of("999.0")));
        assert!(
            report.problem_texts()[0].contains("`spec` has no key `fromTheFuture`"),
            "{:?}",
            report.problem_texts()
        );
        // Without those of its own, the error names the release that is necessary.
        let kept = vec![stored("999.0", &newest)];
        let error =
            load_at_start(directories, INTERVAL, async { Ok(kept) }, &PolicyReporter::default()).await.err().unwrap();
        let error = error.to_string();
        assert!(error.contains("because Mullion 999.0 stored them:\n") && error.contains("`fromTheFuture`"), "{error}");
    }

    #[tokio::test]
    async fn without_last_good_ones_the_error_lists_every_problem() {
        let (_folder, directories) = folder(BAD);
        let begin = async |last_good: anyhow::Result<Vec<StoredPolicies>>| {
            let begun =
                load_at_start(directories.clone(), INTERVAL, async { last_good }, &PolicyReporter::default()).await;
            begun.err().expect("there is nothing to begin with").to_string()
        };
        let cases = [
            (Ok(Vec::new()), "contains none"),
            (Err(anyhow!("no response")), "cannot be read (no response)"),
            (Ok(kept(BAD)), "kept.yaml:1:"),
        ];
        for (last_good, part) in cases {
            let error = begin(last_good).await;
            assert!(error.contains("a.yaml:1:") && error.contains(part), "{error}");
        }
    }
}

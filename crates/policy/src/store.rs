//! The policy set in force while files change.

use std::sync::Arc;

use mullion_manifest::Problem;

use crate::file_status::FileVersion;
use crate::policy_file::{PolicyFile, PolicyFiles};
use crate::policy_set::PolicySet;

/// The last good set. The caller reads the files, every 10 s, and passes them to [`reload`](Self::reload).
#[derive(Debug, Clone, Default)]
pub struct PolicyStore {
    current: Option<Arc<PolicySet>>,
    last_hash: Option<String>,
}

/// The result of reading the policy files once.
#[derive(Debug, Clone)]
pub enum PolicyReading {
    /// The files did not change, good or bad.
    Unchanged,
    /// The files are good, and in force now.
    Loaded(Arc<PolicySet>),
    /// The files did not change, and a policy of the set in force ended: this is the set without it.
    Ended(Arc<PolicySet>),
    /// The files are bad: the earlier set stays in force, if there was a good one.
    Rejected {
        /// All problems.
        problems: Vec<Problem>,
        /// The files that could be read.
        files: Vec<FileVersion>,
    },
    /// Reading them panicked, which is a defect of Mullion. The caller catches it.
    Panicked,
}

impl PolicyStore {
    /// Starts with another set: the last good one that the controller stored.
    pub fn with(set: Arc<PolicySet>) -> Self {
        Self { current: Some(set), last_hash: None }
    }

    /// The set in force; `None` if there was no good one yet.
    pub fn current(&self) -> Option<&Arc<PolicySet>> {
        self.current.as_ref()
    }

    /// Hash of the files of the last reading, good or bad.
    pub fn last_hash(&self) -> Option<&str> {
        self.last_hash.as_deref()
    }

    /// Adopts `files` if they are good and changed. `now`, in seconds since 1970, decides which policies have ended.
    pub fn reload(&mut self, files: &PolicyFiles, now: i64) -> PolicyReading {
        let hash = files.hash();
        if self.last_hash.as_ref() == Some(&hash) {
            let has_end = self.current.as_mut().filter(|set| set.next_end().is_some_and(|end| end <= now));
            let Some(current) = has_end else { return PolicyReading::Unchanged };
            *current = Arc::new(current.at(now));
            return PolicyReading::Ended(Arc::clone(current));
        }
        let reading = match PolicySet::load(files) {
            Ok(set) => {
                let set = if set.next_end().is_some() { set.at(now) } else { set };
                let same =
                    |current: &Arc<PolicySet>| current.hash == set.hash && current.ended.len() == set.ended.len();
                // If files are reverted, the computed settings of their set are still valid.
                let before = self.current.take().filter(same);
                PolicyReading::Loaded(Arc::clone(self.current.insert(before.unwrap_or_else(|| Arc::new(set)))))
            }
            Err(problems) => {
                PolicyReading::Rejected { problems, files: files.texts.iter().map(PolicyFile::version).collect() }
            }
        };
        // Set last, so that files on which the loader panics are tried again.
        self.last_hash = Some(hash);
        reading
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::settings::{Denials, Mode};

    use super::*;

    fn files(mode: &str) -> PolicyFiles {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec: {{mode: {mode}}}\n"
        );
        PolicyFiles { texts: vec![PolicyFile { name: "a.yaml".into(), bytes: text.into() }], problems: Vec::new() }
    }

    fn mode(store: &PolicyStore) -> Option<Mode> {
        store.current().map(|set| set.settings("a", None, &()).mode)
    }

    #[test]
    fn the_last_good_set_stays_in_force_if_a_file_is_bad() {
        let mut store = PolicyStore::default();
        let reload = |store: &mut PolicyStore, mode: &str| store.reload(&files(mode), 0);
        let problems = |reading: PolicyReading| match reading {
            PolicyReading::Rejected { problems, .. } => problems.len(),
            other => panic!("{other:?}"),
        };
        let bad = reload(&mut store, "Bad");
        assert!(matches!(&bad, PolicyReading::Rejected { files, .. } if files[0].name == "a.yaml"));
        assert_eq!(problems(bad), 1);
        assert_eq!(mode(&store), None);
        assert!(matches!(reload(&mut store, "Audit"), PolicyReading::Loaded(_)));
        assert!(matches!(reload(&mut store, "Audit"), PolicyReading::Unchanged));
        assert_eq!(problems(reload(&mut store, "Worse")), 1);
        assert_eq!(mode(&store), Some(Mode::Audit));
        // The files are still bad, which was reported already.
        assert!(matches!(reload(&mut store, "Worse"), PolicyReading::Unchanged));
        let before = store.current().cloned();
        let PolicyReading::Loaded(again) = reload(&mut store, "Audit") else { panic!("it is good") };
        assert!(Arc::ptr_eq(&again, &before.unwrap()), "the computed settings of the set stay");
        assert!(matches!(reload(&mut store, "Disabled"), PolicyReading::Loaded(_)));
        assert_eq!(mode(&store), Some(Mode::Disabled));
    }

    #[test]
    fn another_set_stays_in_force_until_the_files_are_good() {
        let kept = PolicySet::load(&files("Audit")).unwrap();
        let mut store = PolicyStore::with(Arc::new(kept));
        assert!(matches!(store.reload(&PolicyFiles::default(), 0), PolicyReading::Rejected { .. }));
        assert_eq!(mode(&store), Some(Mode::Audit));
    }

    #[test]
    fn a_policy_ends_without_a_change_of_its_file() {
        let file = |spec: &str| {
            let text =
                format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec: {spec}\n");
            PolicyFiles { texts: vec![PolicyFile { name: "a.yaml".into(), bytes: text.into() }], problems: Vec::new() }
        };
        let exemption = file("{until: 1970-01-02, rules: {denials: Warn}}");
        let bad = file("{until: 1970-01-02, mode: Audit}");
        let denials = |store: &PolicyStore| store.current().map(|set| set.settings("a", None, &()).denials).unwrap();
        let end = 2 * 24 * 60 * 60;
        let mut store = PolicyStore::default();
        assert!(matches!(store.reload(&exemption, end - 1), PolicyReading::Loaded(_)));
        assert_eq!(denials(&store), Denials::Warn);
        assert!(matches!(store.reload(&exemption, end - 1), PolicyReading::Unchanged));
        let PolicyReading::Ended(set) = store.reload(&exemption, end) else { panic!("it has ended") };
        assert_eq!((denials(&store), set.ended.len(), set.own().count()), (Denials::Deny, 1, 0));
        assert!(matches!(store.reload(&exemption, end), PolicyReading::Unchanged));
        // It also ends while the files are bad.
        let mut store = PolicyStore::default();
        store.reload(&exemption, 0);
        assert!(matches!(store.reload(&bad, 1), PolicyReading::Rejected { .. }));
        assert!(matches!(store.reload(&bad, 2), PolicyReading::Unchanged));
        assert_eq!(denials(&store), Denials::Warn);
        assert!(matches!(store.reload(&bad, end), PolicyReading::Ended(_)));
        assert_eq!(denials(&store), Denials::Deny);
        // A set that is loaded later has ended policies from the beginning.
        let mut store = PolicyStore::default();
        assert!(matches!(store.reload(&exemption, end), PolicyReading::Loaded(_)));
        assert_eq!(denials(&store), Denials::Deny);
    }

    #[test]
    fn the_hash_distinguishes_contents_names_and_problems() {
        let one = files("Audit");
        let mut renamed = one.clone();
        renamed.texts[0].name = "b.yaml".into();
        let mut moved = one.clone();
        moved.texts[0].name.push('a');
        moved.texts[0].bytes.remove(0);
        let all = [one.hash(), files("Enforce").hash(), renamed.hash(), moved.hash(), PolicyFiles::default().hash()];
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
        assert_eq!(one.hash(), one.clone().hash());
        // The hash is the same in every release, because replicas are compared by it.
        assert_eq!(PolicyFiles::default().hash(), "cbf29ce484222325");
    }
}

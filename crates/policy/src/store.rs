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

    /// The set in force; `None` if there was no good one.
    pub fn current(&self) -> Option<&Arc<PolicySet>> {
        self.current.as_ref()
    }

    /// Hash of the files of the last reading, good or bad.
    pub fn last_hash(&self) -> Option<&str> {
        self.last_hash.as_deref()
    }

    /// Takes over `files` if they are good and changed.
    pub fn reload(&mut self, files: &PolicyFiles) -> PolicyReading {
        let hash = files.hash();
        if self.last_hash.as_ref() == Some(&hash) {
            return PolicyReading::Unchanged;
        }
        let reading = match PolicySet::load(files) {
            Ok(set) => {
                // If files are reverted, the computed settings of their set stay.
                let before = self.current.take().filter(|current| current.hash == set.hash);
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

    use mullion_engine::model::settings::Mode;

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
        let reload = |store: &mut PolicyStore, mode: &str| store.reload(&files(mode));
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
        // Still bad, and reported already.
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
        assert!(matches!(store.reload(&PolicyFiles::default()), PolicyReading::Rejected { .. }));
        assert_eq!(mode(&store), Some(Mode::Audit));
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
        // The same in every release: replicas are compared by it.
        assert_eq!(PolicyFiles::default().hash(), "cbf29ce484222325");
    }
}

//! The policies in force, while files come and go.

use std::sync::Arc;

use mullion_manifest::problem::Problem;

use crate::file_status::FileVersion;
use crate::policy_file::{PolicyFile, PolicyFiles};
use crate::policy_set::PolicySet;

/// Keeps the last good set. Knows no clock: the caller reads the files, every 10 s, and gives them to
/// [`reload`](Self::reload).
#[derive(Debug, Clone, Default)]
pub struct Store {
    current: Option<Arc<PolicySet>>,
    last_hash: Option<String>,
}

/// What came of reading the policy files once.
#[derive(Debug, Clone)]
pub enum PolicyReading {
    /// The files are those of the last time, good or bad.
    Unchanged,
    /// They are good, and in force now.
    Loaded(Arc<PolicySet>),
    /// They are bad: what was in force stays, which is nothing if there never was a good set.
    Rejected {
        /// All of them.
        problems: Vec<Problem>,
        /// The files that could be read.
        files: Vec<FileVersion>,
    },
    /// Reading them panicked, which is a defect of Mullion. Whoever reads the files catches it.
    Panicked,
}

impl Store {
    /// Starts with a set from elsewhere: the last good one that the controller kept.
    pub fn with(set: Arc<PolicySet>) -> Self {
        Self { current: Some(set), last_hash: None }
    }

    /// The set in force; `None` if there never was a good one.
    pub fn current(&self) -> Option<&Arc<PolicySet>> {
        self.current.as_ref()
    }

    /// Hash of the files of the last time, good or bad.
    pub fn last_hash(&self) -> Option<&str> {
        self.last_hash.as_deref()
    }

    /// Takes over `files` if they are good and not those of the last time.
    pub fn reload(&mut self, files: &PolicyFiles) -> PolicyReading {
        let hash = files.hash();
        if self.last_hash.as_ref() == Some(&hash) {
            return PolicyReading::Unchanged;
        }
        let reading = match PolicySet::load(files) {
            Ok(set) => {
                // Files that are back as they were: what was worked out for their set stays.
                let before = self.current.take().filter(|current| current.hash == set.hash);
                PolicyReading::Loaded(Arc::clone(self.current.insert(before.unwrap_or_else(|| Arc::new(set)))))
            }
            Err(problems) => {
                PolicyReading::Rejected { problems, files: files.texts.iter().map(PolicyFile::version).collect() }
            }
        };
        // Last: files on which the loader panics are tried again.
        self.last_hash = Some(hash);
        reading
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::settings::workload_settings::Mode;

    use super::*;

    fn files(mode: &str) -> PolicyFiles {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec: {{mode: {mode}}}\n"
        );
        PolicyFiles { texts: vec![PolicyFile { name: "a.yaml".into(), bytes: text.into() }], problems: Vec::new() }
    }

    fn mode(store: &Store) -> Option<Mode> {
        store.current().map(|set| set.settings("a", None, &()).mode)
    }

    #[test]
    fn the_last_good_set_stays_beside_a_bad_file() {
        let mut store = Store::default();
        let reload = |store: &mut Store, mode: &str| store.reload(&files(mode));
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
        // Still bad: nothing new to say.
        assert!(matches!(reload(&mut store, "Worse"), PolicyReading::Unchanged));
        let before = store.current().cloned();
        let PolicyReading::Loaded(again) = reload(&mut store, "Audit") else { panic!("it is good") };
        assert!(Arc::ptr_eq(&again, &before.unwrap()), "what was worked out for the set stays");
        assert!(matches!(reload(&mut store, "Disabled"), PolicyReading::Loaded(_)));
        assert_eq!(mode(&store), Some(Mode::Disabled));
    }

    #[test]
    fn a_set_from_elsewhere_holds_until_the_files_are_good() {
        let kept = PolicySet::load(&files("Audit")).unwrap();
        let mut store = Store::with(Arc::new(kept));
        assert!(matches!(store.reload(&PolicyFiles::default()), PolicyReading::Rejected { .. }));
        assert_eq!(mode(&store), Some(Mode::Audit));
    }

    #[test]
    fn the_hash_tells_contents_names_and_problems_apart() {
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

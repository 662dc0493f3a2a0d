//! The policies in force, while files come and go.

use std::sync::Arc;

use mullion_manifest::problem::Problem;

use crate::file_status::SeenFile;
use crate::policy_file::{PolicyFile, PolicyFiles};
use crate::policy_set::PolicySet;

/// Keeps the last good set. Knows no clock: the caller reads the files, every 10 s, and gives them to
/// [`reload`](Self::reload).
#[derive(Debug, Clone, Default)]
pub struct Store {
    current: Option<Arc<PolicySet>>,
    problems: Vec<Problem>,
    seen: Option<String>,
}

/// What came of a reload.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The files are those of the last time, good or bad.
    Unchanged,
    /// They are good, and in force now.
    Replaced,
    /// They are bad: what was in force stays, which is nothing if there never was a good set.
    Kept {
        /// All of them.
        problems: Vec<Problem>,
        /// The files that could be read.
        seen: Vec<SeenFile>,
    },
}

impl Store {
    /// Starts with a set from elsewhere: the last good one that the controller kept.
    pub fn with(set: PolicySet) -> Self {
        Self { current: Some(Arc::new(set)), ..Self::default() }
    }

    /// The set in force; `None` if there never was a good one.
    pub fn current(&self) -> Option<&Arc<PolicySet>> {
        self.current.as_ref()
    }

    /// What is wrong with the files as they were last seen; empty while they are those in force.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Hash of the files of the last time, good or bad.
    pub fn seen(&self) -> Option<&str> {
        self.seen.as_deref()
    }

    /// Takes over `files` if they are good and not those of the last time.
    pub fn reload(&mut self, files: &PolicyFiles) -> Outcome {
        let hash = files.hash();
        if self.seen.as_ref() == Some(&hash) {
            return Outcome::Unchanged;
        }
        let outcome = match PolicySet::load(files) {
            Ok(set) => {
                self.problems.clear();
                // Files that are back as they were: what was worked out for their set stays.
                if self.current.as_ref().is_none_or(|current| current.hash != set.hash) {
                    self.current = Some(Arc::new(set));
                }
                Outcome::Replaced
            }
            Err(problems) => {
                self.problems.clone_from(&problems);
                Outcome::Kept { problems, seen: files.texts.iter().map(PolicyFile::seen).collect() }
            }
        };
        // Last: files on which the loader panics are tried again.
        self.seen = Some(hash);
        outcome
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
        assert!(
            matches!(reload(&mut store, "Bad"), Outcome::Kept { problems, seen } if problems.len() == 1 && seen[0].name == "a.yaml")
        );
        assert_eq!(mode(&store), None);
        assert_eq!(reload(&mut store, "Audit"), Outcome::Replaced);
        assert!(store.problems().is_empty());
        assert_eq!(reload(&mut store, "Audit"), Outcome::Unchanged);
        assert!(matches!(reload(&mut store, "Worse"), Outcome::Kept { .. }));
        assert_eq!(mode(&store), Some(Mode::Audit));
        // Still bad: nothing new to say, and still known.
        assert_eq!(reload(&mut store, "Worse"), Outcome::Unchanged);
        assert_eq!(store.problems().len(), 1);
        assert_eq!(reload(&mut store, "Audit"), Outcome::Replaced);
        assert!(store.problems().is_empty());
        assert_eq!(reload(&mut store, "Disabled"), Outcome::Replaced);
        assert_eq!(mode(&store), Some(Mode::Disabled));
    }

    #[test]
    fn a_set_from_elsewhere_holds_until_the_files_are_good() {
        let kept = PolicySet::load(&files("Audit")).unwrap();
        let mut store = Store::with(kept);
        assert!(matches!(store.reload(&PolicyFiles::default()), Outcome::Kept { .. }));
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

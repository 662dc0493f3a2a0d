//! The status of each policy file: in force, bad, waiting for another file, or gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mullion_manifest::Problem;

use crate::policy_file::PolicyFile;
use crate::policy_set::PolicySet;

/// A file that was read, good or bad, without its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    /// Its name in problems and origins.
    pub name: String,
    /// [`PolicyFile::hash`].
    pub hash: String,
}

/// The state of one policy file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyFileState {
    /// It has problems, or cannot be read.
    Bad,
    /// It is new or changed, and good, but another file is bad: a set is loaded completely or not at all.
    Waiting,
    /// It was removed while another file, or its directory, is bad: its last good version is still in force.
    Gone,
    /// Its current version is in force.
    InForce,
}

/// The status of one policy file, or of a directory that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFileStatus {
    /// Its name in problems and origins.
    pub name: String,
    /// The shortest end of the path that differs from all others.
    pub short_name: String,
    /// Its state.
    pub standing: PolicyFileState,
    /// Whether a version of it is in force: `false` for a file that was never in a good set.
    pub in_force: bool,
    /// Hash of its current contents; `None` if they cannot be read.
    pub hash: Option<String>,
    /// When these contents were first seen, in seconds since 1970.
    pub changed: i64,
    /// The number of its policies in force.
    pub policies: usize,
    /// Its current problems.
    pub problems: Vec<Problem>,
}

impl PolicyFileState {
    /// One word, for machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Waiting => "waiting",
            Self::Gone => "gone",
            Self::InForce => "in_force",
        }
    }

    /// All states.
    pub const ALL: [Self; 4] = [Self::Bad, Self::Waiting, Self::Gone, Self::InForce];
}

impl PolicyFileStatus {
    /// The state as text.
    pub fn in_words(&self) -> &'static str {
        match (self.standing, self.in_force) {
            (PolicyFileState::Bad, true) => "bad; an older version of it is in force",
            (PolicyFileState::Bad, false) => "bad; nothing of it is in force",
            (PolicyFileState::Waiting, true) => {
                "good, but not loaded while another file is bad; an older version of it is in force"
            }
            (PolicyFileState::Waiting, false) => {
                "good, but not loaded while another file is bad; nothing of it is in force"
            }
            (PolicyFileState::Gone, _) => {
                "not found, but not removed while another file or a directory is bad; its last good version is in force"
            }
            (PolicyFileState::InForce, _) => "in force",
        }
    }
}

impl PolicyFile {
    /// The file without its contents.
    pub fn version(&self) -> FileVersion {
        FileVersion { name: self.name.clone(), hash: self.hash() }
    }
}

impl PolicySet {
    /// Its files at the time of loading.
    pub fn versions(&self) -> Vec<FileVersion> {
        self.files.iter().map(PolicyFile::version).collect()
    }
}

/// The status of all files `now`, in order of name: the files of the set in force, the files that were `read` last, and
/// other sources of problems of that reading (a directory, an unreadable file). `earlier` is the status after the previous
/// reading.
pub fn file_statuses(
    set: &PolicySet,
    read: &[FileVersion],
    problems: Vec<Problem>,
    earlier: &[PolicyFileStatus],
    now: i64,
) -> Vec<PolicyFileStatus> {
    let mut problems_by_file: BTreeMap<String, Vec<Problem>> = BTreeMap::new();
    for problem in problems {
        problems_by_file.entry(problem.source.clone()).or_default().push(problem);
    }
    let loaded = set.versions();
    let files = loaded.iter().chain(read).map(|file| &file.name).chain(problems_by_file.keys());
    let names: BTreeSet<String> = files.cloned().collect();
    let short_names = short_names(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let hash =
        |files: &[FileVersion], name: &str| files.iter().find(|file| file.name == name).map(|file| file.hash.clone());
    let status = |(name, short_name): (String, String)| {
        let (in_force, hash) = (hash(&loaded, &name), hash(read, &name));
        let problems = problems_by_file.remove(&name).unwrap_or_default();
        let standing = match &hash {
            _ if !problems.is_empty() => PolicyFileState::Bad,
            None => PolicyFileState::Gone,
            hash if *hash == in_force => PolicyFileState::InForce,
            Some(_) => PolicyFileState::Waiting,
        };
        let before = earlier.iter().find(|before| before.name == name && before.hash == hash);
        PolicyFileStatus {
            short_name,
            standing,
            in_force: in_force.is_some(),
            changed: before.map_or(now, |before| before.changed),
            hash,
            policies: set.documents.iter().filter(|document| *document.origin.file == *name).count(),
            problems,
            name,
        }
    };
    names.into_iter().zip(short_names).map(status).collect()
}

/// The shortest end of each path that differs from all others: file names, if all files are in one directory.
pub fn short_names(paths: &[&str]) -> Vec<String> {
    let parts = |path: &str| path.split('/').filter(|part| !part.is_empty()).count();
    let last = |path: &str, number: usize| {
        let at = path.rmatch_indices('/').nth(number - 1).map_or(0, |(at, _)| at + 1);
        path.get(at..).unwrap_or(path).to_owned()
    };
    let mut names: Vec<Option<String>> = vec![None; paths.len()];
    let deepest = paths.iter().map(|path| parts(path)).max().unwrap_or_default();
    for number in 1..=deepest {
        let mut times: HashMap<String, usize> = HashMap::new();
        for path in paths {
            *times.entry(last(path, number)).or_default() += 1;
        }
        for (name, path) in names.iter_mut().zip(paths).filter(|(name, _)| name.is_none()) {
            let short = last(path, number);
            *name = Some(short).filter(|short| !short.is_empty() && times.get(short) == Some(&1));
        }
    }
    names.into_iter().zip(paths).map(|(name, path)| name.unwrap_or_else(|| (*path).to_owned())).collect()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;
    use crate::policy_file::PolicyFiles;

    fn policy(name: &str, priority: u32) -> String {
        format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec: {{priority: {priority}}}\n"
        )
    }

    fn files(texts: &[(&str, String)]) -> PolicyFiles {
        let texts =
            texts.iter().map(|(name, text)| PolicyFile { name: (*name).to_owned(), bytes: text.clone().into() });
        PolicyFiles { texts: texts.collect(), problems: Vec::new() }
    }

    #[test]
    fn every_file_has_one_standing() {
        let set = PolicySet::load(&files(&[
            ("p/a.yaml", format!("{}---\n{}", policy("a", 1), policy("a2", 2))),
            ("p/b.yaml", policy("b", 3)),
            ("p/c.yaml", policy("c", 4)),
            ("p/d.yaml", policy("d", 5)),
        ]))
        .unwrap();
        let rows = |statuses: &[PolicyFileStatus]| -> Vec<(String, &str, bool, usize, usize)> {
            let row = |file: &PolicyFileStatus| {
                (file.name.clone(), file.standing.name(), file.in_force, file.policies, file.problems.len())
            };
            statuses.iter().map(row).collect()
        };
        let row = |name: &str, standing, in_force, policies, problems| {
            (name.to_owned(), standing, in_force, policies, problems)
        };
        assert_eq!(
            rows(&file_statuses(&set, &set.versions(), Vec::new(), &[], 1)),
            [
                row("p/a.yaml", "in_force", true, 2, 0),
                row("p/b.yaml", "in_force", true, 1, 0),
                row("p/c.yaml", "in_force", true, 1, 0),
                row("p/d.yaml", "in_force", true, 1, 0)
            ]
        );
        let now = files(&[
            ("p/a.yaml", policy("a", 1).replace("priority", "priorty")),
            ("p/b.yaml", policy("b", 3)),
            ("p/c.yaml", policy("c", 40)),
            ("p/e.yaml", policy("e", 6)),
        ]);
        let problems = PolicySet::load(&now).unwrap_err();
        let versions: Vec<FileVersion> = now.texts.iter().map(PolicyFile::version).collect();
        let before = file_statuses(&set, &set.versions(), Vec::new(), &[], 1);
        let found = file_statuses(&set, &versions, problems.clone(), &before, 2);
        assert_eq!(
            rows(&found),
            [
                row("p/a.yaml", "bad", true, 2, 1),
                row("p/b.yaml", "in_force", true, 1, 0),
                row("p/c.yaml", "waiting", true, 1, 0),
                row("p/d.yaml", "gone", true, 1, 0),
                row("p/e.yaml", "waiting", false, 0, 0),
            ]
        );
        let changed: Vec<i64> = found.iter().map(|file| file.changed).collect();
        assert_eq!(changed, [2, 1, 2, 2, 2], "only unchanged files keep their time");
        assert_eq!(found[3].hash, None);
        assert_ne!(found[2].hash, Some(set.files[2].hash()));
        // If a directory cannot be read, all its files are gone, and all problems are reported.
        let gone = Problem { source: "p".to_owned(), ..problems[0].clone() };
        let gone = file_statuses(&set, &[], vec![gone], &[], 1);
        assert_eq!(rows(&gone)[0], row("p", "bad", false, 0, 1));
        assert!(gone[1..].iter().all(|file| file.standing == PolicyFileState::Gone && file.in_force), "{gone:?}");
    }

    #[test]
    fn names_are_as_short_as_they_can_be() {
        let cases: [(&[&str], &[&str]); 5] = [
            (&["/etc/mullion/a.yaml", "/etc/mullion/b.yaml"], &["a.yaml", "b.yaml"]),
            (&["/one/p/a.yaml", "/two/p/a.yaml", "/two/p/b.yaml"], &["one/p/a.yaml", "two/p/a.yaml", "b.yaml"]),
            (&["/a.yaml", "/x/a.yaml"], &["/a.yaml", "x/a.yaml"]),
            (&["/etc/mullion", "/etc/mullion/a.yaml", ""], &["mullion", "a.yaml", ""]),
            (&[], &[]),
        ];
        for (paths, expected) in cases {
            assert_eq!(short_names(paths), expected);
        }
    }

    proptest! {
        #[test]
        fn short_names_distinguish_paths(paths in prop::collection::btree_set("(/?[ab]{1,2}){1,4}", 0..8)) {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let short = short_names(&paths);
            let different: BTreeSet<&String> = short.iter().collect();
            prop_assert_eq!(different.len(), paths.len(), "{:?}", short);
            for (short, path) in short.iter().zip(&paths) {
                prop_assert!(path.ends_with(short.as_str()));
            }
        }
    }
}

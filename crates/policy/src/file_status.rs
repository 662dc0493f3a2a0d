//! How each policy file stands: in force, bad, waiting for another, or gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mullion_manifest::problem::Problem;

use crate::policy_file::PolicyFile;
use crate::policy_set::PolicySet;
use crate::warnings::warning::Warning;

/// A file as it was seen, good or bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFile {
    /// As problems and origins call it.
    pub name: String,
    /// [`PolicyFile::hash`].
    pub hash: String,
}

/// How one policy file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It has problems, or cannot be read.
    Bad,
    /// It is new or changed, and good, but another one is bad: a set is taken whole or not at all.
    Waiting,
    /// It is gone while another one, or its directory, is bad: what it said last is in force still.
    Gone,
    /// As it is now.
    InForce,
}

/// One policy file, or a directory that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStatus {
    /// As problems and origins call it.
    pub name: String,
    /// How it stands.
    pub standing: Standing,
    /// Whether what it said at some time is in force: `false` for a file that was never in a good set.
    pub in_force: bool,
    /// Of what it says now; `None` if that cannot be read.
    pub hash: Option<String>,
    /// How many policies of it are in force.
    pub policies: usize,
    /// What is wrong with it now.
    pub problems: Vec<Problem>,
    /// What is strange about its policies that are in force.
    pub warnings: Vec<Warning>,
}

impl Standing {
    /// One word, for machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Waiting => "waiting",
            Self::Gone => "gone",
            Self::InForce => "in_force",
        }
    }

    /// Every one.
    pub const ALL: [Self; 4] = [Self::Bad, Self::Waiting, Self::Gone, Self::InForce];
}

impl FileStatus {
    /// The standing in words.
    pub fn in_words(&self) -> &'static str {
        match (self.standing, self.in_force) {
            (Standing::Bad, true) => "bad; an older version of it is in force",
            (Standing::Bad, false) => "bad; nothing of it is in force",
            (Standing::Waiting, true) => {
                "good, but not taken while another file is bad; an older version of it is in force"
            }
            (Standing::Waiting, false) => "good, but not taken while another file is bad; nothing of it is in force",
            (Standing::Gone, _) => {
                "not found, and not dropped while another file or a directory is bad; its last good version is in force"
            }
            (Standing::InForce, _) => "in force",
        }
    }
}

impl PolicyFile {
    /// The file without what it says.
    pub fn seen(&self) -> SeenFile {
        SeenFile { name: self.name.clone(), hash: self.hash() }
    }
}

impl PolicySet {
    /// Its files, as they were when it was loaded.
    pub fn seen(&self) -> Vec<SeenFile> {
        self.files.iter().map(PolicyFile::seen).collect()
    }
}

/// How all files stand, in order of name: those of the set in force, of which there are these `warnings`, those that were
/// `seen` when they were last read, and whatever the problems of that reading name beside them (a directory, an unreadable
/// file).
pub fn standings(set: &PolicySet, warnings: &[Warning], seen: &[SeenFile], problems: &[Problem]) -> Vec<FileStatus> {
    let loaded: BTreeMap<String, String> = set.seen().into_iter().map(|file| (file.name, file.hash)).collect();
    let seen: BTreeMap<&str, &str> = seen.iter().map(|file| (file.name.as_str(), file.hash.as_str())).collect();
    let mut wrong: HashMap<&str, Vec<Problem>> = HashMap::new();
    for problem in problems {
        wrong.entry(&problem.source).or_default().push(problem.clone());
    }
    let mut policies: HashMap<&str, usize> = HashMap::new();
    for document in &*set.documents {
        *policies.entry(&document.origin.file).or_default() += 1;
    }
    let mut warned: HashMap<&str, Vec<Warning>> = HashMap::new();
    for warning in warnings {
        warned.entry(&warning.origin.file).or_default().push(warning.clone());
    }
    let names: BTreeSet<&str> =
        loaded.keys().map(String::as_str).chain(seen.keys().copied()).chain(wrong.keys().copied()).collect();
    let status = |name: &str| {
        let (before, now) = (loaded.get(name), seen.get(name).copied());
        let problems = wrong.get(name).cloned().unwrap_or_default();
        let standing = match now {
            _ if !problems.is_empty() => Standing::Bad,
            None => Standing::Gone,
            Some(now) if before.is_some_and(|before| before == now) => Standing::InForce,
            Some(_) => Standing::Waiting,
        };
        FileStatus {
            name: name.to_owned(),
            standing,
            in_force: before.is_some(),
            hash: now.map(str::to_owned),
            policies: policies.get(name).copied().unwrap_or_default(),
            problems,
            warnings: warned.get(name).cloned().unwrap_or_default(),
        }
    };
    names.into_iter().map(status).collect()
}

/// Of each path as many of its last parts as tell it from the others: file names, where files are of one directory.
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
        let told = |statuses: &[FileStatus]| -> Vec<(String, &str, bool, usize, usize)> {
            let row = |file: &FileStatus| {
                (file.name.clone(), file.standing.name(), file.in_force, file.policies, file.problems.len())
            };
            statuses.iter().map(row).collect()
        };
        let row = |name: &str, standing, in_force, policies, problems| {
            (name.to_owned(), standing, in_force, policies, problems)
        };
        assert_eq!(
            told(&standings(&set, &[], &set.seen(), &[])),
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
        let seen: Vec<SeenFile> = now.texts.iter().map(PolicyFile::seen).collect();
        let found = standings(&set, &[], &seen, &problems);
        assert_eq!(
            told(&found),
            [
                row("p/a.yaml", "bad", true, 2, 1),
                row("p/b.yaml", "in_force", true, 1, 0),
                row("p/c.yaml", "waiting", true, 1, 0),
                row("p/d.yaml", "gone", true, 1, 0),
                row("p/e.yaml", "waiting", false, 0, 0),
            ]
        );
        assert_eq!(found[3].hash, None);
        assert_ne!(found[2].hash, Some(set.files[2].hash()));
        // A directory that cannot be read takes all its files with it, and no word is lost.
        let gone = Problem { source: "p".to_owned(), ..problems[0].clone() };
        let gone = standings(&set, &[], &[], &[gone]);
        assert_eq!(told(&gone)[0], row("p", "bad", false, 0, 1));
        assert!(gone[1..].iter().all(|file| file.standing == Standing::Gone && file.in_force), "{gone:?}");
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
        fn short_names_tell_paths_apart(paths in prop::collection::btree_set("(/?[ab]{1,2}){1,4}", 0..8)) {
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

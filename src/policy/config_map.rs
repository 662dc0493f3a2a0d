//! Policy files in a ConfigMap: what the [directory loader](super::directory) would read once the ConfigMap is mounted,
//! judged before it is.
//!
//! | a key | is |
//! |---|---|
//! | of `data` or `binaryData` with the name of a policy file | read and judged: both become files of the mount |
//! | `*.test.yaml`, `*.test.yml` | left out: cases for `mullion policy test` |
//! | any other | left out, which is said |

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::directory::is_policy_file;
use super::{Files, PolicyFile, PolicySet, Warning, warnings};
use crate::manifest::Problem;

/// The label of ConfigMaps that hold policies, with value `true`.
pub const POLICY_LABEL: &str = "mullion.dev/policy";

/// Whether an object says of itself that it holds policies.
pub fn holds_policies(object: &Value) -> bool {
    object.get("metadata").and_then(|metadata| metadata.get("labels")?.get(POLICY_LABEL)?.as_str()) == Some("true")
}

/// The keys of a ConfigMap, as the directory loader would take them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyMap {
    /// What it would read, each named by its key.
    files: Vec<PolicyFile>,
    /// Those that are in `binaryData`.
    binary: BTreeSet<String>,
    /// What it would leave out for its name.
    ignored: Vec<String>,
}

/// One thing that keeps a ConfigMap from being loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `data[default.yaml]`; `data` for what is no key's.
    pub field: String,
    /// `default.yaml:12:5`, or the field.
    pub place: String,
    /// What is wrong, and what to do about it.
    pub message: String,
}

/// What is to be said of a ConfigMap.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It loads, as this set.
    Good(PolicySet),
    /// It has these faults, and some of them are new.
    Broken(Vec<Fault>),
    /// It has these faults, and had all of them before.
    StillBroken(Vec<Fault>),
}

impl PolicyMap {
    /// Of a ConfigMap as the API server has it.
    pub fn of(object: &Value) -> Self {
        let mut map = Self::default();
        let members = |name: &str| object.get(name).and_then(Value::as_object).into_iter().flat_map(Map::iter);
        for (key, value) in members("data") {
            map.add(key, || value.as_str().unwrap_or_default().as_bytes().to_vec());
        }
        for (key, value) in members("binaryData") {
            if map.add(key, || STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default()) {
                map.binary.insert(key.clone());
            }
        }
        map.files.sort_unstable();
        map
    }

    /// The keys that nobody reads.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    fn add(&mut self, key: &str, bytes: impl FnOnce() -> Vec<u8>) -> bool {
        if is_test_file(key) {
            return false;
        }
        let read = is_policy_file(key.as_ref());
        if read {
            self.files.push(PolicyFile { name: key.to_owned(), bytes: bytes() });
        } else {
            self.ignored.push(key.to_owned());
        }
        read
    }

    /// Judges it alone. With the ConfigMap that it replaces, it is told apart what was wrong before: somebody who edits
    /// an annotation, or who corrects one key of two, is not to be stopped by the rest.
    pub fn judge(&self, old: Option<&Self>) -> Verdict {
        let faults = match self.load() {
            Ok(set) => return Verdict::Good(set),
            Err(faults) => faults,
        };
        let before = old.and_then(|old| if self.files == old.files { Some(faults.clone()) } else { old.load().err() });
        // Lines move with every edit above them.
        let mut known: BTreeMap<_, usize> = BTreeMap::new();
        for fault in before.iter().flatten() {
            *known.entry((&fault.field, &fault.message)).or_default() += 1;
        }
        let mut worse = false;
        for fault in &faults {
            match known.get_mut(&(&fault.field, &fault.message)) {
                Some(left) if *left > 0 => *left -= 1,
                _ => worse = true,
            }
        }
        if worse { Verdict::Broken(faults) } else { Verdict::StillBroken(faults) }
    }

    fn load(&self) -> Result<PolicySet, Vec<Fault>> {
        if self.files.is_empty() {
            // A mounted directory without policy files does not load either.
            let message = "no key is a policy file: the names of those end in .yaml, .yml or .json and do not start \
                with a dot";
            let data = || "data".to_owned();
            return Err(vec![Fault { field: data(), place: data(), message: message.to_owned() }]);
        }
        let files = Files { texts: self.files.clone(), problems: Vec::new() };
        PolicySet::load(&files).map_err(|problems| problems.iter().map(|problem| self.fault(problem)).collect())
    }

    fn fault(&self, problem: &Problem) -> Fault {
        let key = &problem.source;
        let place = format!("{key}:{}:{}", problem.line, problem.column);
        let said = problem.to_string();
        let message = said.strip_prefix(&place).map_or(said.as_str(), |rest| rest.trim_start_matches(": ")).to_owned();
        if self.binary.contains(key) {
            Fault { field: format!("binaryData[{key}]"), place, message }
        } else if self.files.iter().any(|file| file.name == *key) {
            Fault { field: format!("data[{key}]"), place, message }
        } else {
            Fault { field: "data".to_owned(), place: "data".to_owned(), message }
        }
    }

    /// What is to be said of a good ConfigMap beside the policies in force.
    ///
    /// Nobody tells the webhook which ConfigMap is mounted at which directory. If files in force have the very content
    /// of `old`, their directories are where it is mounted; else each file in force is taken as replaced that is called
    /// as one of its keys. That is a guess, and what another edit is about to change is unknown: so this warns, and
    /// never refuses.
    pub fn beside(&self, old: Option<&Self>, set: &PolicySet, in_force: &PolicySet) -> Vec<String> {
        let texts: Vec<PolicyFile> = self.files.iter().chain(self.staying(old, &in_force.files)).cloned().collect();
        if texts.len() == self.files.len() {
            return told(&warnings(set));
        }
        match PolicySet::load(&Files { texts, problems: Vec::new() }) {
            Err(problems) => {
                let collisions = problems.iter().map(|problem| format!("beside the policies in force: {problem}"));
                collisions.chain(told(&warnings(set))).collect()
            }
            Ok(together) => {
                let known = warnings(in_force);
                let own = |file: &str| self.files.iter().any(|own| own.name == file);
                let mut new = warnings(&together);
                new.retain(|warning| own(&warning.origin.file) || !known.contains(warning));
                told(&new)
            }
        }
    }

    /// The files in force that are not this ConfigMap's.
    fn staying<'f>(&self, old: Option<&Self>, in_force: &'f [PolicyFile]) -> impl Iterator<Item = &'f PolicyFile> {
        let keys = |map: &Self| map.files.iter().map(|file| file.name.clone()).collect::<BTreeSet<_>>();
        let (mut names, before) = (keys(self), old.map(|old| &old.files));
        names.extend(old.map(keys).unwrap_or_default());
        let same = |file: &PolicyFile| {
            let name = directory_and_name(&file.name).1;
            before.is_some_and(|before| before.iter().any(|old| old.name == name && old.bytes == file.bytes))
        };
        let mounts: BTreeSet<&str> =
            in_force.iter().filter(|file| same(file)).map(|file| directory_and_name(&file.name).0).collect();
        in_force.iter().filter(move |file| {
            let (directory, name) = directory_and_name(&file.name);
            !(names.contains(name) && (mounts.is_empty() || mounts.contains(directory)))
        })
    }
}

/// What is to be said of a set alone.
pub fn alone(set: &PolicySet) -> Vec<String> {
    told(&warnings(set))
}

fn told(warnings: &[Warning]) -> Vec<String> {
    warnings.iter().map(ToString::to_string).collect()
}

fn is_test_file(key: &str) -> bool {
    [".test.yaml", ".test.yml"].iter().any(|end| key.to_ascii_lowercase().ends_with(end))
}

fn directory_and_name(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

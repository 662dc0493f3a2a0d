//! Policy files in a ConfigMap: the files that the program's directory loader would read from its mount, reviewed at
//! admission.
//!
//! | key | result |
//! |---|---|
//! | of `data` or `binaryData` with the name of a policy file | read and reviewed: both become files of the mount |
//! | `*.test.yaml`, `*.test.yml` | ignored: cases for `mullion policy test` |
//! | any other | ignored, with a warning |

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mullion_manifest::Problem;
use serde_json::{Map, Value};

use crate::file_names::{is_policy_file, is_test_file};
use crate::policy_file::{PolicyFile, PolicyFiles};
use crate::policy_set::PolicySet;
use crate::warnings::warnings;

/// The label of ConfigMaps with policies; its value is `true`.
pub(crate) const POLICY_LABEL: &str = "mullion.dev/policy";

/// Whether an object has the label of ConfigMaps with policies.
pub fn holds_policies(object: &Value) -> bool {
    object.get("metadata").and_then(|metadata| metadata.get("labels")?.get(POLICY_LABEL)?.as_str()) == Some("true")
}

/// The keys of a ConfigMap, as the directory loader would read them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyMap {
    /// The policy files, each named by its key.
    files: Vec<PolicyFile>,
    /// The keys in `binaryData`.
    binary: BTreeSet<String>,
    /// The keys that the loader ignores because of their names.
    ignored: Vec<String>,
}

/// One reason why a ConfigMap cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMapFault {
    /// `data[default.yaml]`; `data` if it is not about one key.
    pub field: String,
    /// `default.yaml:12:5`, or `default.yaml` for the file as a whole; `None` if it is not about one key.
    pub place: Option<String>,
    /// What is wrong, and how to fix it.
    pub message: String,
}

/// The result of a review of a ConfigMap.
#[derive(Debug, Clone)]
pub enum ConfigMapReview {
    /// It loads, as this set.
    Good(Box<PolicySet>),
    /// It has these faults, and some of them are new.
    Broken(Vec<ConfigMapFault>),
    /// It has these faults, and had all of them before.
    StillBroken(Vec<ConfigMapFault>),
}

impl PolicyMap {
    /// The keys of a ConfigMap object.
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

    /// The keys that the loader ignores.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    fn add(&mut self, key: &str, bytes: impl FnOnce() -> Vec<u8>) -> bool {
        if is_test_file(key.as_ref()) {
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

    /// Reviews the ConfigMap alone. Faults that the replaced ConfigMap `old` also had are no reason for a denial: they
    /// must not block an edit of an annotation, or a fix of one of two keys.
    pub fn review(&self, old: Option<&Self>) -> ConfigMapReview {
        let faults = match self.load() {
            Ok(set) => return ConfigMapReview::Good(Box::new(set)),
            Err(faults) => faults,
        };
        let before = old.and_then(|old| if self.files == old.files { Some(faults.clone()) } else { old.load().err() });
        // Faults are not compared by line, because lines move with every edit above them.
        let mut earlier: BTreeMap<_, usize> = BTreeMap::new();
        for fault in before.iter().flatten() {
            *earlier.entry((&fault.field, &fault.message)).or_default() += 1;
        }
        let mut worse = false;
        for fault in &faults {
            match earlier.get_mut(&(&fault.field, &fault.message)) {
                Some(left) if *left > 0 => *left -= 1,
                _ => worse = true,
            }
        }
        if worse { ConfigMapReview::Broken(faults) } else { ConfigMapReview::StillBroken(faults) }
    }

    fn load(&self) -> Result<PolicySet, Vec<ConfigMapFault>> {
        if self.files.is_empty() {
            // A mounted directory without policy files does not load either.
            let message = "no key is a policy file: names of policy files end in .yaml, .yml or .json and do not start \
                with a dot";
            return Err(vec![ConfigMapFault { field: "data".to_owned(), place: None, message: message.to_owned() }]);
        }
        let files = PolicyFiles { texts: self.files.clone(), problems: Vec::new() };
        PolicySet::load(&files).map_err(|problems| problems.iter().map(|problem| self.fault(problem)).collect())
    }

    fn fault(&self, problem: &Problem) -> ConfigMapFault {
        let (key, message) = (&problem.source, problem.explanation());
        if !self.files.iter().any(|file| file.name == *key) {
            return ConfigMapFault { field: "data".to_owned(), place: None, message };
        }
        let place = problem.place().map_or_else(|| key.clone(), |(line, column)| format!("{key}:{line}:{column}"));
        let member = if self.binary.contains(key) { "binaryData" } else { "data" };
        ConfigMapFault { field: format!("{member}[{key}]"), place: Some(place), message }
    }

    /// Warnings about a good ConfigMap together with the policies in force.
    ///
    /// The webhook does not know which ConfigMap is mounted in which directory. If files in force have exactly the
    /// content of `old`, it is mounted in their directories; otherwise it replaces each file in force with the name of
    /// one of its keys. That is a guess, and another edit may follow. Therefore this function only returns warnings,
    /// and never denies.
    pub fn warnings_with(&self, old: Option<&Self>, set: &PolicySet, in_force: &PolicySet) -> Vec<String> {
        let texts: Vec<PolicyFile> = self.files.iter().chain(self.unreplaced(old, &in_force.files)).cloned().collect();
        if texts.len() == self.files.len() {
            return render_warnings(set);
        }
        match PolicySet::load(&PolicyFiles { texts, problems: Vec::new() }) {
            Err(problems) => {
                let collisions =
                    problems.iter().map(|problem| format!("together with the policies in force: {problem}"));
                collisions.chain(render_warnings(set)).collect()
            }
            Ok(together) => {
                let earlier = warnings(in_force);
                let own = |file: &str| self.files.iter().any(|own| own.name == file);
                let new = warnings(&together).into_iter();
                let new = new.filter(|warning| own(&warning.origin.file) || !earlier.contains(warning));
                new.map(|warning| warning.to_string()).collect()
            }
        }
    }

    /// The files in force that this ConfigMap does not replace.
    fn unreplaced<'f>(&self, old: Option<&Self>, in_force: &'f [PolicyFile]) -> impl Iterator<Item = &'f PolicyFile> {
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

/// Warnings about a set alone, as text.
pub fn render_warnings(set: &PolicySet) -> Vec<String> {
    warnings(set).iter().map(ToString::to_string).collect()
}

fn directory_and_name(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn policy(name: &str, priority: u32, rest: &str) -> String {
        format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec: {{priority: {priority}{rest}}}\n"
        )
    }

    fn map(data: &[(&str, &str)]) -> PolicyMap {
        let data: Map<String, Value> = data.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
        PolicyMap::of(&json!({"data": data}))
    }

    fn in_force(files: &[(&str, &str)]) -> PolicySet {
        PolicySet::from_files(files).unwrap()
    }

    fn faults(review: ConfigMapReview) -> Vec<String> {
        match review {
            ConfigMapReview::Good(_) => panic!("it is good"),
            ConfigMapReview::Broken(faults) | ConfigMapReview::StillBroken(faults) => faults
                .into_iter()
                .map(|ConfigMapFault { field, place, message }| format!("{field} {place:?} {message}"))
                .collect(),
        }
    }

    #[test]
    fn the_label_has_one_value() {
        for (labels, expected) in [
            (json!({"mullion.dev/policy": "true"}), true),
            (json!({"mullion.dev/policy": "false"}), false),
            (json!({"mullion.dev/policy": "True"}), false),
            (json!({"mullion.dev/policy": ""}), false),
            (json!({"mullion.dev/policy": true}), false),
            (json!({"policy": "true"}), false),
            (json!(null), false),
            (json!(["mullion.dev/policy"]), false),
        ] {
            assert_eq!(holds_policies(&json!({"metadata": {"labels": labels}})), expected, "{labels}");
        }
        assert!(!holds_policies(&json!(null)) && !holds_policies(&json!([])));
    }

    #[test]
    fn keys_are_read_as_files_of_the_mount_would_be() {
        let map = PolicyMap::of(&json!({
            "data": {"b.yaml": "x", "a.YML": "y", "c.json": "{}", "b.test.yaml": "t", ".b.yaml": "h", "README.md": "r", "yaml": "n"},
            "binaryData": {"d.yaml": "/w==", "logo.png": "/w=="},
        }));
        let names: Vec<&str> = map.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a.YML", "b.yaml", "c.json", "d.yaml"]);
        assert_eq!(map.files[3].bytes, [0xff]);
        let mut ignored = map.ignored().to_vec();
        ignored.sort_unstable();
        assert_eq!(ignored, [".b.yaml", "README.md", "logo.png", "yaml"]);
        for nothing in [json!(null), json!({}), json!({"data": null}), json!({"data": [], "binaryData": 7})] {
            assert_eq!(PolicyMap::of(&nothing), PolicyMap::default(), "{nothing}");
        }
    }

    #[test]
    fn faults_name_key_line_and_column() {
        let found = faults(map(&[("b.yaml", &policy("b", 1, ", mod: Audit")), ("a.yaml", "")]).review(None));
        assert_eq!(
            found,
            [
                "data[a.yaml] Some(\"a.yaml:1:1\") the file contains no policy (write one, or remove the file)",
                "data[b.yaml] Some(\"b.yaml:4:21\") `spec` has no key `mod` (did you mean `mode`?)",
            ]
        );
        let binary = PolicyMap::of(&json!({"binaryData": {"a.yaml": "a2luZDog/A=="}}));
        let found = faults(binary.review(None));
        assert!(found[0].starts_with("binaryData[a.yaml] Some(\"a.yaml:1:7\") "), "{found:?}");
        let found = faults(map(&[("README.md", "")]).review(None));
        assert!(found[0].starts_with("data None no key is a policy file"), "{found:?}");
        // The file is in UTF-16: a fault of the file as a whole.
        let found = faults(PolicyMap::of(&json!({"binaryData": {"a.yaml": "awBpAA=="}})).review(None));
        assert_eq!(found, ["binaryData[a.yaml] Some(\"a.yaml\") the file is UTF-16 (save it as UTF-8)"]);
        // If there are too many, the first one over the limit is reported.
        let many: String = (0..1001).map(|at| policy(&format!("p{at}"), at, "") + "---\n").collect();
        let found = faults(map(&[("a.yaml", &many)]).review(None));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("data[a.yaml] Some(\"a.yaml:5003:18\")") && found[0].contains("at most 1000"),
            "{found:?}"
        );
    }

    #[test]
    fn an_edit_is_denied_for_new_faults() {
        type Data<'a> = &'a [(&'a str, &'a str)];
        let good = policy("good", 1, "");
        let bad = policy("bad", 2, ", mod: Audit");
        let (moved, worse) = (format!("# A note.\n{bad}"), policy("bad", 2, ", mod: Audit, workload: Warn"));
        let twice = policy("bad", 2, ", optOut: {mod: 1}, mod: Audit");
        let cases: [(&str, Data<'_>, Option<Data<'_>>, bool); 9] = [
            ("new", &[("a.yaml", &bad)], None, true),
            ("as before", &[("a.yaml", &bad)], Some(&[("a.yaml", &bad)]), false),
            ("moved", &[("a.yaml", &moved)], Some(&[("a.yaml", &bad)]), false),
            ("worse", &[("a.yaml", &worse)], Some(&[("a.yaml", &bad)]), true),
            ("another of the kind", &[("a.yaml", &twice)], Some(&[("a.yaml", &bad)]), true),
            ("broken", &[("a.yaml", &bad)], Some(&[("a.yaml", &good)]), true),
            ("renamed", &[("b.yaml", &bad)], Some(&[("a.yaml", &bad)]), true),
            ("one fixed", &[("a.yaml", &good), ("b.yaml", &bad)], Some(&[("a.yaml", ""), ("b.yaml", &bad)]), false),
            ("emptied", &[], Some(&[("a.yaml", &good)]), true),
        ];
        for (what, new, old, denied) in cases {
            let review = map(new).review(old.map(map).as_ref());
            assert_eq!(matches!(review, ConfigMapReview::Broken(_)), denied, "{what}: {review:?}");
            assert!(!matches!(review, ConfigMapReview::Good(_)), "{what}");
        }
        assert!(matches!(map(&[("a.yaml", &good)]).review(Some(&map(&[("a.yaml", &bad)]))), ConfigMapReview::Good(_)));
    }

    #[test]
    fn files_in_force_are_replaced_by_name_unless_content_identifies_the_mount() {
        let (warn, deny) = (policy("a", 5, ", rules: {templates: Warn}"), policy("b", 5, ", rules: {templates: Deny}"));
        let other = policy("a", 6, ", rules: {templates: Deny}");
        let collisions = |new: &[(&str, &str)], old: Option<&[(&str, &str)]>, set: &[(&str, &str)]| {
            let new = map(new);
            let ConfigMapReview::Good(alone) = new.review(None) else { panic!("it is good") };
            let warnings = new.warnings_with(old.map(map).as_ref(), &alone, &in_force(set));
            let collision = |text: &String| text.starts_with("together with the policies in force: ");
            warnings.into_iter().filter(collision).collect::<Vec<_>>()
        };
        // Nothing else is in force, or nothing collides.
        assert!(collisions(&[("x.yaml", &deny)], None, &[("/m/x.yaml", &warn)]).is_empty());
        assert!(collisions(&[("x.yaml", &deny)], None, &[("/m/y.yaml", &other)]).is_empty());
        // Another file has the same priority.
        let found = collisions(&[("x.yaml", &deny)], None, &[("/m/y.yaml", &warn)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("x.yaml:4:") && found[0].contains("/m/y.yaml:4"), "{found:?}");
        // After a renaming, the file of the old key belongs to this ConfigMap.
        assert!(collisions(&[("x.yaml", &deny)], Some(&[("y.yaml", &warn)]), &[("/m/y.yaml", &warn)]).is_empty());
        // By the name alone it could be either file; by the content it is the second.
        let two = [("/m/x.yaml", warn.as_str()), ("/n/x.yaml", &policy("c", 7, ""))];
        assert!(collisions(&[("x.yaml", &deny)], None, &two).is_empty());
        let found = collisions(&[("x.yaml", &deny)], Some(&[("x.yaml", &policy("c", 7, ""))]), &two);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            map(&[("x.yaml", &warn)])
                .warnings_with(None, &in_force(&[("x", &warn)]), &PolicySet::built_in())
                .is_empty()
        );
    }

    proptest! {
        /// A ConfigMap is denied if the loader would not load it, unless it had the same faults before.
        #[test]
        fn good_is_what_loads(texts in prop::collection::vec("[a-z: {}\\[\\]\n-]{0,40}|(\\PC){0,10}", 0..4)) {
            let keys: Vec<String> = (0..texts.len()).map(|at| format!("{at}.yaml")).collect();
            let data: Vec<(&str, &str)> = keys.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
            let map = map(&data);
            let loads = PolicySet::from_files(&data).is_ok();
            prop_assert_eq!(matches!(map.review(None), ConfigMapReview::Good(_)), loads);
            prop_assert!(!matches!(map.review(Some(&map)), ConfigMapReview::Broken(_)));
        }
    }
}

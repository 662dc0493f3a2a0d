//! Tests of the whole format, key by key: each key of the schema, set alone, changes its setting and nothing else, and has
//! its origin; three policies together; and files in any order, under any names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use mullion_engine::model::settings::{POD_KEYS, Settings};
use proptest::prelude::*;
use serde_json::json;

use crate::policy_set::PolicySet;
use crate::schema::{POD_SPEC, SchemaObject, ValueShape};

fn policy(name: &str, priority: i64, spec: &str) -> String {
    let spec: String = spec.lines().flat_map(|line| ["  ", line, "\n"]).collect();
    format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec:\n  priority: {priority}\n{spec}"
    )
}

fn load(files: &[(String, String)]) -> PolicySet {
    PolicySet::from_files(files).unwrap_or_else(|all| panic!("{}: {files:?}", all[0]))
}

/// All settings without their origins.
fn plain(settings: &Settings) -> String {
    let images: Vec<_> =
        settings.images.iter().map(|image| (image.pattern.clone(), image.os, image.builds.clone())).collect();
    let actions: Vec<_> = settings.actions.iter().map(|entry| (entry.rule.clone(), entry.action)).collect();
    let mut settings = settings.clone();
    settings.images = Vec::new().into();
    settings.actions = Vec::new();
    settings.origins.clear();
    format!("{settings:?} {images:?} {actions:?}")
}

/// Keys that do not take words, with two values each, neither of them the default.
const KEYS: [(&str, &str, &str); 7] = [
    ("message", "Ask the platform team", "\"#platform\""),
    ("optOut.allow", "[MUL1]", "[run-as-user]"),
    ("detect.images", "[{pattern: a/**, os: windows, builds: [10.0.20348]}]", "[{pattern: b, os: multi}]"),
    (
        "place.tolerations.add",
        "[{key: a, operator: Exists}]",
        "[{key: b, value: c, effect: NoExecute, tolerationSeconds: 5}]",
    ),
    ("rules.version", "\"0.0\"", "\"0.2\""),
    ("rules.translate", "[run-as-user]", "[MUL201]"),
    ("rules.actions", "[{rule: MUL2, action: Warn}]", "[{rule: host-network, action: Allow}]"),
];

/// Every key with two values, the first of them not the default.
fn keys() -> Vec<(&'static str, &'static str, &'static str)> {
    let of_words = POD_KEYS.iter().filter_map(|key| {
        let ValueShape::Word(words) = key.row.shape else { return None };
        let words = || words.iter().map(|word| word.word);
        let one = words().rfind(|word| key.row.default().as_deref() != Some(word))?;
        Some((key.name, one, words().find(|word| *word != one)?))
    });
    of_words.chain(KEYS).collect()
}

/// `value` at the dotted `key`, a key on each line.
fn nested(key: &str, value: &str) -> String {
    let mut text = String::new();
    let parts: Vec<_> = key.split('.').collect();
    for (depth, part) in parts.iter().enumerate() {
        let value = if depth + 1 == parts.len() { format!(" {value}") } else { String::new() };
        text.extend([&*"  ".repeat(depth), part, ":", &value, "\n"]);
    }
    text
}

fn leaves(object: &SchemaObject, path: &str, all: &mut BTreeSet<String>) {
    for key in object.keys {
        let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        match &key.shape {
            ValueShape::Object(below) => leaves(below, &path, all),
            _ => {
                all.insert(path);
            }
        }
    }
}

#[test]
fn every_key_of_the_schema_is_here() {
    let mut all = BTreeSet::new();
    leaves(&POD_SPEC, "", &mut all);
    // Matches are tested with the settings; the name of a RuntimeClass has no meaning without its mode.
    all.retain(|key| {
        !["priority", "until"].contains(&key.as_str()) && !key.starts_with("match.") && key != "place.runtimeClass.name"
    });
    assert_eq!(keys().iter().map(|(key, ..)| (*key).to_owned()).collect::<BTreeSet<_>>(), all);
}

#[test]
fn each_key_changes_its_setting_and_has_its_origin() {
    let nothing = plain(&load(&[("z.yaml".to_owned(), policy("z", 0, ""))]).settings("a", None, &()));
    for (key, one, other) in keys() {
        let of =
            |value: &str| load(&[("a.yaml".to_owned(), policy("a", 5, &nested(key, value)))]).settings("a", None, &());
        let (one, other) = (of(one), of(other));
        assert_ne!(plain(&one), plain(&other), "{key}");
        assert_ne!(plain(&one), nothing, "{key}");
        let own = one.origins.iter().filter(|(_, origin)| &*origin.file == "a.yaml");
        let origins: Vec<_> = own.map(|(key, origin)| (key.as_str(), origin.line)).collect();
        let line = 5 + key.split('.').count();
        assert_eq!(origins, [(key, u32::try_from(line).unwrap())]);
    }
}

#[test]
fn of_three_policies_the_highest_that_matches_decides_key_by_key() {
    for (key, one, other) in keys() {
        let files = |low: &str, middle: &str, high: &str| {
            let matching = |name: &str| format!("match:\n  namespaces: {{include: [{name}]}}\n");
            [
                ("c.yaml".to_owned(), policy("low", -1_000_000, low)),
                ("b.yaml".to_owned(), policy("middle", 0, middle)),
                ("a.yaml".to_owned(), policy("high", i64::MAX, &format!("{}{high}", matching("shop")))),
            ]
        };
        let (one, other) = (nested(key, one), nested(key, other));
        let list = key.ends_with("images")
            || key.ends_with("add")
            || key.ends_with("actions")
            || key.ends_with("allow")
            || key.ends_with("translate");
        let alone = |spec: &str| plain(&load(&[("x.yaml".to_owned(), policy("x", 0, spec))]).settings("a", None, &()));
        let set = load(&files(&one, "rules: {templates: Deny}\n", &other));
        let settings = set.settings("shop", None, &());
        let below = set.settings("web", None, &());
        assert_eq!(settings.origins[key].file.as_ref(), "a.yaml", "{key}: the highest that matches");
        if key != "rules.templates" {
            assert_eq!(below.origins[key].file.as_ref(), "c.yaml", "{key}: an absent key inherits");
            assert_eq!(plain(&below), alone(&one), "{key}");
            if list {
                // Both, the higher first.
                assert_ne!(plain(&settings), alone(&other), "{key}");
                let (of_higher, of_lower) = (alone(&other), alone(&one));
                assert!(plain(&settings).len() > of_higher.len().max(of_lower.len()), "{key}");
            } else {
                assert_eq!(plain(&settings), alone(&other), "{key}");
            }
        }
    }
}

#[test]
fn lists_of_the_higher_come_first() {
    let files: Vec<_> = [("low", -1), ("middle", 0), ("high", 7)]
        .map(|(name, priority)| {
            let spec = format!(
                "optOut: {{allow: [MUL{}]}}\ndetect: {{images: [{{pattern: {name}, os: linux}}]}}\nplace: {{tolerations: {{add: [{{key: {name}}}]}}}}\nrules: {{actions: [{{rule: MUL2, action: {}}}], translate: [run-as-user]}}\n",
                priority + 2,
                if priority == 7 { "Allow" } else { "Warn" },
            );
            let spec = spec.replace("MUL9", "MUL3");
            (format!("{name}.yaml"), policy(name, priority, &spec))
        })
        .into();
    let settings = load(&files).settings("a", None, &());
    assert_eq!(settings.allow, ["MUL3", "MUL2", "MUL1"]);
    assert_eq!(settings.images.iter().map(|image| &*image.pattern).collect::<Vec<_>>(), ["high", "middle", "low"]);
    let keys: Vec<_> = settings.add_tolerations.iter().map(|toleration| toleration.key.as_deref().unwrap()).collect();
    assert_eq!(keys, ["high", "middle", "low"]);
    // Of entries for the same rule only the first decides, and the others are removed.
    assert_eq!(settings.actions.len(), 1);
    assert_eq!(
        settings.action("MUL201", "run-as-user", mullion_engine::model::settings::Action::Deny),
        mullion_engine::model::settings::Action::Allow
    );
}

#[test]
fn priorities_may_be_negative_and_large() {
    let order = [i64::MIN, -5, 0, 1, i64::MAX];
    let files: Vec<_> = order
        .iter()
        .enumerate()
        .map(|(at, priority)| (format!("{at}.yaml"), policy(&format!("p{at}"), *priority, "mode: Audit")))
        .collect();
    let set = load(&files);
    let found: Vec<_> = set.own().map(|policy| policy.priority.unwrap()).collect();
    assert_eq!(found, order.iter().rev().copied().collect::<Vec<_>>());
    // Helm writes large numbers like this.
    let set = load(&[("a.yaml".to_owned(), policy("a", 0, "").replace("priority: 0", "priority: 1e+06"))]);
    assert_eq!(set.own().next().unwrap().priority, Some(1_000_000));
}

#[test]
fn nodes_and_registries_take_every_key() {
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec:\n  mode: Audit\n  labels: [revision]\n  taint: {key: k, value: v, effect: NoExecute, apply: Never}\n  windowsTaints: [a=b*]\n  linuxTaints: []\n  runtimeClasses: {mode: Never, handler: h}\n  expectedPools: [{build: 10.0.26100, taints: [\"os=Windows:NoSchedule\"]}]\n  releases: [{build: 10.0.29000, name: ltsc2028, runsFrom: 10.0.26100}]\n";
    let whole = load(&[("a.yaml".to_owned(), text.to_owned())]);
    let lines: Vec<&str> = text.lines().collect();
    // Each key that is removed changes the settings.
    for at in 4..lines.len() {
        let without: Vec<_> = lines.iter().enumerate().filter(|(line, _)| *line != at).map(|(_, line)| *line).collect();
        let less = load(&[("a.yaml".to_owned(), without.join("\n"))]);
        assert_ne!(less.nodes, whole.nodes, "{}", lines[at]);
    }
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: RegistryPolicy\nmetadata: {name: r}\nspec:\n  registries: [registry.local:5000]\n  plainHTTP: [registry.local:5000]\n  caFiles: [/ca.pem]\n  pullSecrets: Pods\n  lifetimes: {tag: 1m, digest: 2h, error: 3s}\n  timeout: 4s\n";
    let whole = load(&[("a.yaml".to_owned(), text.to_owned())]);
    let lines: Vec<&str> = text.lines().collect();
    for at in 4..lines.len() {
        let without: Vec<_> = lines.iter().enumerate().filter(|(line, _)| *line != at).map(|(_, line)| *line).collect();
        let less = load(&[("a.yaml".to_owned(), without.join("\n"))]);
        assert_ne!(less.registries, whole.registries, "{}", lines[at]);
    }
}

fn spec() -> impl Strategy<Value = String> {
    let chosen = prop::collection::btree_map(0..keys().len(), any::<bool>(), 0..5);
    let matches = prop::sample::select(vec![
        "",
        "match: {namespaces: {include: [a, b]}}\n",
        "match: {namespaces: {exclude: ['a*']}}\n",
        "match: {namespaceSelector: {matchExpressions: [{key: t, operator: NotIn, values: [x]}]}}\n",
        "match: {podSelector: {matchExpressions: [{key: app, operator: Exists}]}}\n",
    ]);
    (chosen, matches).prop_map(|(chosen, matches)| {
        // In flow style, merged by hand: keys of one parent are together.
        let mut tree = serde_json::Map::new();
        for (at, first) in chosen {
            let (key, one, other) = keys()[at];
            let value = mullion_manifest::documents("v", if first { one } else { other }).remove(0).unwrap().json;
            let mut below = &mut tree;
            let parts: Vec<_> = key.split('.').collect();
            for part in &parts[..parts.len() - 1] {
                below = below.entry(*part).or_insert_with(|| json!({})).as_object_mut().unwrap();
            }
            below.insert(parts[parts.len() - 1].to_owned(), value);
        }
        let keys = tree.iter().map(|(key, value)| format!("{key}: {value}\n")).collect::<Vec<_>>().concat();
        format!("{matches}{keys}")
    })
}

proptest! {
    /// Any order of files, any names, one document in each file or all in one.
    #[test]
    fn neither_the_order_of_files_nor_their_names_matter(
        specs in prop::collection::vec((spec(), -3_i64..3), 1..6),
        names in prop::collection::btree_set("[a-z]{1,8}", 6),
        turn in 0..6_usize,
        one_file in any::<bool>(),
    ) {
        let texts: Vec<_> = specs.iter().enumerate().map(|(at, (spec, priority))| policy(&format!("p{at}"), *priority, spec)).collect();
        let plainly: Vec<_> = texts.iter().enumerate().map(|(at, text)| (format!("{at}.yaml"), text.clone())).collect();
        let mut names: Vec<_> = names.into_iter().collect();
        let count = names.len();
        names.rotate_left(turn % count);
        let mut turned: Vec<_> = texts.iter().zip(names).map(|(text, name)| (format!("{name}.yaml"), text.clone())).collect();
        turned.reverse();
        if one_file {
            let all: Vec<_> = turned.iter().map(|(_, text)| text.as_str()).collect();
            turned = vec![("all.yaml".to_owned(), all.join("---\n"))];
        }
        match (PolicySet::from_files(&plainly), PolicySet::from_files(&turned)) {
            (Ok(one), Ok(other)) => {
                for namespace in ["a", "b", "c"] {
                    for (known, labels) in [(None, json!({})), (Some(json!({})), json!({"app": "x"})), (Some(json!({"t": "x"})), json!({}))] {
                        let known = known.map(|labels| serde_json::from_value(labels).unwrap());
                        let settings = |set: &PolicySet| plain(&set.settings(namespace, known.as_ref(), &labels));
                        prop_assert_eq!(settings(&one), settings(&other));
                    }
                }
            }
            // The same keys collide, whichever is reported first.
            (Err(one), Err(other)) => {
                let keys = |problems: &[mullion_manifest::Problem]| {
                    let key = |problem: &mullion_manifest::Problem| problem.message.split("both set ").nth(1).map(str::to_owned);
                    let mut keys: Vec<_> = problems.iter().map(key).collect();
                    keys.sort();
                    keys
                };
                prop_assert_eq!(keys(&one), keys(&other));
                prop_assert!(one.iter().all(|problem| problem.related.is_some()), "{:?}", one);
            }
            (one, other) => prop_assert!(false, "{:?} {:?}", one.err(), other.err()),
        }
    }
}

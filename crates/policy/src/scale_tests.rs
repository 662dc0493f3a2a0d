//! Tests of many policies at once: each optimization is compared with the simple computation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use mullion_engine::model::settings::{
    Action, Glob, ImagePattern, Mode, PatternOs, RuleAction, Settings, TemplateDenials, Toleration, match_image,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::documents::PodPolicy;
use crate::policy_set::PolicySet;

const RULES: [&str; 5] = ["MUL", "MUL2", "MUL20", "MUL201", "run-as-user"];

/// The element of `from` that `bits` select, or nothing.
fn chosen<T: Copy>(bits: u64, from: &[T]) -> Option<T> {
    from.get(usize::try_from(bits % (from.len() as u64 + 2)).unwrap()).copied()
}

/// The `at`th policy, generated from `seed`.
fn policy(at: usize, seed: u64) -> PodPolicy {
    let bits = |from: u32| seed >> from & 0xff;
    // Three of each priority.
    let priority = -i64::try_from(at / 3).unwrap();
    let mut policy = PodPolicy { name: format!("p{at}"), priority: Some(priority), ..PodPolicy::default() };
    let names: &[&str] = chosen(bits(8), &[&["a"][..], &["b"], &["a", "b"], &["a*"]]).unwrap_or_default();
    policy.matches.namespaces.include = names.iter().map(|name| Glob((*name).to_owned())).collect();
    if let Some(label) = chosen(bits(12), &LABELS) {
        policy.matches.pod_selector.match_labels.insert(label.to_owned(), "on".to_owned());
    }
    if let Some(chosen) = chosen(bits(0), &[Mode::Enforce, Mode::Audit, Mode::Disabled]) {
        policy.settings.mode = chosen;
        policy.mark("mode");
    }
    if let Some(chosen) = chosen(bits(2), &[TemplateDenials::Deny, TemplateDenials::Warn]) {
        policy.settings.templates = chosen;
        policy.mark("rules.templates");
    }
    if let Some(rule) = chosen(bits(5), &RULES) {
        policy.settings.allow = vec![rule.to_owned()];
        policy.mark("optOut.allow");
    }
    let patterns = [("a.io/**", PatternOs::Windows), ("a.io/*/x", PatternOs::Linux), ("a.io/b/x:1", PatternOs::Multi)];
    if let Some((pattern, os)) = chosen(bits(18), &patterns) {
        policy.settings.images =
            vec![ImagePattern { pattern: pattern.into(), os, builds: Vec::new(), origin: None }].into();
        policy.mark("detect.images");
    }
    if let Some(key) = chosen(bits(22), &["t", "u", "v"]) {
        policy.settings.add_tolerations = vec![Toleration { key: Some(key.to_owned()), ..TOLERATION }];
        policy.mark("place.tolerations.add");
    }
    let action = chosen(bits(30), &[Action::Deny, Action::Warn, Action::Allow]).unwrap_or(Action::Repair);
    if let Some(rule) = chosen(bits(26), &RULES) {
        policy.settings.actions = vec![RuleAction { rule: rule.to_owned(), action, priority, origin: None }];
        policy.mark("rules.actions");
    }
    policy
}

const LABELS: [&str; 12] = ["l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8", "l9", "l10", "l11"];

const TOLERATION: Toleration =
    Toleration { key: None, operator: None, value: None, effect: None, toleration_seconds: None };

/// Whether a policy of [`policy`] matches the workload.
fn matches(policy: &PodPolicy, namespace: &str, labels: &Value) -> bool {
    let include = &policy.matches.namespaces.include;
    let named = include.is_empty()
        || include.iter().any(|glob| glob.0 == namespace || (glob.0 == "a*" && namespace.starts_with('a')));
    named && policy.matches.pod_selector.match_labels.keys().all(|key| labels.get(key).is_some())
}

/// The first of `policies` that sets `key`, and its name.
fn first<'p>(policies: &[&'p PodPolicy], key: &str) -> Option<(&'p Settings, String)> {
    policies.iter().find(|policy| policy.sets(key)).map(|policy| (&policy.settings, policy.name.clone()))
}

/// All entries of the `policies`, those of higher policies first.
fn listed<T: Clone>(policies: &[&PodPolicy], get: impl Fn(&Settings) -> &[T]) -> Vec<T> {
    policies.iter().flat_map(|policy| get(&policy.settings)).cloned().collect()
}

fn compare(set: &PolicySet, namespace: &str, labels: &Value) {
    let policies: Vec<&PodPolicy> = set.pods.iter().filter(|policy| matches(policy, namespace, labels)).collect();
    let settings = set.settings(namespace, None, labels);
    let origin = |key: &str| settings.origins.get(key).map(|origin| origin.file.to_string());

    let (mode, set_by) = first(&policies, "mode").map(|(set, by)| (set.mode, by)).unzip();
    assert_eq!((settings.mode, origin("mode")), (mode.unwrap_or_default(), set_by));
    let (templates, set_by) = first(&policies, "rules.templates").map(|(set, by)| (set.templates, by)).unzip();
    assert_eq!((settings.templates, origin("rules.templates")), (templates.unwrap_or_default(), set_by));

    // A rule's action is that of the longest entry of the highest priority that has one; of several such entries, the
    // first.
    let mut actions = listed(&policies, |set| &set.actions);
    if let Some(highest) = actions.first().map(|entry| entry.priority) {
        actions.retain(|entry| entry.priority == highest);
    }
    let rank = |rule: &str| RULES.iter().position(|known| *known == rule).unwrap();
    let longest = actions.iter().rev().max_by_key(|entry| rank(&entry.rule)).map(|entry| entry.action);
    assert_eq!(settings.action("MUL201", "run-as-user", Action::Repair), longest.unwrap_or(Action::Repair));
    assert!(settings.actions.len() <= RULES.len());

    let allow: BTreeSet<_> = listed(&policies, |set| &set.allow).into_iter().collect();
    assert_eq!(settings.allow.iter().cloned().collect::<BTreeSet<_>>(), allow);
    let mut tolerations = listed(&policies, |set| &set.add_tolerations);
    let mut seen = BTreeSet::new();
    tolerations.retain(|toleration| seen.insert(toleration.clone()));
    assert_eq!(settings.add_tolerations, tolerations);

    let patterns: Vec<_> = policies.iter().flat_map(|policy| policy.settings.images.iter()).cloned().collect();
    assert_eq!(settings.images.iter().cloned().collect::<Vec<_>>(), patterns);
    for image in ["a.io/b/x:1", "a.io/c/x", "b.io/x"] {
        assert_eq!(settings.images.find(image), match_image(&patterns, image), "{image}");
    }
}

/// Policies of one priority: the namespaces and the keys of each.
fn equal_priorities() -> impl Strategy<Value = Vec<(Vec<&'static str>, Vec<&'static str>)>> {
    let names = prop::sample::subsequence(vec!["a", "b", "c", "d-*"], 0..3);
    let keys =
        prop::sample::subsequence(vec!["mode: Audit", "rules: {templates: Warn}", "optOut: {ignore: Never}"], 0..4);
    prop::collection::vec((names, keys), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn five_hundred_policies_have_the_settings_of_a_simple_merge(
        seeds in prop::collection::vec(any::<u64>(), 500),
        workloads in prop::collection::vec((prop::sample::select(vec!["a", "b", "ab", "c"]), 0..1_u32 << LABELS.len()), 300),
        few in any::<bool>(),
    ) {
        // Up to 256 policies are matched without an allocation.
        let policies = seeds.iter().take(if few { 256 } else { 500 }).enumerate();
        let set = PolicySet { pods: policies.map(|(at, seed)| policy(at, *seed)).collect(), ..PolicySet::default() };
        // More sets of policies than the memo stores, and some of them again.
        for (namespace, bits) in workloads.iter().chain(workloads.iter().take(20)) {
            let chosen = LABELS.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
            let labels = Value::Object(chosen.map(|(_, label)| ((*label).to_owned(), json!("on"))).collect());
            compare(&set, namespace, &labels);
        }
    }
}

proptest! {
    #[test]
    fn equal_priorities_collide_if_two_policies_set_a_key_for_one_namespace(policies in equal_priorities()) {
        let files: Vec<_> = policies.iter().enumerate().map(|(at, (names, keys))| {
            let head = format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: p{at}}}\n");
            let include = format!("match: {{namespaces: {{include: {}}}}}", json!(names));
            let spec = keys.iter().fold(include, |spec, key| format!("{spec}, {key}"));
            (format!("p{at}.yaml"), format!("{head}spec: {{{spec}}}\n"))
        }).collect();
        let mut expected = Vec::new();
        for (at, (names, keys)) in policies.iter().enumerate() {
            for (other, (other_names, other_keys)) in policies.iter().enumerate().skip(at + 1) {
                let literal = |names: &[&str]| !names.is_empty() && names.iter().all(|name| !name.contains('*'));
                let apart = literal(names) && literal(other_names) && !names.iter().any(|name| other_names.contains(name));
                let both = keys.iter().filter(|key| other_keys.contains(key) && !apart);
                expected.extend(both.map(|key| (format!("p{other}.yaml"), key.split(':').next().unwrap(), at)));
            }
        }
        let problems = PolicySet::from_files(&files).err().unwrap_or_default();
        // A directory without files is a problem of its own.
        let problems = if files.is_empty() { Vec::new() } else { problems };
        prop_assert_eq!(problems.len(), expected.len());
        for (file, key, first) in expected {
            let found = problems.iter().filter(|problem| {
                problem.source == file
                    && problem.message.contains(&format!("and `p{first}` both set `spec.{key}"))
                    && problem.related.as_ref().is_some_and(|first_one| first_one.source == format!("p{first}.yaml"))
            });
            prop_assert_eq!(found.count(), 1, "{} {} {}", file, key, first);
        }
    }
}

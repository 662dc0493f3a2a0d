//! Tests of merged policies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use mullion_engine::model::settings::{
    Action, Denials, Glob, Mode, NamespacePatterns, OsFieldMode, RuleAction, Settings, TemplateDenials,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::policy_set::{Memo, PolicySet};

fn set(policies: &[(&str, &str)]) -> PolicySet {
    let files: Vec<_> = policies
        .iter()
        .map(|(name, spec)| {
            let head = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy";
            (format!("{name}.yaml"), format!("{head}\nmetadata: {{name: {name}}}\nspec: {spec}\n"))
        })
        .collect();
    PolicySet::from_files(&files).unwrap_or_else(|all| panic!("{}: {policies:?}", all[0]))
}

#[test]
fn the_highest_that_sets_a_key_decides_and_lists_are_merged() {
    let set = set(&[
        (
            "low",
            "{priority: -1, mode: Audit, rules: {templates: Warn, actions: [{rule: MUL2, action: Warn}, {rule: MUL3, action: Warn}]}, optOut: {allow: [MUL1]},
              detect: {os: linux, images: [{pattern: '**', os: linux}]}, place: {tolerations: {add: [{key: low}]}}}",
        ),
        (
            "high",
            "{priority: 5, mode: Enforce, rules: {actions: [{rule: MUL2, action: Deny}]}, optOut: {allow: [MUL2]},
              detect: {images: [{pattern: 'a.io/**', os: windows}]}, place: {tolerations: {add: [{key: high}]}}}",
        ),
        ("middle", "{place: {specOS: {mode: Never}}, mode: Disabled}"),
    ]);
    assert_eq!(set.own().map(|policy| &*policy.name).collect::<Vec<_>>(), ["high", "middle", "low"]);
    let settings = set.settings("any", None, &());
    assert_eq!(settings.mode, Mode::Enforce);
    assert_eq!(settings.templates, TemplateDenials::Warn);
    assert_eq!(settings.spec_os, OsFieldMode::Never);
    assert_eq!(settings.allow, ["MUL2", "MUL1"]);
    assert_eq!(settings.images.iter().map(|image| &*image.pattern).collect::<Vec<_>>(), ["a.io/**", "**"]);
    let keys: Vec<_> = settings.add_tolerations.iter().map(|toleration| toleration.key.as_deref().unwrap()).collect();
    assert_eq!(keys, ["high", "low"]);
    let actions: Vec<_> = settings.actions.iter().map(|entry| (&*entry.rule, entry.action)).collect();
    assert_eq!(actions, [("MUL2", Action::Deny), ("MUL3", Action::Warn)]);
    let file = |key: &str| settings.origins.get(key).map(|origin| &*origin.file);
    assert_eq!(file("mode"), Some("high.yaml"));
    assert_eq!(file("rules.templates"), Some("low.yaml"));
    assert_eq!(file("place.specOS.mode"), Some("middle.yaml"));
    assert_eq!(file("place.build.mode"), Some("built-in default.yaml"));
}

#[test]
fn all_members_of_match_must_hold() {
    let labels = |text: &str| -> BTreeMap<String, String> {
        text.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
    };
    let cases = [
        ("{}", "a", None, json!({}), true),
        ("{namespaces: {include: [a]}}", "a", None, json!({}), true),
        ("{namespaces: {include: [a]}}", "b", None, json!({}), false),
        ("{namespaces: {include: ['*']}}", "", None, json!({}), true),
        ("{namespaces: {include: [dev-*], exclude: [dev-x]}}", "dev-y", None, json!({}), true),
        ("{namespaces: {include: [dev-*], exclude: [dev-x]}}", "dev-x", None, json!({}), false),
        ("{namespaces: {include: [dev-x], exclude: [dev-x]}}", "dev-x", None, json!({}), false),
        ("{namespaces: {exclude: [dev-*]}}", "prod", None, json!({}), true),
        ("{namespaceSelector: {matchLabels: {t: w}}}", "a", Some("t=w"), json!({}), true),
        ("{namespaceSelector: {matchLabels: {t: w}}}", "a", Some("t=x"), json!({}), false),
        // An unknown namespace matches no selector, not even one that requires the absence of a label.
        ("{namespaceSelector: {matchLabels: {t: w}}}", "a", None, json!({}), false),
        ("{namespaceSelector: {matchExpressions: [{key: t, operator: DoesNotExist}]}}", "a", None, json!({}), false),
        ("{namespaceSelector: {matchExpressions: [{key: t, operator: DoesNotExist}]}}", "a", Some(""), json!({}), true),
        ("{namespaceSelector: {}}", "a", None, json!({}), true),
        ("{podSelector: {matchLabels: {app: x}}}", "a", None, json!({"app": "x"}), true),
        ("{podSelector: {matchLabels: {app: x}}}", "a", None, json!({"app": "y"}), false),
        ("{podSelector: {matchLabels: {app: x}}}", "a", None, json!(null), false),
        ("{namespaces: {include: [b]}, podSelector: {matchLabels: {app: x}}}", "a", None, json!({"app": "x"}), false),
    ];
    for (matches, namespace, namespace_labels, pod_labels, expected) in cases {
        let set = set(&[("p", &format!("{{match: {matches}, mode: Audit}}"))]);
        let known = namespace_labels.map(labels);
        let settings = set.settings(namespace, known.as_ref(), &pod_labels);
        assert_eq!(
            settings.mode == Mode::Audit,
            expected,
            "{matches} on {namespace} {namespace_labels:?} {pod_labels}"
        );
    }
}

#[test]
fn the_longest_match_of_a_rule_wins() {
    let action = |actions: &[(&str, Action)]| {
        let entry = |(rule, action): &(&str, Action)| RuleAction {
            rule: (*rule).into(),
            action: *action,
            priority: 0,
            origin: None,
        };
        let settings = Settings { actions: actions.iter().map(entry).collect(), ..Settings::default() };
        settings.action("MUL201", "run-as-user", Action::Deny)
    };
    let cases: &[(&[(&str, Action)], Action)] = &[
        (&[], Action::Deny),
        (&[("MUL1", Action::Allow)], Action::Deny),
        (&[("run-as", Action::Allow)], Action::Deny),
        (&[("MUL2010", Action::Allow)], Action::Deny),
        (&[("MUL", Action::Allow)], Action::Allow),
        (&[("MUL", Action::Allow), ("MUL2", Action::Warn)], Action::Warn),
        (&[("MUL201", Action::Allow), ("MUL2", Action::Warn)], Action::Allow),
        (&[("MUL201", Action::Allow), ("run-as-user", Action::Repair)], Action::Repair),
        (&[("MUL2", Action::Allow), ("MUL2", Action::Warn)], Action::Allow),
        (&[("run-as-user", Action::Warn), ("run-as-user", Action::Repair)], Action::Warn),
    ];
    for (actions, expected) in cases {
        assert_eq!(action(actions), *expected, "{actions:?}");
    }
}

/// An emergency policy works beside a policy with an entry for the rule.
#[test]
fn of_several_policies_the_highest_with_an_entry_for_the_rule_decides() {
    let low = "{rules: {actions: [{rule: memory-volume, action: Deny}, {rule: MUL2, action: Allow}]}}";
    let cases = [
        ("{priority: 100000, rules: {actions: [{rule: MUL305, action: Warn}]}}", Action::Warn, Action::Allow),
        ("{priority: 100000, rules: {actions: [{rule: MUL3, action: Allow}]}}", Action::Allow, Action::Allow),
        ("{priority: 100000, rules: {actions: [{rule: MUL, action: Warn}]}}", Action::Warn, Action::Warn),
        ("{priority: -1, rules: {actions: [{rule: MUL, action: Warn}]}}", Action::Deny, Action::Allow),
        // At equal priority the longest match decides, as within one policy.
        (
            "{rules: {actions: [{rule: MUL305, action: Warn}, {rule: MUL201, action: Deny}]}}",
            Action::Deny,
            Action::Deny,
        ),
    ];
    for (other, memory_volume, run_as_user) in cases {
        let settings = set(&[("low", low), ("other", other)]).settings("shop", None, &());
        let found = [("MUL305", "memory-volume"), ("MUL201", "run-as-user")]
            .map(|(code, name)| settings.action(code, name, Action::Repair));
        assert_eq!(found, [memory_volume, run_as_user], "{other}");
    }
}

#[test]
fn denials_turn_only_deny_into_warn() {
    for (denials, deny) in [(Denials::Deny, Action::Deny), (Denials::Warn, Action::Warn)] {
        let settings = Settings { denials, ..Settings::default() };
        assert_eq!(settings.action_under_denials("MUL201", "run-as-user", Action::Deny), deny);
        for other in [Action::Allow, Action::Warn, Action::Repair] {
            assert_eq!(settings.action_under_denials("MUL201", "run-as-user", other), other);
        }
    }
}

#[test]
fn allowed_rules_may_be_exempt() {
    let settings = Settings { allow: vec!["run-as-user".into(), "MUL3".into()], ..Settings::default() };
    assert!(settings.may_exempt("MUL201", "run-as-user"));
    assert!(settings.may_exempt("MUL301", "x"));
    assert!(!settings.may_exempt("MUL202", "run-as-group"));
    assert!(!Settings::default().may_exempt("MUL201", "run-as-user"));
}

#[test]
fn workloads_that_the_same_policies_match_share_their_settings() {
    let set = set(&[("p", "{match: {namespaces: {include: [a]}}, mode: Audit}"), ("q", "{rules: {templates: Warn}}")]);
    let first = set.settings("b", None, &());
    assert!(Arc::ptr_eq(&first, &set.settings("c", None, &json!({"app": "x"}))));
    assert!(!Arc::ptr_eq(&first, &set.settings("a", None, &())));
    // A copy may be changed before the first query.
    let mut copy = set.clone();
    copy.pods.clear();
    assert_eq!(copy.settings("b", None, &()).templates, TemplateDenials::Deny);
}

#[test]
fn the_memo_is_bounded_and_distinguishes_more_than_256_policies() {
    let pods = (0..300).map(|at| {
        let mut policy = PodPolicy { name: format!("p{at}"), ..PodPolicy::default() };
        policy.matches.pod_selector.match_labels.insert("n".to_owned(), at.to_string());
        policy.settings.allow = vec![at.to_string()];
        policy.mark("optOut.allow");
        policy
    });
    let set = PolicySet { pods: pods.collect(), ..PolicySet::default() };
    for at in 0..300 {
        let settings = || set.settings("a", None, &json!({"n": at.to_string()}));
        assert_eq!(settings().allow, [at.to_string()]);
        assert!(Arc::ptr_eq(&settings(), &settings()), "the {at}th is remembered too");
        assert!(set.memo.0.read().unwrap().len() <= Memo::LIMIT);
    }
}

fn spec() -> impl Strategy<Value = String> {
    let key = |name: &'static str, values: &'static [&'static str]| {
        prop::option::of(prop::sample::select(values))
            .prop_map(move |value| value.map(|value| format!("{name}: {value}")))
    };
    (
        key("mode", &["Enforce", "Audit", "Disabled"]),
        key("rules", &["{templates: Deny}", "{templates: Warn}"]),
        key("optOut", &["{allow: [MUL1]}", "{allow: [MUL2], ignore: Pods}", "{ignore: Never}"]),
        key(
            "match",
            &[
                "{namespaces: {include: [a, b]}}",
                "{namespaces: {exclude: [a]}}",
                "{podSelector: {matchLabels: {x: v}}}",
            ],
        ),
        key(
            "detect",
            &["{os: windows}", "{images: [{pattern: a, os: linux}]}", "{images: [{pattern: b, os: multi}], os: any}"],
        ),
    )
        .prop_map(|(a, b, c, d, e)| [a, b, c, d, e].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// The settings of a set, without their origins.
fn outcome(set: &PolicySet, namespace: &str, labels: &serde_json::Value) -> String {
    let mut settings = Settings::clone(&set.settings(namespace, None, labels));
    let images: Vec<_> = settings.images.iter().map(|image| image.pattern.clone()).collect();
    settings.images = Vec::new().into();
    settings.origins.clear();
    format!("{settings:?} {images:?}")
}

proptest! {
    #[test]
    fn the_order_of_files_does_not_matter(specs in prop::collection::vec(spec(), 1..5), namespace in "[abc]", turn in 0..5_usize) {
        let named: Vec<_> = specs.iter().enumerate()
            .map(|(at, spec)| (format!("p{at}"), format!("{{priority: {at}, {spec}}}").replace(", }", "}")))
            .collect();
        let policies: Vec<_> = named.iter().map(|(name, spec)| (name.as_str(), spec.as_str())).collect();
        let mut turned = policies.clone();
        turned.rotate_left(turn % policies.len());
        turned.reverse();
        let (one, other) = (set(&policies), set(&turned));
        for labels in [json!({}), json!({"x": "v"})] {
            prop_assert_eq!(outcome(&one, &namespace, &labels), outcome(&other, &namespace, &labels));
        }
    }

    #[test]
    fn a_policy_that_sets_nothing_changes_nothing(specs in prop::collection::vec(spec(), 1..4), at in -1..5_i64, namespace in "[abc]") {
        let mut named: Vec<_> = specs.iter().enumerate()
            .map(|(at, spec)| (format!("p{at}"), format!("{{priority: {at}, {spec}}}").replace(", }", "}")))
            .collect();
        let without = set(&named.iter().map(|(name, spec)| (name.as_str(), spec.as_str())).collect::<Vec<_>>());
        named.push(("nothing".to_owned(), format!("{{priority: {at}}}")));
        let with = set(&named.iter().map(|(name, spec)| (name.as_str(), spec.as_str())).collect::<Vec<_>>());
        prop_assert_eq!(outcome(&without, &namespace, &json!({})), outcome(&with, &namespace, &json!({})));
    }

    #[test]
    fn exclude_takes_precedence(include in prop::collection::vec("[ab*]{1,3}", 0..3), exclude in prop::collection::vec("[ab*]{1,3}", 1..3), name in "[ab]{1,3}") {
        let globs = |list: &[String]| list.iter().map(|glob| Glob(glob.clone())).collect::<Vec<_>>();
        let namespaces = NamespacePatterns { include: globs(&include), exclude: globs(&exclude) };
        if globs(&exclude).iter().any(|glob| glob.matches(&name)) {
            prop_assert!(!namespaces.matches(&name));
        }
    }
}

#[test]
fn a_version_with_its_patch_number_contains_the_rules_of_its_release() {
    for (version, since, expected) in [
        ("0.1", "0.1", true),
        ("0.1.0", "0.1", true),
        ("0.1.7", "0.2", false),
        ("0.10", "0.9", true),
        ("1.0.3", "0.9", true),
        ("0.9.12", "0.10", false),
    ] {
        let settings = Settings { rules_version: Some(version.to_owned()), ..Settings::default() };
        assert_eq!(settings.knows(since), expected, "{version} and a rule since {since}");
    }
}

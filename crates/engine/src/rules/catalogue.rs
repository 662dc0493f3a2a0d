//! The rule catalogue: every check with a stable code and name.
//!
//! Rules that differ only in field, harmless values and text are rows of one table ([`linux_only`]); the others are in
//! the file of their family. Codes are never reused. A rule's page consists of what the catalogue contains about it and
//! of its text under `pages/`: see `report/rule_page.rs`.

use crate::model::settings::Action;
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::images::platforms;
use crate::rules::images::rules::NODES_LEFT_OUT;
use crate::rules::linux_only::{app_armor, table};
use crate::rules::rule::Rule;
use crate::rules::{
    cluster, escaped_backslash, field_types, identity, images, linux_only, os_intent, resources, storage,
};

/// Every rule, in order of code.
pub fn catalogue() -> impl Iterator<Item = &'static Rule> {
    let families = [
        app_armor::RULES,
        storage::rules::RULES,
        identity::rules::RULES,
        images::rules::RULES,
        resources::RULES,
        cluster::rules::RULES,
        field_types::rules::RULES,
        escaped_backslash::RULES,
    ];
    let fields = table::FIELDS.iter().map(|field| &field.rule);
    os_intent::rules::RULES.iter().copied().chain(fields).chain(families.into_iter().flatten().copied())
}

/// The findings of all rules about one workload.
pub fn check(cx: &WorkloadContext<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let whole = cx.is_whole_pod();
    if whole {
        os_intent::check::check(cx, &mut found);
    } else {
        os_intent::check::check_ephemeral(cx, &mut found);
    }
    // The API server checks these for every operating system.
    identity::check::check(cx, &mut found);
    if cx.is_windows() {
        linux_only::check::check(cx, &mut found);
        if whole {
            app_armor::check(cx, &mut found);
        }
        storage::check::check(cx, &mut found);
        resources::check(cx, &mut found);
        escaped_backslash::check(cx, &mut found);
        if whole {
            images::check::check(cx, &mut found);
            platforms::check(cx, &mut found);
        }
        os_intent::images::attribute_to_injectors(cx, &mut found);
    }
    if whole {
        cluster::check::check(cx, &mut found);
    }
    found
}

/// Whether nodes that a DaemonSet leaves out are reported. Policies, and the author of the DaemonSet, may disable it.
pub(crate) fn reports_left_out_nodes(cx: &WorkloadContext<'_>) -> bool {
    cx.action(&NODES_LEFT_OUT, NODES_LEFT_OUT.default) != Action::Allow
}

/// The rule of that code or name.
pub fn find(code_or_name: &str) -> Option<&'static Rule> {
    catalogue().find(|rule| rule.name == code_or_name || rule.code.eq_ignore_ascii_case(code_or_name))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn codes_and_names_are_unique_sorted_and_well_formed() {
        let rules: Vec<&Rule> = catalogue().collect();
        assert!(rules.is_sorted_by(|a, b| a.code < b.code));
        for rule in &rules {
            assert!(rule.code.len() == 6 && rule.code.starts_with("MUL"), "{}", rule.code);
            assert!(rule.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.name);
            assert!(rule.summary.len() <= 80 && !rule.summary.ends_with('.'), "{}", rule.summary);
            assert!(!rule.why.is_empty() && !rule.why.ends_with('.'), "{}", rule.name);
            assert_eq!(rules.iter().filter(|other| other.name == rule.name).count(), 1, "{}", rule.name);
            assert_eq!(find(rule.code), find(rule.name));
        }
    }
}

//! Tests of the keys of the settings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use mullion_engine::model::settings::Mode;

use super::*;
use crate::policy_set::PolicySet;

/// A copy of every key makes the settings equal.
#[test]
fn keys_are_copied() {
    let set = |text: &str| PolicySet::from_files(&[("a.yaml", text)]).unwrap();
    let strict = set(include_str!("../../../../../policies/strict.yaml"));
    let audit = set(include_str!("../../../../../policies/audit.yaml"));
    let (from, mut to) = (strict.settings("a", None, &()), Settings::clone(&audit.settings("a", None, &())));
    assert_eq!((to.mode, from.mode), (Mode::Audit, Mode::Enforce));
    for key in POD_KEYS {
        (key.take)(&mut to, &from);
        assert_eq!((key.value)(&to), (key.value)(&from), "{}", key.name);
    }
    let mut nodes = audit.nodes.clone();
    for key in NODE_KEYS {
        (key.take)(&mut nodes, &strict.nodes);
    }
    assert_eq!(nodes, strict.nodes);
}

#[test]
fn defaults_are_those_of_the_fields() {
    let row = |name: &str| POD_KEYS.iter().find(|key| key.name == name).unwrap().row;
    assert_eq!(row("optOut.ignore").default().as_deref(), Some("Namespaces"));
    assert_eq!(row("rules.actions").default().as_deref(), Some("[]"));
    assert_eq!(row("detect.os").default(), None);
}

/// Each map above a key has documentation, and each section is such a map.
#[test]
fn sections_are_the_maps_above_the_keys() {
    let above = POD_KEYS.iter().flat_map(|key| key.name.match_indices('.').map(|(at, _)| &key.name[..at]));
    let mut above: Vec<&str> = above.collect();
    above.sort_unstable();
    above.dedup();
    let mut sections: Vec<&str> = POD_SECTIONS.iter().map(|section| section.name).collect();
    sections.sort_unstable();
    assert_eq!(sections, above);
}

#[test]
fn each_mode_of_placement_names_what_it_decides() {
    let is_mode = |name: &str| name.strip_prefix("place.").is_some_and(|name| name.split('.').nth(1) == Some("mode"));
    let modes: Vec<_> = POD_KEYS.iter().filter(|key| is_mode(key.name)).collect();
    assert!(modes.len() >= 5 && modes.iter().all(|key| !key.row.decides.is_empty()));
}

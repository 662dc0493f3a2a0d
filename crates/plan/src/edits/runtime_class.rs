//! The RuntimeClass in place of one that is for a release that leaves.

use std::collections::BTreeMap;

use mullion_engine::model::cluster::RuntimeClass;
use mullion_engine::model::names::{RUNTIME_CLASS_PREFIX, WINDOWS_BUILD_LABEL};
use mullion_engine::model::windows::{Build, release_name};
use serde_json::{Map, Value, json};

use crate::needs::ClusterNeed;
use crate::scope::{MoveScope, NewPool, pin_label};
use mullion_survey::inventory::Inventory;

/// What becomes of the RuntimeClass of a workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ClassChange {
    /// The name of another class to set.
    pub(super) name: Option<String>,
    /// The class of the pods afterwards, if it is known.
    pub(super) class: Option<RuntimeClass>,
    /// The class to create.
    pub(super) need: Option<ClusterNeed>,
    pub(super) why: String,
}

/// The most names that are tried for a new class.
const MAX_NAMES: usize = 100;

/// What becomes of the class `name` when the pods move to `pool`.
pub(super) fn class_change(name: &str, inventory: &Inventory, scope: &MoveScope, pool: &NewPool) -> ClassChange {
    let class = inventory.runtime_class(Some(name));
    let keep = || ClassChange { class: class.cloned(), ..ClassChange::default() };
    let is_ours = name.starts_with(RUNTIME_CLASS_PREFIX) && class.is_none_or(|class| class.ours);
    let renamed = renamed(name, scope);
    if is_ours {
        return match renamed {
            Some(new) => ClassChange {
                class: class.map(|class| class_of_pool(class, scope, pool)),
                name: Some(new),
                need: None,
                why: format!("Mullion keeps a RuntimeClass for each release, also for {}.", scope.release),
            },
            None => keep(),
        };
    }
    let Some(class) = class else { return keep() };
    if !is_old(class, renamed.is_some(), scope, pool) {
        return keep();
    }
    let why = format!("RuntimeClass {name} is for a pool or release that leaves.");
    if let Some((other, found)) = existing(name, class, inventory, scope, pool) {
        return ClassChange { name: Some(other.to_owned()), class: Some(found.clone()), need: None, why };
    }
    let created = class_of_pool(class, scope, pool);
    let base = renamed.unwrap_or_else(|| format!("{name}-{}", scope.release));
    let numbered = (2..MAX_NAMES).map(|number| format!("{base}-{number}"));
    // A class of this name that differs is someone else's: a handler is immutable.
    let is_free = |name: &String| inventory.runtime_class(Some(name)).is_none();
    let Some(new) = [base.clone()].into_iter().chain(numbered).find(is_free) else { return keep() };
    let need = ClusterNeed::RuntimeClass {
        name: new.clone(),
        manifest: manifest(&new, &created),
        instead_of: name.to_owned(),
    };
    ClassChange { name: Some(new), class: Some(created), need: Some(need), why }
}

/// The spellings of a release in names: `ltsc2019`, `2019`, `17763`.
fn spellings(build: Build) -> Vec<String> {
    let release = release_name(build, &[]).into_owned();
    let year = release.strip_prefix("ltsc").map(str::to_owned);
    [Some(release), year, Some(build.number().to_string())].into_iter().flatten().collect()
}

/// The name with the target in place of a release that leaves; `None` if it names none.
fn renamed(name: &str, scope: &MoveScope) -> Option<String> {
    let targets = spellings(scope.target);
    scope.leaving_builds.iter().find_map(|build| {
        let old = spellings(*build);
        let at = old.iter().position(|spelling| name.contains(spelling.as_str()))?;
        // A release without a year has two spellings.
        let new = if old.len() == targets.len() { targets.get(at) } else { targets.first() };
        Some(name.replacen(old.get(at)?, new?, 1))
    })
}

/// Whether a class is for nodes that leave.
fn is_old(class: &RuntimeClass, is_named: bool, scope: &MoveScope, pool: &NewPool) -> bool {
    let pins = || class.node_selector.iter().filter(|(key, _)| pin_label(key).is_some());
    if pins().any(|(key, value)| pool.node.labels.get(key) != Some(value)) {
        return true;
    }
    is_named && class.node_selector.get(WINDOWS_BUILD_LABEL) != Some(&scope.target.to_string())
}

/// A class of the cluster with the same handler for the new pool.
fn existing<'i>(
    name: &str,
    class: &RuntimeClass,
    inventory: &'i Inventory,
    scope: &MoveScope,
    pool: &NewPool,
) -> Option<(&'i str, &'i RuntimeClass)> {
    let targets = spellings(scope.target);
    let all = inventory.snapshot.runtime_classes.iter().flatten();
    all.map(|(found, other)| (found.as_str(), other)).find(|(found, other)| {
        let fits =
            other.node_selector.iter().all(|(key, value)| pool.values(key).any(|of_pool| of_pool == value.as_str()));
        let is_for_target = other.node_selector.keys().any(|key| pin_label(key).is_some())
            || targets.iter().any(|spelling| found.contains(spelling.as_str()));
        *found != name && other.handler == class.handler && fits && is_for_target
    })
}

/// The class with the labels of the new pool.
fn class_of_pool(class: &RuntimeClass, scope: &MoveScope, pool: &NewPool) -> RuntimeClass {
    let mut new = class.clone();
    let mut selector: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in &class.node_selector {
        match (pin_label(key), pool.node.labels.get(key)) {
            (Some(_), Some(value)) => selector.insert(key.clone(), value.to_owned()),
            (Some(_), None) => None,
            (None, _) => selector.insert(key.clone(), value.clone()),
        };
    }
    if !selector.keys().any(|key| pin_label(key).is_some()) {
        selector.insert(WINDOWS_BUILD_LABEL.to_owned(), scope.target.to_string());
    }
    new.node_selector = selector;
    new
}

fn manifest(name: &str, class: &RuntimeClass) -> Value {
    let mut scheduling = Map::new();
    scheduling.insert("nodeSelector".to_owned(), json!(class.node_selector));
    if let Some(tolerations) = class.tolerations.parsed().filter(|all| !all.is_empty()) {
        scheduling.insert("tolerations".to_owned(), json!(tolerations));
    }
    let mut manifest = json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": class.handler,
        "scheduling": scheduling,
    });
    if let (Some(members), false) = (manifest.as_object_mut(), class.overhead.is_empty()) {
        members.insert("overhead".to_owned(), json!({ "podFixed": class.overhead }));
    }
    manifest
}

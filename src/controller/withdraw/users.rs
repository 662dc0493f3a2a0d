//! The users of a RuntimeClass: pods, and all objects with pod templates.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use mullion_snapshot::or_default;
use serde::Deserialize;

use crate::cluster::reading::{Head, Item, Kind, POD_TEMPLATES, PODS, Unreadable, WORKLOADS};
use crate::cluster::slim_metadata;
use crate::controller::pods::PodStatusFields;
use crate::controller::withdraw::calls::{Calls, UNLIMITED};

/// How many users of a class are listed by name.
const SHOWN: usize = 5;

/// All kinds with a pod template, and after them pods, which are created from the templates.
pub(crate) fn all_kinds() -> impl Iterator<Item = &'static Kind> {
    [&POD_TEMPLATES].into_iter().chain(&WORKLOADS)
}

/// The users of a RuntimeClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClassUsers {
    /// The first users: `Deployment shop/web`.
    pub named_by: Vec<String>,
    /// The number of users.
    pub names: usize,
}

/// Finds the objects of these kinds that use one of the classes, by class. An error contains the kind that cannot be
/// read.
pub(crate) async fn find_users(
    calls: &Calls,
    kinds: impl IntoIterator<Item = &'static Kind>,
    classes: &BTreeSet<String>,
) -> Result<BTreeMap<String, ClassUsers>, String> {
    let mut users = BTreeMap::new();
    for kind in kinds {
        let all = ListParams::default();
        // Ended pods no longer need a class.
        let selected = if *kind == PODS { all.fields("status.phase!=Succeeded,status.phase!=Failed") } else { all };
        let mut unreadable = None;
        let each = |object: Item<Object>| match object {
            Ok(object) => add(&mut users, kind.name, &object, classes),
            Err(object) => drop(unreadable.get_or_insert(object)),
        };
        calls.list(UNLIMITED, kind, &selected, each).await.map_err(|why| format!("{}: {why}", kind.name))?;
        // It may use any class.
        if let Some(Unreadable { head, why }) = unreadable {
            return Err(format!("{} {}: {why}", kind.name, head.full_name()));
        }
    }
    Ok(users)
}

fn add(users: &mut BTreeMap<String, ClassUsers>, kind: &str, object: &Object, classes: &BTreeSet<String>) {
    let Some(class) = object.runtime_class().filter(|class| classes.contains(*class)) else { return };
    let ClassUsers { named_by, names } = users.entry(class.to_owned()).or_default();
    *names += 1;
    if named_by.len() < SHOWN {
        named_by.push(format!("{kind} {}", Head::of(&object.metadata).full_name()));
    }
}

/// The fields of a pod or of an object with a pod template that show its class.
#[derive(Deserialize)]
struct Object {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    spec: Option<Part>,
    /// The template of a PodTemplate.
    template: Option<Part>,
    #[serde(default, deserialize_with = "or_default")]
    status: PodStatusFields,
}

/// A pod spec, or a part of an object that contains it.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Part {
    runtime_class_name: Option<String>,
    replicas: Option<i64>,
    spec: Option<Box<Part>>,
    template: Option<Box<Part>>,
    job_template: Option<Box<Part>>,
}

impl Part {
    fn runtime_class(&self) -> Option<&str> {
        let mut within = [&self.spec, &self.template, &self.job_template].into_iter().flatten();
        self.runtime_class_name.as_deref().or_else(|| within.find_map(|part| part.runtime_class()))
    }
}

impl Object {
    /// The class of present and future pods of this object.
    fn runtime_class(&self) -> Option<&str> {
        let mut parts = [&self.spec, &self.template].into_iter().flatten();
        parts.find_map(Part::runtime_class).filter(|_| !self.is_over())
    }

    /// Whether it creates no more pods: an ended Job, or a revision that a Deployment keeps for a rollback (the Deployment
    /// creates the pods, and is itself a user).
    fn is_over(&self) -> bool {
        let mut owners = self.metadata.owner_references.iter().flatten();
        let replicas = self.spec.as_ref().and_then(|spec| spec.replicas);
        let kept = replicas == Some(0) && owners.any(|owner| owner.controller == Some(true));
        kept || self.status.has_true("Complete") || self.status.has_true("Failed")
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_class_of_every_kind_is_read() {
        let template = json!({"spec": {"runtimeClassName": "c"}});
        let owned = json!({"name": "w", "namespace": "a", "ownerReferences": [{"controller": true, "name": "d"}]});
        let free = json!({"name": "w", "namespace": "a"});
        let with = |spec: Value| json!({"metadata": free, "spec": spec});
        let ended = |condition: &str, status: &str| {
            json!({"metadata": free, "spec": {"template": template},
                "status": {"conditions": [{"type": condition, "status": status}]}})
        };
        for (object, named) in [
            (with(json!({"runtimeClassName": "c"})), true),
            (with(json!({"template": template, "replicas": 0})), true),
            (with(json!({"jobTemplate": {"spec": {"template": template}}})), true),
            (json!({"metadata": free, "template": template}), true),
            (with(json!({})), false),
            (with(json!({"template": {"spec": {"runtimeClassName": null}}})), false),
            (json!({"metadata": free, "spec": null, "status": null, "template": null}), false),
            (json!({"metadata": owned, "spec": {"template": template, "replicas": 0}}), false),
            (json!({"metadata": owned, "spec": {"template": template, "replicas": 1}}), true),
            (json!({"metadata": owned, "spec": {"template": template}}), true),
            (ended("Complete", "True"), false),
            (ended("Failed", "True"), false),
            (ended("Complete", "False"), true),
            (ended("Suspended", "True"), true),
        ] {
            let read: Object = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(read.runtime_class().is_some(), named, "{object}");
        }
    }

    #[test]
    fn the_first_few_users_are_listed_by_name() {
        let mut users = BTreeMap::new();
        for n in 0..7 {
            let pod =
                json!({"metadata": {"name": format!("p{n}"), "namespace": "a"}, "spec": {"runtimeClassName": "c"}});
            add(&mut users, "Pod", &serde_json::from_value(pod).unwrap(), &["c".to_owned()].into());
        }
        let other = json!({"metadata": {"name": "p"}, "spec": {"runtimeClassName": "theirs"}});
        add(&mut users, "Pod", &serde_json::from_value(other).unwrap(), &["c".to_owned()].into());
        let ClassUsers { named_by, names } = users.get("c").unwrap();
        assert_eq!((named_by.len(), named_by.first().unwrap().as_str(), *names), (SHOWN, "Pod a/p0", 7));
        assert_eq!(users.get("theirs"), None);
    }
}

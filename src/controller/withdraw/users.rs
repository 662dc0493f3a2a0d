//! Who names a RuntimeClass: pods, and everything that makes pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use mullion_snapshot::objects::or_default;
use serde::Deserialize;

use crate::cluster::live::slim_metadata;
use crate::controller::withdraw::calls::{Calls, UNLIMITED};

/// How many of a class's users are called by name.
const SHOWN: usize = 5;

/// A kind, and the path of its list.
type Kind = (&'static str, &'static str);

/// Pods.
pub(crate) const PODS: Kind = ("Pod", "/api/v1/pods");

/// Everything that has a pod template, and after it the pods that are made from them.
pub(crate) const KINDS: [Kind; 9] = [
    ("Deployment", "/apis/apps/v1/deployments"),
    ("StatefulSet", "/apis/apps/v1/statefulsets"),
    ("DaemonSet", "/apis/apps/v1/daemonsets"),
    ("ReplicaSet", "/apis/apps/v1/replicasets"),
    ("CronJob", "/apis/batch/v1/cronjobs"),
    ("Job", "/apis/batch/v1/jobs"),
    ("ReplicationController", "/api/v1/replicationcontrollers"),
    ("PodTemplate", "/api/v1/podtemplates"),
    PODS,
];

/// Who names a RuntimeClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassUsers {
    /// The first few: `Deployment shop/web`.
    pub named_by: Vec<String>,
    /// How many there are.
    pub names: usize,
}

/// Who of these kinds names one of the classes, by class; an error with the kind that cannot be read.
pub(crate) async fn find_users(
    calls: &Calls,
    kinds: &[Kind],
    classes: &BTreeSet<String>,
) -> Result<BTreeMap<String, ClassUsers>, String> {
    let mut users = BTreeMap::new();
    for &(kind, path) in kinds {
        let all = ListParams::default();
        // Those that have ended need no class any more.
        let selected = if kind == PODS.0 { all.fields("status.phase!=Succeeded,status.phase!=Failed") } else { all };
        let each = |object: Object| add(&mut users, kind, &object, classes);
        calls.list(UNLIMITED, path, &selected, each).await.map_err(|why| format!("{kind}: {why}"))?;
    }
    Ok(users)
}

fn add(users: &mut BTreeMap<String, ClassUsers>, kind: &str, object: &Object, classes: &BTreeSet<String>) {
    let Some(class) = object.runtime_class().filter(|class| classes.contains(*class)) else { return };
    let ClassUsers { named_by, names } = users.entry(class.to_owned()).or_default();
    *names += 1;
    if named_by.len() < SHOWN {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        named_by.push(format!("{kind} {}/{}", text(&object.metadata.namespace), text(&object.metadata.name)));
    }
}

/// A pod or an object with a pod template, without anything but what decides here.
#[derive(Deserialize)]
struct Object {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    spec: Option<Part>,
    /// Of a PodTemplate.
    template: Option<Part>,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

/// A pod spec, or what stands between an object and the pod spec in it.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Part {
    runtime_class_name: Option<String>,
    replicas: Option<i64>,
    spec: Option<Box<Part>>,
    template: Option<Box<Part>>,
    job_template: Option<Box<Part>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
}

impl Part {
    fn runtime_class(&self) -> Option<&str> {
        let mut within = [&self.spec, &self.template, &self.job_template].into_iter().flatten();
        self.runtime_class_name.as_deref().or_else(|| within.find_map(|part| part.runtime_class()))
    }
}

impl Object {
    /// The class that pods of this object have, or will have.
    fn runtime_class(&self) -> Option<&str> {
        let mut parts = [&self.spec, &self.template].into_iter().flatten();
        parts.find_map(Part::runtime_class).filter(|_| !self.is_over())
    }

    /// Whether it makes no pods any more: a Job that has ended, a revision that a Deployment keeps to roll back to
    /// (its owner makes the pods, and is asked itself).
    fn is_over(&self) -> bool {
        let ended = |condition: &Condition| {
            matches!(condition.r#type.as_str(), "Complete" | "Failed") && condition.status == "True"
        };
        let mut owners = self.metadata.owner_references.iter().flatten();
        let replicas = self.spec.as_ref().and_then(|spec| spec.replicas);
        let kept = replicas == Some(0) && owners.any(|owner| owner.controller == Some(true));
        kept || self.status.conditions.iter().any(ended)
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_kind_has_its_class() {
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
    fn the_first_few_are_called_by_name() {
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

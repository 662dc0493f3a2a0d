//! Who names a RuntimeClass: pods, and everything that makes pods.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::ListParams;
use mullion_snapshot::objects::or_default;
use serde::Deserialize;

use crate::controller::withdraw::calls::{Calls, Failure, Patience};

/// How many of a class's users are called by name.
const SHOWN: usize = 5;

/// Pods that have not ended.
const PODS: (&str, &str, Option<&str>) = ("Pod", "/api/v1/pods", Some("status.phase!=Succeeded,status.phase!=Failed"));

/// Everything that has a pod template: kind, path, and which objects of it.
const TEMPLATES: [(&str, &str, Option<&str>); 8] = [
    ("Deployment", "/apis/apps/v1/deployments", None),
    ("StatefulSet", "/apis/apps/v1/statefulsets", None),
    ("DaemonSet", "/apis/apps/v1/daemonsets", None),
    ("ReplicaSet", "/apis/apps/v1/replicasets", None),
    ("CronJob", "/apis/batch/v1/cronjobs", None),
    ("Job", "/apis/batch/v1/jobs", None),
    ("ReplicationController", "/api/v1/replicationcontrollers", None),
    ("PodTemplate", "/api/v1/podtemplates", None),
];

/// Who names which class.
#[derive(Debug, Default)]
pub(crate) struct Users(BTreeMap<String, (Vec<String>, usize)>);

impl Users {
    /// The first few that name it, and how many do; `None` where nobody does.
    pub(crate) fn of(&self, class: &str) -> Option<(Vec<String>, usize)> {
        self.0.get(class).cloned()
    }

    fn add(&mut self, kind: &str, object: &Object, classes: &Names) {
        let Some(class) = object.runtime_class().filter(|class| classes.contains(*class)) else { return };
        let (shown, all) = self.0.entry(class.to_owned()).or_default();
        *all += 1;
        if shown.len() < SHOWN {
            shown.push(format!("{kind} {}/{}", object.metadata.namespace, object.metadata.name));
        }
    }
}

/// Everyone who names one of the classes; an error with the kind that cannot be read.
pub(crate) async fn all_users(calls: &Calls, classes: &Names) -> Result<Users, (&'static str, Failure)> {
    read(calls, classes, TEMPLATES.iter().chain([&PODS])).await
}

/// The pods that name one of the classes.
pub(crate) async fn pod_users(calls: &Calls, classes: &Names) -> Result<Users, (&'static str, Failure)> {
    read(calls, classes, [&PODS].into_iter()).await
}

async fn read(
    calls: &Calls,
    classes: &Names,
    sources: impl Iterator<Item = &(&'static str, &'static str, Option<&'static str>)>,
) -> Result<Users, (&'static str, Failure)> {
    let mut users = Users::default();
    for (kind, path, fields) in sources {
        let selected = ListParams { field_selector: fields.map(str::to_owned), ..ListParams::default() };
        let each = |object: Object| users.add(kind, &object, classes);
        calls.list(Patience::Long, path, &selected, each).await.map_err(|why| (*kind, why))?;
    }
    Ok(users)
}

/// A pod or an object with a pod template, without anything but what decides here.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Object {
    metadata: Metadata,
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    /// Of a PodTemplate.
    #[serde(deserialize_with = "or_default")]
    template: Template,
    #[serde(deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(deserialize_with = "or_default")]
    namespace: String,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<Owner>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Owner {
    #[serde(deserialize_with = "or_default")]
    controller: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    runtime_class_name: Option<String>,
    replicas: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    template: Template,
    #[serde(deserialize_with = "or_default")]
    job_template: JobTemplate,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JobTemplate {
    #[serde(deserialize_with = "or_default")]
    spec: JobSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JobSpec {
    #[serde(deserialize_with = "or_default")]
    template: Template,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Template {
    #[serde(deserialize_with = "or_default")]
    spec: PodSpec,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    runtime_class_name: Option<String>,
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

impl Object {
    /// The class that pods of this object have, or will have.
    fn runtime_class(&self) -> Option<&str> {
        let templates = [&self.spec.template, &self.spec.job_template.spec.template, &self.template];
        let named = templates.into_iter().filter_map(|template| template.spec.runtime_class_name.as_deref());
        named.chain(self.spec.runtime_class_name.as_deref()).next().filter(|_| !self.is_over())
    }

    /// Whether it makes no pods any more: a Job that has ended, a revision that a Deployment keeps to roll back to
    /// (its owner makes the pods, and is asked itself).
    fn is_over(&self) -> bool {
        let ended = |condition: &Condition| {
            matches!(condition.r#type.as_str(), "Complete" | "Failed") && condition.status == "True"
        };
        let kept = self.spec.replicas == Some(0) && self.metadata.owner_references.iter().any(|owner| owner.controller);
        kept || self.status.conditions.iter().any(ended)
    }
}

/// Names of classes.
pub(crate) type Names = BTreeSet<String>;

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_kind_says_its_class() {
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
        let mut users = Users::default();
        for n in 0..7 {
            let pod =
                json!({"metadata": {"name": format!("p{n}"), "namespace": "a"}, "spec": {"runtimeClassName": "c"}});
            users.add("Pod", &serde_json::from_value(pod).unwrap(), &["c".to_owned()].into());
        }
        let other = json!({"metadata": {"name": "p"}, "spec": {"runtimeClassName": "theirs"}});
        users.add("Pod", &serde_json::from_value(other).unwrap(), &["c".to_owned()].into());
        let (shown, all) = users.of("c").unwrap();
        assert_eq!((shown.len(), shown.first().unwrap().as_str(), all), (SHOWN, "Pod a/p0", 7));
        assert_eq!(users.of("theirs"), None);
    }
}

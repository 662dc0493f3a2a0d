//! DaemonSets as they are stored: where their pods may run, and what decides their operating system.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mullion_engine::admission::review;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::names::{DECISION_ANNOTATION, OS_ANNOTATION};
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::{DecisionAnnotation, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::node::{DaemonSetFacts, belongs, selects_linux};
use mullion_engine::place::LeftOutNodes;
use mullion_policy::PolicySet;
use mullion_snapshot::or_default;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cluster::reading::{Head, JsonText};
use crate::cluster::slim_metadata;

/// The largest template, as slim JSON, that is stored for a decision. A typical template has 1 KB, and the API server
/// accepts 1.5 MB. For larger templates only the selectors count.
const MAX_TEMPLATE: usize = 64 << 10;

/// Members of a pod spec that do not affect its operating system and can be long.
const LONG_POD_FIELDS: [&str; 3] = ["volumes", "imagePullSecrets", "topologySpreadConstraints"];
/// Members of a container that do not affect its operating system and can be long.
const LONG_CONTAINER_FIELDS: [&str; 5] = ["env", "envFrom", "volumeMounts", "volumeDevices", "resources"];

/// A DaemonSet as it is read.
#[derive(Deserialize, Clone, Debug)]
pub(crate) struct SlimDaemonSet {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
struct Spec {
    template: JsonText,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    number_ready: i64,
}

/// A DaemonSet as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredDaemonSet {
    namespace: String,
    uid: Option<Box<str>>,
    placement: SchedulingConstraints,
    any_ready: bool,
    /// The object as JSON, without what no decision reads. Text takes a fifth of the parsed size. Empty if too large.
    object: Box<str>,
}

impl SlimDaemonSet {
    /// What is stored, under its name (`namespace/name`); `None` for a DaemonSet that selects Linux nodes.
    pub(crate) fn entry(self) -> (String, Option<StoredDaemonSet>) {
        let Self { metadata, spec, status } = self;
        let name = Head::of(&metadata).full_name();
        let namespace = metadata.namespace.unwrap_or_default();
        let mut template = spec.template.value();
        slim(&mut template);
        let os = metadata.annotations.as_ref().and_then(|annotations| annotations.get(OS_ANNOTATION));
        let own = metadata.annotations.as_ref().and_then(|annotations| {
            let annotations = json!({ DECISION_ANNOTATION: annotations.get(DECISION_ANNOTATION)? });
            DecisionAnnotation::of(&json!({"metadata": {"annotations": annotations}}))
        });
        // Of Mullion's own annotation, only whether it excluded builds; the selector decides as if its author wrote it.
        let own = own.filter(DecisionAnnotation::excludes_builds).map(|own| own.only_builds());
        let annotations: Map<String, Value> = [(OS_ANNOTATION, os.cloned()), (DECISION_ANNOTATION, own)]
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?.into())))
            .collect();
        let object = json!({"metadata": {"annotations": annotations}, "spec": {"template": template}});
        if selects_linux(&object) {
            return (name, None);
        }
        let placement = object.pointer("/spec/template/spec").map(SchedulingConstraints::deserialize);
        let text = object.to_string();
        let stored = StoredDaemonSet {
            namespace,
            uid: metadata.uid.map(String::into_boxed_str),
            placement: placement.and_then(Result::ok).unwrap_or_default(),
            any_ready: status.number_ready > 0,
            object: if text.len() > MAX_TEMPLATE { Box::default() } else { text.into() },
        };
        (name, Some(stored))
    }
}

impl StoredDaemonSet {
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A reference to the DaemonSet for Events.
    pub(crate) fn reference(&self, name: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some("apps/v1".to_owned()),
            kind: Some(WorkloadKind::DaemonSet.name().to_owned()),
            name: Some(name.rsplit('/').next().unwrap_or(name).to_owned()),
            namespace: Some(self.namespace.clone()),
            uid: self.uid.as_deref().map(str::to_owned),
            ..ObjectReference::default()
        }
    }

    /// The Windows nodes that cannot run its images, in this snapshot.
    pub(crate) fn left_out(&self, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Option<LeftOutNodes> {
        let object = serde_json::from_str(&self.object).ok()?;
        let daemon_set = WorkloadObject { kind: WorkloadKind::DaemonSet, namespace: &self.namespace, object: &object };
        let request = ReviewRequest::creation(daemon_set);
        review(&request, snapshot, &policies.resolve(&request, snapshot)).left_out
    }

    /// The input of taint decisions, for this snapshot.
    pub(crate) fn facts(&self, name: &str, snapshot: &ClusterSnapshot, policies: &PolicySet) -> DaemonSetFacts {
        let object = serde_json::from_str(&self.object).unwrap_or(Value::Null);
        let daemon_set = WorkloadObject { kind: WorkloadKind::DaemonSet, namespace: &self.namespace, object: &object };
        let settings = policies.resolve(&ReviewRequest::creation(daemon_set), snapshot).new;
        DaemonSetFacts {
            name: name.to_owned(),
            placement: self.placement.clone(),
            belongs: belongs(daemon_set, snapshot, &settings),
            any_ready: self.any_ready,
        }
    }
}

fn slim(template: &mut Value) {
    if let Some(Value::Object(metadata)) = template.get_mut("metadata") {
        metadata.retain(|key, _| ["labels", "annotations"].contains(&key.as_str()));
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.retain(|key, _| key.starts_with("mullion.dev/"));
        }
    }
    let Some(Value::Object(spec)) = template.get_mut("spec") else { return };
    spec.retain(|key, _| !LONG_POD_FIELDS.contains(&key.as_str()));
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(container) = container {
                container.retain(|key, _| !LONG_CONTAINER_FIELDS.contains(&key.as_str()));
            }
        }
    }
}
